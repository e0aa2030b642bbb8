"""What hooks are shown, and what they may ask for.

A hook is any object with some of these methods: ``before_model(event)``,
``after_model(event)``, ``before_tool(event)``, ``after_tool(event)``,
``on_event(event)``, ``on_finish(result)``, ``on_error(error)``. All are called on the
thread of the run. One that raises ends the run with its error. What one asks for after
a cancel is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from .exceptions import ConfigurationError
from .messages import AssistantMessage, Message, ToolCall, ToolOutcome, ToolResult
from .usage import Usage

__all__ = [
    "AfterModel",
    "AfterTool",
    "BeforeModel",
    "BeforeTool",
    "Change",
    "Deny",
    "HookSet",
    "Retry",
    "Skip",
    "unknown_answer",
]


class BeforeModel(msgspec.Struct, frozen=True):
    """The model is about to be asked."""

    run_id: str
    #: The number of the turn, from 1 on.
    turn: int
    messages: Sequence[Message]


class AfterModel(msgspec.Struct, frozen=True):
    """The model has answered. Return :class:`Retry` to drop that and ask again."""

    run_id: str
    turn: int
    message: AssistantMessage
    usage: Usage


class BeforeTool(msgspec.Struct, frozen=True):
    """A tool is about to be called, and nobody was asked for approval yet.

    All calls of a round are shown before the first of them runs. Return
    :class:`Deny`, :class:`Change`, :class:`Skip`, or nothing.
    """

    run_id: str
    call: ToolCall
    #: They have been checked.
    arguments: dict[str, Any]


class AfterTool(msgspec.Struct, frozen=True):
    """A tool has ended.

    Return :class:`Skip` to put another result in its place, :class:`Retry` to have it
    called again, or nothing. A tool that was cancelled is not called again.
    """

    run_id: str
    call: ToolCall
    outcome: ToolOutcome
    result: ToolResult


class Deny(msgspec.Struct, frozen=True):
    """Do not call the tool."""

    #: Told to the model.
    reason: str = ""


class Change(msgspec.Struct, frozen=True):
    """Call it with these arguments in place of the model's."""

    arguments: dict[str, Any]


class Skip(msgspec.Struct, frozen=True):
    """Use this in place of what the tool returns."""

    result: Any


class Retry(msgspec.Struct, frozen=True):
    """Do it again. A turn or call that is repeated counts for the limits."""


#: What each method may return.
_WISHES: Final = {
    "after_model": ("Retry()",),
    "before_tool": ("Deny(reason)", "Change(arguments)", "Skip(result)"),
    "after_tool": ("Skip(result)", "Retry()"),
}


class HookSet:
    """The hooks of an agent, sorted by what they want to see.

    :raises ConfigurationError: it is no list, or one of them has no method that would
        be called.
    """

    __slots__ = (
        "after_model",
        "after_tool",
        "before_model",
        "before_tool",
        "on_error",
        "on_event",
        "on_finish",
    )

    def __init__(self, hooks: Iterable[object] = ()) -> None:
        if not isinstance(hooks, Iterable):
            raise ConfigurationError(f"hooks is a list; got {hooks!r:.80}")
        hooks = tuple(hooks)
        for hook in hooks:
            if isinstance(hook, type):
                raise ConfigurationError(
                    f"a hook is an object, and no class; write {hook.__name__}()"
                )
            if not any(callable(getattr(hook, name, None)) for name in self.__slots__):
                known = ", ".join(self.__slots__)
                raise ConfigurationError(
                    f"a hook has at least one of the methods {known}; got {hook!r:.80}"
                )
        for name in self.__slots__:
            found = (getattr(hook, name, None) for hook in hooks)
            setattr(self, name, tuple(method for method in found if callable(method)))

    before_model: tuple[Callable[[BeforeModel], object], ...]
    after_model: tuple[Callable[[AfterModel], object], ...]
    before_tool: tuple[Callable[[BeforeTool], object], ...]
    after_tool: tuple[Callable[[AfterTool], object], ...]
    on_error: tuple[Callable[[BaseException], object], ...]
    on_event: tuple[Callable[[Any], object], ...]
    on_finish: tuple[Callable[[Any], object], ...]


def unknown_answer(method: str, answer: object) -> ConfigurationError:
    """Return the error for a hook that returns what means nothing there."""
    may = " or ".join(_WISHES.get(method, ()))
    return ConfigurationError(
        f"{method}() of a hook returned {answer!r:.80}; return nothing"
        + (f", {may}" if may else "")
    )
