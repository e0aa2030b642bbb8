"""The queue of a busy agent: refuse, wait in line, or replace the live run."""

from __future__ import annotations

from collections import deque
from typing import Any, Literal, get_args

from .._context import run_id
from ..cancel import CancelToken, RunClaim, RunSlot
from ..exceptions import AgentBusy, ConfigurationError

__all__ = [
    "Line",
    "OnBusy",
    "check_busy",
    "wait_for_turn",
]

#: How a second run on a busy agent begins: not at all, when the first has ended, or in
#: its place.
OnBusy = Literal["raise", "queue", "interrupt"]


#: Those who wait for an agent, in order; each is cancelled when it waits no more.
Line = deque[CancelToken]


def wait_for_turn(slot: RunSlot, line: Line, claim: RunClaim, on_busy: OnBusy) -> bool:
    """Claim the agent's one place for a run.

    Cancellation: ends at once, with the token of *claim*.

    :return: false if that token was cancelled while it waited.
    :raises AgentBusy: it is taken, and *on_busy* says to raise then, or it would have
        to wait for its own thread.
    """
    if on_busy == "raise":
        slot.begin(claim)
        return True
    claim.phase = "queue"
    _refuse_own_run(slot)
    place = CancelToken()
    line.append(place)
    try:
        while True:
            ahead = _ahead_of(place, line)
            if ahead is None:
                if slot.try_begin(claim):
                    return True
                ahead = _end_of_live(slot, on_busy)
            if ahead is not None:
                either_token = CancelToken.any_of(claim.token, ahead)
                either_token.wait()
            if claim.token.cancelled:
                return False
    finally:
        line.remove(place)
        place.cancel()


def _refuse_own_run(slot: RunSlot) -> None:
    # Before it stands in line: whoever is ahead waits for that very run as well.
    live = slot.live
    if live is None:
        return
    # A tool may be on another thread; it has the context variables of its run.
    if live.is_own_thread or live.run_id == run_id.get():
        raise AgentBusy(
            "the agent has a live run, and this is a part of it, which would wait for "
            "itself; use a fork() of it"
        )


def _ahead_of(place: CancelToken, line: Line) -> CancelToken | None:
    """Return whoever comes before *place*, if anybody does."""
    before = None
    for other in list(line):
        if other is place:
            return before
        before = other
    return None


def _end_of_live(slot: RunSlot, on_busy: OnBusy) -> CancelToken | None:
    live = slot.live
    if live is None:
        return None
    if on_busy == "interrupt" and not live.is_background:
        live.cancel("another run takes its place")
    return live.ended


def check_busy(on_busy: Any) -> OnBusy:
    """Return *on_busy*, if there is such a choice."""
    if on_busy not in get_args(OnBusy):
        raise ConfigurationError(
            f"on_busy is one of {', '.join(get_args(OnBusy))}; got {on_busy!r}"
        )
    busy: OnBusy = on_busy
    return busy
