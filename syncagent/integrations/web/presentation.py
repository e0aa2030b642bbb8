"""The form of events, questions and results that clients may see."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ...events import (
    InterruptRaised,
    Lagged,
    RunFinished,
    StateChanged,
    StreamEvent,
    ToolFinished,
    ToolStarted,
)
from ...interrupts import ApprovalRequest, Interrupt
from ...messages import Text, ToolOutcome, UserMessage
from ...result import RunResult
from .bodies import RunError, ShownApproval, ShownToolStart, write_arguments

__all__ = ["Presentation", "beginning_of"]

#: Characters of the prompt that a list shows.
_LONGEST_PROMPT: Final = 300
#: Replaces the message of an exception that a tool raised, which may contain host names
#: and paths.
_TOOL_FAILED: Final = "The tool failed."

#: The events that clients see in another form; the many others pass unchanged.
_CHANGED_EVENTS: Final = frozenset(
    (InterruptRaised, RunFinished, StateChanged, ToolFinished, ToolStarted)
)


def beginning_of(prompt: UserMessage) -> str:
    """Return the beginning of a prompt, as lists show it."""
    texts = [block.text for block in prompt.content if isinstance(block, Text)]
    return " ".join(texts)[:_LONGEST_PROMPT]


class Presentation(msgspec.Struct, frozen=True):
    """The parts of a run that clients may see."""

    #: Show the messages of exceptions raised by tools.
    show_tool_errors: bool = False
    #: Tell clients that an approval may change arguments.
    may_change_arguments: bool = True

    def event(
        self, event: StreamEvent | Lagged, error: RunError | None
    ) -> StreamEvent | Lagged:
        """Return the form of *event* that clients may see.

        The last event would repeat the whole conversation, error messages may contain
        private details, and browsers would round numbers in arguments.

        :param error: the error of the run, in a form that any client may see.
        """
        if type(event) not in _CHANGED_EVENTS:
            return event
        if isinstance(event, RunFinished):
            return RunFinished(
                msgspec.structs.replace(
                    event.result,
                    messages=(),
                    start=0,
                    tool_outcomes=self.outcomes(event.result),
                )
            )
        if isinstance(event, StateChanged) and event.message:
            message = "" if error is None else error.message
            return msgspec.structs.replace(event, message=message)
        if isinstance(event, ToolFinished) and event.outcome == "failed":
            if self.show_tool_errors:
                return event
            result = msgspec.structs.replace(
                event.result, content=(Text(_TOOL_FAILED),)
            )
            return msgspec.structs.replace(event, result=result)
        if isinstance(event, ToolStarted):
            names = (event.call_id, event.name, event.arguments)
            return ShownToolStart(*names, write_arguments(event.arguments))
        if isinstance(event, InterruptRaised):
            return InterruptRaised(self.interrupts(event.interrupts))
        return event

    def interrupts(self, interrupts: tuple[Interrupt, ...]) -> tuple[Interrupt, ...]:
        """Return questions with their arguments as exact text."""
        return tuple(
            ShownApproval(
                *(each.id, each.call_id, each.tool),
                each.arguments,
                each.reason,
                write_arguments(each.arguments),
                self.may_change_arguments,
            )
            if isinstance(each, ApprovalRequest)
            else each
            for each in interrupts
        )

    def outcomes(self, result: RunResult) -> tuple[ToolOutcome, ...]:
        """Return the outcomes of tools, without private details."""
        if self.show_tool_errors:
            return result.tool_outcomes
        return tuple(
            msgspec.structs.replace(each, error=_TOOL_FAILED) if each.error else each
            for each in result.tool_outcomes
        )

    def result(self, result: RunResult | None) -> dict[str, Any]:
        """Return the fields of a ``RunView`` that come from the result of a run."""
        if result is None:
            return {}
        return {
            "text": result.text,
            "stop_reason": result.stop_reason,
            "cancellation": result.cancellation,
            "usage": result.usage,
            "cost": result.cost,
            "turns": result.turns,
            "tool_outcomes": self.outcomes(result),
        }
