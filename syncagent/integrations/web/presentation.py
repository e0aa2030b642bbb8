"""The form of events, questions and results that clients may see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from ...compaction.summaries import is_record
from ...events import (
    Compacted,
    InterruptRaised,
    Lagged,
    ModelChanged,
    RunFinished,
    StateChanged,
    StreamEvent,
    SubAgentEvent,
    ToolFinished,
    ToolStarted,
)
from ...interrupts import ApprovalRequest, Interrupt
from ...messages import (
    AssistantMessage,
    File,
    Image,
    Json,
    Message,
    ProviderBlock,
    RedactedThinking,
    Refusal,
    ResultBlock,
    Text,
    Thinking,
    ToolCall,
    ToolOutcome,
    ToolResult,
    UserMessage,
)
from ...result import RunResult
from .bodies import (
    RunError,
    ShownApproval,
    ShownToolStart,
    write_arguments,
    write_value,
)
from .kept_bodies import ShownBlock, ShownMessage

__all__ = ["Presentation", "beginning_of", "whole_prompt"]

#: Characters of the prompt that a list shows.
_LONGEST_PROMPT: Final = 300
#: Replaces the message of an exception that a tool raised, which may contain host names
#: and paths.
_TOOL_FAILED: Final = "The tool failed."
#: The same in a message, which does not tell a failure from a denial.
_NO_RESULT: Final = "There is no result: the call failed, was denied or was stopped."
#: Replaces the record of earlier messages, which tells of tools that have failed.
_RECORD: Final = "[Earlier messages were summarized here.]"

#: The events that clients see in another form; the many others pass unchanged.
_CHANGED_EVENTS: Final = frozenset(
    (
        Compacted,
        InterruptRaised,
        ModelChanged,
        RunFinished,
        StateChanged,
        SubAgentEvent,
        ToolFinished,
        ToolStarted,
    )
)


def beginning_of(prompt: UserMessage) -> str:
    """Return the beginning of a prompt, as lists show it."""
    return whole_prompt(prompt, " ")[:_LONGEST_PROMPT]


def whole_prompt(prompt: UserMessage, between: str = "\n") -> str:
    """Return the text of a prompt."""
    texts = (block.text for block in prompt.content if isinstance(block, Text))
    return between.join(texts)


class Presentation(msgspec.Struct, frozen=True):
    """The parts of a run that clients may see."""

    #: Show the messages of exceptions raised by tools.
    show_tool_errors: bool = False
    #: Tell clients that an approval may change arguments.
    may_change_arguments: bool = True
    #: Tell clients that an approval may allow all later calls of the tool.
    may_remember: bool = True

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
        if isinstance(event, Compacted):  # a record tells of tools that have failed
            is_shown = self.show_tool_errors
            return event if is_shown else msgspec.structs.replace(event, summary="")
        if isinstance(event, ModelChanged):
            is_shown = self.show_tool_errors
            return event if is_shown else msgspec.structs.replace(event, error="")
        if isinstance(event, SubAgentEvent):
            inner: Any = self.event(event.event, error)
            return msgspec.structs.replace(event, event=inner)
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
                self.may_remember,
            )
            if isinstance(each, ApprovalRequest)
            else each
            for each in interrupts
        )

    def messages(self, messages: Iterable[Message]) -> tuple[ShownMessage, ...]:
        """Return the messages of a conversation, as its owner may see them."""
        return tuple(
            ShownMessage(
                _role_of(message),
                tuple(
                    self._block(block)
                    for block in message.content
                    if not isinstance(block, (RedactedThinking, ProviderBlock))
                ),
                isinstance(message, AssistantMessage) and message.is_cut,
            )
            for message in messages
        )

    def _block(
        self, block: Text | Thinking | Refusal | ToolCall | ToolResult | Image | File
    ) -> ShownBlock:
        if isinstance(block, ToolCall):
            return ShownBlock(
                "tool_call",
                call_id=block.call_id,
                name=block.name,
                arguments=block.arguments,
            )
        if isinstance(block, ToolResult):
            is_hidden = block.is_error and not self.show_tool_errors
            return ShownBlock(
                "tool_result",
                _NO_RESULT if is_hidden else "\n".join(map(_text_of, block.content)),
                call_id=block.call_id,
                name=block.name,
                is_error=block.is_error,
            )
        if isinstance(block, Image):
            return ShownBlock("image")
        if isinstance(block, File):
            return ShownBlock("file", name=block.name)
        if is_record(block) and not self.show_tool_errors:
            return ShownBlock("text", _RECORD)
        kinds: dict[type, Literal["text", "thinking", "refusal"]]
        kinds = {Text: "text", Thinking: "thinking", Refusal: "refusal"}
        return ShownBlock(kinds[type(block)], block.text)

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


def _role_of(message: Message) -> Literal["user", "assistant", "tool"]:
    if isinstance(message, UserMessage):
        return "user"
    return "assistant" if isinstance(message, AssistantMessage) else "tool"


def _text_of(block: ResultBlock) -> str:
    if isinstance(block, Text):
        return block.text
    return write_value(block.value) if isinstance(block, Json) else "[image or file]"
