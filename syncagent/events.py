"""The events of a run, the states it passes through, and their JSON lines.

A turn of the model yields ``Event``, a run ``RunEvent``, and a stream ``StreamEvent``,
whose last one is :class:`RunFinished`.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from ._short import short_fields
from .interrupts import Interrupt
from .messages import AssistantMessage, Outcome, ToolCall, ToolResult
from .result import RunResult
from .usage import Usage

__all__ = [
    "BackgroundRequested",
    "Compacted",
    "Event",
    "InterruptRaised",
    "Lagged",
    "MessageFinished",
    "MessageStarted",
    "ModelChanged",
    "Resumed",
    "RunEvent",
    "RunFinished",
    "RunState",
    "State",
    "StateChanged",
    "StreamEvent",
    "SubAgentEvent",
    "TextDelta",
    "ThinkingDelta",
    "ToolCallDelta",
    "ToolCallReady",
    "ToolCallStarted",
    "ToolFinished",
    "ToolProgress",
    "ToolStarted",
    "TurnFinished",
    "UsageUpdated",
    "decode_event",
    "encode_event",
]


class _Event(msgspec.Struct, frozen=True, tag_field="type", gc=False):
    """The base of all events."""

    def __repr__(self) -> str:
        return short_fields(self)


# -- a turn of the model -----------------------------------------------------------


class MessageStarted(_Event, frozen=True, tag="message_started", gc=False):
    """The model starts to respond."""

    model: str = ""
    #: The provider's id of the response.
    message_id: str = ""


class ModelChanged(_Event, frozen=True, tag="model_changed", gc=False):
    """A :class:`~syncagent.Fallback` sends the request to another of its models."""

    #: The model that cannot respond, such as ``openai:gpt-6-luna``.
    from_model: str
    to_model: str
    #: Why it cannot; if it is left out for a while after an error, that error.
    error: str = ""


class TextDelta(_Event, frozen=True, tag="text_delta", gc=False):
    """A piece of text."""

    text: str


class ThinkingDelta(_Event, frozen=True, tag="thinking_delta", gc=False):
    """A piece of thinking."""

    text: str


class ToolCallStarted(_Event, frozen=True, tag="tool_call_started", gc=False):
    """The model starts to write a tool call."""

    call_id: str
    name: str


class ToolCallDelta(_Event, frozen=True, tag="tool_call_delta", gc=False):
    """A piece of the arguments of a tool call."""

    call_id: str
    arguments: str


class ToolCallReady(_Event, frozen=True, tag="tool_call_ready"):
    """A tool call is complete and will not change."""

    call: ToolCall


class UsageUpdated(_Event, frozen=True, tag="usage_updated"):
    """The provider reports the tokens that this response has used so far."""

    usage: Usage


class MessageFinished(_Event, frozen=True, tag="message_finished"):
    """The response is complete."""

    message: AssistantMessage
    usage: Usage


Event = (
    MessageStarted
    | TextDelta
    | ThinkingDelta
    | ToolCallStarted
    | ToolCallDelta
    | ToolCallReady
    | UsageUpdated
    | MessageFinished
    | ModelChanged
)


# -- a run -------------------------------------------------------------------------


class ToolStarted(_Event, frozen=True, tag="tool_started"):
    """A tool is called."""

    call_id: str
    name: str
    arguments: dict[str, Any] = {}


class ToolProgress(_Event, frozen=True, tag="tool_progress"):
    """A tool reports its progress.

    Reports of a tool on the run's own thread are yielded when the tool has ended; the
    ``on_event`` of a hook gets them at once.
    """

    call_id: str
    name: str
    #: The argument of ``ctx.progress()``.
    value: Any = None


class ToolFinished(_Event, frozen=True, tag="tool_finished"):
    """A tool call has ended, or will not be made."""

    call_id: str
    outcome: Outcome
    name: str
    #: The result that the model gets.
    result: ToolResult


class TurnFinished(_Event, frozen=True, tag="turn_finished"):
    """The model has responded; its tool calls, if any, come next."""

    message: AssistantMessage
    usage: Usage


class StateChanged(_Event, frozen=True, tag="state_changed"):
    """The run has entered another state."""

    #: One of the states of :attr:`syncagent.Agent.state`.
    state: str
    #: The tool concerned, or an empty string.
    tool: str = ""
    call_id: str = ""
    #: The error message, or an empty string.
    message: str = ""


class InterruptRaised(_Event, frozen=True, tag="interrupt_raised"):
    """The run has questions, which are all asked at once."""

    interrupts: tuple[Interrupt, ...]


class BackgroundRequested(_Event, frozen=True, tag="background_requested", gc=False):
    """The run moves to the background while its tools keep running."""


class Compacted(_Event, frozen=True, tag="compacted"):
    """The conversation was replaced by a shorter one, or by that of a hook.

    ``agent.messages`` is the new one. A recording has what was removed, too: in the
    events before this one.
    """

    #: The size of the next request before and after, in tokens, estimated.
    before: int
    after: int
    #: The numbers of messages.
    messages_before: int
    messages_after: int
    #: ``window``: it came near the end of the context window; ``too_long``: the
    #: provider has rejected it; ``hook``: a hook has returned
    #: :class:`~syncagent.hooks.Replace`.
    cause: Literal["window", "too_long", "hook"] = "window"
    #: The steps that did it, such as ``ClearResults``.
    steps: tuple[str, ...] = ()
    #: The record that a model has written, if one has.
    summary: str = ""


class Resumed(_Event, frozen=True, tag="resumed", gc=False):
    """Another worker has taken over the run of a store, at its last checkpoint.

    Whatever came after the last :class:`ToolStarted`, :class:`ToolFinished` or
    :class:`InterruptRaised` does not count, a finished turn included: the model is
    asked again.
    """

    #: The number of the attempt, starting at 2.
    attempt: int


class Lagged(_Event, frozen=True, tag="lagged", gc=False):
    """A subscriber was too slow, or too late, to get some of the events."""

    #: The number of events missed.
    missed: int


class SubAgentEvent(_Event, frozen=True, tag="sub_agent_event"):
    """An event of a sub-agent; only with ``Agent(sub_agent_events=True)``.

    That of a sub-agent further down is wrapped once for each agent above it. The
    questions of sub-agents are not wrapped: they are those of the run.
    """

    #: The tool call that runs the sub-agent.
    call_id: str
    #: The name of the sub-agent, or an empty string.
    agent: str
    event: RunEvent | RunFinished


#: The events that a run yields before :class:`RunFinished`.
RunEvent = (
    MessageStarted
    | TextDelta
    | ThinkingDelta
    | ToolCallStarted
    | ToolCallDelta
    | ToolCallReady
    | UsageUpdated
    | TurnFinished
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | StateChanged
    | InterruptRaised
    | BackgroundRequested
    | Resumed
    | ModelChanged
    | Compacted
    | SubAgentEvent
)


class RunFinished(msgspec.Struct, frozen=True, tag_field="type", tag="run_finished"):
    """The last event of every run."""

    result: RunResult


#: The events that a stream yields.
StreamEvent = RunEvent | RunFinished


# -- states ------------------------------------------------------------------------

#: The states of a run.
State = Literal[
    "idle",
    "processing",
    "waiting_for_approval",
    "waiting_for_auth",
    "waiting_for_input",
    "executing_tool",
    "waiting_for_agent",
    "done",
    "failed",
]


class RunState(str):
    """A state with its details: a string such as ``"executing_tool"``."""

    #: The tool concerned, or an empty string.
    tool: str
    call_id: str
    #: The error message, or an empty string.
    message: str

    def __new__(cls, changed: StateChanged) -> RunState:
        state = super().__new__(cls, changed.state)
        state.tool, state.call_id = changed.tool, changed.call_id
        state.message = changed.message
        return state


# -- JSON --------------------------------------------------------------------------

_ENCODER: Final = msgspec.json.Encoder(enc_hook=repr)
_DECODER: Final = msgspec.json.Decoder(StreamEvent | Lagged)


def encode_event(event: StreamEvent | Lagged) -> bytes:
    """Return *event* as one line of JSON, without a line break.

    A value of a tool, or an output, that JSON cannot represent becomes its ``repr()``.
    """
    return _ENCODER.encode(event)


def decode_event(line: bytes | str) -> StreamEvent | Lagged:
    """Return the event that :func:`encode_event` encoded.

    :raises ValueError: *line* does not hold an event.
    """
    try:
        event: StreamEvent | Lagged = _DECODER.decode(line)
    except RecursionError as error:
        raise ValueError(f"the event is nested too deeply: {error}") from None
    return event
