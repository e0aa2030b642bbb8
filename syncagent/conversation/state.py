"""The records of a saved state, and its version."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from ..interrupts import Interrupt, Rule
from ..messages import Message, Outcome, ResultBlock, ToolCall, UserMessage
from ..tools.invocation import SavedAnswer
from ..usage import Usage

__all__ = [
    "Delta",
    "Envelope",
    "FORMAT",
    "SavedAgent",
    "SavedCall",
    "SavedEnding",
    "SavedRun",
    "SavedUnfinished",
    "StoredMessage",
    "VERSION",
]

FORMAT: Final = "syncagent.agent"
#: Raised whenever older versions could not read the new states.
VERSION: Final = 1


class _Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """The base of all parts of a state."""


class SavedEnding(_Record, frozen=True):
    """How a call ended."""

    outcome: Outcome
    #: Only for the open round; the others have theirs in the messages.
    content: tuple[ResultBlock, ...] = ()
    error: str = ""
    timed_out: bool = False


class SavedCall(_Record, frozen=True):
    """A tool call of the run, and its progress."""

    call: ToolCall
    key: str
    #: As they will be passed; None for a call that was not checked yet.
    arguments: dict[str, Any] | None = None
    is_approved: bool = False
    changes: int = 0
    has_begun: bool = False
    question: str | None = None
    form: dict[str, Any] | None = None
    said: tuple[tuple[str, SavedAnswer], ...] = ()
    times_asked: int = 0
    ending: SavedEnding | None = None
    #: True if it was cancelled alone, and has ended.
    is_stopped: bool = False
    seconds: float = 0.0


class SavedRun(_Record, frozen=True):
    """A run that has not ended."""

    run_id: str
    calls: tuple[SavedCall, ...] = ()
    #: The number of calls in the open round: the last ones.
    in_round: int = 0
    questions: tuple[Interrupt, ...] = ()
    #: None for the text of the last response in the messages.
    text: str | None = ""
    start: int = 0
    unanswered: UserMessage | None = None
    #: The JSON schema of the answer.
    output: dict[str, Any] | None = None
    turns: int = 0
    tool_calls: int = 0
    usage: Usage = Usage()
    cost: float | None = None
    #: Of what the run was given, the only part that is saved.
    metadata: dict[str, Any] = {}
    #: How often the conversation was replaced.
    compactions: int = 0
    #: The messages before the run, if a cancel would have to restore them.
    before: tuple[Message, ...] | None = None


class SavedUnfinished(_Record, frozen=True):
    """A run that was cut short; the messages are settled, as if it were over.

    A version that does not know it reads the state of an idle agent.
    """

    run: SavedRun
    #: The number of messages that stay if the run is resumed.
    length: int
    #: Of all earlier runs.
    usage_before: Usage = Usage()
    keeps_approvals: bool = False


class SavedAgent(_Record, frozen=True, kw_only=True):
    """A whole state."""

    format: str
    version: int
    messages: tuple[Message, ...]
    run: SavedRun | None = None
    unfinished: SavedUnfinished | None = None
    rules: tuple[Rule, ...] = ()
    usage: Usage = Usage()
    unheard: tuple[UserMessage, ...] = ()
    #: The number of claims before this state was saved; see claimed.py.
    claims: int = 0


class Envelope(msgspec.Struct):
    """The part that says whether the rest can be read."""

    format: str
    version: int


class StoredMessage(NamedTuple):
    """A message of a stored conversation, as JSON."""

    body: bytes
    #: The calls that the message has the results of; empty for other messages.
    calls: bytes = b""


class Delta(NamedTuple):
    """The part of a state that is new since the last checkpoint."""

    #: The number of the first message; messages from there on are replaced.
    first: int
    messages: tuple[StoredMessage, ...]
    #: The state without its messages, and without the calls of complete rounds.
    tail: bytes

    @property
    def total(self) -> int:
        """The number of all messages."""
        return self.first + len(self.messages)
