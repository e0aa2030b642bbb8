"""``SYNCAGENT`` of the settings, and what is made of it."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from django import conf
from django.utils.module_loading import import_string

from ...exceptions import ConfigurationError
from ..runs import Runs
from ..views import Views
from ..web_run import WebRun

__all__ = [
    "FUNCTIONS",
    "NUMBERS",
    "OPERATOR",
    "find_function",
    "forget_views",
    "get_runs",
    "get_views",
    "read_settings",
]

#: Stands for the request of somebody who has the token of the site.
OPERATOR: Final = object()
#: Functions, or the dotted names of some.
FUNCTIONS: Final = ("AGENT", "AUTHORIZE", "OWNER_OF")
#: Arguments of :class:`~syncagent.integrations.runs.Runs`, and of the views.
NUMBERS: Final = (
    *("BUFFER", "GRACE", "HEARTBEAT", "KEEP", "MAX_BODY", "MOST_FINISHED"),
    *("MOST_LIVE", "MOST_PER_OWNER", "TIMEOUT"),
)
_WORDS: Final = ("ON_DISCONNECT", "PAGE_TITLE", "TOKEN", "URL")
_ALL: Final = (*FUNCTIONS, *NUMBERS, *_WORDS)
_PREFIX: Final = "SYNCAGENT_"


def read_settings() -> dict[str, Any]:
    """Return what the settings say, from ``SYNCAGENT`` and from ``SYNCAGENT_*``.

    :raises ConfigurationError: something in it is not known, or said twice.
    """
    given = getattr(conf.settings, "SYNCAGENT", {})
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"SYNCAGENT is a dict; got {given!r:.80}")
    single = {
        name.removeprefix(_PREFIX): getattr(conf.settings, name)
        for name in dir(conf.settings)
        if name.startswith(_PREFIX)
    }
    twice = sorted(given.keys() & single.keys())
    if twice:
        raise ConfigurationError(
            f"{twice[0]} is both in SYNCAGENT and in {_PREFIX}{twice[0]}; keep one"
        )
    found = {**given, **single}
    for name in found:
        if name not in _ALL:
            near = difflib.get_close_matches(str(name).upper(), _ALL, 1)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise ConfigurationError(f"SYNCAGENT has no setting {name!r}.{meant}")
    return found


def find_function(name: str, value: Any) -> Callable[..., Any] | None:
    """Return the function that a setting names.

    :raises ConfigurationError: it names none.
    """
    if isinstance(value, str):
        try:
            value = import_string(value)
        except ImportError as error:
            raise ConfigurationError(
                f"SYNCAGENT[{name!r}] cannot be imported: {error}"
            ) from error
    if value is not None and not callable(value):
        raise ConfigurationError(
            f"SYNCAGENT[{name!r}] is a function, or the dotted name of one; got "
            f"{value!r:.80}"
        )
    found: Callable[..., Any] | None = value
    return found


#: Two requests may be the first.
_lock: Final = threading.Lock()


def get_views() -> Views:
    """Return the endpoints of this process, made from the settings when first needed.

    :raises ConfigurationError: the settings cannot work; ``manage.py check`` says more.
    """
    with _lock:
        return _views()


def get_runs() -> Runs:
    """Return the runs of this process, to begin or to find some in views of your own.

    :raises ConfigurationError: the settings cannot work; ``manage.py check`` says more.
    """
    return get_views().runs


@cache
def _views() -> Views:
    found = read_settings()
    make_agent, authorize, owner_of = (
        find_function(name, found.get(name)) for name in FUNCTIONS
    )
    if make_agent is None:
        raise ConfigurationError(
            "SYNCAGENT['AGENT'] is missing: a function of request and what is wanted, "
            "or its dotted name, that returns the agent"
        )
    more = {"max_body": found["MAX_BODY"]} if "MAX_BODY" in found else {}
    names = [name for name in (*NUMBERS, "ON_DISCONNECT") if name != "MAX_BODY"]
    runs = Runs(
        authorize and _also_operators(authorize),
        **{name.lower(): found[name] for name in names if name in found},
    )
    return Views(runs, make_agent, owner_of=owner_of, **more)


def _also_operators(authorize: Callable[..., Any]) -> Callable[[Any, WebRun], bool]:
    def may_see(request: Any, run: WebRun) -> bool:
        return request is OPERATOR or authorize(request, run) is True

    return may_see


def forget_views(*, setting: str, **said: Any) -> None:
    """Make them anew when a test changes the settings; runs go on that are live."""
    if setting.startswith("SYNCAGENT"):
        _views.cache_clear()
