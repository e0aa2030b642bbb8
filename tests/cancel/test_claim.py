"""Promise 3: a cancel is exact."""

import itertools
import sys
import threading

import pytest
from support.interrupting import interrupted
from support.threads import LONG, together

from syncagent import AgentBusy, CancelToken, ConfigurationError
from syncagent.cancel import RunClaim, RunSlot, live_runs
from syncagent.testing import FakeClock, Gate

stress = pytest.mark.stress


def begin(slot, token=None):
    """Begin a run on this thread."""
    claim = RunClaim(token)
    slot.begin(claim)
    return claim


def test_cancel_on_an_idle_slot_does_nothing():
    """Promise 3: no run, a false receipt, and the next run is not touched."""
    slot = RunSlot()
    receipt = slot.cancel("nobody")
    assert not receipt
    assert (receipt.first, receipt.reason, receipt.latency) == (False, None, None)
    assert receipt.wait(0) is True
    claim = begin(slot)
    assert not claim.token.cancelled
    assert claim.finish() is None
    slot.end(claim)


def test_cancel_hits_the_live_run():
    """A true receipt means that the run says cancelled, with the first reason."""
    slot = RunSlot()
    claim = begin(slot)
    first, second = slot.cancel("one", "remote"), slot.cancel("two")
    assert first
    assert second
    assert (first.first, second.first) == (True, False)
    assert first.reason == second.reason == "one"
    assert claim.token.cancelled
    assert claim.finish() == "one"
    slot.end(claim)


def test_finished_wins_over_a_later_cancel():
    """Once the run has settled that it finished, every cancel misses."""
    slot = RunSlot()
    claim = begin(slot)
    assert claim.finish() is None
    assert not slot.cancel("late")
    assert not claim.token.cancelled
    assert not claim.token.cancel("later still")
    slot.end(claim)


def test_a_cancel_of_the_token_counts_as_well():
    """Deadline, parent or user: the run is cancelled, and cancel() says not first."""
    slot = RunSlot()
    claim = begin(slot, CancelToken())
    claim.token.cancel("time", "deadline")
    receipt = slot.cancel("me too")
    assert receipt
    assert not receipt.first
    assert claim.finish().origin == "deadline"
    slot.end(claim)


def test_one_run_at_a_time():
    """A second run is refused at once, and its token is left as it was."""
    slot = RunSlot()
    claim = begin(slot)
    waiting = RunClaim()
    with pytest.raises(AgentBusy, match="live run"):
        slot.begin(waiting)
    slot.end(waiting)
    assert slot.live is claim
    slot.end(claim)
    slot.end(begin(slot))


def test_live_runs_are_known():
    """Every live run of the process is listed, and leaves when it ends."""
    slots = [RunSlot(), RunSlot()]
    claims = [begin(slot) for slot in slots]
    assert live_runs()[-2:] == claims
    for slot, claim in zip(slots, claims, strict=True):
        slot.end(claim)
    assert not set(claims) & set(live_runs())


def test_receipt_waits_until_the_run_has_really_ended():
    """receipt.wait() is true only once the run is over; latency says how long."""
    slot, gate = RunSlot(), Gate()

    def run():
        claim = begin(slot)
        claim.phase = "first token"
        gate.stop_here()
        slot.end(claim)

    def cancel():
        gate.wait_reached()
        receipt = slot.cancel()
        assert receipt.phase == "first token"
        assert receipt.wait(0.001) is False
        assert receipt.latency is None
        gate.open()
        assert receipt.wait(LONG) is True
        assert receipt.latency > 0

    together(run, cancel)


def test_receipt_does_not_wait_on_the_runs_own_thread():
    """A tool that cancels its own run and waits for it gets an answer."""
    slot = RunSlot()
    claim = begin(slot)
    receipt = slot.cancel()
    assert receipt.wait() is False
    assert "ending" in repr(receipt)
    slot.end(claim)
    assert receipt.wait() is True
    assert "ended" in repr(receipt)


def test_latency_is_from_the_first_cancel_to_the_end():
    """The receipt measures what the user waited for."""
    slot = RunSlot()
    with FakeClock() as clock:
        claim = begin(slot)
        receipt = slot.cancel()
        clock.advance(0.25)
        slot.end(claim)
    assert receipt.latency == pytest.approx(0.25)


