"""What a run comes to."""

from __future__ import annotations

from typing import Any

import msgspec

from .cancel import CancelReason
from .events import RunEvent
from .exceptions import LimitReached, Origin, RunCancelled
from .interrupts import Interrupt
from .limits import LimitName
from .loop import StopReason
from .messages import Message
from .outcomes import ToolOutcome
from .run import Run
from .usage import Usage

__all__ = ["Cancellation", "RunFinished", "RunResult", "StreamEvent", "make_result"]


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


class RunFinished(msgspec.Struct, frozen=True, tag_field="type", tag="run_finished"):
    """The last event of every run."""

    result: RunResult


#: What a stream yields.
StreamEvent = RunEvent | RunFinished


def make_result(
    run: Run,
    stop_reason: StopReason,
    cause: CancelReason | None,
    *,
    phase: str,
    latency: float,
) -> RunResult:
    """Return what *run*, which is settled, has come to.

    :param cause: why it was cancelled, if it was.
    :param phase: what it was doing then.
    """
    cancellation = None
    if cause is not None:
        cancellation = Cancellation(str(cause), cause.origin, phase, latency)
    is_paused = stop_reason == "interrupt" and run.round is not None
    return RunResult(
        text=run.text,
        stop_reason=stop_reason,
        run_id=run.id,
        messages=tuple(run.transcript[:]),
        output=run.value,
        cancellation=cancellation,
        usage=run.meter.usage,
        cost=run.meter.cost,
        turns=run.meter.turns,
        tool_outcomes=tuple(call.report() for call in run.invocations),
        interrupts=run.round.questions if is_paused and run.round else (),
        limit=run.meter.limit if stop_reason == "limit" else None,
        start=min(run.start, len(run.transcript)),
    )
