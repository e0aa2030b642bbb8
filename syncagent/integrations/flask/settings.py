"""What there is to set, and what an application has of the extension."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
from flask import current_app

from ...exceptions import ConfigurationError
from ..page import GREETING, TITLE
from ..recordings import RECORDING
from ..runs import Runs
from ..sse import HEARTBEAT
from ..views import MAX_BODY, Views
from ..web_run import OnDisconnect

__all__ = ["NAME", "Settings", "State", "find_state", "is_operator"]

#: Under which an application keeps it in its ``extensions``.
NAME: Final = "syncagent"
_PREFIX: Final = "SYNCAGENT_"
_SHORTEST_TOKEN: Final = 16


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What there is to set, as ``SYNCAGENT_...`` in ``app.config``, in upper case."""

    #: What becomes of a run when the last who followed it has gone.
    on_disconnect: OnDisconnect = "cancel"
    #: Seconds that somebody has to come back before that, as after a reload.
    grace: float = 5.0
    #: Seconds after which a run is cancelled in any case.
    timeout: float | None = 600.0
    #: Seconds for which finished runs can still be asked for, and how many of them.
    keep: float = 300.0
    most_finished: int = 100
    #: How many runs may be live at once, in all and of one owner.
    most_live: int = 200
    most_per_owner: int = 20
    #: How many events of each run are kept for whoever comes back.
    buffer: int = 4096
    #: Seconds of silence after which a stream sends a comment.
    heartbeat: float = HEARTBEAT
    #: Bytes that are recorded of each run, for its timeline; 0 is none.
    recording: int = RECORDING
    #: May whoever follows a run see what its tools raise? The model does.
    show_tool_errors: bool = False
    #: The largest body that is accepted, in bytes.
    max_body: int = MAX_BODY
    #: The words of the page.
    title: str = TITLE
    greeting: str = GREETING
    suggestions: Iterable[str] = ()
    #: The header in which the page sends the CSRF token of the application.
    csrf_header: str = "X-CSRFToken"
    #: Who has it may list and cancel all runs of the process: for the commands.
    operator_token: str | None = None
    #: Where the server is, for the commands.
    url: str = "http://127.0.0.1:5000"

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Settings:
        """Return what ``app.config`` says.

        :raises ConfigurationError: there is no such setting, or it cannot be that.
        """
        given = {
            name[len(_PREFIX) :].lower(): value
            for name, value in config.items()
            if name.startswith(_PREFIX)
        }
        try:
            settings = msgspec.convert(given, cls, strict=True)
        except msgspec.ValidationError as error:
            known = ", ".join(_PREFIX + name.upper() for name in cls.__struct_fields__)
            raise ConfigurationError(
                f"app.config has a SYNCAGENT_ setting that does not work: {error}; "
                f"there are {known}"
            ) from None
        token = settings.operator_token
        if token is not None and len(token) < _SHORTEST_TOKEN:
            raise ConfigurationError(
                "SYNCAGENT_OPERATOR_TOKEN has to have 16 characters or more, such as "
                "secrets.token_urlsafe() gives"
            )
        return settings


class State(msgspec.Struct, frozen=True):
    """What one application has of the extension."""

    settings: Settings
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


def find_state() -> State:
    """Return what the current application has.

    :raises ConfigurationError: it has nothing.
    """
    state = current_app.extensions.get(NAME)
    if not isinstance(state, State):
        raise ConfigurationError(
            "this application has no SyncAgent: call init_app(app) first"
        )
    return state
