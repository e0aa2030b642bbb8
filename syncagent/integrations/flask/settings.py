"""The settings of the extension, and its state in an application."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from flask import current_app, url_for

from ...exceptions import ConfigurationError
from ..web.operator import MIN_TOKEN_LENGTH
from ..web.runs import Runs
from ..web.settings import PREFIX, WebSettings
from ..web.stored_runs import StoredRuns
from ..web.views import Views

__all__ = ["ExtensionState", "FlaskSettings", "NAME", "find_state"]

#: The key in ``app.extensions``.
NAME: Final = "syncagent"


class FlaskSettings(WebSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings, as ``SYNCAGENT_...`` in ``app.config``, in upper case."""

    #: The header in which the page sends the application's CSRF token.
    csrf_header: str = "X-CSRFToken"
    #: The address of the server, for the commands.
    url: str = "http://127.0.0.1:5000"

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> FlaskSettings:
        """Read the settings from ``app.config``.

        :raises ConfigurationError: a setting is unknown or invalid.
        """
        values = {
            name[len(PREFIX) :].lower(): value
            for name, value in config.items()
            if name.startswith(PREFIX)
        }
        try:
            settings = msgspec.convert(values, cls, strict=True)
        except msgspec.ValidationError as error:
            known = ", ".join(PREFIX + name.upper() for name in cls.__struct_fields__)
            raise ConfigurationError(
                f"invalid SYNCAGENT_ setting in app.config: {error}; "
                f"the settings are {known}"
            ) from None
        token = settings.operator_token
        if token is not None and len(token) < MIN_TOKEN_LENGTH:
            raise ConfigurationError(
                f"SYNCAGENT_OPERATOR_TOKEN must have at least {MIN_TOKEN_LENGTH} "
                "characters; secrets.token_urlsafe() makes one"
            )
        return settings


class ExtensionState(msgspec.Struct, frozen=True):
    """The state of the extension in one application."""

    settings: FlaskSettings
    runs: Runs | StoredRuns
    views: Views | None
    csrf_token: Callable[[], str] | None
    #: True if the application defines who may see which run.
    has_authorize: bool
    #: Where users log in: a URL, or the name of an endpoint.
    login_url: str | None = None

    def find_login_url(self) -> str:
        """Return the URL of the login; an empty string if the application has none."""
        if self.login_url is None or "/" in self.login_url:
            return self.login_url or ""
        return url_for(self.login_url)


def find_state() -> ExtensionState:
    """Return the state of the current application.

    :raises ConfigurationError: the application has no SyncAgent.
    """
    state = current_app.extensions.get(NAME)
    if not isinstance(state, ExtensionState):
        raise ConfigurationError(
            "this application has no SyncAgent: call init_app(app) first"
        )
    return state
