"""Answers that are remembered: what need not be asked again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from .exceptions import ConfigurationError

__all__ = ["Rule", "RuleBook"]


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
