"""The result of a run."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from .exceptions import LimitReached, Origin, RunCancelled, StoppedByProvider
from .interrupts import Interrupt
from .messages import Message, ToolOutcome
from .policies import LimitName
from .usage import Usage

__all__ = [
    "Cancellation",
    "RunResult",
    "StopReason",
]

#: Why a run ended. ``other`` is an irregular end for a reason of the provider's own;
#: ``RunResult.raw_stop_reason`` has its word for the reason.
StopReason = Literal[
    "end_turn",
    "max_tokens",
    "refusal",
    "other",
    "limit",
    "interrupt",
    "cancelled",
    "backgrounded",
    "shutdown",
    "stopped",
]


class Cancellation(msgspec.Struct, frozen=True):
    """How a run was cancelled."""

    #: The reason given to ``cancel()``.
    reason: str
    #: The source of the cancel, such as ``user`` or ``deadline``.
    origin: Origin
    #: The phase of the run at that moment.
    phase: str
    #: Seconds from the cancel to the end of the run.
    latency: float


class RunResult(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The result of a run, however it ended."""

    #: The text of the last response, complete or cut off.
    text: str
    stop_reason: StopReason
    run_id: str
    #: The whole conversation.
    messages: tuple[Message, ...]
    #: The value of the type given as ``output=``.
    output: Any = None
    cancellation: Cancellation | None = None
    #: Tokens used, sub-agents included.
    usage: Usage = Usage()
    #: In US dollars, as far as prices are known.
    cost: float | None = None
    #: The model that the last request went to, such as ``openai:gpt-6-luna``.
    model: str = ""
    #: The number of requests to the model.
    turns: int = 0
    #: In the order of the calls.
    tool_outcomes: tuple[ToolOutcome, ...] = ()
    #: Questions that must be answered before the run can continue.
    interrupts: tuple[Interrupt, ...] = ()
    #: The limit that ended the run, if one did.
    limit: LimitName | None = None
    #: The number of messages before the run.
    start: int = 0
    #: The provider's own word for the end of its last response.
    raw_stop_reason: str = ""
    #: Its explanation, if the end was irregular.
    stop_detail: str = ""
    #: The ``metadata=`` of the run.
    metadata: dict[str, Any] = {}

    @property
    def handle(self) -> Any:
        """The :class:`syncagent.Handle` of a run that continues in the background."""
        return self.__dict__.get("handle")

    def with_handle(self, handle: object) -> RunResult:
        """Return a copy for a run that continues in the background."""
        other = msgspec.structs.replace(self)
        other.__dict__["handle"] = handle  # not a field: it stays out of the JSON
        return other

    def as_shutdown(self) -> RunResult:
        """Return a copy with stop reason ``shutdown`` if a shutdown ended the run."""
        if self.cancellation is None or self.cancellation.origin != "shutdown":
            return self
        return msgspec.structs.replace(self, stop_reason="shutdown")

    @property
    def cancelled(self) -> bool:
        """True if the run was cancelled, stopped by a hook, or shut down."""
        return self.cancellation is not None

    @property
    def new_messages(self) -> tuple[Message, ...]:
        """The messages that this run added to the conversation."""
        return self.messages[self.start :]

    @property
    def abandoned(self) -> tuple[ToolOutcome, ...]:
        """The tools that were still running when the run ended."""
        return tuple(tool for tool in self.tool_outcomes if tool.outcome == "abandoned")

    def raise_for_status(self) -> None:
        """Raise if the run was cancelled, or a limit or the provider ended it early.

        :raises RunCancelled: the run was cancelled.
        :raises LimitReached: a limit ended the run.
        :raises StoppedByProvider: the provider ended the response irregularly.
        """
        if self.cancellation is not None:
            cancelled = self.cancellation
            reason = f": {cancelled.reason}" if cancelled.reason else ""
            is_stop = self.stop_reason == "stopped"
            how = "stopped by a hook" if is_stop else "cancelled"
            raise RunCancelled(
                f"the run was {how} (origin {cancelled.origin}, phase "
                f"{cancelled.phase}){reason}",
                result=self,
            )
        if self.limit is not None and self.stop_reason == "limit":
            name = self.limit.replace("_", " ")
            if name.startswith("budget"):
                name = f"{name.partition(' ')[2]} of the budget"
            raise LimitReached(
                f"the limit on {name} ended the run; the "
                "conversation is intact: agent.resume() goes on with this run, and "
                "another run() continues the conversation",
                result=self,
            )
        if self.stop_reason == "other":
            raise StoppedByProvider(
                "the provider ended the response irregularly, with "
                + (repr(self.raw_stop_reason) if self.raw_stop_reason else "no reason")
                + (f" ({self.stop_detail:.300})" if self.stop_detail else "")
                + "; the conversation is intact, and another run() continues it",
                result=self,
            )

    def __str__(self) -> str:
        return self.text
