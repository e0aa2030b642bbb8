"""The queue of a busy agent: refuse, wait in line, or replace the live run."""

from __future__ import annotations

from collections import deque
from typing import Any, Literal, NamedTuple, get_args

from .._context import run_id
from ..cancel import CancelToken, RunClaim, RunSlot
from ..cancel.claim import LOOK_AGAIN
from ..exceptions import AgentBusy, ConfigurationError

__all__ = ["Line", "OnBusy", "Place", "check_busy", "wait_for_turn"]

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
        slot.begin(claim)
        return True
    claim.phase = "queue"
    _refuse_own_run(slot)
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


def _refuse_own_run(slot: RunSlot) -> None:
    # Before it stands in line: the runs ahead wait for that very run as well.
    live = slot.live
    if live is None:
        return
    # A tool may be on another thread; it has the context variables of its run.
    if live.is_own_thread or live.run_id == run_id.get():
        raise AgentBusy(
            "this code is part of the agent's live run, and would wait for itself; "
            "use agent.fork()"
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
