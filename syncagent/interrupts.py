"""Interrupts: questions that stop the loop, their answers, and remembered rules.

Interrupts are plain values, to and from JSON. Those that a driver or a handle gives out
can also be answered directly: ``request.approve()``. Others are answered by their ids,
``agent.resume({request.id: True})``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal, TypeVar

import msgspec

from .exceptions import ConfigurationError
from .messages import ToolOutcome

__all__ = [
    "AfterToolResult",
    "Approval",
    "ApprovalRequest",
    "AuthRequest",
    "AwaitingInput",
    "Interrupt",
    "Remember",
    "Rule",
    "RuleBook",
    "TIMED_OUT",
    "is_refusal",
]

#: What to remember of an answer: nothing; that it goes for the tool, whatever the
#: arguments (true is the same); or that it goes for these very arguments.
Remember = bool | Literal["tool", "arguments"]


_T = TypeVar("_T", bound="_Interrupt")


class _Interrupt(msgspec.Struct, frozen=True, tag_field="type", dict=True):
    """What all interrupts have in common."""

    #: What the answer goes by.
    id: str

    @property
    def is_blocking(self) -> bool:
        """Must it be answered before the run can go on?"""
        return True

    def answered_by(self: _T, reply: Callable[[str, Any], object]) -> _T:
        """Return the same, whose answer is given to *reply*, with its id."""
        other = msgspec.structs.replace(self)
        other.__dict__["reply"] = reply  # beside the fields: it is no part of the value
        return other

    def _answer(self, answer: Any) -> None:
        reply = self.__dict__.get("reply")
        if reply is None:
            raise ConfigurationError(
                "this interrupt is a value, and knows no run; answer it with "
                f"agent.resume({{{self.id!r}: ...}})"
            )
        reply(self.id, answer)


class ApprovalRequest(_Interrupt, frozen=True, tag="approval"):
    """May this tool be called, with these arguments?"""

    call_id: str
    #: The tool's name.
    tool: str
    #: They have been checked.
    arguments: dict[str, Any]
    #: Why it is asked, if whoever wants it asked has said so.
    reason: str = ""

    def approve(
        self, arguments: dict[str, Any] | None = None, *, remember: Remember = False
    ) -> None:
        """Let it be called.

        :param arguments: in place of the model's.
        :param remember: for later calls, see :class:`Approval`.
        :raises InterruptOver: it was answered already, or its run has ended.
        """
        self._answer(Approval(True, arguments, remember=remember))

    def deny(self, reason: str = "", *, remember: Remember = False) -> None:
        """Do not let it be called.

        :param reason: told to the model.
        :param remember: for later calls, see :class:`Approval`.
        :raises InterruptOver: it was answered already, or its run has ended.
        """
        self._answer(Approval(False, reason=reason, remember=remember))

    def time_out(self) -> None:
        """Do not let it be called, as nobody has answered; that is not a denial.

        :raises InterruptOver: it was answered already, or its run has ended.
        """
        self._answer(TIMED_OUT)


class AuthRequest(_Interrupt, frozen=True, tag="auth"):
    """A tool needs credentials."""

    call_id: str
    #: The tool's name.
    tool: str
    #: Whose.
    provider: str

    def provide(self, credentials: Any) -> None:
        """Give them; the tool finds them in ``ctx.credentials``, and nobody else does.

        :raises InterruptOver: it was answered already, or its run has ended.
        """
        self._answer(credentials)

    def deny(self, reason: str = "") -> None:
        """Do not give any; the tool is not called.

        :raises InterruptOver: it was answered already, or its run has ended.
        """
        self._answer(Approval(False, reason=reason))


class AwaitingInput(_Interrupt, frozen=True, tag="input"):
    """The user is to say something: a tool asks, or the agent has nothing to do."""

    call_id: str = ""
    #: The name of the tool that asks, if one does.
    tool: str = ""
    question: str = ""

    @property
    def is_blocking(self) -> bool:
        """Must it be answered before the run can go on? Yes, if a tool asks."""
        return bool(self.call_id)

    def submit(self, text: Any) -> None:
        """Say it.

        :raises InterruptOver: it was answered already, or its run has ended.
        """
        self._answer(text)


class AfterToolResult(_Interrupt, frozen=True, tag="after_tools"):
    """All tools of a round have ended, and the model has not been asked yet."""

    #: The number of the turn that has called them, from 1 on.
    turn: int = 0
    #: What became of them, in the order of the calls.
    outcomes: tuple[ToolOutcome, ...] = ()

    @property
    def is_blocking(self) -> bool:
        """Must it be answered before the run can go on? No."""
        return False

    def submit(self, text: Any) -> None:
        """Say something to the model, beside the results.

        :raises InterruptOver: it was answered already, or the run has gone on.
        """
        self._answer(text)


Interrupt = ApprovalRequest | AuthRequest | AwaitingInput | AfterToolResult


class Approval(msgspec.Struct, frozen=True):
    """What somebody says about a call.

    :raises ConfigurationError: *allow* is neither true nor false, or *remember* is
        nothing of the kind.
    """

    allow: bool
    #: To be used in place of the model's.
    arguments: dict[str, Any] | None = None
    #: Told to the model if it is not allowed.
    reason: str = ""
    #: Is the same to be answered the next time, for the tool (``"tool"``, or true), or
    #: for these very arguments (``"arguments"``)?
    remember: Remember = False
    #: Has nobody answered? Then it is not allowed, and not denied by a person either.
    timed_out: bool = False

    def __post_init__(self) -> None:
        # What only looks like a no, such as "false" from a form, must not be a yes.
        if not isinstance(self.allow, bool):
            raise ConfigurationError(
                f"Approval(allow=...) is True or False; got {self.allow!r:.80}"
            )
        if self.remember not in (True, False, "tool", "arguments"):
            raise ConfigurationError(
                "Approval(remember=...) is 'tool', 'arguments', True or False; got "
                f"{self.remember!r:.80}"
            )
        if not isinstance(self.reason, str):
            raise ConfigurationError(
                f"Approval(reason=...) is a string; got {self.reason!r:.80}"
            )
        if self.allow and self.timed_out:
            raise ConfigurationError("what nobody has answered is not allowed")

    @classmethod
    def of(cls, answer: object) -> Approval:
        """Return what somebody means who answers yes or no.

        :raises ConfigurationError: it is neither.
        """
        if isinstance(answer, Approval):
            return answer
        if isinstance(answer, bool):
            return cls(answer)
        raise ConfigurationError(
            "an approval is answered with True, False or Approval(...); got a "
            # Not what it is: it may be meant for another question, and be a secret.
            f"{type(answer).__name__}"
        )


#: The answer, to whatever, if nobody has given one.
TIMED_OUT: Final = Approval(False, timed_out=True)


def is_refusal(answer: object) -> bool:
    """Does this, as an answer to what is no approval, mean that there is none?"""
    return answer is None or answer is False or isinstance(answer, Approval)


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether a tool may be called without asking."""

    #: The tool's name.
    tool: str
    allow: bool
    #: The only ones that it goes for; ``None`` is all.
    arguments: dict[str, Any] | None = None
    #: Told to the model if it is not allowed.
    reason: str = ""


