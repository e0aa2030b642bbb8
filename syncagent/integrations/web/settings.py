"""What every framework can be told about runs over HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from .page import GREETING, TITLE
from .recordings import RECORDING
from .runs import Authorize, Runs
from .sse import HEARTBEAT
from .views import MAX_BODY
from .web_run import OnDisconnect

__all__ = ["PREFIX", "SHORTEST_TOKEN", "WebSettings"]

#: What the names of settings begin with where they stand among others.
PREFIX: Final = "SYNCAGENT_"
#: Characters that a token has at least.
SHORTEST_TOKEN: Final = 16
#: Those that are arguments of ``Runs``.
_OF_RUNS: Final = (
    *("on_disconnect", "grace", "timeout", "keep", "max_finished", "max_live"),
    *("max_per_owner", "buffer", "heartbeat", "recording", "show_tool_errors"),
)


class WebSettings(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True
):
    """What there is to set in every framework."""

    #: What becomes of a run when the last who followed it has gone.
    on_disconnect: OnDisconnect = "cancel"
    #: Seconds that somebody has to come back before that, as after a reload.
    grace: float = 5.0
    #: Seconds after which a run is cancelled in any case.
    timeout: float | None = 600.0
    #: Seconds for which finished runs can still be asked for, and how many of them.
    keep: float = 300.0
    max_finished: int = 100
    #: How many runs may be live at once, in all and of one owner.
    max_live: int = 200
    max_per_owner: int = 20
    #: How many events of each run are kept for whoever comes back.
    buffer: int = 4096
    #: Seconds of silence after which a stream sends a comment.
    heartbeat: float = HEARTBEAT
    #: Bytes that are recorded of each run, for its timeline; 0 is none.
    recording: int = RECORDING
    #: May whoever follows a run see what its tools raise? The model does in any case.
    show_tool_errors: bool = False
    #: The largest body that is accepted, in bytes.
    max_body: int = MAX_BODY
    #: The words of the page.
    title: str = TITLE
    greeting: str = GREETING
    suggestions: Iterable[str] = ()
    #: Who has it may list and cancel all runs of the process: for the commands.
    operator_token: str | None = None

    def make_runs(self, authorize: Authorize | None) -> Runs:
        """Return the runs of a process that is set so."""
        return Runs(authorize, **{name: getattr(self, name) for name in _OF_RUNS})
