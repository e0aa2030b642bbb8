"""What there is to set, and what an application has of the extension."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from flask import current_app

from ...exceptions import ConfigurationError
from ..web.runs import Runs
from ..web.settings import PREFIX, SHORTEST_TOKEN, WebSettings
from ..web.views import Views

__all__ = ["NAME", "FlaskSettings", "ExtensionState", "find_state", "is_operator"]

#: Under which an application keeps it in its ``extensions``.
NAME: Final = "syncagent"


class FlaskSettings(WebSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What there is to set, as ``SYNCAGENT_...`` in ``app.config``, in upper case."""

    #: The header in which the page sends the CSRF token of the application.
    csrf_header: str = "X-CSRFToken"
    #: Where the server is, for the commands.
    url: str = "http://127.0.0.1:5000"

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> FlaskSettings:
        """Return what ``app.config`` says.

        :raises ConfigurationError: there is no such setting, or it cannot be that.
        """
        given = {
            name[len(PREFIX) :].lower(): value
            for name, value in config.items()
            if name.startswith(PREFIX)
        }
        try:
            settings = msgspec.convert(given, cls, strict=True)
        except msgspec.ValidationError as error:
            known = ", ".join(PREFIX + name.upper() for name in cls.__struct_fields__)
            raise ConfigurationError(
                f"app.config has a SYNCAGENT_ setting that does not work: {error}; "
                f"there are {known}"
            ) from None
        token = settings.operator_token
        if token is not None and len(token) < SHORTEST_TOKEN:
            raise ConfigurationError(
                "SYNCAGENT_OPERATOR_TOKEN has to have 16 characters or more, such as "
                "secrets.token_urlsafe() gives"
            )
        return settings


class ExtensionState(msgspec.Struct, frozen=True):
    """What one application has of the extension."""

    settings: FlaskSettings
    runs: Runs
    views: Views | None
    csrf_token: Callable[[], str] | None
    #: Does the application say who may see which run?
    has_authorize: bool


def is_operator(request: Any, token: str | None) -> bool:
    """Does a request of Flask have the token of the operator, if there is one?"""
    if token is None:
        return False
    given = request.headers.get("Authorization", "").encode(errors="replace")
    return hmac.compare_digest(given, f"Bearer {token}".encode())


def find_state() -> ExtensionState:
    """Return what the current application has.

    :raises ConfigurationError: it has nothing.
    """
    state = current_app.extensions.get(NAME)
    if not isinstance(state, ExtensionState):
        raise ConfigurationError(
            "this application has no SyncAgent: call init_app(app) first"
        )
    return state
