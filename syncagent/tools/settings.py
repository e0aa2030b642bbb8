"""How a tool is to be called."""

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

__all__ = ["Isolation", "NeedsApproval", "OnCancel", "ToolSettings", "checked_name"]

OnCancel = Literal["wait", "abandon", "kill"]
Isolation = Literal["thread", "process"]
#: Is it to be approved? Given the arguments and the context, or known beforehand. Words
#: are a yes, and tell whoever is asked why.
NeedsApproval = bool | Callable[[dict[str, Any], ToolContext], bool | str]

#: What every provider takes for the name of a tool.
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")


class ToolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a tool is to be called; :func:`syncagent.tool` says what each of it means.

    :raises ConfigurationError: something of it cannot be.
    """

    name: str | None = None
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    on_cancel: OnCancel | None = None
    grace: float = 2.0
    timeout: float | None = None
    isolation: Isolation | None = None
    requires_approval: NeedsApproval = False
    requires_auth: str | None = None
    parallel: bool = True
    idempotent: bool = False
    result_limit: int = RESULT_LIMIT

    def __post_init__(self) -> None:
        if self.on_cancel not in (None, *get_args(OnCancel)):
            raise _wrong("on_cancel", "one of wait, abandon, kill", self.on_cancel)
        if self.isolation not in (None, *get_args(Isolation)):
            raise _wrong("isolation", "None, 'thread' or 'process'", self.isolation)
        if self.on_cancel == "kill" and self.isolation == "thread":
            raise ConfigurationError(
                "a thread cannot be killed; use isolation='process', or "
                "on_cancel='abandon'"
            )
        for name in ("name", "description", "requires_auth"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise _wrong(name, "a string", value)
        for name in ("parallel", "idempotent"):
            if not isinstance(getattr(self, name), bool):
                raise _wrong(name, "True or False", getattr(self, name))
        check_number("grace", self.grace, unit="seconds")
        check_number(
            "timeout", self.timeout, is_positive=True, allow_none=True, unit="seconds"
        )
        check_number(
            "result_limit", self.result_limit, is_integer=True, unit="characters"
        )
        _check_approval(self.requires_approval)


def checked_name(name: str) -> str:
    """Return *name*, if providers take it for that of a tool.

    :raises ConfigurationError: they do not.
    """
    if not _NAME.match(name):
        raise ConfigurationError(
            f"no provider takes {name!r} for the name of a tool; use letters, digits, "
            "_ and -, at most 64, for example with name='...'"
        )
    return name


def _check_approval(needs: Any) -> None:
    if isinstance(needs, bool):
        return
    if not callable(needs):
        raise _wrong("requires_approval", "True, False or a function", needs)
    try:
        inspect.signature(needs).bind({}, None)
    except TypeError:
        what = "a function of the arguments and the context"
        raise _wrong("requires_approval", what, needs) from None
    except ValueError:  # a builtin: nobody knows
        pass


def _wrong(name: str, what: str, value: object) -> ConfigurationError:
    return ConfigurationError(f"{name} is {what}; got {value!r:.80}")
