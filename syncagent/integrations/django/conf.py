"""The ``SYNCAGENT`` settings, and the views made from them."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec
from django import conf
from django.utils.module_loading import import_string

from ...exceptions import ConfigurationError
from ...stores import RunStore
from ..web.followed import FollowedRun
from ..web.runs import Runs
from ..web.settings import PREFIX, WebSettings, find_store
from ..web.stored_runs import StoredRuns
from ..web.views import Views
from .databases import store_url

__all__ = [
    "DjangoSettings",
    "FUNCTIONS",
    "OPERATOR",
    "forget_views",
    "get_runs",
    "get_store",
    "get_views",
    "open_store",
    "read_settings",
    "store_database",
]

#: Takes the place of the request of an operator, who may see all runs.
OPERATOR: Final = object()
#: The beginning of a ``STORE`` that is in a database of the site.
_DJANGO: Final = "django:"
#: The settings that are functions, and that a site with endpoints needs.
FUNCTIONS: Final = ("AGENT", "AUTHORIZE", "OWNER_OF")


class DjangoSettings(
    WebSettings, frozen=True, forbid_unknown_fields=True, kw_only=True
):
    """The settings, in upper case in ``SYNCAGENT``, or each as ``SYNCAGENT_...``."""

    #: Returns the agent for a request; called with it and a ``StartRequest``. With
    #: ``STORE`` it is called without a request, with a ``StoredRun``.
    agent: Any = None
    #: Returns True if a request may see, answer and cancel a run. Required.
    authorize: Any = None
    #: Returns the owner of the run a request starts, or None to refuse it. Required.
    owner_of: Any = None
    #: Returns the people and groups that the person behind a request answers for, as
    #: the ``approver_of`` of the store names them; by default only the owner.
    approvers_of: Any = None
    #: Hands a run of the store to an engine, such as ``django.tasks``.
    enqueue: Any = None
    #: The address of the endpoints, for the commands.
    url: str = ""


def read_settings() -> DjangoSettings:
    """Read the settings, and import functions that are given by name.

    :raises ConfigurationError: a setting is unknown or invalid.
    """
    values = {name.lower(): value for name, value in _collect_values().items()}
    for name in (*FUNCTIONS, "APPROVERS_OF", "ENQUEUE"):
        function = values.get(name.lower())
        if isinstance(function, str):
            try:
                function = import_string(function)
            except ImportError as error:
                raise ConfigurationError(
                    f"SYNCAGENT[{name!r}] cannot be imported: {error}"
                ) from error
        if function is not None and not callable(function):
            raise ConfigurationError(
                f"SYNCAGENT[{name!r}] must be a function or its dotted name; got "
                f"{function!r:.80}"
            )
        values[name.lower()] = function
    try:
        settings = msgspec.convert(values, DjangoSettings, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"invalid SYNCAGENT setting: {error}") from None
    if isinstance(settings.suggestions, str):
        raise ConfigurationError(
            "SYNCAGENT['SUGGESTIONS'] must be a list; got a single string"
        )
    return settings


def _collect_values() -> dict[str, Any]:
    """Return the values of ``SYNCAGENT`` and of all ``SYNCAGENT_...``."""
    values = getattr(conf.settings, "SYNCAGENT", {})
    if not isinstance(values, Mapping):
        raise ConfigurationError(f"SYNCAGENT must be a dict; got {values!r:.80}")
    single = {
        name.removeprefix(PREFIX): getattr(conf.settings, name)
        for name in dir(conf.settings)
        if name.startswith(PREFIX)
    }
    twice = sorted(values.keys() & single.keys())
    if twice:
        raise ConfigurationError(
            f"{twice[0]} is set both in SYNCAGENT and as {PREFIX}{twice[0]}; keep one"
        )
    known = [name.upper() for name in DjangoSettings.__struct_fields__]
    for name in (*values, *single):
        if name not in known:
            near = difflib.get_close_matches(str(name).upper(), known, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise ConfigurationError(f"SYNCAGENT has no setting {name!r}.{hint}")
    return {**values, **single}


#: Two requests may need the views for the first time at the same moment.
_lock: Final = threading.Lock()


def get_views() -> Views:
    """Return the views of this process, made from the settings when first needed.

    :raises ConfigurationError: a setting is invalid; ``manage.py check`` says more.
    """
    with _lock:
        return _views()


def get_runs() -> Runs | StoredRuns:
    """Return the runs of this process or of the store, for views of your own.

    :raises ConfigurationError: a setting is invalid; ``manage.py check`` says more.
    """
    runs: Any = get_views().runs
    return runs  # type: ignore[no-any-return]


def get_store() -> RunStore:
    """Return the store of the site, for views of your own.

    :raises ConfigurationError: the site has none, or a setting is invalid.
    """
    if read_settings().store is None:
        raise ConfigurationError(
            "the site has no store of runs: set SYNCAGENT['STORE'], such as "
            "'django:default'"
        )
    store: RunStore = getattr(get_runs(), "store")  # noqa: B009
    return store


def store_database() -> str | None:
    """Return the database of the site that has the tables of the store.

    :return: ``None`` if they are elsewhere: there is no store, it is named by a URL, or
        it is in a file of its own beside one of SQLite.
    :raises ConfigurationError: there is no such database.
    """
    store = read_settings().store
    if not isinstance(store, str) or not store.startswith(_DJANGO):
        return None
    alias = store.removeprefix(_DJANGO)
    return alias if store_url(alias).startswith("postgresql:") else None


def open_store() -> None:
    """Make the runs, if they are in a store, so that a worker can open it."""
    if read_settings().store is not None:
        get_views()


@cache
def _views() -> Views:
    settings = read_settings()
    store = settings.store
    if isinstance(store, str) and store.startswith(_DJANGO):
        store = store_url(store.removeprefix(_DJANGO))
    store = find_store(
        store, settings.agent, "SYNCAGENT['STORE']", enqueue=settings.enqueue
    )
    if store is None and settings.agent is None:
        raise ConfigurationError(
            "SYNCAGENT['AGENT'] is missing: set it to a function(request, start) that "
            "returns the agent, or to its dotted name"
        )
    authorize = settings.authorize

    def may_see(request: Any, run: FollowedRun) -> bool:
        return True if request is OPERATOR else authorize(request, run)

    runs = settings.make_runs(None if authorize is None else may_see, store)
    trusted_origins = (*settings.trusted_origins, *conf.settings.CSRF_TRUSTED_ORIGINS)
    return Views(
        runs,
        settings.agent if store is None else None,
        owner_of=settings.owner_of,
        approvers_of=settings.approvers_of,
        max_body=settings.max_body,
        trusted_origins=trusted_origins,
    )


def forget_views(*, setting: str, **options: Any) -> None:
    """Make new views after a test has changed the settings; live runs continue."""
    if setting.startswith("SYNCAGENT"):
        _views.cache_clear()
