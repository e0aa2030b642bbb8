"""What requests and responses look like, as JSON: all of it is here."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from ...cancel import CancelMode
from ...interrupts import Approval, Interrupt, Remember
from ...messages import ToolOutcome
from ...result import Cancellation
from ...usage import Usage
from .refusals import Refused

__all__ = [
    "AnswerBody",
    "AnswerFate",
    "AnswersReply",
    "AnswersRequest",
    "CancelReply",
    "CancelRequest",
    "ErrorReply",
    "RunError",
    "RunList",
    "RunView",
    "StartRequest",
    "decode_body",
    "encode_body",
]

_T = TypeVar("_T")

#: ``taken``: it counts; ``over``: somebody was faster, or the run has gone on;
#: ``refused``: nobody has asked that, or it makes no sense as an answer.
AnswerFate = Literal["taken", "over", "refused"]

#: In characters: names and reasons are kept with a run, and shown in every list.
_LONGEST_NAME: Final = 256
_LONGEST_REASON: Final = 1024


# -- requests ----------------------------------------------------------------------


class StartRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Begin a run."""

    prompt: str
    #: Which agent, for applications that have several.
    agent: str = ""
    #: Which conversation, for applications that keep them.
    conversation: str = ""
    #: For applications that want to know more.
    options: dict[str, Any] = {}

    def __post_init__(self) -> None:
        _check_length(_LONGEST_NAME, agent=self.agent, conversation=self.conversation)


class CancelRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """End a run."""

    reason: str = ""
    mode: CancelMode = "now"

    def __post_init__(self) -> None:
        _check_length(_LONGEST_REASON, reason=self.reason)


class AnswerBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An answer: exactly one of *allow*, *text* and *credentials*."""

    #: To an approval; false is also a "no" to any other question.
    allow: bool | UnsetType = UNSET
    #: With *allow*: in place of the model's.
    arguments: dict[str, Any] | None = None
    #: With *allow* false: told to the model.
    reason: str = ""
    #: With *allow*: for later calls.
    remember: Remember = False
    #: To a question of a tool.
    text: str | UnsetType = UNSET
    #: For a tool that needs them. They are in no response, no event and no log.
    credentials: Any = UNSET

    def value(self) -> Any:
        """Return what a handle is to be told.

        :raises Refused: there is no answer in it, or more than one.
        """
        given = [self.allow, self.text, self.credentials]
        given = [one for one in given if one is not UNSET]
        has_more = self.arguments is not None or self.reason or self.remember
        if len(given) != 1 or (has_more and self.allow is UNSET):
            raise Refused(
                400,
                "bad_request",
                "An answer has exactly one of allow, text and credentials; arguments, "
                "reason and remember go with allow.",
            )
        if isinstance(self.allow, bool):
            return Approval(self.allow, self.arguments, self.reason, self.remember)
        return given[0]


class AnswersRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Answer what a run asks, by the ids of its interrupts."""

    answers: dict[str, AnswerBody]


# -- responses ---------------------------------------------------------------------


class RunError(msgspec.Struct, frozen=True):
    """What went wrong with a run, in words that anybody may see."""

    code: str
    message: str


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run as its owner sees it."""

    #: By which it is asked for.
    id: str
    #: By which it goes in logs.
    run_id: str
    agent: str
    conversation: str
    #: How what was asked begins.
    prompt: str = ""
    #: One of the states of a handle.
    state: str
    #: The tool that the state is about, if it is about one.
    tool: str = ""
    is_live: bool
    #: Seconds since 1970.
    started_at: float
    ended_at: float | None = None
    #: How many events there were: the newest one's id.
    events: int = 0
    #: What has to be answered before it can go on.
    interrupts: tuple[Interrupt, ...] = ()
    # Of one that has ended:
    text: str = ""
    stop_reason: str | None = None
    cancellation: Cancellation | None = None
    usage: Usage | None = None
    cost: float | None = None
    turns: int = 0
    tool_outcomes: tuple[ToolOutcome, ...] = ()
    error: RunError | None = None


class RunList(msgspec.Struct, frozen=True):
    """Runs, the newest first."""

    runs: tuple[RunView, ...]


class CancelReply(msgspec.Struct, frozen=True):
    """Whether a cancel has hit a live run; if not, it had ended before."""

    id: str
    is_cancelled: bool
    state: str


class AnswersReply(msgspec.Struct, frozen=True):
    """What became of each answer."""

    answers: dict[str, AnswerFate]


class ErrorReply(msgspec.Struct, frozen=True):
    """Why there is nothing else."""

    error: RunError


# -- both ways ---------------------------------------------------------------------


def _check_length(limit: int, **given: str) -> None:
    for name, text in given.items():
        if len(text) > limit:
            raise ValueError(f"{name} is longer than {limit} characters")


def _spelled(value: Any) -> str:
    """Return something for what JSON has no word for, such as an object of a tool."""
    return repr(value)


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_spelled)


def encode_body(body: msgspec.Struct) -> bytes:
    """Return a response as JSON."""
    return _ENCODER.encode(body)


def decode_body(body: bytes, kind: type[_T]) -> _T:
    """Return what was asked for.

    :raises Refused: it is nothing of the kind; the message says where.
    """
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        # It names places and types, never what is there.
        raise Refused(422, "invalid", f"{error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refused(400, "bad_json", "The body is not valid JSON.") from None
