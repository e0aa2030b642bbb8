"""Policies of an agent: the limits of a run, and the traces of a cancelled one."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from ._checks import check_number
from .exceptions import ConfigurationError

__all__ = [
    "CancelPolicy",
    "LimitName",
    "Limits",
    "PartialText",
]

#: The limits that end a run with ``stop_reason="limit"``; ``budget`` is one that it
#: shares with other runs.
LimitName = Literal["turns", "tool_calls", "tokens", "cost", "budget"]

_COUNTS: Final = ("turns", "tool_calls", "tokens")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a run; ``None`` means no limit.

    :raises ConfigurationError: a limit is not a positive number.
    """

    #: Requests to the model.
    turns: int | None = None
    #: Tool calls.
    tool_calls: int | None = None
    #: Input and output tokens, sub-agents included. The turn that exceeds the limit is
    #: the last.
    tokens: int | None = None
    #: Cost in US dollars, sub-agents included. The price of every model must be known.
    cost: float | None = None
    #: Duration of the run; then it is cancelled with origin ``deadline``.
    seconds: float | None = None
    #: Seconds until the first token of a response; after that the request times out
    #: and is retried.
    first_token_seconds: float | None = None
    #: The same between two tokens; keep-alive bytes do not count as tokens.
    stall_seconds: float | None = None
    #: Tell the model, once, when this fraction of a limit is used up, such as 0.8.
    warn_at: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            check_number(
                f"Limits({name}=...)",
                getattr(self, name),
                is_positive=True,
                is_integer=name in _COUNTS,
                allow_none=True,
            )
        if self.warn_at is not None and self.warn_at >= 1:
            raise ConfigurationError(
                f"Limits(warn_at=...) must be a fraction below 1; got {self.warn_at!r}"
            )


PartialText = Literal["keep", "discard", "rollback"]


class CancelPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How a cancelled run is recorded in the conversation.

    :raises ConfigurationError: *partial_text* is unknown, or a text is empty.
    """

    #: ``keep`` the streamed text, with the marker; ``discard`` it, with a notice in its
    #: place; or ``rollback``: remove the whole run from the transcript.
    partial_text: PartialText = "keep"
    #: Tells the model that a message was cut off.
    marker: str = "<system>User interrupted this message</system>"
    #: Stands in place of discarded text.
    notice: str = "Cancelled by user"

    def __post_init__(self) -> None:
        if self.partial_text not in get_args(PartialText):
            raise ConfigurationError(
                f"partial_text must be one of {', '.join(get_args(PartialText))}; got "
                f"{self.partial_text!r}"
            )
        for name in ("marker", "notice"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text.strip():
                raise ConfigurationError(
                    f"CancelPolicy({name}=...) must be a non-empty string; got {text!r}"
                )
