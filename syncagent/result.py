"""The result of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec

from ._short import counted, shortened
from .exceptions import LimitReached, Origin, RunCancelled, StoppedByProvider
from .interrupts import Interrupt
from .messages import Message, ToolOutcome
from .policies import LimitName
from .transcript.markdown import fenced, safe_markdown
from .usage import Usage

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from .background.handle import Handle

    #: The type of ``output``; a class that is used without it has any.
    Value = TypeVarWithDefault("Value", default=Any, covariant=True)
else:
    Value = TypeVar("Value", covariant=True)  # a default exists from Python 3.13 on

__all__ = [
    "Cancellation",
    "RunResult",
    "StopReason",
    "Value",
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

    def __str__(self) -> str:
        return f"by {self.origin}" + (f": {self.reason}" if self.reason else "")


class RunResult(msgspec.Struct, Generic[Value], frozen=True, kw_only=True, dict=True):
    """The result of a run, however it ended.

    To type checkers it is ``RunResult[Person]`` if the run had ``output=Person``.
    """

    #: The text of the last response, complete or cut off.
    text: str
    stop_reason: StopReason
    run_id: str
    #: The whole conversation.
    messages: tuple[Message, ...]
    #: The value of the type given as ``output=``; None if the run ended without it.
    output: Value | None = None
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
    #: How often its conversation was replaced by a shorter one. Then ``new_messages``
    #: are those that are left of the run, or all if its prompt became part of a record.
    compactions: int = 0

    @property
    def handle(self) -> Handle[Value] | None:
        """The handle of a run that continues in the background, or None."""
        return self.__dict__.get("handle")

    def with_handle(self, handle: object) -> RunResult[Value]:
        """Return a copy for a run that continues in the background."""
        other = msgspec.structs.replace(self)
        other.__dict__["handle"] = handle  # not a field: it stays out of the JSON
        return other

    def as_shutdown(self) -> RunResult[Value]:
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
                "conversation is intact: agent.resume() continues this run, and "
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

    @property
    def summary(self) -> str:
        """How it ended, and what it took: ``end_turn, 2 turns, 1 tool, 30 tokens``."""
        end: str = self.stop_reason
        if self.cancellation is not None:
            end = f"{end} by {self.cancellation.origin} in {self.cancellation.phase}"
        counts = {
            "turn": self.turns,
            "tool": len(self.tool_outcomes),
            "token": self.usage.total_tokens,
            "question": len(self.interrupts),
        }
        return ", ".join([end, *(counted(n, noun) for noun, n in counts.items() if n)])

    def __repr__(self) -> str:
        said = self.text if self.output is None else self.output
        text = repr(shortened(said, 60)) if isinstance(said, str) else f"{said!r:.80}"
        return f"<RunResult {self.summary}: {text}>"

    def _repr_markdown_(self) -> str:
        """Return the answer and the summary, for notebooks."""
        is_text = self.output is None or isinstance(self.output, str)
        answer = safe_markdown(self.text) if is_text else fenced(repr(self.output))
        return f"{answer}\n\n*{self.summary}*"
