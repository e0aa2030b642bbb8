"""A new generation of the same token."""

import sys
import threading

import pytest
from counting import Counter
from support.interrupting import interrupted
from support.threads import LONG, together

from syncagent import Cancelled, CancelToken
from syncagent.cancel.generation import spread
from syncagent.testing import FakeClock


def test_reset_makes_a_token_live_again():
    """Promise 8: after reset() the token is as good as new."""
    token = CancelToken()
    token.cancel("before")
    token.reset()
    assert not token.cancelled
    token.checkpoint()
    assert token.cancel("after") is True
    assert token.reason == "after"


def test_a_wait_goes_on_over_a_reset():
    """reset() neither ends a wait nor makes it deaf to the next cancel."""
    token = CancelToken()
    answers = []
    thread = threading.Thread(target=lambda: answers.append(token.wait(LONG)))
    thread.start()
    while not token._generation.links:
        pass
    token.reset()
    assert thread.is_alive()
    token.cancel()
    thread.join(LONG)
    assert answers == [True]


def test_killables_stay_over_a_reset():
    """What the SDK hangs on a token stays reachable: nothing becomes uncancellable."""
    token, counter, taken = CancelToken(), Counter(), Counter()
    token.attach(counter)
    token.attach(taken)
    token.reset()
    assert token.detach(taken) is True
    token.cancel()
    assert (counter.fired, taken.fired) == (1, 0)


def test_fired_killables_do_not_come_back():
    """What the old generation's cancel fired is not fired by the new one's."""
    token, counter = CancelToken(), Counter()
    token.attach(counter)
    token.cancel()
    token.reset()
    token.cancel()
    assert counter.fired == 1
    assert not token._generation.links


def test_children_stay_children():
    """A child made before the reset is cancelled with its parent after it."""
    parent = CancelToken()
    child = parent.child()
    parent.reset()
    parent.cancel("after")
    assert child.reason == "after"


def test_family_can_be_reset_and_used_again():
    """Parent and child, both reset after a cancel, are linked as before."""
    parent = CancelToken()
    child = parent.child()
    parent.cancel("one")
    parent.reset()
    child.reset()
    assert not child.cancelled
    parent.cancel("two")
    assert child.reason == "two"


def test_child_under_a_cancelled_parent_cannot_be_reset_away():
    """As long as the parent is cancelled, so is the child."""
    parent = CancelToken()
    child = parent.child()
    parent.cancel("stop")
    child.reset()
    assert (child.reason, child.origin) == ("stop", "parent")


def test_a_sleep_that_was_cancelled_says_so_after_a_reset():
    """sleep() raises for the cancel that woke it, though the token is live again."""
    token = CancelToken()
    seen = []

    def sleep():
        with pytest.raises(Cancelled, match="woken"):
            token.sleep(LONG)
        seen.append("raised")

    thread = threading.Thread(target=sleep)
    thread.start()
    while not token._generation.links:
        pass
    token.cancel("woken")
    token.reset()
    thread.join(LONG)
    assert seen == ["raised"]


def test_callbacks_of_a_cancel_run_though_a_reset_follows():
    """A cancel that has happened is not undone for those who wait to be told."""
    for _ in range(50):
        token, called = CancelToken(), threading.Event()
        token.on_cancel(called.set)
        token.cancel()
        token.reset()
        assert called.wait(LONG)


def test_a_cancel_that_meets_a_reset_hits_the_new_generation():
    """No cancel is lost to the generation that a reset has just retired."""
    token, counter = CancelToken(), Counter()
    token.attach(counter)
    old = token._current()
    token.reset()
    token._generation = old  # a canceller that looked a moment too early
    assert token.cancel("late") is True
    assert token.reason == "late"
    assert counter.fired == 1


def test_a_deadline_is_of_one_generation():
    """Who was about to cancel for an old deadline leaves the new one alone."""
    with FakeClock() as clock:
        token = CancelToken(timeout=1)
        old = token._current()
        clock.advance(1)
        token.reset()
        token._look_at_clock(old)
        assert not token.cancelled


def test_a_slow_cancel_does_not_reach_children_that_were_reset():
    """Parent and child, both reset, are not cancelled by what came before."""
    parent = CancelToken()
    child = parent.child()
    parent.cancel("before")
    old = parent._current()
    parent.reset()
    child.reset()
    spread([old], object())  # somebody who began before the resets
    assert not child.cancelled


def test_an_exception_anywhere_in_reset_leaves_nobody_deaf():
    """Ctrl+C in the middle of reset(): the next cancel reaches everybody."""
    seen = 0
    for steps in range(1, 10_000):
        token, counter = CancelToken(), Counter()
        child = token.child()
        token.attach(counter)
        if not interrupted(token.reset, steps):
            break
        seen += 1
        assert token.cancel() is True
        assert child.cancelled, steps
        assert counter.fired == 1, steps
    assert seen > 50


@pytest.mark.parametrize("seed", range(3))
def test_cancel_and_reset_at_the_same_moment(seed):
    """A cancel is of one generation: what hangs on the token is fired at most once."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(200):
            token, counter = CancelToken(), Counter()
            token.attach(counter)
            child = token.child()
            together(token.cancel, token.reset, token.reset)
            token.cancel("last")
            assert counter.fired == 1
            assert child.cancelled
    finally:
        sys.setswitchinterval(interval)
