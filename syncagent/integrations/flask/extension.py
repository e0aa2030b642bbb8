"""The extension."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from flask import Blueprint, Flask, request

from ...cancel import Cancellable, CancelToken
from ...exceptions import ConfigurationError
from ...stores import MakeAgent as MakeStoredAgent
from ...stores import RunStore
from ..web.access import Authorize, OwnerOf
from ..web.disconnect import cancel_on_disconnect as cancel_with_environ
from ..web.followed import FollowedRun
from ..web.operator import is_operator
from ..web.runs import Runs
from ..web.settings import find_store
from ..web.stored_runs import StoredRuns
from ..web.views import ApproversOf, MakeAgent, Views
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
        With *store* it is called without a request, in any process, with a
        :class:`~syncagent.stores.StoredRun`.
    :param owner_of: returns the owner of the run a request starts, such as the id of
        the user, or None to refuse it. Without it no run can be started.
    :param authorize: called with a request and a run; returns True if the client may
        see, answer and cancel the run. Without it every request is refused.
    :param approvers_of: returns a list of the people and groups that the person behind
        a request answers for, by the names that the ``approver_of`` of the store gives
        them; by default only what *owner_of* returns.
    :param csrf_token: returns the token that the page sends with every POST, for
        applications with CSRF protection; Flask-WTF's is ``generate_csrf``.
    :param login_url: where users log in: a URL, or the name of an endpoint. Visitors
        without an owner are sent there from the page, and back after the login.
    :param store: the URL of a store, such as ``sqlite:///runs.db``, or a
        :class:`~syncagent.stores.RunStore`, which has a ``make_agent`` of its own. Then
        every process of the server has the same runs. ``SYNCAGENT_STORE`` in
        ``app.config`` does the same.
    """

    def __init__(
        self,
        app: Flask | None = None,
        *,
        make_agent: MakeAgent | MakeStoredAgent | None = None,
        owner_of: OwnerOf | None = None,
        authorize: Authorize | None = None,
        approvers_of: ApproversOf | None = None,
        csrf_token: Callable[[], str] | None = None,
        login_url: str | None = None,
        store: str | RunStore | None = None,
    ) -> None:
        self._make_agent = make_agent
        self._owner_of = owner_of
        self._authorize = authorize
        self._approvers_of = approvers_of
        self._csrf_token = csrf_token
        self._login_url = login_url
        self._store = store
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
        if self._store is not None and settings.store is not None:
            raise ConfigurationError(
                "the store is given both to SyncAgent() and as SYNCAGENT_STORE; keep "
                "one"
            )
        store = find_store(self._store or settings.store, self._make_agent)
        if store is not None:
            store.context = app.app_context
        runs = settings.make_runs(
            _with_operator(self._authorize, settings.operator_token), store
        )
        views = None
        if self._make_agent is not None or store is not None:
            make_agent: Any = None if store is not None else self._make_agent
            views = Views(
                runs,
                make_agent,
                owner_of=self._owner_of,
                approvers_of=self._approvers_of,
                max_body=settings.max_body,
                trusted_origins=settings.trusted_origins,
            )
        app.extensions[NAME] = ExtensionState(
            settings,
            runs,
            views,
            self._csrf_token,
            self._authorize is not None,
            self._login_url,
        )
        app.cli.add_command(commands)

    def create_blueprint(self, name: str = NAME, *, page: bool = True) -> Blueprint:
        """Return the endpoints and the chat page.

        :param page: include the page.
        :raises ConfigurationError: there is no ``make_agent``.
        """
        if self._make_agent is None and self._store is None:
            raise ConfigurationError(
                "SyncAgent() needs make_agent=, a function(request, start) that "
                "returns an Agent"
            )
        return make_blueprint(name, page=page)

    @property
    def runs(self) -> Runs | StoredRuns:
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

    def may_see(request: Any, run: FollowedRun) -> bool:
        view = (request.endpoint or "").rpartition(".")[2]
        authorization = request.headers.get("Authorization")
        if view in _OPERATOR_VIEWS and is_operator(authorization, token):
            return True
        return authorize is not None and authorize(request, run)

    return may_see
