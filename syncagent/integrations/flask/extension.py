"""The extension, and who may do what."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from flask import Blueprint, Flask, request

from ...cancel import Cancellable, CancelToken
from ...exceptions import ConfigurationError
from ..web.disconnect import cancel_on_disconnect as cancel_with_environ
from ..web.runs import Authorize, Runs
from ..web.views import MakeAgent, OwnerOf, Views
from ..web.web_run import WebRun
from .commands import commands
from .routes import make_blueprint
from .settings import NAME, ExtensionState, FlaskSettings, find_state, is_operator

__all__ = ["SyncAgent", "cancel_on_disconnect"]

#: What an operator may do who has the token, by the names of the views.
_OPERATED: Final = frozenset(("list_runs", "show_run", "cancel_run"))


class SyncAgent:
    """The extension; one of it can serve several applications.

    :param app: for which to call :meth:`init_app` at once.
    :param make_agent: returns the agent that a request is for. It is called in the
        request, with it and with a
        :class:`~syncagent.integrations.web.bodies.StartRequest`.
    :param owner_of: returns whose a run is to be that a request begins; without it
        nobody may begin one.
    :param authorize: called with a request and a run, tells whether the one may see,
        answer and end the other; without it nobody may.
    :param csrf_token: returns the token that the page is to send with every POST, for
        applications that ask for one; Flask-WTF's is ``generate_csrf``.
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
        """Give *app* runs of its own, and the commands ``flask syncagent``.

        :raises ConfigurationError: a setting does not work, or it has them already.
        """
        if NAME in app.extensions:
            raise ConfigurationError("this application has a SyncAgent already")
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
            )
        app.extensions[NAME] = ExtensionState(
            settings, runs, views, self._csrf_token, self._authorize is not None
        )
        app.cli.add_command(commands)

    def create_blueprint(self, name: str = NAME, *, page: bool = True) -> Blueprint:
        """Return the endpoints, and the page to chat on.

        :param page: is the page wanted, too?
        :raises ConfigurationError: there is no ``make_agent``.
        """
        if self._make_agent is None:
            raise ConfigurationError(
                "there is nothing to run: SyncAgent(make_agent=...) is a function of "
                "the request that returns an agent"
            )
        return make_blueprint(name, page=page)

    @property
    def runs(self) -> Runs:
        """The runs of the current application."""
        return find_state().runs


def cancel_on_disconnect(
    *targets: Cancellable, timeout: float | None = None
) -> AbstractContextManager[CancelToken]:
    """Cancel when the client of the current request has gone.

    For views that block until the answer is there::

        with cancel_on_disconnect() as token:
            result = agent.run(prompt, cancel=token)

    :param targets: what else to cancel, such as an agent.
    :param timeout: seconds after which the token is cancelled in any case.
    """
    return cancel_with_environ(request.environ, *targets, timeout=timeout)


def _with_operator(authorize: Authorize | None, token: str | None) -> Authorize | None:
    """Return what also lets an operator see and end runs, if there is a token."""
    if token is None:
        return authorize

    def may(asked: Any, run: WebRun) -> bool:
        view = (asked.endpoint or "").rpartition(".")[2]
        if view in _OPERATED and is_operator(asked, token):
            return True
        return authorize is not None and authorize(asked, run) is True

    return may
