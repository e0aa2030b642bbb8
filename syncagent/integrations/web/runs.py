"""All runs of this process that were asked for over HTTP, live and just finished."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..._checks import check_number, check_timeout
from ..._closeable import Closeable
from ...agent import Agent
from ...background.runtime import Runtime, ShutdownReport
from ...cancel import Receipt
from ...exceptions import (
    AgentBusy,
    ConfigurationError,
    InterruptOver,
    InterruptPending,
    Origin,
)
from ...messages import Prompt, Text, UserMessage
from .bodies import AnswerBody, AnswerFate, CancelRequest
from .recordings import WebRecording
from .refusals import Refused, not_found, not_set_up, safe_words
from .sse import HEARTBEAT, RunEventStream
from .web_run import OnDisconnect, WebRun

__all__ = ["Authorize", "Runs", "close_all", "every_runs"]

_log = logging.getLogger("syncagent.web")

#: May whoever makes this request see this run, answer it, and end it?
Authorize = Callable[[Any, WebRun], bool]

#: Seconds after which a run is cancelled that nobody has ended: a client whose power
#: was cut is noticed by no server.
_TIMEOUT: Final = 600.0
#: Seconds that runs have to end when a process does.
_GRACE: Final = 5.0
_ENDING: Final = "the server ends"
#: Seconds; more often than that is no heartbeat.
_SHORTEST_BEAT: Final = 0.01


class Runs(Closeable):
    """Live runs and those that have just finished, each with an owner.

    Everything here may be called from any thread. A forked child begins without runs.

    :param authorize: called with the request and the run, tells whether the one may
        see and end the other. Without it nobody may.
    :param on_disconnect: ``cancel`` ends a run when the last who followed it has gone;
        ``detach`` lets it go on.
    :param grace: seconds that somebody has to come back before that, as after a reload.
    :param timeout: seconds after which a run is cancelled in any case.
    :param keep: seconds for which finished runs can still be asked for.
    :param max_finished: how many of them.
    :param max_live: how many may be live at once, and
    :param max_per_owner: how many of one owner.
    :param buffer: how many events of each run are kept.
    :param heartbeat: seconds of silence after which a stream sends a comment.
    :param recording: how many bytes of each run are recorded, for its timeline; 0 is
        none. It is kept in memory, with the run.
    :param show_tool_errors: may whoever follows a run see what its tools raise? The
        model does; for everybody else it may name too much.
    """

    def __init__(
        self,
        authorize: Authorize | None = None,
        *,
        on_disconnect: OnDisconnect = "cancel",
        grace: float = 0.0,
        timeout: float | None = _TIMEOUT,
        keep: float = 300.0,
        max_finished: int = 100,
        max_live: int = 200,
        max_per_owner: int = 20,
        buffer: int = 1024,
        heartbeat: float = HEARTBEAT,
        recording: int = 0,
        show_tool_errors: bool = False,
    ) -> None:
        if authorize is not None and not callable(authorize):
            raise ConfigurationError(
                f"authorize= is a function of request and run; got {authorize!r:.80}"
            )
        if on_disconnect not in ("cancel", "detach"):
            raise ConfigurationError(
                f"on_disconnect= is 'cancel' or 'detach'; got {on_disconnect!r:.80}"
            )
        check_timeout(timeout)
        check_number("grace", grace, allow_infinity=True, unit="seconds")
        check_number("keep", keep, allow_infinity=True, unit="seconds")
        check_number("max_finished", max_finished, allow_infinity=True)
        check_number("recording", recording, allow_infinity=True)
        check_number("max_live", max_live, minimum=1, allow_infinity=True)
        check_number("max_per_owner", max_per_owner, minimum=1, allow_infinity=True)
        check_number(
            "heartbeat",
            heartbeat,
            minimum=_SHORTEST_BEAT,
            allow_infinity=True,
            unit="seconds",
        )
        self._authorize = authorize
        self._on_disconnect = on_disconnect
        self._grace = grace
        self._timeout = timeout
        self._keep = keep
        self._max_finished = max_finished
        self._max_live = max_live
        self._max_per_owner = max_per_owner
        self._buffer = buffer
        self._heartbeat = heartbeat
        self._recording = recording
        self._show_tool_errors = show_tool_errors
        self._set_up()
        # A callback in C: one in Python would swallow a signal handler's exception.
        _all[weakref.ref(self, _all.__delitem__)] = None

    def _set_up(self) -> None:
        """Begin without runs, in this process."""
        #: By their public ids, in the order in which they began.
        self._runs: dict[str, WebRun] = {}
        #: The owners of those that are just beginning: they count, too.
        self._places: dict[object, str] = {}
        #: Short, and never held while anything is waited for or called.
        self._lock = threading.Lock()
        self._runtime = Runtime(drain=0.0)
        self._is_closed = False

    # -- beginning -----------------------------------------------------------------

    def start(
        self,
        agent: Agent,
        prompt: Prompt,
        *,
        owner: str,
        conversation: str = "",
        on_disconnect: OnDisconnect | None = None,
        **settings: Any,
    ) -> WebRun:
        """Begin a run.

        :param owner: whose it is; ``authorize`` finds it in ``run.owner``.
        :param conversation: to be shown with it.
        :param on_disconnect: in place of the usual.
        :param settings: as for :meth:`syncagent.Agent.start`.
        :raises Refused: there are too many, the process ends, or the agent is busy.
        :raises ConfigurationError: there is no owner.
        """
        _check_owner(owner)
        self._sweep()
        place = self._take_place(owner)
        try:
            run = self._begin(
                agent, prompt, owner, conversation, on_disconnect, settings
            )
            with self._lock:
                self._runs[run.id] = run
                del self._places[place]
        finally:
            self._places.pop(place, None)
        run.handle.add_done_callback(run.note_end)
        if self._is_closed:  # at this very moment
            run.handle.cancel(_ENDING, "shutdown")
        return run

    def _begin(
        self,
        agent: Agent,
        prompt: Prompt,
        owner: str,
        conversation: str,
        on_disconnect: OnDisconnect | None,
        settings: Mapping[str, Any],
    ) -> WebRun:
        given = {"timeout": self._timeout, "buffer": self._buffer, **settings}
        recording = None
        if self._recording and given.get("record") is None:
            recording = given["record"] = WebRecording(self._recording)
        try:
            handle = self._runtime.start(agent, prompt, **given)
        except (AgentBusy, InterruptPending) as error:
            raise Refused(409, *safe_words(error)) from error
        except ConfigurationError:
            self._check_open()  # it may be that
            raise
        return WebRun(
            handle,
            owner,
            agent=agent.name or "",
            conversation=conversation,
            prompt=_words(prompt),
            recording=recording,
            on_disconnect=on_disconnect or self._on_disconnect,
            grace=self._grace,
            show_tool_errors=self._show_tool_errors,
        )

    def _take_place(self, owner: str) -> object:
        """Count somebody's run in that begins, if there is room for it."""
        self._check_open()
        place = object()
        # Many may begin at the same moment, and each would see room for itself.
        with self._lock:
            owners = [run.owner for run in list(self._runs.values()) if run.is_live]
            owners += list(self._places.values())
            own = owners.count(owner)
            if len(owners) < self._max_live and own < self._max_per_owner:
                self._places[place] = owner
                return place
        raise Refused(
            429, "too_many_runs", "There are too many runs. Try again later.", 5
        )

    def _check_open(self) -> None:
        if self._is_closed:
            raise Refused(503, "shutting_down", "The server is about to end.", 5)

    def _sweep(self) -> None:
        """Let go of those that have ended long ago, or are too many."""
        ended = [run for run in list(self._runs.values()) if not run.is_live]
        newest_first = sorted(ended, key=_end_of, reverse=True)
        limit = time.time() - self._keep
        for place, run in enumerate(newest_first):
            if place >= self._max_finished or _end_of(run) < limit:
                self._runs.pop(run.id, None)

    # -- finding -------------------------------------------------------------------

    def get(self, id: str, request: Any) -> WebRun:
        """Return a run, if whoever makes this request may see it.

        :raises Refused: there is none, or it is somebody else's: nobody can tell which.
        """
        self._sweep()
        run = self._runs.get(id)
        # Asked also where there is none, so that it is refused alike.
        may_see = self._may_see(request, run)
        if run is None or not may_see:
            raise not_found()
        return run

    def list(self, request: Any) -> list[WebRun]:
        """Return those that may be seen, the newest first."""
        self._sweep()
        self._may_see(request, None)
        found = [
            run for run in list(self._runs.values()) if self._may_see(request, run)
        ]
        return found[::-1]

    def _may_see(self, request: Any, run: WebRun | None) -> bool:
        if self._authorize is None:
            _log.error("a request was refused, as Runs() has no authorize=")
            raise not_set_up()
        # Nothing that only looks like a yes.
        return run is not None and self._authorize(request, run) is True

    # -- using one -----------------------------------------------------------------

    def follow(
        self, run: WebRun, *, after: int = 0, environ: Mapping[str, Any] | None = None
    ) -> RunEventStream:
        """Return the events of a run, to be sent to one client.

        :param after: how many the client has seen.
        :param environ: of the request, so that a client that goes is noticed at once.
        """
        return RunEventStream(
            run, after=after, environ=environ, heartbeat=self._heartbeat
        )

    def cancel(
        self,
        run: WebRun,
        wanted: CancelRequest | None = None,
        *,
        origin: Origin = "user",
    ) -> Receipt:
        """End a run.

        :param origin: who does that; ``remote`` is somebody who does not follow it.
        :return: true if and only if it was live.
        """
        wanted = wanted or CancelRequest()
        return run.handle.cancel(wanted.reason, origin, mode=wanted.mode)

    def answer(
        self, run: WebRun, answers: Mapping[str, AnswerBody]
    ) -> dict[str, AnswerFate]:
        """Answer what a run asks; return what became of each answer.

        :param answers: by the ids of interrupts, or of tool calls.
        :raises Refused: one is no answer at all; then none is given.
        """
        values = {id: answer.value() for id, answer in answers.items()}
        return {id: _respond(run, id, value) for id, value in values.items()}

    # -- ending --------------------------------------------------------------------

    def cancel_all(self, reason: str = "", *, is_last: bool = False) -> int:
        """End all live runs, with origin ``shutdown``; tell how many there were.

        As safe as :meth:`syncagent.Agent.cancel`, also in a signal handler.

        :param is_last: begin no more from now on.
        """
        self._is_closed = self._is_closed or is_last
        return sum(map(bool, self._runtime.cancel_all(reason, "shutdown")))

    def close(self) -> None:
        """Begin no more runs, end those that are live, and wait for that.

        Cancellation: it waits for the end of runs, at most 5 seconds.
        """
        self.shutdown()

    def shutdown(self, grace: float = _GRACE) -> ShutdownReport:
        """Do as :meth:`close` does, and report.

        Cancellation: it waits for the end of runs, at most *grace* seconds.
        """
        self.cancel_all(_ENDING, is_last=True)
        return self._runtime.shutdown(0.0, grace=grace)

    def __repr__(self) -> str:
        live = sum(run.is_live for run in list(self._runs.values()))
        return f"<Runs: {live} live of {len(self._runs)}>"


