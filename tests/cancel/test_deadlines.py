"""Tokens that cancel by themselves."""

import gc
import sys
import threading
import time
import weakref

import pytest
from support.threads import LONG

from syncagent import Cancelled, CancelToken
from syncagent.cancel import Killable, threads
from syncagent.cancel.threads import Timer
from syncagent.testing import FakeClock


@pytest.fixture
def clock():
    with FakeClock() as clock:
        yield clock


def test_timeout_cancels_when_it_has_passed(clock):
    """Past its timeout a token is cancelled, with origin deadline."""
    token = CancelToken(timeout=5)
    clock.advance(4.9)
    token.checkpoint()
    clock.advance(0.1)
    with pytest.raises(Cancelled, match="deadline"):
        token.checkpoint()
    assert token.origin == "deadline"


def test_deadline_is_absolute(clock):
    """deadline= is a monotonic time, and may lie in the past."""
    assert CancelToken(deadline=clock.now() - 1).cancelled
    assert CancelToken(deadline=float("-inf")).cancelled
    assert not CancelToken(deadline=float("inf")).cancelled
    token = CancelToken(deadline=clock.now() + 3)
    assert token.deadline == clock.now() + 3
    assert token.remaining() == pytest.approx(3)
    clock.advance(10)
    assert token.remaining() == 0


def test_earliest_deadline_on_the_way_up_counts(clock):
    """A child's deadline is the earlier of its own and its parent's."""
    parent = CancelToken(timeout=5)
    assert parent.child(timeout=9).remaining() == pytest.approx(5)
    assert parent.child(timeout=2).remaining() == pytest.approx(2)
    assert parent.child().child().remaining() == pytest.approx(5)
    other = CancelToken(timeout=3)
    assert CancelToken.any_of(parent, other).remaining() == pytest.approx(3)


def test_child_is_cancelled_by_its_parents_deadline(clock):
    """Whoever looks first, the deadline is the parent's and the child says so."""
    parent = CancelToken(timeout=5)
    child = parent.child()
    clock.advance(5)
    assert child.origin == "parent"
    assert parent.origin == "deadline"


def test_linked_token_takes_a_deadline_over_as_it_is(clock):
    """any_of() says deadline, not parent."""
    linked = CancelToken.any_of(CancelToken(timeout=5), CancelToken())
    clock.advance(5)
    assert linked.origin == "deadline"


def test_childs_own_deadline_leaves_the_parent_alone(clock):
    """A tool's timeout ends the tool."""
    parent = CancelToken(timeout=5)
    child = parent.child(timeout=1)
    clock.advance(1)
    assert child.origin == "deadline"
    assert not parent.cancelled


def test_a_deadline_that_has_passed_was_first(clock):
    """A cancel after the deadline is not the first, though nobody had looked."""
    token = CancelToken(timeout=5)
    clock.advance(5)
    assert token.cancel("too late") is False
    assert token.origin == "deadline"


def test_deadline_ends_a_wait():
    """Promise 2: a wait without a timeout ends at the token's deadline."""
    assert CancelToken(timeout=0.01).wait() is True


def test_shorter_timeout_of_a_wait_counts(clock):
    """A wait that is shorter than the deadline ends without a cancel."""
    token = CancelToken(timeout=100)
    done = []
    thread = threading.Thread(target=lambda: done.append(token.wait(1)))
    thread.start()
    clock.wait_for_sleepers()
    clock.advance(1)
    thread.join(LONG)
    assert done == [False]


def test_waits_need_no_timer_thread():
    """A token with a deadline that is only waited on costs no timer."""
    before = len(threads.current.timer._inbox) + len(threads.current.timer._heap)
    token = CancelToken(timeout=0.001)
    token.wait()
    after = len(threads.current.timer._inbox) + len(threads.current.timer._heap)
    assert token._home is None
    assert after <= before


