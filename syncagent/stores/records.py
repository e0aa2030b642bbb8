"""The records that a store and its back ends exchange."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from ..cancel import CancelMode
from ..conversation.state import StoredMessage
from ..exceptions import ConfigurationError, Origin, RunFailed, StoreUnavailable
from ..interrupts import Approval, Interrupt
from ..messages import Message, UserMessage
from ..result import RunResult

__all__ = [
    "Answered",
    "CancelRecord",
    "CancelReply",
    "Census",
    "Changed",
    "Claim",
    "ConversationChange",
    "ConversationRecord",
    "EndState",
    "EventBatch",
    "Lease",
    "NewRun",
    "Recovered",
    "StoredAnswer",
    "StoredEnd",
    "StoredError",
    "StoredRun",
    "StoredState",
    "Verdict",
    "conversation_key",
]

#: How a stored run ends: ``limit`` if one of its limits ended it.
EndState = Literal["done", "cancelled", "failed", "limit"]
#: The state of a stored run.
StoredState = Literal[
    "queued", "running", "waiting", "done", "cancelled", "failed", "limit"
]


class CancelRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A cancel, as a store keeps it."""

    reason: str = ""
    origin: Origin = "user"
    mode: CancelMode = "now"
    #: The person or program that cancelled, in the application's own terms.
    by: str = ""
    #: Recognises a cancel that is sent again because its reply was lost.
    nonce: str = ""


class StoredError(msgspec.Struct, frozen=True):
    """The error of a run that failed."""

    #: The name of the exception's class.
    type: str
    #: Its text, which may contain private details.
    message: str

    def __str__(self) -> str:
        return f"{self.type}: {self.message}"


class StoredAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a question, as a store keeps it. It holds no credentials."""

    approval: Approval | None = None
    text: str | None = None
    #: The values of a form.
    values: dict[str, Any] | None = None

    @property
    def value(self) -> Any:
        """The answer in the form that a run takes."""
        if self.approval is not None:
            return self.approval
        return self.text if self.values is None else self.values

    @property
    def shown(self) -> str:
        """The text or the values, for people."""
        if self.values is None:
            return self.text or ""
        return msgspec.json.encode(self.values).decode()

    def encode(self) -> bytes:
        """Return the answer as JSON.

        :raises ConfigurationError: changed arguments are not JSON.
        """
        try:
            return msgspec.json.encode(self)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"an answer must be JSON: {error}") from None

    @classmethod
    def decode(cls, body: bytes) -> StoredAnswer:
        """Return the answer that :meth:`encode` encoded."""
        return _ANSWER.decode(body)


# Made here and not when first needed: msgspec collects the fields of a type at first
# use, and crashes if another thread uses the type at that moment.
_ANSWER: Final = msgspec.json.Decoder(StoredAnswer)


class StoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run as its store knows it."""

    #: The id to cancel, follow and answer the run with: 192 random bits.
    id: str
    #: The id in logs, events and idempotency keys.
    run_id: str
    owner: str = ""
    #: The name of the agent, for programs that have several.
    agent: str = ""
    #: The name of the conversation; empty for a conversation of its own.
    conversation: str = ""
    #: Whatever else ``submit()`` was given, as JSON.
    labels: dict[str, Any] = {}
    prompt: UserMessage
    state: StoredState = "queued"
    #: How many workers have begun or resumed it.
    attempt: int = 0
    #: How many of them died with it.
    crashes: int = 0
    #: True if it is cancelled when no one follows it any more.
    needs_followers: bool = False
    #: The worker that has it, as ``host:process id``.
    worker: str = ""
    cancel: CancelRecord | None = None
    #: The open questions of a run that waits.
    interrupts: tuple[Interrupt, ...] = ()
    #: The people or groups that ``approver_of`` gave its questions to, by question.
    approvers: dict[str, str] = {}
    #: Since when it waits for answers, and when that time is over.
    asked_at: float | None = None
    expires_at: float | None = None
    #: The number of events so far.
    events: int = 0
    #: Seconds since 1970, by the clock of the store.
    created_at: float = 0.0
    ended_at: float | None = None
    #: The result of a run that has ended and not failed. ``store.get()`` gives it the
    #: messages of the conversation.
    result: RunResult | None = None
    error: StoredError | None = None

    @property
    def is_live(self) -> bool:
        """True until the run has ended."""
        return self.ended_at is None

    def approver_of(self, question: Interrupt) -> str:
        """Return the person or group whose inbox has a question of the run."""
        return self.approvers.get(question.id) or self.owner

    def final_result(self) -> RunResult:
        """Return the result of a run that has ended.

        :raises RunFailed: it failed.
        :raises StoreUnavailable: it has not ended: the wait for its end was cut short.
        """
        if self.is_live:
            raise StoreUnavailable("the wait for the end of the run was cancelled")
        if self.result is None:
            raise RunFailed(str(self.error or "the run failed"))
        return self.result

    def with_messages(self, messages: tuple[Message, ...]) -> StoredRun:
        """Return the run with the messages of its conversation in its result."""
        if self.result is None:
            return self
        result = msgspec.structs.replace(self.result, messages=messages)
        return msgspec.structs.replace(self, result=result)


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to add."""

    id: str
    run_id: str
    owner: str
    agent: str
    conversation: str
    #: Names the messages that runs of one conversation share.
    key: str
    labels: bytes
    prompt: bytes
    #: How long it may work, in seconds.
    seconds_left: float | None
    #: The title of the conversation, if the run is its first.
    title: str = ""
    #: The version that the conversation must have.
    version: int | None = None
    #: Cancel it once no one has followed it for so many seconds.
    unfollowed_seconds: float | None = None


class ConversationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation as its store knows it."""

    #: Names its messages; see :func:`conversation_key`.
    key: str
    id: str
    owner: str
    #: By default the beginning of the first prompt.
    title: str = ""
    labels: dict[str, Any] = {}
    #: Grows with each change; 0 for one that has not begun.
    version: int = 0
    #: Seconds since 1970, by the clock of the store.
    created_at: float = 0.0
    #: When it was last changed, or its last run began.
    changed_at: float = 0.0
    #: The id of its live run; empty if it has none.
    live_run: str = ""


class ConversationChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a conversation, or a new one."""

    key: str
    id: str
    owner: str
    #: Recognises a change that is sent again because its reply was lost.
    nonce: str
    #: The version that it must have.
    version: int | None = None
    messages: tuple[Message, ...] = ()
    #: As JSON; ``None`` leaves the title and the labels as they are.
    labels: str | None = None
    title: str | None = None


#: ``busy``, ``waiting``, ``changed``: as for :data:`~.backend.Added`; ``taken``: there
#: is a conversation with this id; ``missing``: no conversation has it.
Changed = Literal["done", "busy", "waiting", "changed", "taken", "missing"]


class Lease(NamedTuple):
    """The presence of a process in a store, which it has to renew."""

    #: Names the process.
    worker: str
    host: str
    pid: int
    version: str
    seconds: float


class Claim(NamedTuple):
    """A run that a worker may drive, and everything it needs for that."""

    run: StoredRun
    attempt: int
    #: The state without its messages; empty for a run that has not begun.
    tail: bytes
    #: The tail of the last run of the same conversation, for a run that has not begun.
    last_tail: bytes
    messages: list[StoredMessage]
    #: By the id of the question.
    answers: dict[str, StoredAnswer]
    seconds_left: float | None


class Verdict(NamedTuple):
    """The reply to a write of a worker."""

    #: False if the run was cancelled, or taken away from the worker.
    is_stored: bool
    #: The cancel, if there is one; a deferred one does not keep a write from happening.
    cancel: CancelRecord | None = None

    @property
    def is_lost(self) -> bool:
        """True if the run was taken away from the worker."""
        return not self.is_stored and self.cancel is None


class EventBatch(NamedTuple):
    """Events of a run, numbered one after the other."""

    run_id: str
    attempt: int
    #: The number of the first one, starting at 1.
    first: int
    lines: list[bytes]

    @property
    def last(self) -> int:
        """The number of the last one."""
        return self.first + len(self.lines) - 1


class StoredEnd(NamedTuple):
    """How a run ended."""

    state: EndState
    result: bytes = b""
    error: bytes = b""
    #: The cancel, if the worker itself cancelled the run.
    cancel: CancelRecord | None = None


class CancelReply(NamedTuple):
    """The reply to a cancel."""

    #: True if the run had not ended.
    is_live: bool
    #: True if this cancel is the one that counts.
    is_first: bool
    cancel: CancelRecord
    run_id: str
    #: The state of the run at that moment.
    state: StoredState
    #: The calls that were recorded as begun.
    begun: tuple[str, ...] = ()
    #: True if there was no worker to end the run: it has ended.
    has_ended: bool = False


class Answered(NamedTuple):
    """The reply to answers."""

    #: ``taken``, ``over`` or ``refused``, by the id of the question.
    statuses: dict[str, Literal["taken", "over", "refused"]]
    #: True for the one caller who has to hand the run to a worker.
    is_ready: bool = False


class Census(NamedTuple):
    """The live runs and the workers of a store, in numbers."""

    #: How many runs are in each state; only states that have some.
    states: dict[str, int]
    #: Seconds since the oldest queued run was submitted.
    oldest_queued: float
    #: Seconds by which the latest queued run should have been handed to a worker.
    overdue: float
    #: How many runs have lost their worker.
    unheld: int
    #: How many processes can work on runs.
    workers: int


class Recovered(NamedTuple):
    """The reply to a look for runs that no worker drives."""

    #: The ids of runs to hand to a worker; other processes do not get them.
    ids: list[str]
    #: Seconds until the next lease of a worker with runs ends.
    next_look: float | None = None
    #: The runs that the store counts as this worker's: run ids with id and attempt.
    held: Mapping[str, tuple[str, int]] = {}


def conversation_key(owner: str, conversation: str, id: str) -> str:
    """Return the name of the messages of a conversation.

    Two owners can use one name, and never share messages.

    :param id: the run, for a conversation without a name.
    """
    if not conversation:
        return id
    return hashlib.sha256(f"{owner}\0{conversation}".encode()).hexdigest()
