"""The queue of a busy agent: refuse, wait in line, or replace the live run."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Final, Literal, NamedTuple, get_args

from .._context import run_id
from ..cancel import CancelToken, RunClaim, RunSlot
from ..cancel.claim import LOOK_AGAIN
from ..exceptions import AgentBusy, ConfigurationError

__all__ = [
    "HANDLE_THREADS",
    "Line",
    "OnBusy",
    "Place",
    "busy_error",
    "check_busy",
    "is_part_of",
    "wait_for_turn",
]

#: How the names of the threads of handles begin.
HANDLE_THREADS: Final = "syncagent-run-"

#: How a second run on a busy agent starts: not at all, when the first has ended, or in
#: its place.
OnBusy = Literal["raise", "queue", "interrupt"]


class Place(NamedTuple):
    """A run that waits for an agent."""

    claim: RunClaim
    #: Cancelled when the run leaves the line.
    left: CancelToken


#: The runs that wait for an agent, in order.
Line = deque[Place]


def check_busy(on_busy: Any) -> OnBusy:
    """Return *on_busy* if it is one of the choices.

    :raises ConfigurationError: it is not.
    """
    if on_busy not in get_args(OnBusy):
        raise ConfigurationError(
            f"on_busy must be one of {', '.join(get_args(OnBusy))}; got {on_busy!r}"
        )
    choice: OnBusy = on_busy
    return choice


def wait_for_turn(slot: RunSlot, line: Line, claim: RunClaim, on_busy: OnBusy) -> bool:
    """Claim the agent's one slot for a run.

    Cancellation: ends at once, with the token of *claim*.

    :return: false if that token was cancelled while the run waited.
    :raises AgentBusy: the slot is taken and *on_busy* is ``raise``, or the run would
        wait for itself.
    """
    if on_busy == "raise":
        while not slot.try_begin(claim):
            live = slot.live
            if live is not None:  # else it has ended at this very moment
                raise busy_error(live)
        return True
    claim.phase = "queue"
    # Before it stands in line: the runs ahead wait for that very run as well.
    live = slot.live
    if live is not None and (live.is_own_thread or is_part_of(live)):
        raise busy_error(live)
    place = Place(claim, CancelToken())
    line.append(place)
    try:
        while True:
            ahead = _ahead_of(place, line)
            if ahead is None:
                if slot.try_begin(claim):
                    return True
                live = slot.live
                if live is not None:
                    if on_busy == "interrupt" and not live.is_background:
                        live.cancel("another run takes its place")
                    ahead = live.ended
            if ahead is not None:
                either_token = CancelToken.any_of(claim.token, ahead)
                either_token.wait(LOOK_AGAIN)  # the other may be over without a word
            if claim.token.cancelled:
                return False
    finally:
        line.remove(place)
        place.left.cancel()


def is_part_of(live: RunClaim) -> bool:
    """Return whether this code is called by a run: by a tool, a hook or a handler."""
    # A tool may be on another thread; it has the context variables of its run.
    is_inside = live.is_own_thread and live.is_stepping
    return is_inside or (live.run_id != "" and live.run_id == run_id.get())


def busy_error(live: RunClaim) -> AgentBusy:
    """Return the error that says which run keeps the agent busy, and what to do."""
    threads = {thread.ident: thread.name for thread in threading.enumerate()}
    thread = threads.get(live.thread, "")
    cause: Literal["inside", "unread", "thread", "background"] = "thread"
    if is_part_of(live):
        cause = "inside"
        text = (
            "this code is part of that run, and would wait for itself; in a tool, ask "
            "another agent with ctx.agent(other, prompt), or use agent.fork()"
        )
    elif thread.startswith(HANDLE_THREADS):
        cause = "background"
        text = (
            "it is in the background; wait for its handle, cancel it, or send it "
            "input with handle.send_input()"
        )
    elif live.is_own_thread or not live.is_stepping:
        cause = "unread"
        text = (
            "its stream() or drive() was not read to its end; read it, or close it: a "
            "with block does"
        )
    else:
        text = (
            f"thread {thread} is at work on it; wait for it, cancel it, use "
            'on_busy="queue", or an agent of its own for each thread'
        )
    return AgentBusy(
        f"the agent has a live run: {text}",
        cause=cause,
        run_id=live.run_id,
        thread=thread,
    )


def _ahead_of(place: Place, line: Line) -> CancelToken | None:
    """Return the token in front of *place*, or None at the head of the line."""
    before = None
    for other in list(line):
        if other is place:
            return before
        # A signal handler may have raised just before it would have left the line.
        if not other.claim.ended.cancelled:
            before = other.left
    return None
