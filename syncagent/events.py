"""The events that a run yields."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from .interrupts import Interrupt
from .messages import AssistantMessage, Outcome, ToolCall, ToolResult
from .result import RunResult
from .usage import Usage

__all__ = [
    "BackgroundRequested",
    "Event",
    "InterruptRaised",
    "Lagged",
    "MessageFinished",
    "MessageStarted",
    "RunEvent",
    "RunFinished",
    "RunState",
    "State",
    "StateChanged",
    "StreamEvent",
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
    """What all events have in common."""


class MessageStarted(_Event, frozen=True, tag="message_started", gc=False):
    """The model begins to answer."""

    model: str = ""
    #: The provider's own name for the answer.
    message_id: str = ""


class TextDelta(_Event, frozen=True, tag="text_delta", gc=False):
    """More words."""

    text: str


class ThinkingDelta(_Event, frozen=True, tag="thinking_delta", gc=False):
    """More thinking."""

    text: str


class ToolCallStarted(_Event, frozen=True, tag="tool_call_started", gc=False):
    """The model begins to write a tool call."""

    call_id: str
    name: str


class ToolCallDelta(_Event, frozen=True, tag="tool_call_delta", gc=False):
    """More of the arguments."""

    call_id: str
    arguments: str


class ToolCallReady(_Event, frozen=True, tag="tool_call_ready"):
    """A tool call is written; nothing of it will change."""

    call: ToolCall


class UsageUpdated(_Event, frozen=True, tag="usage_updated"):
    """The provider says how many tokens this answer has taken so far."""

    usage: Usage


class MessageFinished(_Event, frozen=True, tag="message_finished"):
    """The answer is complete."""

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
)


class ToolStarted(_Event, frozen=True, tag="tool_started"):
    """A tool is called."""

    call_id: str
    name: str
    arguments: dict[str, Any] = {}


class ToolProgress(_Event, frozen=True, tag="tool_progress"):
    """A tool says how far it is.

    One that runs on the run's own thread is heard when it has ended; a hook's
    ``on_event`` hears it at once.
    """

    call_id: str
    name: str
    #: Whatever the tool gives to ``ctx.progress()``.
    value: Any = None


class ToolFinished(_Event, frozen=True, tag="tool_finished"):
    """A tool has ended, or will not be called."""

    call_id: str
    outcome: Outcome
    name: str
    #: What the model is told.
    result: ToolResult


class TurnFinished(_Event, frozen=True, tag="turn_finished"):
    """The model has answered; if it calls tools, those come next."""

    message: AssistantMessage
    usage: Usage


class StateChanged(_Event, frozen=True, tag="state_changed"):
    """The run does something else now."""

    #: One of the states of :attr:`syncagent.Agent.state`.
    state: str
    #: The tool that it is about, if it is about one.
    tool: str = ""
    call_id: str = ""
    #: What went wrong, if something did.
    message: str = ""


class InterruptRaised(_Event, frozen=True, tag="interrupt_raised"):
    """Somebody has to be asked; what is asked is asked at once."""

    interrupts: tuple[Interrupt, ...]


class BackgroundRequested(_Event, frozen=True, tag="background_requested", gc=False):
    """The run is to go on in the background, while its tools run on."""


class Lagged(_Event, frozen=True, tag="lagged", gc=False):
    """Whoever follows a run was too slow, or too late, for some of its events."""

    #: How many.
    missed: int


#: What a run yields; the last one is :class:`syncagent.events.RunFinished`.
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
)


class RunState(str):
    """A state such as ``"executing_tool"``: a string that knows more."""

    #: The tool that it is about, if it is about one.
    tool: str
    call_id: str
    #: What went wrong, if something did.
    message: str

    def __new__(cls, changed: StateChanged) -> RunState:
        state = super().__new__(cls, changed.state)
        state.tool, state.call_id = changed.tool, changed.call_id
        state.message = changed.message
        return state


class RunFinished(msgspec.Struct, frozen=True, tag_field="type", tag="run_finished"):
    """The last event of every run."""

    result: RunResult


#: What a stream yields.
StreamEvent = RunEvent | RunFinished


def _spelled(value: Any) -> str:
    """Return something for what JSON has no word for, such as an object of a tool."""
    return repr(value)


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_spelled)


_DECODER: Final = msgspec.json.Decoder(StreamEvent | Lagged)


def encode_event(event: StreamEvent | Lagged) -> bytes:
    """Return *event* as one line, without its end.

    What JSON has no word for, in what a tool or a typed answer says, is its ``repr()``.
    """
    return _ENCODER.encode(event)


def decode_event(line: bytes | str) -> StreamEvent | Lagged:
    """Return the event that a line stands for.

    :raises ValueError: it stands for none.
    """
    event: StreamEvent | Lagged = _DECODER.decode(line)
    return event


#: What a run is doing, for those who look on.
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
