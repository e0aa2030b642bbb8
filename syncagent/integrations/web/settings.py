"""Settings that all frameworks share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from .page import GREETING, TITLE
from .recordings import RECORDING
from .runs import Authorize, Runs
from .sse import HEARTBEAT, SLOW
from .views import MAX_BODY
from .web_run import OnDisconnect

__all__ = ["PREFIX", "WebSettings"]

#: The prefix of setting names where they stand among others.
PREFIX: Final = "SYNCAGENT_"
#: The settings that are arguments of ``Runs``.
_RUNS_ARGUMENTS: Final = (
    *("on_disconnect", "grace", "timeout", "keep", "max_finished"),
    *("max_finished_per_owner", "max_live", "max_per_owner", "max_followers"),
    *("max_followers_per_owner", "slow_seconds", "buffer", "heartbeat", "recording"),
    *("show_tool_errors", "may_change_arguments"),
)


class WebSettings(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True
):
    """The settings of every framework."""

    #: Cancel a run when its last follower leaves, or let it continue.
    on_disconnect: OnDisconnect = "cancel"
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

    def make_runs(self, authorize: Authorize | None) -> Runs:
        """Create the runs of a process with these settings."""
        return Runs(
            authorize, **{name: getattr(self, name) for name in _RUNS_ARGUMENTS}
        )