def test_a_token_in_use_cannot_be_reset():
    """Clearing the signal of a live run would lose its cancel: refused."""
    slot = RunSlot()
    claim = begin(slot)
    slot.cancel("stop")
    with pytest.raises(RuntimeError, match="live run"):
        claim.token.signal.clear()
    assert claim.finish() == "stop"
    slot.end(claim)
    claim.token.reset()
    assert not claim.token.cancelled


def test_a_token_is_for_one_run():
    """A second run on the same token would be uncancellable, or take its cancels."""
    slot, token = RunSlot(), CancelToken()
    claim = begin(slot, token)
    with pytest.raises(ConfigurationError, match="another run"):
        RunClaim(token)
    slot.end(claim)
    with pytest.raises(ConfigurationError, match="another run"):
        RunClaim(token)
    token.reset()
    again = begin(slot, token)
    assert claim.cancel("meant for the first run").first is False
    assert not token.cancelled
    assert slot.cancel("for the second")
    assert again.finish() == "for the second"
    slot.end(again)


def test_a_dropped_claim_frees_its_place():
    """An exception between a run and its end() leaves no agent busy for ever."""
    slot = RunSlot()
    claim = begin(slot)
    receipt = slot.cancel()
    del claim
    assert slot.live is None
    assert receipt.wait(LONG) is True
    slot.end(begin(slot))


def test_an_exception_anywhere_in_begin_or_end_frees_the_place():
    """Ctrl+C at any step of a run's begin and end leaves the agent usable."""

    def run(slot):
        claim = RunClaim()
        try:
            slot.begin(claim)
        finally:
            slot.end(claim)

    seen = 0
    for steps in range(1, 10_000):
        slot = RunSlot()
        if not interrupted(lambda slot=slot: run(slot), steps):
            break
        seen += 1
        assert slot.live is None, steps
        slot.end(begin(slot))
    assert seen > 50
    assert live_runs() == []


def race(runs, cancellers):
    """Run and cancel at about the same moment; return (claim, cancelled), receipts."""
    slot = RunSlot()
    outcomes, receipts = [], [[] for _ in range(cancellers)]
    over = threading.Event()

    def run():
        try:
            for number in range(runs):
                claim = begin(slot)
                for _ in range(number % 7):
                    claim.token.cancelled  # noqa: B018 - some work
                outcomes.append((claim, claim.finish() is not None))
                slot.end(claim)
        finally:
            over.set()

    def cancel(mine):
        for number in itertools.count():
            receipt = slot.cancel(str(number))
            if receipt:
                mine.append(receipt)
            if over.is_set():
                return

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        cancels = [lambda mine=mine: cancel(mine) for mine in receipts]
        together(run, *cancels, timeout=300)
    finally:
        sys.setswitchinterval(interval)
    return outcomes, [receipt for mine in receipts for receipt in mine]


def check_exactness(outcomes, receipts):
    hit = {}
    for receipt in receipts:
        hit.setdefault(receipt._end, []).append(receipt.first)
    for claim, cancelled in outcomes:
        firsts = hit.pop(claim._ended, [])
        assert cancelled == bool(firsts)
        assert sum(firsts) == cancelled
    assert not hit


@pytest.mark.parametrize("runs", [5_000, pytest.param(100_000, marks=stress)])
@pytest.mark.slow
def test_exact_over_many_runs(runs):
    """Promise 3: a receipt is true if and only if its run says cancelled."""
    outcomes, receipts = race(runs=runs, cancellers=2)
    check_exactness(outcomes, receipts)
    cancelled = sum(cancelled for _, cancelled in outcomes)
    assert 0 < cancelled < len(outcomes)


@stress
@pytest.mark.parametrize(
    ("cancellers", "runs"), [(1, 300_000), (8, 50_000), (50, 5_000)]
)
def test_exact_with_many_cancellers(cancellers, runs):
    """Promise 3, longer, and with up to fifty threads that cancel one agent."""
    check_exactness(*race(runs=runs, cancellers=cancellers))
