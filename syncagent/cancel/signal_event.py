"""The cancel signal that tools and callers see: a :class:`threading.Event`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .token import CancelToken


class CancelSignal(threading.Event):
    """A token as a :class:`threading.Event`, for code that knows only those.

    The plain Event keeps its flag under a lock that ``set()`` and ``wait()`` both
    take: a signal handler that calls ``set()`` while the thread it interrupted is in
    ``wait()`` stops for ever. This one has no lock; all state is the token's.
    """

    def __init__(self, token: CancelToken) -> None:
        # Not Event.__init__: it would make the lock and the flag we do not have.
        self._token = token

    @property
    def token(self) -> CancelToken:
        """The token that this is."""
        return self._token

    def is_set(self) -> bool:
        """Is the token cancelled?"""
        return self._token._cause() is not None

    isSet = is_set  # the old name, which Event still has

    def set(self) -> None:
        """Cancel the token."""
        self._token.cancel()

    def clear(self) -> None:
        """Reset the token."""
        self._token.reset()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the token is cancelled, at most *timeout* seconds."""
        return self._token.wait(None if timeout is None else max(0.0, timeout))

    def __repr__(self) -> str:
        return f"<CancelSignal: {'set' if self.is_set() else 'unset'}>"