def _check_owner(owner: Any) -> None:
    if not isinstance(owner, str) or not owner:
        raise ConfigurationError(
            f"every run has an owner, a string that is not empty; got {owner!r:.80}"
        )


def _words(prompt: Prompt) -> str:
    """Return what is said in words."""
    blocks = UserMessage.of(prompt).content  # type: ignore[arg-type]
    return " ".join(block.text for block in blocks if isinstance(block, Text))


def _end_of(run: WebRun) -> float:
    return run.ended_at or time.time()


def _respond(run: WebRun, id: str, value: Any) -> AnswerFate:
    try:
        return "taken" if run.handle.answer(id, value) else "over"
    except InterruptOver:
        return "over"
    except ConfigurationError:
        return "refused" if run.is_live else "over"


#: Those of this process. Only whole-dict operations touch it, so that signal handlers
#: may look.
_all: Final[dict[weakref.ref[Runs], None]] = {}


def every_runs() -> list[Runs]:
    """Return what this process has of these."""
    found = [ref() for ref in list(_all)]
    return [runs for runs in found if runs is not None]


def close_all(reason: str = "") -> int:
    """End the live runs of every ``Runs``, which begin no more; tell how many.

    As safe as :meth:`syncagent.Agent.cancel`, also in a signal handler.
    """
    return sum(runs.cancel_all(reason, is_last=True) for runs in every_runs())


def _renew_in_child() -> None:
    for runs in every_runs():
        runs._set_up()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_in_child)
