"""What ``manage.py check`` says about the settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from django import conf
from django.core.checks import CheckMessage, Error, Warning
from django.urls import get_resolver

from ...exceptions import ConfigurationError
from ..web.settings import SHORTEST_TOKEN
from .conf import FUNCTIONS, DjangoSettings, get_views, read_settings

__all__ = ["check_settings"]

_URLS: Final = "syncagent.integrations.django.urls"
_OWNERS: Final = "syncagent.integrations.django.owners"
_CSRF: Final = "django.middleware.csrf.CsrfViewMiddleware"
_SESSIONS: Final = "django.contrib.sessions.middleware.SessionMiddleware"
_USERS: Final = "django.contrib.auth.middleware.AuthenticationMiddleware"
#: What is missing, and what to do.
_MISSING: Final = {
    "AGENT": (
        "E002",
        "there is no agent that could answer",
        "Set SYNCAGENT['AGENT'] to a function make_agent(request, wanted), or its "
        "dotted name, that returns an Agent.",
    ),
    "AUTHORIZE": (
        "E003",
        "nobody may see or end any run",
        "Set SYNCAGENT['AUTHORIZE'] to a function authorize(request, run) that returns "
        f"True for whom it is; '{_OWNERS}.is_of_user' is one.",
    ),
    "OWNER_OF": (
        "E004",
        "nobody may begin a run",
        "Set SYNCAGENT['OWNER_OF'] to a function owner_of(request) that returns whose "
        f"a new run is; '{_OWNERS}.user_of' is one.",
    ),
}


def check_settings(app_configs: Any, **said: Any) -> list[CheckMessage]:
    """Say what cannot work, and what is dangerous."""
    try:
        found = read_settings()
    except ConfigurationError as error:
        return [_error("E001", str(error))]
    functions = {name: getattr(found, name.lower()) for name in FUNCTIONS}
    messages = [*_dangers(found), *_needs_of_owners(functions)]
    if _is_served():
        missing = [name for name in FUNCTIONS if functions[name] is None]
        messages += [_error(*_MISSING[name]) for name in missing]
        messages += _csrf()
        if not missing:
            messages += _values()
    return messages


def _error(id: str, words: str, hint: str | None = None) -> Error:
    return Error(f"SYNCAGENT: {words}", hint=hint, id=f"syncagent.{id}")


def _is_served() -> bool:
    """Does the site include the endpoints?"""
    if getattr(conf.settings, "ROOT_URLCONF", None) is None:
        return False
    return _includes(get_resolver().url_patterns)


def _includes(patterns: Sequence[Any]) -> bool:
    return any(
        getattr(getattr(one, "urlconf_name", None), "__name__", None) == _URLS
        or getattr(one, "urlconf_name", None) == _URLS
        or _includes(getattr(one, "url_patterns", ()))
        for one in patterns
    )


def _values() -> Iterator[CheckMessage]:
    try:
        get_views()
    except ConfigurationError as error:
        yield _error("E005", str(error))


def _dangers(found: DjangoSettings) -> Iterator[CheckMessage]:
    token = found.operator_token
    if token is not None and len(token) < SHORTEST_TOKEN:
        yield _error(
            "E006",
            f"an OPERATOR_TOKEN of less than {SHORTEST_TOKEN} characters is none",
            'Make one: python -c "import secrets; print(secrets.token_urlsafe())"',
        )
    if found.timeout is None:
        yield Warning(
            "SYNCAGENT: TIMEOUT is None, so a run whose client has lost its power, or "
            "that nobody answers, never ends.",
            hint="Set it to a number of seconds, or leave it out: 600.",
            id="syncagent.W001",
        )


def _csrf() -> Iterator[CheckMessage]:
    if not _has_middleware(_CSRF):
        yield Warning(
            "SYNCAGENT: pages of other sites can begin, answer and end the runs of "
            "your users, as Django's CSRF protection is off.",
            hint=f"Add '{_CSRF}' to MIDDLEWARE.",
            id="syncagent.W002",
        )


def _has_middleware(wanted: str) -> bool:
    """Is it there, or one of a site's own that is called like it?"""
    ending = wanted.rpartition(".")[2]
    return any(str(name).endswith(ending) for name in conf.settings.MIDDLEWARE)


def _needs_of_owners(functions: dict[str, Any]) -> Iterator[CheckMessage]:
    """See that the requests will have what our own functions look at."""
    used = {
        getattr(function, "__name__", "")
        for function in functions.values()
        if getattr(function, "__module__", "") == _OWNERS
    }
    needs = {"user": _USERS, "session": _SESSIONS}
    for word, middleware in needs.items():
        name = next((name for name in sorted(used) if word in name), None)
        if name and not _has_middleware(middleware):
            yield _error(
                "E007",
                f"{name} looks at request.{word}, which no middleware sets",
                f"Add '{middleware}' to MIDDLEWARE.",
            )
    kinds = [word for word in needs if any(word in name for name in used)]
    if len(kinds) > 1:
        yield _error(
            "E008",
            "OWNER_OF and AUTHORIZE do not fit: one goes by users, one by sessions",
            "Take user_of with is_of_user, or session_of with is_of_session.",
        )