def test_deadline_fires_what_hangs_on_the_token():
    """The one timer thread reaches callbacks and killables at the deadline."""
    fired = threading.Event()

    class Bell(Killable):
        def fire(self):
            fired.set()

    called = threading.Event()
    token = CancelToken(timeout=0.01)
    bell = Bell()
    token.attach(bell)
    token.on_cancel(called.set)
    assert fired.wait(LONG)
    assert called.wait(LONG)
    assert token.detach(bell) is False


def test_registered_after_an_unnoticed_deadline_runs_at_once():
    """A deadline that nobody had looked at counts, even if the token is dropped."""
    called = threading.Event()
    CancelToken(timeout=0).on_cancel(called.set)
    assert called.wait(LONG)


def test_timers_fire_in_order_of_time(clock):
    """A deadline set later but due earlier is served first."""
    order = []
    done = threading.Event()
    late, early = CancelToken(timeout=20), CancelToken(timeout=10)
    late.on_cancel(lambda: (order.append("late"), done.set()))
    early.on_cancel(lambda: order.append("early"))
    clock.advance(10)
    assert early.wait(LONG)
    assert not late.cancelled
    clock.advance(10)
    assert done.wait(LONG)
    assert order == ["early", "late"]


def test_timer_does_not_keep_tokens_alive():
    """A token with a far deadline goes when its last user does."""
    token = CancelToken(timeout=3600)
    token.on_cancel(print)
    ref = weakref.ref(token)
    del token
    gc.collect()
    assert ref() is None


def test_timers_of_dead_tokens_do_not_pile_up():
    """A million short runs with an hour's timeout leave no million timers."""
    timer = threads.current.timer
    for _ in range(20_000):
        CancelToken(timeout=3600).on_cancel(print)
    end = time.monotonic() + LONG
    while len(timer._inbox) + len(timer._heap) > 5000 and time.monotonic() < end:
        threading.Event().wait(0.01)
    assert len(timer._inbox) + len(timer._heap) <= 5000


def test_a_passed_deadline_is_dropped_by_reset(clock):
    """After reset() a token is live again, though its time had run out."""
    token = CancelToken(timeout=5)
    clock.advance(5)
    assert token.cancelled
    token.reset()
    assert not token.cancelled
    assert token.deadline is None


def test_a_deadline_ahead_survives_reset(clock):
    """reset() takes a cancel back, not the limit."""
    token = CancelToken(timeout=5)
    token.cancel()
    token.reset()
    assert not token.cancelled
    clock.advance(5)
    assert token.origin == "deadline"


def test_reset_arms_the_parents_deadline_again(clock):
    """What hangs on a reset child is still reached by the parent's deadline."""
    parent = CancelToken(timeout=10)
    child = parent.child(timeout=5)
    child.on_cancel(print)
    clock.advance(5)
    assert child.origin == "deadline"
    child.reset()
    called = threading.Event()
    child.on_cancel(called.set)
    clock.advance(5)
    assert called.wait(LONG)
    assert child.origin == "parent"


def test_a_start_that_is_interrupted_leaves_one_thread():
    """Ctrl+C while the timer thread starts: there is one, and it keeps time."""
    timer, token = Timer(print), CancelToken()
    before = set(threading.enumerate())

    def interrupt(frame, event, arg):
        if frame.f_code.co_name == "wait" and frame.f_back.f_code.co_name == "start":
            raise KeyboardInterrupt

    sys.settrace(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            timer.call_at(time.monotonic() + 60, CancelToken.cancel, token)
    finally:
        sys.settrace(None)
    timer.call_at(time.monotonic(), CancelToken.cancel, token)
    assert token.wait(LONG)

    def mine():
        return [t for t in threading.enumerate() if t not in before and t.is_alive()]

    pause, end = threading.Event(), time.monotonic() + LONG
    while len(mine()) != 1:  # the other one may come late, and then goes at once
        assert time.monotonic() < end
        pause.wait(0.001)
    [thread] = mine()
    timer.retire()
    timer.look_again()
    thread.join(LONG)
