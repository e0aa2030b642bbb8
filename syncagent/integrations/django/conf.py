"""``SYNCAGENT`` of the settings, and what is made of it."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import msgspec
from django import conf
from django.utils.module_loading import import_string

from ...exceptions import ConfigurationError
from ..web.runs import Runs
from ..web.settings import PREFIX, WebSettings
from ..web.views import Views
from ..web.web_run import WebRun

__all__ = [
    "FUNCTIONS",
    "OPERATOR",
    "DjangoSettings",
    "forget_views",
    "get_runs",
    "get_views",
    "read_settings",
]

#: Stands for the request of somebody who has the token of the site.
OPERATOR: Final = object()
#: Those that are functions.
FUNCTIONS: Final = ("AGENT", "AUTHORIZE", "OWNER_OF")

#: A function; in the settings, it or its dotted name.
_Function = Callable[..., Any] | None


class DjangoSettings(
    WebSettings, frozen=True, forbid_unknown_fields=True, kw_only=True
):
    """What there is to set, in upper case, in ``SYNCAGENT`` or as ``SYNCAGENT_...``."""

    #: Returns the agent that a request is for, given it and what is wanted.
    agent: Any = None
    #: Tells whether a request may see, answer and end a run. Without it nobody may.
    authorize: Any = None
    #: Returns whose a run is that a request begins. Without it nobody may begin one.
    owner_of: Any = None
    #: Where the server has the endpoints, for the commands.
    url: str = ""


def read_settings() -> DjangoSettings:
    """Return what the settings say, with functions in place of their names.

    :raises ConfigurationError: something in it cannot be.
    """
    given = {name.lower(): value for name, value in _given().items()}
    for name in map(str.lower, FUNCTIONS):
        given[name] = _find_function(name.upper(), given.get(name))
    try:
        settings = msgspec.convert(given, DjangoSettings, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"SYNCAGENT has what cannot be: {error}") from None
    if isinstance(settings.suggestions, str):
        raise ConfigurationError("SYNCAGENT['SUGGESTIONS'] is a list; got one string")
    return settings


def _given() -> dict[str, Any]:
    given = getattr(conf.settings, "SYNCAGENT", {})
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"SYNCAGENT is a dict; got {given!r:.80}")
    single = {
        name.removeprefix(PREFIX): getattr(conf.settings, name)
        for name in dir(conf.settings)
        if name.startswith(PREFIX)
    }
    twice = sorted(given.keys() & single.keys())
    if twice:
        raise ConfigurationError(
            f"{twice[0]} is both in SYNCAGENT and in {PREFIX}{twice[0]}; keep one"
        )
    known = [name.upper() for name in DjangoSettings.__struct_fields__]
    for name in (*given, *single):
        if name not in known:
            near = difflib.get_close_matches(str(name).upper(), known, 1)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise ConfigurationError(f"SYNCAGENT has no setting {name!r}.{meant}")
    return {**given, **single}


def _find_function(name: str, value: Any) -> _Function:
    """Return the function that a setting is, or names."""
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
    found: _Function = value
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
    settings = read_settings()
    if settings.agent is None:
        raise ConfigurationError(
            "SYNCAGENT['AGENT'] is missing: a function of request and what is wanted, "
            "or its dotted name, that returns the agent"
        )
    authorize = settings.authorize
    runs = settings.make_runs(None if authorize is None else _also_operators(authorize))
    return Views(
        runs, settings.agent, owner_of=settings.owner_of, max_body=settings.max_body
    )


def _also_operators(authorize: Callable[..., Any]) -> Callable[[Any, WebRun], bool]:
    def may_see(request: Any, run: WebRun) -> bool:
        return request is OPERATOR or authorize(request, run) is True

    return may_see


def forget_views(*, setting: str, **said: Any) -> None:
    """Make them anew when a test changes the settings; runs go on that are live."""
    if setting.startswith("SYNCAGENT"):
        _views.cache_clear()
