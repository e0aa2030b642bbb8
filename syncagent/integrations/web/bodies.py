"""The JSON bodies of requests and responses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from ...cancel import CancelMode
from ...events import ToolStarted
from ...interrupts import Approval, ApprovalRequest, Interrupt, Remember
from ...messages import ToolOutcome
from ...result import Cancellation
from ...usage import Usage
from .errors import Refused

__all__ = [
    "AnswerBody",
    "AnswerStatus",
    "AnswersRequest",
    "AnswersResponse",
    "CancelCallRequest",
    "CancelCallResponse",
    "CancelRequest",
    "CancelResponse",
    "DeleteRequest",
    "ErrorResponse",
    "ForkRequest",
    "LONGEST_NAME",
    "RunError",
    "RunList",
    "RunSummary",
    "RunView",
    "ShownApproval",
    "ShownToolStart",
    "StartRequest",
    "check_changes",
    "check_remembering",
    "decode_body",
    "encode_body",
    "parse_arguments",
    "write_arguments",
    "write_value",
]

_T = TypeVar("_T")

#: ``taken``: the run has it; ``over``: the question was answered or withdrawn before;
#: ``refused``: there is no such question, or this cannot answer it.
AnswerStatus = Literal["taken", "over", "refused"]

#: In characters. Names and reasons are kept with a run and shown in every list.
LONGEST_NAME: Final = 256
_LONGEST_REASON: Final = 1024
#: Larger numbers do not fit into the integers of databases and browsers.
_LARGEST_COUNT: Final = 2**53 - 1


# -- requests ----------------------------------------------------------------------


class StartRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of ``POST /runs``: start a run."""

    prompt: str
    #: The agent, for applications that have several.
    agent: str = ""
    #: The conversation, for applications that keep them.
    conversation: str = ""
    #: Anything else the application defines.
    options: dict[str, Any] = {}
    #: Refuse the run unless the conversation has this version; only with a store.
    version: int | None = None

    def __post_init__(self) -> None:
        if self.version is not None:
            _check_count(version=self.version)
            if not self.conversation:
                raise ValueError("version needs a conversation")
        _check_length(LONGEST_NAME, agent=self.agent, conversation=self.conversation)
        if "\0" in self.agent + self.conversation:
            raise ValueError("a name has a null character")


class ForkRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of ``POST /conversations/<id>/fork``."""

    #: Begin with only so many messages.
    at: int | None = None

    def __post_init__(self) -> None:
        if self.at is not None:
            _check_count(at=self.at)


class DeleteRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of ``POST /conversations/<id>/delete``, which has no fields."""


class CancelRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of ``POST /runs/<id>/cancel``."""

    reason: str = ""
    mode: CancelMode = "now"

    def __post_init__(self) -> None:
        _check_length(_LONGEST_REASON, reason=self.reason)


class CancelCallRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of ``POST /runs/<id>/calls/<call_id>/cancel``."""

    reason: str = ""
    #: Do not wait for the tool: leave its thread behind, kill its process.
    force: bool = False

    def __post_init__(self) -> None:
        _check_length(_LONGEST_REASON, reason=self.reason)


class AnswerBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer: exactly one of *allow*, *text*, *values* and *credentials*."""

    #: The answer to an approval. False declines any other question, too.
    allow: bool | UnsetType = UNSET
    #: With *allow*: arguments to use instead of the model's.
    arguments: dict[str, Any] | None = None
    #: The same as JSON text, for browsers, which would round large numbers.
    arguments_text: str | None = None
    #: With *allow* false: the reason that the model is given.
    reason: str = ""
    #: With *allow*: apply the answer to later calls, too.
    remember: Remember = False
    #: The answer to a question that a tool asked.
    text: str | UnsetType = UNSET
    #: The answer to such a question with a form, by field.
    values: dict[str, Any] | UnsetType = UNSET
    #: Credentials for a tool. They appear in no response, event or log.
    credentials: Any = UNSET

    def value(self) -> Any:
        """Return the answer in the form that ``Handle.answer()`` takes.

        :raises Refused: the body holds no answer, or more than one, or its arguments
            are not valid JSON.
        """
        fields = (self.allow, self.text, self.values, self.credentials)
        answers = [field for field in fields if field is not UNSET]
        has_details = self.changes_arguments or self.reason or self.remember
        is_twice = self.arguments is not None and self.arguments_text is not None
        if len(answers) != 1 or is_twice or (has_details and self.allow is UNSET):
            raise Refused(
                400,
                "bad_request",
                "An answer needs exactly one of allow, text, values and credentials; "
                "arguments or arguments_text, reason and remember require allow.",
            )
        if isinstance(self.allow, bool):
            arguments = self.arguments
            if self.arguments_text is not None:
                arguments = parse_arguments(self.arguments_text)
            return Approval(self.allow, arguments, self.reason, self.remember)
        return answers[0]

    def __repr__(self) -> str:
        return "<AnswerBody>"  # error trackers show local variables

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []

    @property
    def may_be_explained(self) -> bool:
        """True if the client may learn why the answer was refused."""
        return self.changes_arguments or self.values is not UNSET

    @property
    def changes_arguments(self) -> bool:
        """True if the answer has arguments to use instead of the model's."""
        return self.arguments is not None or self.arguments_text is not None

    @property
    def allows_later_calls(self) -> bool:
        """True if it allows later calls of the tool, whatever their arguments."""
        return self.allow is True and self.remember in (True, "tool")


def check_remembering(answers: Mapping[str, AnswerBody], may_remember: bool) -> None:
    """Refuse answers that allow later calls where those are asked about one by one.

    :raises Refused: one of them does.
    """
    if may_remember:
        return
    if any(body.allows_later_calls for body in answers.values()):
        raise Refused(
            403,
            "asked_each_time",
            "Each call of this tool needs an answer: allow this one, or deny it.",
        )


def check_changes(
    answers: Mapping[str, AnswerBody], may_change_arguments: bool
) -> None:
    """Refuse answers that change arguments where that is not allowed.

    :raises Refused: one of them does.
    """
    if may_change_arguments:
        return
    if any(body.changes_arguments for body in answers.values()):
        raise Refused(
            403,
            "arguments_fixed",
            "Arguments cannot be changed here: allow the call as it is, or deny it.",
        )


class AnswersRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of ``POST /runs/<id>/answers``: answers by interrupt id."""

    answers: dict[str, AnswerBody]


# -- responses ---------------------------------------------------------------------


class RunError(msgspec.Struct, frozen=True):
    """An error, in a form that any client may see."""

    code: str
    message: str


class ShownApproval(ApprovalRequest, frozen=True, tag="approval"):
    """An approval as clients see it."""

    #: The arguments as JSON text: exactly what the tool is called with.
    arguments_text: str = ""
    #: False if an answer with other arguments is refused.
    may_change_arguments: bool = True
    #: False if an answer that allows all later calls of the tool is refused.
    may_remember: bool = True


class ShownToolStart(ToolStarted, frozen=True, tag="tool_started"):
    """The start of a tool call as clients see it."""

    #: The arguments as JSON text: exactly what the tool is called with.
    arguments_text: str = ""


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a list, without the parts that may be long."""

    #: The public id, used in URLs.
    id: str
    #: The id used in logs.
    run_id: str
    agent: str
    conversation: str
    #: The beginning of the prompt.
    prompt: str = ""
    #: The state of the run's handle. A run in a store is also ``queued`` while it waits
    #: for a worker, and ``running`` while a worker has it: its events say more.
    state: str
    #: The tool that the state refers to, if any.
    tool: str = ""
    is_live: bool
    #: Seconds since 1970.
    started_at: float
    ended_at: float | None = None
    #: The number of events so far, which is the id of the newest one.
    events: int = 0
    #: Open questions.
    interrupts: tuple[Interrupt, ...] = ()
    #: The people or groups that have to answer them instead of the owner, by question.
    approvers: dict[str, str] = {}
    # For finished runs:
    stop_reason: str | None = None
    cancellation: Cancellation | None = None
    usage: Usage | None = None
    cost: float | None = None
    turns: int = 0
    error: RunError | None = None
    #: True if the run is in a store: any process of the server has it, and no one has
    #: to follow it. There is no timeline of it.
    is_stored: bool = False


