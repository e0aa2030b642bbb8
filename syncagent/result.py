"""The result of a run."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from .exceptions import LimitReached, Origin, RunCancelled
from .interrupts import Interrupt
from .messages import Message, ToolOutcome
from .policies import LimitName
from .usage import Usage

__all__ = [
    "Cancellation",
    "RunResult",
    "StopReason",
]


class Cancellation(msgspec.Struct, frozen=True):
    """How a run was cancelled."""

    #: What the canceller said.
    reason: str
    #: Who it was.
    origin: Origin
    #: What the run was doing.
    phase: str
    #: Seconds from the cancel to the end.
    latency: float


class RunResult(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What a run comes to, however it ended."""

    #: The last answer, as far as it came.
    text: str
    stop_reason: StopReason
    run_id: str
    #: The whole conversation.
    messages: tuple[Message, ...]
    #: Of the type that was asked for.
    output: Any = None
    cancellation: Cancellation | None = None
    #: Sub-agents included.
    usage: Usage = Usage()
    #: In US dollars, as far as prices are known.
    cost: float | None = None
    #: How often the model was asked.
    turns: int = 0
    #: In the order of the calls.
    tool_outcomes: tuple[ToolOutcome, ...] = ()
    #: What has to be answered before it can go on.
    interrupts: tuple[Interrupt, ...] = ()
    #: Which limit ended it, if one did.
    limit: LimitName | None = None
    #: The number of messages that were there before.
    start: int = 0

    @property
    def handle(self) -> Any:
        """The :class:`syncagent.Handle` of a run that goes on in the background."""
        return self.__dict__.get("handle")

    def with_handle(self, handle: object) -> RunResult:
        """Return the same, of a run that goes on in the background."""
        other = msgspec.structs.replace(self)
        other.__dict__["handle"] = (
            handle  # beside the fields: it is no part of the JSON
        )
        return other

    def as_shutdown(self) -> RunResult:
        """Return the same, with the right word for it if it was shut down."""
        if self.cancellation is None or self.cancellation.origin != "shutdown":
            return self
        return msgspec.structs.replace(self, stop_reason="shutdown")

    @property
    def cancelled(self) -> bool:
        """Was it cancelled, or shut down?"""
        return self.cancellation is not None

    @property
    def new_messages(self) -> tuple[Message, ...]:
        """What this run has added to the conversation."""
        return self.messages[self.start :]

    @property
    def abandoned(self) -> tuple[ToolOutcome, ...]:
        """The tools that were still running when it ended."""
        return tuple(tool for tool in self.tool_outcomes if tool.outcome == "abandoned")

    def raise_for_status(self) -> None:
        """Raise if the run was cancelled, or a limit ended it.

        :raises RunCancelled: it was cancelled.
        :raises LimitReached: a limit ended it.
        """
        if self.cancellation is not None:
            how = self.cancellation
            said = f": {how.reason}" if how.reason else ""
            raise RunCancelled(
                f"the run was cancelled (origin {how.origin}, phase {how.phase}){said}",
                result=self,
            )
        if self.limit is not None and self.stop_reason == "limit":
            raise LimitReached(
                f"the limit on {self.limit.replace('_', ' ')} ended the run; its "
                "conversation is whole, and another run() goes on with it",
                result=self,
            )

    def __str__(self) -> str:
        return self.text


#: Why a run ended.
StopReason = Literal[
    "end_turn",
    "max_tokens",
    "refusal",
    "limit",
    "interrupt",
    "cancelled",
    "backgrounded",
    "shutdown",
]
