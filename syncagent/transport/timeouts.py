"""Timeouts for each part of a call."""

from __future__ import annotations

from typing import Final

import msgspec

from .._checks import check_number
from ..exceptions import ConfigurationError

__all__ = ["Timeout", "Timeouts"]

#: The value of a ``timeout=``: seconds for every wait, or a pair as in :mod:`requests`:
#: seconds for connecting and for every other wait.
Timeout = float | tuple[float | None, float | None] | None

#: Ten years: more is a mistake, and more than some systems can wait for.
_LONGEST: Final = 10 * 365 * 86400.0


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds for each wait of a call; ``None`` means no limit.

    The deadline of the call's token caps them all.

    :raises ConfigurationError: one of them is not a positive number.
    """

    #: Until there is a connection: name look-up, TCP, proxy and TLS together.
    connect: float | None = 10.0
    #: Until the server has taken the request.
    send: float | None = 60.0
    #: From there until the response begins.
    headers: float | None = 300.0
    #: From there until the first event.
    first_event: float | None = 300.0
    #: Until each further event, whatever comments arrive in between; without events,
    #: until each further piece of the response.
    stall: float | None = 180.0
    #: For the whole call, with all retries and the waits between them.
    total: float | None = 1800.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            check_number(
                f"timeout {name}",
                getattr(self, name),
                is_positive=True,
                maximum=_LONGEST,
                allow_none=True,
                unit="seconds",
            )

    @classmethod
    def of(cls, timeout: Timeout | Timeouts) -> Timeouts:
        """Return the value of a ``timeout=`` argument, in any of its forms."""
        if isinstance(timeout, Timeouts):
            return timeout
        if isinstance(timeout, tuple):
            if len(timeout) != 2:
                raise ConfigurationError(
                    "timeout takes seconds, a pair (connect, read) or Timeouts; got "
                    f"{timeout!r}"
                )
            connect, read = timeout
        else:
            connect = read = timeout
        return cls(
            connect=connect,
            send=read,
            headers=read,
            first_event=read,
            stall=read,
            total=None,
        )
