"""A new generation of the same token."""

import sys
import threading

import pytest
from counting import Counter
from crew import LONG, together

from syncagent import CancelToken


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
