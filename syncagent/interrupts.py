"""Interrupts: questions that stop the loop, their answers, and remembered rules.

Interrupts are plain values that survive a trip through JSON. Those from a driver or a
handle can be answered directly, with ``interrupt.approve()``; all others by their ids,
with ``agent.resume({interrupt.id: True})``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, TypeVar

import msgspec

from ._deps import ShownDeps
from .exceptions import ConfigurationError
from .messages import ToolOutcome

__all__ = [
    "AfterToolResult",
    "Approval",
    "ApprovalRequest",
    "AuthRequest",
    "AwaitingInput",
    "Interrupt",
    "Question",
    "Remember",
    "Rule",
    "RuleBook",
    "TIMED_OUT",
    "arguments_key",
    "is_decline",
    "is_refusal",
]

#: How long an answer counts: for one call (false), for every call of the tool
#: (``"tool"``, or true), or for every call with the same arguments (``"arguments"``).
Remember = bool | Literal["tool", "arguments"]

#: Makes the name of a rule a pattern.
_WILD: Final = re.compile(r"[*?[]")

_T = TypeVar("_T", bound="_Interrupt")


# -- questions ---------------------------------------------------------------------


class _Interrupt(ShownDeps, frozen=True, tag_field="type"):
    """The base of all interrupts. A handler sees the deps of the run in them."""

    #: Identifies the question in ``agent.resume()``.
    id: str

    @property
    def is_blocking(self) -> bool:
        """True if the run cannot continue without an answer."""
        return True

    def answered_by(self: _T, answer: Callable[[str, Any], object]) -> _T:
        """Return a copy that passes its id and its answer to *answer*."""
        other = msgspec.structs.replace(self)
        other.__dict__["answer"] = answer  # not a field: no part of the value
        return other

    def _answer(self, value: Any) -> None:
        answer = self.__dict__.get("answer")
        if answer is None:
            raise ConfigurationError(
                "this interrupt is not connected to a run; answer it with "
                f"agent.resume({{{self.id!r}: ...}})"
            )
        answer(self.id, value)


class ApprovalRequest(_Interrupt, frozen=True, tag="approval"):
    """Asks whether a tool may be called with these arguments."""

    call_id: str
    #: The tool's name.
    tool: str
    #: The validated arguments.
    arguments: dict[str, Any]
    #: Why approval is needed, if ``requires_approval`` gave a reason.
    reason: str = ""

    def approve(
        self, arguments: dict[str, Any] | None = None, *, remember: Remember = False
    ) -> None:
        """Allow the call.

        :param arguments: replace those of the model, if hooks and rules allow them.
        :param remember: answer later calls in the same way, see :class:`Approval`.
        :raises InterruptOver: the question was already answered, or its run has ended.
        """
        self._answer(Approval(True, arguments, remember=remember))

    def deny(self, reason: str = "", *, remember: Remember = False) -> None:
        """Deny the call.

        :param reason: given to the model.
        :param remember: answer later calls in the same way, see :class:`Approval`.
        :raises InterruptOver: the question was already answered, or its run has ended.
        """
        self._answer(Approval(False, reason=reason, remember=remember))

    def time_out(self) -> None:
        """Do not allow the call because no answer came; that is not a denial.

        :raises InterruptOver: the question was already answered, or its run has ended.
        """
        self._answer(TIMED_OUT)


class AuthRequest(_Interrupt, frozen=True, tag="auth"):
    """A tool needs credentials."""

    call_id: str
    #: The tool's name.
    tool: str
    #: The provider of the credentials, from ``requires_auth``.
    provider: str

    def provide(self, credentials: Any) -> None:
        """Give the credentials to the tool, as ``ctx.credentials``, and to no one else.

        :raises InterruptOver: the question was already answered, or its run has ended.
        """
        self._answer(credentials)

    def deny(self, reason: str = "") -> None:
        """Refuse the credentials; the tool is not called.

        :raises InterruptOver: the question was already answered, or its run has ended.
        """
        self._answer(Approval(False, reason=reason))


class AwaitingInput(_Interrupt, frozen=True, tag="input"):
    """Asks the user for input: a tool has a question, or the agent is idle."""

    call_id: str = ""
    #: The name of the tool that asks, or an empty string.
    tool: str = ""
    question: str = ""
    #: The JSON schema of the answer, from ``ctx.ask(form=...)``; see
    #: :class:`~syncagent.schemas.forms.Form`.
    form: dict[str, Any] | None = None

    @property
    def is_blocking(self) -> bool:
        """True if a tool asks."""
        return bool(self.call_id)

    def submit(self, text: Any) -> None:
        """Give the answer: a text, or the values of a form as a dict.

        :raises InterruptOver: the question was already answered, or its run has ended.
        :raises ConfigurationError: it does not fit the form; the question stays open.
        """
        self._answer(text)

    def decline(self) -> None:
        """Say no: the tool gets no answer; if it sent a form, it learns of the no.

        :raises InterruptOver: the question was already answered, or its run has ended.
        """
        self._answer(False)


class AfterToolResult(_Interrupt, frozen=True, tag="after_tools"):
    """All tools of a round have ended; the next request has not been sent yet."""

    #: The number of the turn that called them, starting at 1.
    turn: int = 0
    #: The outcomes, in the order of the calls.
    outcomes: tuple[ToolOutcome, ...] = ()

    @property
    def is_blocking(self) -> bool:
        """Always false."""
        return False

    def submit(self, text: Any) -> None:
        """Send input to the model together with the results.

        :raises InterruptOver: the question was already answered, or the run continued.
        """
        self._answer(text)


Interrupt = ApprovalRequest | AuthRequest | AwaitingInput | AfterToolResult


# -- answers -----------------------------------------------------------------------


class Approval(msgspec.Struct, frozen=True):
    """The answer to an :class:`ApprovalRequest`.

    :raises ConfigurationError: a field has an invalid value.
    """

    allow: bool
    #: Replace those of the model, if hooks and rules allow them.
    arguments: dict[str, Any] | None = None
    #: Given to the model if the call is not allowed.
    reason: str = ""
    #: Answer later calls in the same way: all calls of the tool (``"tool"``, or true),
    #: or those with the same arguments (``"arguments"``).
    remember: Remember = False
    #: True if no answer came: the call is not allowed, but no person denied it.
    timed_out: bool = False

    def __post_init__(self) -> None:
        # A truthy string such as "false" from a form must not count as a yes.
        if not isinstance(self.allow, bool):
            raise ConfigurationError(
                f"Approval(allow=...) must be True or False; got {self.allow!r:.80}"
            )
        if self.remember not in (True, False, "tool", "arguments"):
            raise ConfigurationError(
                "Approval(remember=...) must be 'tool', 'arguments', True or False; "
                f"got {self.remember!r:.80}"
            )
        if not isinstance(self.reason, str):
            raise ConfigurationError(
                f"Approval(reason=...) must be a string; got {self.reason!r:.80}"
            )
        if self.allow and self.timed_out:
            raise ConfigurationError(
                "Approval(allow=True) cannot be combined with timed_out=True"
            )

    @classmethod
    def of(cls, answer: object) -> Approval:
        """Return *answer*, an approval or a boolean, as an approval.

        :raises ConfigurationError: it is something else.
        """
        if isinstance(answer, Approval):
            return answer
        if isinstance(answer, bool):
            return cls(answer)
        raise ConfigurationError(
            "the answer to an approval must be True, False or Approval(...); got a "
            # Only the type: the value may be a secret meant for another question.
            f"{type(answer).__name__}"
        )


#: The answer to any question that no one answered in time.
TIMED_OUT: Final = Approval(False, timed_out=True)


class Question(str):
    """A question of a tool, as an ``ask=`` handler gets it."""

    #: The JSON schema of the answer, or ``None``: then the answer is a text.
    form: dict[str, Any] | None
    #: The ``deps=`` of the run, else of the agent, and its ``metadata=``.
    deps: Any
    metadata: dict[str, Any]

    def __new__(
        cls,
        text: str,
        form: dict[str, Any] | None = None,
        deps: Any = None,
        metadata: dict[str, Any] | None = None,
    ) -> Question:
        question = super().__new__(cls, text)
        question.form = form
        question.deps, question.metadata = deps, metadata or {}
        return question

    def __reduce__(self) -> tuple[Any, ...]:
        return Question, (str(self), self.form)  # no pickle holds the deps


def is_decline(answer: object) -> bool:
    """True if *answer*, to a form, says no; false if there is none, or it is late."""
    is_no = isinstance(answer, Approval) and not answer.timed_out
    return answer is False or is_no


def is_refusal(answer: object) -> bool:
    """True if *answer*, to a question other than an approval, declines to answer."""
    return answer is None or answer is False or isinstance(answer, Approval)


# -- remembered answers ------------------------------------------------------------


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    """A standing answer: whether a tool may be called without asking."""

    #: The tool's name, or a pattern for names: ``"fs_*"``, ``"read_?"``, ``"*"``. No
    #: name of a tool has one of the characters ``*``, ``?`` and ``[``.
    tool: str
    allow: bool
    #: The arguments that the rule applies to; ``None`` means any.
    arguments: dict[str, Any] | None = None
    #: Given to the model if the call is not allowed.
    reason: str = ""
    #: The :attr:`~syncagent.tools.tool.Tool.definition` of the tool that was approved;
    #: once that has changed, the rule no longer counts. Empty means any.
    definition: str = ""


class RuleBook:
    """The rules of an agent.

    A rule for the exact name takes precedence over a pattern, and then one with
    arguments over one without. Of several patterns that are equal in this, one that
    denies counts.

    :raises ConfigurationError: an item is not a valid :class:`Rule`.
    """

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules: dict[tuple[str, bytes | None], Rule] = {}
        if not isinstance(rules, Iterable):
            raise ConfigurationError(f"rules must be a list; got {rules!r:.80}")
        for rule in rules:
            self.add(rule)

    def add(self, rule: Any) -> None:
        """Add a rule; it replaces an earlier one for the same tool and arguments.

        :raises ConfigurationError: it is not a valid :class:`Rule`.
        """
        fields = (("tool", str), ("allow", bool), ("reason", str), ("definition", str))
        is_valid = (
            isinstance(rule, Rule)
            and all(isinstance(getattr(rule, name), kind) for name, kind in fields)
            and isinstance(rule.arguments, (dict, type(None)))
        )
        if not is_valid:
            raise ConfigurationError(
                "a rule must be Rule(tool, allow, arguments=None, reason='') with a "
                f"name, a boolean, a dict and a string; got {rule!r:.80}"
            )
        key = arguments_key(rule.arguments)
        if key is None and rule.arguments is not None:
            raise ConfigurationError(
                f"the arguments of a rule must be JSON values; got {rule!r:.80}"
            )
        self._rules[rule.tool, key] = rule

    def find(
        self, tool: str, arguments: dict[str, Any], definition: str = ""
    ) -> Rule | None:
        """Return the rule for a call of a tool with that definition, or ``None``."""
        if not self._rules:
            return None
        for key in (arguments_key(arguments), None):
            rule = self._rules.get((tool, key))
            if rule is not None and rule.definition in ("", definition):
                return rule
        return self._find_pattern(tool, arguments, definition)

    def _find_pattern(
        self, tool: str, arguments: dict[str, Any], definition: str
    ) -> Rule | None:
        """Return the rule whose pattern fits; ``None`` if none does."""
        for key in dict.fromkeys((arguments_key(arguments), None)):
            found = [
                rule
                for (pattern, its_key), rule in list(self._rules.items())
                if its_key == key and _WILD.search(pattern)
                if rule.definition in ("", definition) and fnmatchcase(tool, pattern)
            ]
            if found:
                return min(found, key=lambda rule: rule.allow)
        return None

    def clear(self) -> None:
        """Remove all rules."""
        self._rules.clear()

    def __iter__(self) -> Iterator[Rule]:
        return iter(list(self._rules.values()))


def arguments_key(arguments: dict[str, Any] | None) -> bytes | None:
    """Return arguments in a comparable form; ``None`` if they are not JSON."""
    # JSON keeps 1, 1.0 and true apart; in Python they are equal.
    if arguments is None:
        return None
    try:
        return msgspec.json.encode(arguments, order="deterministic")
    except (TypeError, ValueError, RecursionError):  # set by a hook; matches no rule
        return None
