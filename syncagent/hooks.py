"""The events that hooks receive, and the values they may return.

A hook is any object with some of these methods: ``before_model(event)``,
``after_model(event)``, ``before_tool(event)``, ``after_tool(event)``,
``on_event(event)``, ``on_finish(result)``, ``on_error(error)``. All are called on the
thread of the run. A hook that raises ends the run with its error. The first five may
return :class:`Stop`, which ends the run at once, as a cancel does. Values returned
after a cancel are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from ._deps import ShownDeps
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
    "Replace",
    "Retry",
    "Skip",
    "Stop",
    "invalid_return",
    "stoppable",
]


class BeforeModel(ShownDeps, frozen=True):
    """A request is about to be sent to the model.

    Return :class:`Replace` to send, and keep, another conversation, or nothing.
    """

    run_id: str
    #: The number of the turn, starting at 1.
    turn: int
    #: The conversation; it cannot be changed through this view of it.
    messages: Sequence[Message]


class AfterModel(ShownDeps, frozen=True):
    """The model has responded. Return :class:`Retry` to discard that and ask again."""

    run_id: str
    turn: int
    message: AssistantMessage
    usage: Usage


class BeforeTool(ShownDeps, frozen=True):
    """A tool is about to be called; approval has not been asked for yet.

    Hooks see all calls of a round before the first one runs. They see a call again if
    an approval has changed its arguments; then :class:`Change` asks the approver again.
    Return :class:`Deny`, :class:`Change`, :class:`Skip`, or nothing.
    """

    run_id: str
    call: ToolCall
    #: The validated arguments.
    arguments: dict[str, Any]


class AfterTool(ShownDeps, frozen=True):
    """A tool has ended.

    Return :class:`Skip` to replace its result, :class:`Retry` to call it again, or
    nothing. A tool that was cancelled is not called again.
    """

    run_id: str
    call: ToolCall
    outcome: ToolOutcome
    result: ToolResult


class Deny(msgspec.Struct, frozen=True):
    """Do not call the tool."""

    #: Given to the model.
    reason: str = ""


class Change(msgspec.Struct, frozen=True):
    """Call the tool with these arguments instead of the model's."""

    arguments: dict[str, Any]


class Skip(msgspec.Struct, frozen=True):
    """Use this value as the result of the tool."""

    result: Any


class Replace(msgspec.Struct, frozen=True):
    """Put these messages in place of the whole conversation, before the request.

    They are repaired first, so that every provider accepts them. The new conversation
    stays when the run has ended.
    """

    messages: Sequence[Message]


class Retry(msgspec.Struct, frozen=True):
    """Do it again. Repeated turns and calls count towards the limits."""


class Stop(msgspec.Struct, frozen=True):
    """End the run now, with stop reason ``stopped``.

    It ends as a cancelled run does: a response is cut off, no further tool starts. A
    cancel that came first wins.
    """

    #: For ``result.cancellation`` and the logs; the model does not get it.
    reason: str = ""


#: The values that each method may return.
_RETURNS: Final = {
    "before_model": ("Replace(messages)", "Stop(reason)"),
    "after_model": ("Retry()", "Stop(reason)"),
    "before_tool": (
        "Deny(reason)",
        "Change(arguments)",
        "Skip(result)",
        "Stop(reason)",
    ),
    "after_tool": ("Skip(result)", "Retry()", "Stop(reason)"),
}


class HookSet:
    """The methods of an agent's hooks, by name.

    :raises ConfigurationError: *hooks* is not a list of objects, or one of them has no
        hook method.
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
            raise ConfigurationError(f"hooks must be a list; got {hooks!r:.80}")
        hooks = tuple(hooks)
        for hook in hooks:
            if isinstance(hook, type):
                raise ConfigurationError(
                    f"hooks takes instances, not classes; write {hook.__name__}()"
                )
            if not any(callable(getattr(hook, name, None)) for name in self.__slots__):
                raise ConfigurationError(
                    "a hook must have at least one of the methods "
                    f"{', '.join(self.__slots__)}; got {hook!r:.80}"
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


def invalid_return(method: str, value: object) -> ConfigurationError:
    """Return the error for a hook method that returned an unsupported value."""
    supported = " or ".join(("nothing", *_RETURNS.get(method, ())))
    return ConfigurationError(
        f"{method}() of a hook returned {value!r:.80}; return {supported}"
    )


def stoppable(
    hook: Callable[[Any], object], stop: Callable[[str], object]
) -> Callable[[Any], object]:
    """Return an observer that calls *hook*, and *stop* if that returns a Stop.

    :param stop: given the reason; ends the run.
    """

    def observe(event: Any) -> None:
        decision = hook(event)
        if isinstance(decision, Stop):
            stop(decision.reason)

    return observe
