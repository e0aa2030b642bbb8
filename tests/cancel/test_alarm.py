"""A deadline that moves."""

import gc
import random
import sys
import weakref

from support.threads import LONG, together

from syncagent import CancelToken
from syncagent.cancel import Alarm
from syncagent.testing import FakeClock


def test_it_cancels_when_it_is_due():
    """The token learns why, with origin deadline; its parent learns nothing."""
    parent = CancelToken()
    token = parent.child()
    alarm = Alarm(token)
    alarm.set(0.01, "too slow")
    assert token.wait(LONG)
    assert (token.reason, token.origin) == ("too slow", "deadline")
    assert not parent.cancelled


def test_it_moves():
    """Whoever is in time at every step is never cancelled; the first miss counts."""
    with FakeClock() as clock:
        token = CancelToken()
        alarm = Alarm(token)
        for _ in range(5):
            alarm.set(10, "step")
            clock.advance(9)
            assert not token.wait(0)
        clock.advance(2)
        assert token.wait(LONG)


def test_an_earlier_time_counts():
    """The next step may have less time than was left for the one before."""
    with FakeClock() as clock:
        token = CancelToken()
        alarm = Alarm(token)
        alarm.set(1000, "slow step")
        alarm.set(1, "fast step")
        clock.advance(2)
        assert token.wait(LONG)
        assert token.reason == "fast step"


def test_it_stops():
    """What is stopped never fires, and can be set again."""
    with FakeClock() as clock:
        token, other = CancelToken(), CancelToken()
        alarm, witness = Alarm(token), Alarm(other)
        alarm.set(1, "first")
        alarm.stop()
        witness.set(2, "the timer has been past that")
        clock.advance(2)
        assert other.wait(LONG)
        assert not token.cancelled
        alarm.set(1, "second")
        clock.advance(1)
        assert token.wait(LONG)
        assert token.reason == "second"


def test_nothing_keeps_it_alive():
    """A forgotten alarm is gone, and fires no more."""
    alarm = Alarm(CancelToken())
    alarm.set(3600, "later")
    gone = weakref.ref(alarm)
    del alarm
    gc.collect()
    assert gone() is None


def test_it_is_never_lost_among_threads():
    """Moved about while the timer looks at it, the last time still counts."""

    def work(seed):
        randomly = random.Random(seed)
        for _ in range(100):
            token = CancelToken()
            alarm = Alarm(token)
            for _ in range(20):
                alarm.set(randomly.choice([0.0002, 30]), "moved")
            alarm.set(randomly.uniform(0, 0.0004), "last")
            assert token.wait(LONG)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        together(*(lambda seed=seed: work(seed) for seed in range(8)))
    finally:
        sys.setswitchinterval(interval)
