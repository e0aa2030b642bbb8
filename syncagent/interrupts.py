"""What the loop asks, and what may be answered."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from .exceptions import ConfigurationError

__all__ = ["Approval", "ApprovalRequest", "AuthRequest", "Interrupt"]


class _Interrupt(msgspec.Struct, frozen=True, tag_field="type"):
    """What all interrupts have in common."""

    is_blocking: ClassVar[bool] = True

    #: What the answer goes by.
    id: str
    call_id: str
    #: The tool's name.
    tool: str


class ApprovalRequest(_Interrupt, frozen=True, tag="approval"):
    """May this tool be called, with these arguments?"""

    #: They have been checked.
    arguments: dict[str, Any]


class AuthRequest(_Interrupt, frozen=True, tag="auth"):
    """A tool needs credentials."""

    #: Whose.
    provider: str


Interrupt = ApprovalRequest | AuthRequest


class Approval(msgspec.Struct, frozen=True):
    """What somebody says about a call.

    :raises ConfigurationError: *allow* is neither true nor false.
    """

    allow: bool
    #: To be used in place of the model's.
    arguments: dict[str, Any] | None = None
    #: Told to the model if it is not allowed.
    reason: str = ""

    def __post_init__(self) -> None:
        # What only looks like a no, such as "false" from a form, must not be a yes.
        if not isinstance(self.allow, bool):
            raise ConfigurationError(
                f"Approval(allow=...) is True or False; got {self.allow!r:.80}"
            )

    @classmethod
    def of(cls, answer: object) -> Approval:
        """Return what somebody means who answers yes or no.

        :raises ConfigurationError: it is neither.
        """
        if isinstance(answer, Approval):
            return answer
        if isinstance(answer, bool):
            return cls(answer)
        raise ConfigurationError(
            "an approval is answered with True, False or Approval(...); got "
            f"{answer!r:.80}"
        )
