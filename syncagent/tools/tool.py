"""Tools: plain functions with their settings."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, overload

import msgspec

from ..exceptions import ConfigurationError
from ..options import ToolSpec
from ..schemas.signature import Signature, read_signature
from .context import ToolContext
from .raw import RawSignature
from .results import RESULT_LIMIT
from .settings import (
    MAX_ABANDONED,
    MAX_RESULT_BYTES,
    Isolation,
    NeedsApproval,
    OnCancel,
    ToolDefaults,
    ToolSettings,
    checked_name,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._arguments import NamedToolArguments

__all__ = ["AnyTool", "Tool", "as_tool", "tool"]

_log = logging.getLogger("syncagent.tools")

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: The attribute of a function that holds the tool made of it.
_ATTRIBUTE: Final = "__syncagent_tool__"
#: Seconds between being told to stop and being left behind.
_GRACE: Final = 2.0


class Tool(Generic[_P, _R]):
    """A function that a model may call; :func:`tool` documents the settings.

    It can still be called like the function it was made of.

    :param settings: those of :func:`tool`.
    """

    def __init__(
        self, function: Callable[_P, _R], /, **settings: Unpack[NamedToolArguments]
    ) -> None:
        if not callable(function):
            raise ConfigurationError(
                f"a tool must be made of a function; got {function!r}"
            )
        options = ToolSettings(**settings)
        self._set_stopping(options)
        self.function = function
        self.requires_approval = options.requires_approval
        self.requires_auth = options.requires_auth
        self.parallel = options.parallel
        self.idempotent = options.idempotent
        self.result_limit = options.result_limit
        self.max_result_bytes = options.max_result_bytes
        #: A hash of its definition, for a tool that another program defines: approvals
        #: that were remembered no longer count once it has changed. Else empty.
        self.definition = ""
        self.__doc__ = getattr(function, "__doc__", None)
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__wrapped__ = function
        self._signature: Signature | RawSignature | None = None
        self._spec: ToolSpec | None = None
        if not _is_unbound_method(function):  # that one is read when it is bound
            self.spec  # noqa: B018 - raises errors here rather than at the first run

    def _set_stopping(self, options: ToolSettings) -> None:
        self._settings = options
        self.isolation = options.isolation or None
        self.on_cancel: OnCancel = options.on_cancel or (
            "kill" if options.isolation == "process" else "wait"
        )
        self.grace = _GRACE if options.grace is msgspec.UNSET else options.grace
        self.timeout = options.timeout or None
        limit = options.max_abandoned
        self.max_abandoned = MAX_ABANDONED if limit is msgspec.UNSET else limit

    def with_defaults(self, defaults: ToolDefaults) -> AnyTool:
        """Return this tool, with *defaults* where it says nothing itself.

        :raises ConfigurationError: they do not fit this tool.
        """
        name = self.name
        try:
            settings = self._settings.with_defaults(defaults)
            if settings is self._settings:
                return self
            other = copy(self)  # the signature is shared: it has been read already
            other._set_stopping(settings)
            other._check_process()
        except ConfigurationError as error:
            raise ConfigurationError(
                f"{defaults!r} does not fit the tool {name!r}: {error}; or give this "
                "tool settings of its own, with @tool(...)"
            ) from None
        return other

    @property
    def signature(self) -> Signature | RawSignature:
        """The parameters, as JSON schema and as Python arguments."""
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
        """Its description for the model."""
        if self._spec is None:
            signature, options = self.signature, self._settings
            self._spec = ToolSpec(
                checked_name(options.name or signature.name),
                options.description or signature.description,
                signature.parameters,
            )
            self._check_process()
            if not self._spec.description:
                _warn_about(self.function, self._spec.name)
        return self._spec

    def _check_process(self) -> None:
        if self.runs_in_process:
            from .processes.call import find_target

            find_target(self.function)  # raises if a worker cannot import it

    @property
    def name(self) -> str:
        """Its name for the model."""
        return self.spec.name

    @property
    def runs_in_process(self) -> bool:
        """True if it runs in a worker process."""
        return self.isolation == "process" or self.on_cancel == "kill"

    @property
    def needs_thread(self) -> bool:
        """True if it cannot run on the run's own thread, even alone."""
        is_thread = self.isolation == "thread" and not self.runs_in_process
        return self.can_be_left or is_thread

    @property
    def can_be_left(self) -> bool:
        """True if its policy, or its timeout, may leave it behind on its thread."""
        has_limit = self.timeout is not None and not self.runs_in_process
        return self.on_cancel == "abandon" or has_limit

    def __call__(self, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
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
    max_result_bytes: int = MAX_RESULT_BYTES,
    max_abandoned: int = ...,
) -> Callable[[Callable[_P, _R]], Tool[_P, _R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    **settings: Unpack[NamedToolArguments],
) -> Any:
    """Make a tool of a function: ``@tool``, or ``@tool(timeout=10)``.

    Name, description and JSON schema come from the name, the signature, the type hints
    and the docstring (Google, NumPy or ``:param:`` style).

    :param name: replaces the function's.
    :param description: replaces the docstring's.
    :param parameters: a JSON schema that replaces the type hints; the function is then
        called with the model's arguments, by name.
    :param on_cancel: ``wait``: let it finish; it may check its
        :class:`~syncagent.tools.context.ToolContext` and stop by itself. ``abandon``:
        leave it behind on its thread after *grace* seconds. ``kill``: run it in a
        worker process, and kill that with everything it has started.
    :param grace: seconds between being told to stop and being left behind.
    :param timeout: seconds after which the run continues without it. A tool with a
        timeout runs on its own thread, unless it runs in a process.
    :param isolation: run it on its own ``thread`` or in a ``process``.
    :param requires_approval: ask before it is called; or a function of the arguments
        and the context that returns whether to ask, or the reason as a string.
    :param requires_auth: the provider whose credentials it needs, in
        ``ctx.credentials``. The user is asked for them once, and again if the tool
        raises :exc:`~syncagent.exceptions.AuthenticationFailed`.
    :param parallel: true if other tools may run at the same time.
    :param idempotent: true if calling it twice has the same effect as once. Then a
        call that was running when its process ended is made again by
        :meth:`syncagent.Agent.load`.
    :param result_limit: the number of characters of its result that the model gets.
    :param max_result_bytes: the largest result, pickled, that a worker process may send
        back; a larger one is an error of the tool.
    :param max_abandoned: refuse a call that might have to be left behind while so many
        threads of this process are (100); see :func:`syncagent.abandoned`.

    *on_cancel*, *grace*, *timeout*, *isolation* and *max_abandoned* come from the
    agent's :class:`~syncagent.ToolDefaults` where they are not given, as ``None`` is.

    :raises ConfigurationError: the function or a setting is invalid.
    """
    if function is not None:
        return Tool(function, **settings)
    return lambda decorated: Tool(decorated, **settings)


def as_tool(candidate: Any) -> AnyTool:
    """Return *candidate*, a tool, a function or an agent, as a tool.

    The same function always gives the same tool.

    :raises ConfigurationError: it is something else.
    """
    if isinstance(candidate, Tool):
        candidate.spec  # noqa: B018 - raises for a method that was never bound
        return candidate
    inner = getattr(candidate, "__func__", None)
    if isinstance(inner, Tool):  # a class method, since Python 3.13
        return as_tool(inner.__get__(candidate.__self__, None))
    make = getattr(candidate, "as_tool", None)
    if callable(make):
        made: AnyTool = make()
        return made
    if not callable(candidate):
        raise ConfigurationError(
            "tools must be functions, Tool objects, agents or tool sources; got "
            f"{candidate!r:.80}"
        )
    existing = getattr(candidate, "__dict__", {}).get(_ATTRIBUTE)
    if isinstance(existing, Tool) and existing.function is candidate:
        return existing
    tool: AnyTool = Tool(candidate)
    try:
        setattr(candidate, _ATTRIBUTE, tool)
    except AttributeError:  # a bound method, a builtin
        pass
    return tool


#: Functions without a docstring that the log has named: each bound method is a tool.
_warned: Final[set[str]] = set()


def _warn_about(function: Any, name: str) -> None:
    module = getattr(function, "__module__", None) or "__main__"
    place = f"{module}.{getattr(function, '__qualname__', name)}"
    if place not in _warned:
        _warned.add(place)
        _log.warning(
            "the tool %s (%s) has no docstring: the model sees only its name and its "
            "parameters. Write one, or pass description=",
            name,
            place,
        )


def _is_unbound_method(function: Any) -> bool:
    """True for a function in a class body that takes ``self`` or ``cls``."""
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", "")
    scope, _, _ = name.rpartition(".")
    in_class = bool(scope) and not scope.endswith("<locals>")
    names: tuple[str, ...] = () if code is None else code.co_varnames
    is_bound = hasattr(function, "__self__")
    return in_class and not is_bound and names[:1] in (("self",), ("cls",))