class RuleBook:
    """The rules of an agent. One for the very arguments comes before one for the tool.

    :raises ConfigurationError: one of them is none.
    """

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules: dict[tuple[str, bytes | None], Rule] = {}
        if not isinstance(rules, Iterable):
            raise ConfigurationError(f"rules is a list; got {rules!r:.80}")
        for rule in rules:
            self.add(rule)

    def add(self, rule: Any) -> None:
        """Add a rule, in place of an earlier one for the same.

        :raises ConfigurationError: it is none.
        """
        if not isinstance(rule, Rule) or not _is_sound(rule):
            raise ConfigurationError(
                "a rule is Rule(tool, allow, arguments=None, reason=''): a name, True "
                f"or False, a dict and words; got {rule!r:.80}"
            )
        exactly = _exactly(rule.arguments)
        if exactly is None and rule.arguments is not None:
            raise ConfigurationError(
                f"the arguments of a rule are as JSON has them; got {rule!r:.80}"
            )
        self._rules[rule.tool, exactly] = rule

    def find(self, tool: str, arguments: dict[str, Any]) -> Rule | None:
        """Return the rule for a call, if there is one."""
        if not self._rules:
            return None
        exactly = _exactly(arguments)
        return self._rules.get((tool, exactly)) or self._rules.get((tool, None))

    def clear(self) -> None:
        """Forget all."""
        self._rules.clear()

    def __iter__(self) -> Iterator[Rule]:
        return iter(list(self._rules.values()))


def _is_sound(rule: Any) -> bool:
    return (
        isinstance(rule.tool, str)
        and isinstance(rule.allow, bool)
        and isinstance(rule.arguments, (dict, type(None)))
        and isinstance(rule.reason, str)
    )


def _exactly(arguments: dict[str, Any] | None) -> bytes | None:
    # As JSON, in which 1, 1.0 and true are three things; for Python they are equal.
    if arguments is None:
        return None
    try:
        return msgspec.json.encode(arguments, order="deterministic")
    except (TypeError, ValueError, RecursionError):  # a hook's: like nothing else
        return None