class RunView(RunSummary, frozen=True, kw_only=True):
    """A run as its owner sees it."""

    # For finished runs:
    text: str = ""
    tool_outcomes: tuple[ToolOutcome, ...] = ()

    def summary(self) -> RunSummary:
        """Return the run as lists show it."""
        fields = RunSummary.__struct_fields__
        return RunSummary(**{name: getattr(self, name) for name in fields})


class RunList(msgspec.Struct, frozen=True):
    """Runs, newest first."""

    runs: tuple[RunSummary, ...]


class CancelResponse(msgspec.Struct, frozen=True):
    """The result of a cancel: *is_cancelled* is false if the run had already ended."""

    id: str
    is_cancelled: bool
    state: str


class CancelCallResponse(msgspec.Struct, frozen=True):
    """The result: *is_cancelled* is false if no such call was running."""

    id: str
    call_id: str
    is_cancelled: bool


class AnswersResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    """The status of each answer."""

    answers: dict[str, AnswerStatus]
    #: Why changed arguments, a form or credentials were refused, by interrupt id.
    messages: dict[str, str] = {}


class ErrorResponse(msgspec.Struct, frozen=True):
    """The body of every error response."""

    error: RunError


# -- JSON --------------------------------------------------------------------------


def _check_length(limit: int, **fields: str) -> None:
    for name, text in fields.items():
        if len(text) > limit:
            raise ValueError(f"{name} is longer than {limit} characters")


def _check_count(**fields: int) -> None:
    for name, number in fields.items():
        if not 0 <= number <= _LARGEST_COUNT:
            raise ValueError(f"{name} must be a non-negative number")


#: Tools may return objects that JSON cannot express; they appear as their ``repr()``.
_ENCODER: Final = msgspec.json.Encoder(enc_hook=repr)


def encode_body(body: msgspec.Struct) -> bytes:
    """Encode a body as JSON."""
    return _ENCODER.encode(body)


#: Made here and not when first needed: two threads that make one at once can crash
#: msgspec, which fills in the fields of a type only then.
_DECODERS: Final[dict[type, msgspec.json.Decoder[Any]]] = {
    kind: msgspec.json.Decoder(kind)
    for kind in (
        *(AnswerBody, AnswersRequest, CancelCallRequest, CancelRequest, DeleteRequest),
        *(ForkRequest, StartRequest),
    )
}


def decode_body(body: bytes, kind: type[_T]) -> _T:
    """Decode a body.

    :raises Refused: the body is not valid; the message says where.
    """
    decoder: msgspec.json.Decoder[_T] = _DECODERS[kind]
    try:
        return decoder.decode(body or b"{}")
    except msgspec.ValidationError as error:
        # The message names paths and types, never the client's values.
        raise Refused(422, "invalid", f"{error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refused(400, "bad_json", "The body is not valid JSON.") from None


def write_arguments(arguments: dict[str, Any]) -> str:
    """Return the arguments of a tool as JSON text, indented and otherwise exact."""
    return write_value(arguments)


def write_value(value: Any) -> str:
    """Return a value as JSON text, indented and otherwise exact."""
    try:
        return msgspec.json.format(_ENCODER.encode(value), indent=2).decode()
    except (TypeError, ValueError, RecursionError):  # set by a hook
        return repr(value)


def parse_arguments(text: str) -> dict[str, Any]:
    """Return the arguments in JSON text that a person has edited.

    :raises Refused: they are not a JSON object; the message says where.
    """
    try:
        # Twice: the standard library knows the line and sees duplicate keys; msgspec
        # decides, as it does for the arguments that a model writes.
        json.loads(text, object_pairs_hook=_unique, parse_int=str, parse_float=str)
        return msgspec.json.decode(text, type=dict[str, Any])
    except json.JSONDecodeError as error:
        problem = f"{error.msg} (line {error.lineno}, column {error.colno})"
    except msgspec.ValidationError as error:
        problem = str(error)
    except msgspec.DecodeError:  # all else is valid for the standard library
        problem = "they have NaN, Infinity or half of a surrogate pair"
    except RecursionError:
        problem = "they are nested too deep"
    except ValueError as error:
        problem = str(error)
    raise Refused(400, "bad_arguments", f"The arguments are not valid JSON: {problem}.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key!r:.80} appears twice")
        found[key] = value
    return found
