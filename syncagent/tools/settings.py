"""The settings of a tool."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, get_args

import msgspec

from .._checks import check_number
from ..exceptions import ConfigurationError
from .context import ToolContext
from .results import RESULT_LIMIT

__all__ = [
    "Isolation",
    "MAX_ABANDONED",
    "MAX_RESULT_BYTES",
    "NeedsApproval",
    "OnCancel",
    "ToolDefaults",
    "ToolSettings",
    "checked_name",
]

OnCancel = Literal["wait", "abandon", "kill"]
Isolation = Literal["thread", "process"]
#: Whether a call needs approval: a boolean, or a function of the arguments and the
#: context. A string means yes, and is the reason shown in the question.
NeedsApproval = bool | Callable[[dict[str, Any], ToolContext], bool | str]

#: Threads of the process that may be left behind before calls are refused that might
#: add to them.
MAX_ABANDONED: Final = 100
#: Bytes of the largest result that a worker process may send back.
MAX_RESULT_BYTES: Final = 1 << 30

#: The names of tools that every provider accepts.
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")


class ToolDefaults(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Settings for those tools of an agent that say nothing themselves.

    They count one by one: a tool with a ``timeout`` of its own may take its
    ``on_cancel`` from here. A tool with ``on_cancel="kill"`` or ``isolation="process"``
    has decided both: it runs in a process.

    :raises ConfigurationError: a setting has an invalid value.
    """

    #: ``wait``, ``abandon`` or ``kill``, as for :func:`syncagent.tool`.
    on_cancel: OnCancel | None = None
    #: Seconds between being told to stop and being left behind.
    grace: float | None = None
    #: Seconds after which a run continues without a tool.
    timeout: float | None = None
    #: ``thread`` or ``process``.
    isolation: Isolation | None = None
    #: How many threads of this process may be left behind before calls are refused.
    max_abandoned: int | None = None

    def __post_init__(self) -> None:
        _check_stopping(self)


class ToolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a tool; :func:`syncagent.tool` documents them.

    :raises ConfigurationError: a setting has an invalid value.
    """

    name: str | None = None
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    on_cancel: OnCancel | msgspec.UnsetType | None = msgspec.UNSET
    grace: float | msgspec.UnsetType = msgspec.UNSET
    timeout: float | msgspec.UnsetType | None = msgspec.UNSET
    isolation: Isolation | msgspec.UnsetType | None = msgspec.UNSET
    max_abandoned: int | msgspec.UnsetType = msgspec.UNSET
    requires_approval: NeedsApproval = False
    requires_auth: str | None = None
    parallel: bool = True
    idempotent: bool = False
    result_limit: int = RESULT_LIMIT
    max_result_bytes: int = MAX_RESULT_BYTES

    def __post_init__(self) -> None:
        _check_stopping(self)
        for name in ("name", "description", "requires_auth"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise _wrong(name, "a string", value)
        for name in ("parallel", "idempotent"):
            if not isinstance(getattr(self, name), bool):
                raise _wrong(name, "True or False", getattr(self, name))
        check_number(
            "result_limit", self.result_limit, is_integer=True, unit="characters"
        )
        check_number(
            "max_result_bytes", self.max_result_bytes, is_integer=True, unit="bytes"
        )
        policy: Any = self.requires_approval
        if isinstance(policy, bool):
            return
        if not callable(policy):
            raise _wrong("requires_approval", "True, False or a function", policy)
        try:
            inspect.signature(policy).bind({}, None)
        except TypeError:
            kind = "a function of the arguments and the context"
            raise _wrong("requires_approval", kind, policy) from None
        except ValueError:  # a builtin without a signature
            pass

    def with_defaults(self, defaults: ToolDefaults) -> ToolSettings:
        """Return these settings, with *defaults* where they say nothing.

        :raises ConfigurationError: the two contradict each other.
        """
        has_process = self.on_cancel == "kill" or self.isolation == "process"
        where = ("on_cancel", "isolation")
        changes = {
            name: value
            for name, value in msgspec.structs.asdict(defaults).items()
            if value is not None and getattr(self, name) is msgspec.UNSET
            if not (has_process and name in where)
        }
        return msgspec.structs.replace(self, **changes) if changes else self


def _check_stopping(settings: ToolDefaults | ToolSettings) -> None:
    """Check the settings that say how a tool is stopped."""
    on_cancel, isolation = settings.on_cancel, settings.isolation
    nothing = (None, msgspec.UNSET)
    if on_cancel not in (*nothing, *get_args(OnCancel)):
        raise _wrong("on_cancel", "one of wait, abandon, kill", on_cancel)
    if isolation not in (*nothing, *get_args(Isolation)):
        raise _wrong("isolation", "None, 'thread' or 'process'", isolation)
    if on_cancel == "kill" and isolation == "thread":
        raise ConfigurationError(
            "on_cancel='kill' cannot stop a thread; use isolation='process', or "
            "on_cancel='abandon'"
        )
    if settings.grace is not msgspec.UNSET:
        has_none = isinstance(settings, ToolDefaults)
        check_number("grace", settings.grace, allow_none=has_none, unit="seconds")
    if settings.max_abandoned is not msgspec.UNSET:
        check_number(
            *("max_abandoned", settings.max_abandoned),
            allow_none=isinstance(settings, ToolDefaults),
            is_integer=True,
            unit="threads",
        )
    if settings.timeout is not msgspec.UNSET:
        check_number(
            *("timeout", settings.timeout),
            is_positive=True,
            allow_none=True,
            unit="seconds",
        )


def checked_name(name: str) -> str:
    """Return *name* if every provider accepts it as the name of a tool.

    :raises ConfigurationError: it is not accepted.
    """
    if not _NAME.match(name):
        raise ConfigurationError(
            f"{name!r} is not a valid name for a tool; use at most 64 letters, digits, "
            "_ and -, for example with name='...'"
        )
    return name


def _wrong(name: str, kind: str, value: object) -> ConfigurationError:
    return ConfigurationError(f"{name} must be {kind}; got {value!r:.80}")
