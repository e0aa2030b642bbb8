"""A tool: a plain function, and how it is to be called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, ParamSpec, TypeVar, overload

import msgspec

from ..exceptions import ConfigurationError
from ..options import ToolSpec
from ..schemas.signature import Signature, read_signature
from .context import ToolContext
from .raw import RawSignature
from .results import RESULT_LIMIT
from .settings import Isolation, NeedsApproval, OnCancel, ToolSettings, checked_name

__all__ = ["AnyTool", "Tool", "as_tool", "tool"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: Where a function keeps the tool that was made of it.
_KEPT: Final = "__syncagent_tool__"


class Tool(Generic[_P, _R]):
    """A function that a model may call; see :func:`tool` for what all of it means.

    It can still be called like the function that it was made of.

    :param settings: those of :func:`tool`.
    """

    def __init__(self, function: Callable[_P, _R], **settings: Any) -> None:
        if not callable(function):
            raise ConfigurationError(f"a tool is made of a function; got {function!r}")
        given = self._settings = ToolSettings(**settings)
        self.function = function
        self.isolation = given.isolation
        self.on_cancel: OnCancel = given.on_cancel or (
            "kill" if given.isolation == "process" else "wait"
        )
        self.grace = given.grace
        self.timeout = given.timeout
        self.requires_approval = given.requires_approval
        self.requires_auth = given.requires_auth
        self.parallel = given.parallel
        self.idempotent = given.idempotent
        self.result_limit = given.result_limit
        self.__doc__ = getattr(function, "__doc__", None)
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__wrapped__ = function
        self._signature: Signature | RawSignature | None = None
        self._spec: ToolSpec | None = None
        if not _is_method_to_be(function):  # that is bound, and read, later
            self.spec  # noqa: B018 - what is wrong with it is said at once

    @property
    def signature(self) -> Signature | RawSignature:
        """Its parameters, as the model and as Python see them."""
        if self._signature is None:
            raw = self._settings.parameters
            if raw is None:
                self._signature = read_signature(
                    self.function, context_type=ToolContext
                )
            else:
                self._signature = RawSignature(self.function, raw, ToolContext)
        return self._signature

    @property
    def spec(self) -> ToolSpec:
        """What the model is told about it."""
        if self._spec is None:
            signature = self.signature
            given = self._settings
            self._spec = ToolSpec(
                checked_name(given.name or signature.name),
                given.description or signature.description,
                signature.parameters,
            )
            if self.runs_in_process:
                from .processes.call import find_target

                find_target(self.function)  # what cannot be found is said at once
        return self._spec

    @property
    def name(self) -> str:
        """What the model calls it."""
        return self.spec.name

    @property
    def runs_in_process(self) -> bool:
        """Does it run in a process of its own?"""
        return self.isolation == "process" or self.on_cancel == "kill"

    @property
    def needs_thread(self) -> bool:
        """Can it not run on the run's own thread, even if nothing else runs?"""
        if self.runs_in_process:
            return self.on_cancel == "abandon"
        is_left = self.on_cancel == "abandon" or self.timeout is not None
        return is_left or self.isolation == "thread"

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call the function."""
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Tool[..., _R]:
        bind = getattr(self.function, "__get__", None)
        if instance is None or bind is None:
            return self
        return Tool(bind(instance, owner), **msgspec.structs.asdict(self._settings))

    def __repr__(self) -> str:
        return f"<Tool {self.__name__}>"


#: A tool of any function.
AnyTool = Tool[..., Any]


@overload
def tool(function: Callable[_P, _R], /) -> Tool[_P, _R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    on_cancel: OnCancel | None = None,
    grace: float = 2.0,
    timeout: float | None = None,
    isolation: Isolation | None = None,
    requires_approval: NeedsApproval = False,
    requires_auth: str | None = None,
    parallel: bool = True,
    idempotent: bool = False,
    result_limit: int = RESULT_LIMIT,
) -> Callable[[Callable[_P, _R]], Tool[_P, _R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **settings: Any) -> Any:
    """Make a tool of a function: ``@tool``, or ``@tool(timeout=10)``.

    Name, description and JSON schema come from its name, signature, type hints and
    docstring (Google, NumPy or ``:param:`` style).

    :param name: in place of the function's.
    :param description: in place of the docstring's.
    :param parameters: a JSON schema in place of what the hints say; the function is
        then called with whatever the model gives, by name.
    :param on_cancel: ``wait``: let it finish; it may look at its
        :class:`~syncagent.tools.context.ToolContext` and stop by itself. ``abandon``:
        leave it behind on its thread after *grace* seconds. ``kill``: run it in a
        process of its own, and kill that with all that it has started.
    :param grace: seconds between being told to stop and being left behind.
    :param timeout: seconds after which the run goes on without it. Unless it is in a
        process of its own it then runs on a thread of its own.
    :param isolation: run it on a ``thread`` or in a ``process`` of its own.
    :param requires_approval: ask before it is called; or a function of the arguments
        and the context that says whether to, with words if there is a reason to tell.
    :param requires_auth: whose credentials it needs, in ``ctx.credentials``. They are
        asked for once, and again if the tool raises
        :exc:`~syncagent.exceptions.AuthenticationFailed`.
    :param parallel: may others run at the same time?
    :param idempotent: is it the same to call it twice as once? Then a call that was
        running when its process ended is made again by :meth:`syncagent.Agent.load`.
    :param result_limit: how many characters of its result the model is given.
    :raises ConfigurationError: no tool can be made of it; the message says why.
    """
    if function is not None:
        return Tool(function, **settings)
    return lambda given: Tool(given, **settings)


def as_tool(given: Any) -> AnyTool:
    """Return the tool that *given* is, or the one that is made of it, always the same.

    :raises ConfigurationError: none can be.
    """
    if isinstance(given, Tool):
        given.spec  # noqa: B018 - a method that was never bound is no tool
        return given
    inner = getattr(given, "__func__", None)
    if isinstance(inner, Tool):  # a class method, since Python 3.13
        return as_tool(inner.__get__(given.__self__, None))
    make = getattr(given, "as_tool", None)
    if callable(make):
        made: AnyTool = make()
        return made
    if not callable(given):
        raise ConfigurationError(
            f"tools are functions, Tool objects or agents; got {given!r:.80}"
        )
    kept = getattr(given, "__dict__", {}).get(_KEPT)
    if isinstance(kept, Tool) and kept.function is given:
        return kept
    tool: AnyTool = Tool(given)
    try:
        setattr(given, _KEPT, tool)
    except AttributeError:  # a bound method, a builtin
        pass
    return tool


def _is_method_to_be(function: Any) -> bool:
    """Is it a function in the body of a class, not bound to ``self`` or ``cls`` yet?"""
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", "")
    before, _, _ = name.rpartition(".")
    in_class = bool(before) and not before.endswith("<locals>")
    names: tuple[str, ...] = () if code is None else code.co_varnames
    is_bound = hasattr(function, "__self__")
    return in_class and not is_bound and names[:1] in (("self",), ("cls",))
