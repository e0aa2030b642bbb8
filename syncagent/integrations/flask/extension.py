"""The extension."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from flask import Blueprint, Flask, request

from ...cancel import Cancellable, CancelToken
from ...exceptions import ConfigurationError
from ..web.disconnect import cancel_on_disconnect as cancel_with_environ
from ..web.operator import is_operator
from ..web.runs import Authorize, Runs
from ..web.views import MakeAgent, OwnerOf, Views
from ..web.web_run import WebRun
from .commands import commands
from .routes import make_blueprint
from .settings import NAME, ExtensionState, FlaskSettings, find_state

__all__ = ["SyncAgent", "cancel_on_disconnect"]

#: The views that the operator may use.
_OPERATOR_VIEWS: Final = frozenset(("list_runs", "show_run", "cancel_run"))


class SyncAgent:
    """The extension. One instance can serve several applications.

    :param app: the application to initialise at once, see :meth:`init_app`.
    :param make_agent: returns the agent for a request. It is called during the request,
        with the request and a :class:`~syncagent.integrations.web.bodies.StartRequest`.
    :param owner_of: returns the owner of the run a request starts, or None to refuse
        it. Without it no run can be started.
    :param authorize: called with a request and a run; returns True if the client may
        see, answer and cancel the run. Without it every request is refused.
    :param csrf_token: returns the token that the page sends with every POST, for
        applications with CSRF protection; Flask-WTF's is ``generate_csrf``.
    """

    def __init__(
        self,
        app: Flask | None = None,
        *,
        make_agent: MakeAgent | None = None,
        owner_of: OwnerOf | None = None,
        authorize: Authorize | None = None,
        csrf_token: Callable[[], str] | None = None,
    ) -> None:
        self._make_agent = make_agent
        self._owner_of = owner_of
        self._authorize = authorize
        self._csrf_token = csrf_token
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Give *app* its own runs and the ``flask syncagent`` commands.

        :raises ConfigurationError: a setting is invalid, or the application already has
            a SyncAgent.
        """
        if NAME in app.extensions:
            raise ConfigurationError("this application already has a SyncAgent")
        settings = FlaskSettings.of(app.config)
        runs = settings.make_runs(
            _with_operator(self._authorize, settings.operator_token)
        )
        views = None
        if self._make_agent is not None:
            views = Views(
                runs,
                self._make_agent,
                owner_of=self._owner_of,
                max_body=settings.max_body,
                trusted_origins=settings.trusted_origins,
            )
        app.extensions[NAME] = ExtensionState(
            settings, runs, views, self._csrf_token, self._authorize is not None
        )
        app.cli.add_command(commands)

    def create_blueprint(self, name: str = NAME, *, page: bool = True) -> Blueprint:
        """Return the endpoints and the chat page.

        :param page: include the page.
        :raises ConfigurationError: there is no ``make_agent``.
        """
        if self._make_agent is None:
            raise ConfigurationError(
                "SyncAgent() needs make_agent=, a function(request, start) that "
                "returns an Agent"
            )
        return make_blueprint(name, page=page)

    @property
    def runs(self) -> Runs:
        """The runs of the current application."""
        return find_state().runs


def cancel_on_disconnect(
    *targets: Cancellable, timeout: float | None = None
) -> AbstractContextManager[CancelToken]:
    """Cancel when the client of the current request disconnects.

    For views that block until the run has ended::

        with cancel_on_disconnect() as token:
            result = agent.run(prompt, cancel=token)

    :param targets: further objects to cancel, such as an agent.
    :param timeout: seconds after which the token is cancelled in any case.
    """
    return cancel_with_environ(request.environ, *targets, timeout=timeout)


def _with_operator(authorize: Authorize | None, token: str | None) -> Authorize | None:
    """Return *authorize*, extended so that the operator may see and cancel runs."""
    if token is None:
        return authorize

    def may_see(request: Any, run: WebRun) -> bool:
        view = (request.endpoint or "").rpartition(".")[2]
        authorization = request.headers.get("Authorization")
        if view in _OPERATOR_VIEWS and is_operator(authorization, token):
            return True
        return authorize is not None and authorize(request, run) is True

    return may_see
