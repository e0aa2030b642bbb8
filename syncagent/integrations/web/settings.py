"""Settings that all frameworks share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from ...exceptions import ConfigurationError
from ...stores import RunStore
from ...stores.deliveries import Enqueue
from .access import Authorize
from .page import GREETING, TITLE
from .recordings import RECORDING
from .runs import Runs
from .sse import HEARTBEAT, SLOW
from .stored_runs import StoredRuns
from .views import MAX_BODY
from .web_run import OnDisconnect

__all__ = ["PREFIX", "WebSettings", "find_store"]

#: The prefix of setting names where they stand among others.
PREFIX: Final = "SYNCAGENT_"
#: The settings that are arguments of ``Runs``.
_RUNS_ARGUMENTS: Final = (
    *("on_disconnect", "grace", "timeout", "keep", "max_finished"),
    *("max_finished_per_owner", "max_live", "max_per_owner", "max_followers"),
    *("max_followers_per_owner", "slow_seconds", "buffer", "heartbeat", "recording"),
    *("show_tool_errors", "may_change_arguments"),
)
#: Those that are arguments of ``StoredRuns``. A store keeps runs and events by itself.
_STORED_RUNS_ARGUMENTS: Final = (
    *("on_disconnect", "grace", "timeout", "max_per_owner", "max_followers"),
    *("max_followers_per_owner", "slow_seconds", "heartbeat"),
    *("show_tool_errors", "may_change_arguments"),
)


def find_store(
    store: Any,
    make_agent: Callable[..., Any] | None,
    name: str = "store",
    *,
    enqueue: Enqueue | None = None,
) -> RunStore | None:
    """Return the store that an application is given, without opening it.

    :param store: its URL, or a ``RunStore``; ``None`` for none.
    :param make_agent: returns the agent for a run; a ``RunStore`` has its own.
    :param name: the name of the setting, for errors.
    :param enqueue: hands its runs to an engine; a ``RunStore`` has its own.
    :raises ConfigurationError: it is neither, or there is not exactly one make_agent.
    """
    if enqueue is not None and not isinstance(store, str):
        raise ConfigurationError(
            f"an enqueue function needs the URL of a store as {name}; a RunStore has "
            f"one of its own; got {store!r:.80}"
        )
    if store is None:
        return None
    if isinstance(store, RunStore):
        if make_agent is not None:
            raise ConfigurationError(
                f"{name} is a RunStore, which has a make_agent of its own; do not give "
                "another one"
            )
        return store
    if not isinstance(store, str):
        raise ConfigurationError(
            f"{name} must be a URL, such as sqlite:///runs.db, or a RunStore; got "
            f"{store!r:.80}"
        )
    if make_agent is None:
        raise ConfigurationError(
            f"{name} needs a function make_agent(run) that returns an Agent, or must "
            "be a RunStore that has one"
        )
    return RunStore(store, make_agent, enqueue)


class WebSettings(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True
):
    """The settings of every framework."""

    #: The store of runs: a URL, such as ``sqlite:///runs.db``, or a ``RunStore``. Then
    #: every process of the server has the same runs.
    store: Any = None
    #: Cancel a run when its last follower leaves, or let it continue. By default
    #: ``cancel``, and ``detach`` with a store.
    on_disconnect: OnDisconnect | None = None
    #: Seconds to wait for a follower to return before that, as after a reload.
    grace: float = 5.0
    #: Seconds after which every run is cancelled.
    timeout: float | None = 600.0
    #: How long finished runs are kept, in seconds, and how many of them, in total and
    #: per owner.
    keep: float = 300.0
    max_finished: int = 200
    max_finished_per_owner: int = 20
    #: How many runs may be live at once, in total and per owner.
    max_live: int = 200
    max_per_owner: int = 20
    #: How many streams may be open at once, of one run and of all runs of one owner.
    max_followers: int = 20
    max_followers_per_owner: int = 40
    #: Seconds that a client has to take a chunk of a stream before it is disconnected.
    slow_seconds: float = SLOW
    #: How many events of each run are kept for clients that reconnect.
    buffer: int = 4096
    #: Seconds of silence after which a stream sends a comment.
    heartbeat: float = HEARTBEAT
    #: Bytes recorded of each run, for its timeline; 0 turns recording off.
    recording: int = RECORDING
    #: Show clients the messages of exceptions raised by tools. The model always sees
    #: them.
    show_tool_errors: bool = False
    #: Accept approvals that change the arguments of a call. Hooks and rules see changed
    #: arguments as they see those of the model.
    may_change_arguments: bool = True
    #: The largest request body, in bytes.
    max_body: int = MAX_BODY
    #: Other origins whose pages may start, answer and cancel runs.
    trusted_origins: tuple[str, ...] = ()
    #: The texts of the page.
    title: str = TITLE
    greeting: str = GREETING
    suggestions: Iterable[str] = ()
    #: A secret that allows its bearer to list and cancel all runs, for the commands.
    operator_token: str | None = None

    def make_runs(
        self, authorize: Authorize | None, store: RunStore | None = None
    ) -> Runs | StoredRuns:
        """Create the runs of a process, or those of a store, with these settings."""
        default = "cancel" if store is None else "detach"
        on_disconnect = self.on_disconnect or default
        names = _RUNS_ARGUMENTS if store is None else _STORED_RUNS_ARGUMENTS
        values = {name: getattr(self, name) for name in names}
        values["on_disconnect"] = on_disconnect
        if store is None:
            return Runs(authorize, **values)
        return StoredRuns(store, authorize, **values)
