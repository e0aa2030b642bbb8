"""Policies of an agent: limits on a run, and what a cancel leaves behind."""

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

#: Those that end a run with ``stop_reason="limit"``.
LimitName = Literal["turns", "tool_calls", "tokens", "cost"]


_COUNTS: Final = ("turns", "tool_calls", "tokens")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a run may take; what is not given is not limited.

    :raises ConfigurationError: one of them is not a positive number.
    """

    #: How often the model may be asked.
    turns: int | None = None
    #: How many tools may be called.
    tool_calls: int | None = None
    #: How many tokens may go in and out, sub-agents included. The turn that passes it
    #: is the last.
    tokens: int | None = None
    #: The same in US dollars, for models whose price is known.
    cost: float | None = None
    #: How long it may take; then it ends as a cancel does, with origin ``deadline``.
    seconds: float | None = None
    #: How long the first word of an answer may take; then it is a timeout, and tried
    #: again.
    first_token_seconds: float | None = None
    #: The same for every further one, whatever comes to keep the connection alive.
    stall_seconds: float | None = None
    #: Tell the model, once, when this part of a limit is used up: 0.8 for four fifths.
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
                f"Limits(warn_at=...) is a part, below 1; got {self.warn_at!r}"
            )


PartialText = Literal["keep", "discard", "rollback"]


class CancelPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What a cancelled run leaves in the conversation.

    :raises ConfigurationError: there is no such choice, or the marker says nothing.
    """

    #: ``keep`` what was streamed, and mark it; ``discard`` it, and say so in its place;
    #: or ``rollback``: take the whole run back out of the transcript.
    partial_text: PartialText = "keep"
    #: Tells the model that a message was cut off.
    marker: str = "<system>User interrupted this message</system>"
    #: What stands in place of text that is discarded.
    notice: str = "Cancelled by user"

    def __post_init__(self) -> None:
        if self.partial_text not in get_args(PartialText):
            raise ConfigurationError(
                f"partial_text is one of {', '.join(get_args(PartialText))}; got "
                f"{self.partial_text!r}"
            )
        for name in ("marker", "notice"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text.strip():
                raise ConfigurationError(
                    f"CancelPolicy({name}=...) must say something; got {text!r}"
                )
