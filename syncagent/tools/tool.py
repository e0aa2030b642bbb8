"""A tool: a plain function, and how it is to be called."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, get_args, overload

from ..exceptions import ConfigurationError
from ..options import ToolSpec
from .context import ToolContext
from .raw import RawSignature
from .results import RESULT_LIMIT
from .signature import Signature, read_signature

__all__ = ["Isolation", "NeedsApproval", "OnCancel", "Tool", "as_tool", "tool"]

OnCancel = Literal["wait", "abandon", "kill"]
Isolation = Literal["thread", "process"]
#: Is it to be approved? Given the arguments and the context, or known beforehand.
NeedsApproval = bool | Callable[[dict[str, Any], ToolContext], bool]

#: What every provider takes for the name of a tool.
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")
#: Where a function keeps the tool that was made of it.
_KEPT: Final = "__syncagent_tool__"


class Tool:
    """A function that a model may call; see :func:`tool` for what all of it means.

    It can still be called like the function that it was made of.
    """

    def __init__(
        self,
        function: Callable[..., Any],
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
    ) -> None:
        if not callable(function):
            raise ConfigurationError(f"a tool is made of a function; got {function!r}")
        self._settings: dict[str, Any] = {
            key: value
            for key, value in locals().items()
            if key not in ("self", "function")
        }
        self.function = function
        self.isolation = isolation
        self.on_cancel: OnCancel = on_cancel or (
            "kill" if isolation == "process" else "wait"
        )
        self.grace = grace
        self.timeout = timeout
        self.requires_approval = requires_approval
        self.requires_auth = requires_auth
        self.parallel = parallel
        self.idempotent = idempotent
        self.result_limit = result_limit
        self._check()
        self.__doc__ = getattr(function, "__doc__", None)
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__wrapped__ = function
        self._signature: Signature | RawSignature | None = None
        self._spec: ToolSpec | None = None
        if not _is_method_to_be(function):  # that is bound, and read, later
            self.spec  # noqa: B018 - what is wrong with it is said at once

    def _check(self) -> None:
        if self.on_cancel not in get_args(OnCancel):
            raise ConfigurationError(
                f"on_cancel is one of wait, abandon, kill; got {self.on_cancel!r}"
            )
        if self.isolation not in (None, *get_args(Isolation)):
            raise ConfigurationError(
                f"isolation is None, 'thread' or 'process'; got {self.isolation!r}"
            )
        if self.on_cancel == "kill" and self.isolation == "thread":
            raise ConfigurationError(
                "a thread cannot be killed; use isolation='process', or "
                "on_cancel='abandon'"
            )
        if not (_is_number(self.grace) and self.grace >= 0):
            raise ConfigurationError(
                f"grace is a number of seconds, 0 for none; got {self.grace!r}"
            )
        if self.timeout is not None and not (
            _is_number(self.timeout) and self.timeout > 0
        ):
            raise ConfigurationError(
                "timeout is a number of seconds above 0, or None for no limit; got "
                f"{self.timeout!r}"
            )
        is_whole = _is_number(self.result_limit) and isinstance(self.result_limit, int)
        if not is_whole or self.result_limit < 0:
            raise ConfigurationError(
                f"result_limit is a number of characters; got {self.result_limit!r}"
            )

    @property
    def signature(self) -> Signature | RawSignature:
        """Its parameters, as the model and as Python see them."""
        if self._signature is None:
            raw = self._settings["parameters"]
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
                _checked_name(given["name"] or signature.name),
                given["description"] or signature.description,
                signature.parameters,
            )
            if self.runs_in_process:
                from .workers import find_target

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

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Tool:
        bind = getattr(self.function, "__get__", None)
        if instance is None or bind is None:
            return self
        return Tool(bind(instance, owner), **self._settings)

    def __repr__(self) -> str:
        return f"<Tool {self.__name__}>"


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


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
) -> Callable[[Callable[..., Any]], Tool]: ...


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
        and the context that says whether to.
    :param requires_auth: whose credentials it needs, in ``ctx.credentials``.
    :param parallel: may others run at the same time?
    :param idempotent: is it the same to call it twice as once?
    :param result_limit: how many characters of its result the model is given.
    :raises ConfigurationError: no tool can be made of it; the message says why.
    """
    if function is not None:
        return Tool(function, **settings)
    return lambda given: Tool(given, **settings)


def as_tool(given: Any) -> Tool:
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
        made: Tool = make()
        return made
    if not callable(given):
        raise ConfigurationError(
            f"tools are functions, Tool objects or agents; got {given!r:.80}"
        )
    kept = getattr(given, "__dict__", {}).get(_KEPT)
    if isinstance(kept, Tool) and kept.function is given:
        return kept
    tool = Tool(given)
    try:
        setattr(given, _KEPT, tool)
    except AttributeError:  # a bound method, a builtin
        pass
    return tool


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _is_method_to_be(function: Any) -> bool:
    """Is it a function in the body of a class, not bound to ``self`` or ``cls`` yet?"""
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", "")
    before, _, _ = name.rpartition(".")
    in_class = bool(before) and not before.endswith("<locals>")
    names: tuple[str, ...] = () if code is None else code.co_varnames
    is_bound = hasattr(function, "__self__")
    return in_class and not is_bound and names[:1] in (("self",), ("cls",))


def _checked_name(name: str) -> str:
    if not _NAME.match(name):
        raise ConfigurationError(
            f"no provider takes {name!r} for the name of a tool; use letters, digits, "
            "_ and -, at most 64, for example with name='...'"
        )
    return name
