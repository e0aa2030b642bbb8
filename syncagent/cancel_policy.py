"""What a cancelled run leaves in the conversation."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from .exceptions import ConfigurationError

__all__ = ["CancelPolicy", "PartialText"]

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
