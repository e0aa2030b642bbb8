"""Checks of the settings, for ``manage.py check``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from django import conf
from django.apps import apps
from django.core.checks import CheckMessage, Error, Warning
from django.db import router
from django.shortcuts import resolve_url
from django.urls import (
    NoReverseMatch,
    get_resolver,
    get_script_prefix,
    is_valid_path,
)
from django.utils.translation import get_language

from ...exceptions import ConfigurationError
from ..web.deployment import SEVERAL_PROCESSES, count_configured_workers
from ..web.operator import MIN_TOKEN_LENGTH
from .conf import FUNCTIONS, get_views, read_settings, store_database

__all__ = ["check_settings"]

_URLS: Final = "syncagent.integrations.django.urls"
_OWNERS: Final = "syncagent.integrations.django.owners"
_CSRF: Final = "django.middleware.csrf.CsrfViewMiddleware"
_SESSIONS: Final = "django.contrib.sessions.middleware.SessionMiddleware"
_LOCALES: Final = "django.middleware.locale.LocaleMiddleware"
_USERS: Final = "django.contrib.auth.middleware.AuthenticationMiddleware"
#: Errors for missing settings: id, message, hint.
_MISSING: Final = {
    "AGENT": (
        "E002",
        "AGENT is missing",
        "Set SYNCAGENT['AGENT'] to a function make_agent(request, start), or its "
        "dotted name, that returns an Agent. With STORE it is make_agent(run).",
    ),
    "AUTHORIZE": (
        "E003",
        "AUTHORIZE is missing, so every request is refused",
        "Set SYNCAGENT['AUTHORIZE'] to a function authorize(request, run) that returns "
        f"True if the client may see the run; '{_OWNERS}.is_of_user' is one.",
    ),
    "OWNER_OF": (
        "E004",
        "OWNER_OF is missing, so no run can be started",
        "Set SYNCAGENT['OWNER_OF'] to a function owner_of(request) that returns the "
        f"owner of a new run; '{_OWNERS}.user_of' is one.",
    ),
}


def check_settings(app_configs: Any, **options: Any) -> list[CheckMessage]:
    """Return errors and warnings about the settings."""
    try:
        settings = read_settings()
    except ConfigurationError as error:
        return [_error("E001", str(error))]
    functions = {name: getattr(settings, name.lower()) for name in FUNCTIONS}
    messages: list[CheckMessage] = []
    token = settings.operator_token
    if token is not None and len(token) < MIN_TOKEN_LENGTH:
        messages.append(
            _error(
                "E006",
                f"OPERATOR_TOKEN has fewer than {MIN_TOKEN_LENGTH} characters and is "
                "ignored",
                'Make one: python -c "import secrets; print(secrets.token_urlsafe())"',
            )
        )
    if settings.timeout is None:
        messages.append(
            Warning(
                "SYNCAGENT: TIMEOUT is None, so a run never ends if its client loses "
                "power or its questions are not answered.",
                hint="Set TIMEOUT to a number of seconds, or remove it for the "
                "default, 600.",
                id="syncagent.W001",
            )
        )
    messages += _check_owner_functions(functions)
    has_urlconf = getattr(conf.settings, "ROOT_URLCONF", None) is not None
    if has_urlconf and _includes_endpoints(get_resolver().url_patterns):
        if settings.store is not None and not isinstance(settings.store, str):
            del functions["AGENT"]  # a RunStore has its own
        messages += _check_site(functions, has_store=settings.store is not None)
    elif settings.store is not None and apps.is_installed("django.contrib.admin"):
        messages += _check_views()
    if not any(message.is_serious() for message in messages):
        messages += _check_tables()
    return messages


def _error(id: str, message: str, hint: str | None = None) -> Error:
    return Error(f"SYNCAGENT: {message}", hint=hint, id=f"syncagent.{id}")


def _includes_endpoints(patterns: Sequence[Any]) -> bool:
    return any(
        getattr(getattr(each, "urlconf_name", None), "__name__", None) == _URLS
        or getattr(each, "urlconf_name", None) == _URLS
        or _includes_endpoints(getattr(each, "url_patterns", ()))
        for each in patterns
    )


def _check_site(
    functions: dict[str, Any], *, has_store: bool
) -> Iterator[CheckMessage]:
    """Check a site that includes the endpoints."""
    missing = [name for name, function in functions.items() if function is None]
    for name in missing:
        yield _error(*_MISSING[name])
    if not _has_middleware(_CSRF):
        yield Warning(
            "SYNCAGENT: Django's CSRF protection is off, so pages of other sites can "
            "start, answer and cancel the runs of your users.",
            hint=f"Add '{_CSRF}' to MIDDLEWARE.",
            id="syncagent.W002",
        )
    workers = count_configured_workers()
    if workers > 1 and not has_store:
        yield Warning(
            f"SYNCAGENT: the environment sets {workers} workers, and "
            f"{SEVERAL_PROCESSES}.",
            hint="Set SYNCAGENT['STORE'], such as 'django:default', or set "
            "WEB_CONCURRENCY=1 and give the worker threads.",
            id="syncagent.W003",
        )
    if not missing:
        yield from _check_views()
        yield from _check_login(functions["OWNER_OF"])


def _check_login(owner_of: Any) -> Iterator[CheckMessage]:
    """Check that the page, which sends visitors to LOGIN_URL, sends them somewhere."""
    uses_sessions = _is_ours(owner_of) and "session" in owner_of.__name__
    if uses_sessions or not _has_middleware(_USERS):
        return
    given = conf.settings.LOGIN_URL
    try:
        address = urlsplit(str(resolve_url(given)))
        is_found = bool(address.netloc) or _leads_to_a_view(address.path)
    except NoReverseMatch:
        is_found = False
    if not is_found:
        yield Warning(
            f"SYNCAGENT: the page sends visitors to LOGIN_URL, {str(given)!r}, and no "
            "URL pattern of the site matches it.",
            hint="Set LOGIN_URL: 'admin:login' is the login of the admin, if its URLs "
            "are included, and 'login' that of django.contrib.auth.urls.",
            id="syncagent.W005",
        )


def _leads_to_a_view(path: str) -> bool:
    """True if a request for *path* reaches a view, perhaps after a redirect."""
    root = get_script_prefix().rstrip("/")
    path = path.removeprefix(root)
    found = [path]
    if conf.settings.APPEND_SLASH:
        found.append(f"{path}/")
    if _has_middleware(_LOCALES):
        found += [f"/{get_language()}{each}" for each in found]
    return any(map(is_valid_path, found))


def _check_views() -> Iterator[CheckMessage]:
    """Check that the endpoints, or the admin, can use the settings."""
    try:
        get_views()
    except ConfigurationError as error:
        yield _error("E005", str(error))


def _check_tables() -> Iterator[CheckMessage]:
    """Check that ``manage.py migrate`` makes the tables of the store."""
    try:
        alias = store_database()
    except ConfigurationError:  # the endpoints are not included, nor is the admin
        return
    if alias is not None and not router.allow_migrate(alias, "syncagent"):
        yield Warning(
            f"SYNCAGENT: STORE is 'django:{alias}', and a router in DATABASE_ROUTERS "
            "keeps manage.py migrate from making its tables there.",
            hint="Let allow_migrate() return True for app_label 'syncagent' in this "
            "database, or call manage.py syncagent store migrate with each update.",
            id="syncagent.W004",
        )


def _has_middleware(name: str) -> bool:
    """True for the middleware itself, and for a site's own of the same class name."""
    ending = name.rpartition(".")[2]
    return any(str(each).endswith(ending) for each in conf.settings.MIDDLEWARE)


def _is_ours(function: Any) -> bool:
    return getattr(function, "__module__", "") == _OWNERS


def _check_owner_functions(functions: dict[str, Any]) -> Iterator[CheckMessage]:
    """Check that requests have the attributes that the functions of ``owners`` read."""
    used = {
        getattr(function, "__name__", "")
        for function in functions.values()
        if _is_ours(function)
    }
    needs = {"user": _USERS, "session": _SESSIONS}
    for word, middleware in needs.items():
        name = next((name for name in sorted(used) if word in name), None)
        if name and not _has_middleware(middleware):
            yield _error(
                "E007",
                f"{name} reads request.{word}, which no middleware sets",
                f"Add '{middleware}' to MIDDLEWARE.",
            )
    kinds = [word for word in needs if any(word in name for name in used)]
    if len(kinds) > 1:
        yield _error(
            "E008",
            "OWNER_OF and AUTHORIZE do not match: one uses users, the other sessions",
            "Use user_of with is_of_user, or session_of with is_of_session.",
        )
