"""A line of waiting threads: in order, exact, and safe at every interruption."""

import math
import sys
import threading
import time

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
)
from support.threads import LONG, together

from syncagent import CancelToken
from syncagent.cancel.line import NOW, Line, LinePlace
from syncagent.exceptions import Cancelled
from syncagent.testing import FakeClock


class Seats(Line):
    """A line for a number of seats."""

    def __init__(self, number):
        super().__init__()
        self.number = number
        self.taken = {}
        self.order = []

    def decide(self, place):
        return NOW if len(self.taken) < self.number else math.inf

    def admit(self, place):
        if place not in self.taken:
            self.order.append(place)
        self.taken[place] = None

    def withdraw(self, place):
        self.taken.pop(place, None)

    def leave(self, place):
        self.taken.pop(place, None)
        self.look()


class Lines(RuleBasedStateMachine):
    """Join, leave and give up in any order: first come, first served."""

    placed = Bundle("placed")

    def __init__(self):
        super().__init__()
        self.line = Seats(3)
        self.joined, self.gone = [], set()

    @rule(target=placed, count=st.integers(1, 4))
    def join(self, count):
        """Some more come."""
        places = [LinePlace() for _ in range(count)]
        for place in places:
            self.line.places[place] = None
            self.line.look()
        self.joined += places
        return multiple(*places)

    @rule(place=consumes(placed))
    def leave(self, place):
        """One goes, from its seat or out of the line."""
        self.gone.add(place)
        if place.is_admitted:
            self.line.leave(place)
        else:
            self.line.give_up(place)

    @invariant()
    def seats_are_full_or_nobody_waits(self):
        """Nobody waits while there is a seat, and no seat is taken twice."""
        assert len(self.line.taken) <= 3
        assert not self.line.places or len(self.line.taken) == 3
        assert not set(self.line.taken) & self.gone

    @invariant()
    def nobody_overtakes(self):
        """Those who were admitted are in the order in which they came."""
        waiting = [place for place in self.joined if not place.fate]
        assert list(self.line.places) == waiting
        came = [place for place in self.joined if place in set(self.line.order)]
        assert came == self.line.order


TestLines = Lines.TestCase
TestLines.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@pytest.mark.parametrize("seats", [1, 3])
def test_many_threads_take_turns(seats):
    """60 threads, 50 times each: never more than the seats, and nobody is lost."""
    line, most, counts = Seats(seats), [], []

    def work():
        for _ in range(50):
            place = LinePlace()
            line.wait(place, CancelToken(), lambda: None)
            most.append(len(line.taken))
            line.leave(place)
        counts.append(1)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        together(*[work] * 60, timeout=60)
    finally:
        sys.setswitchinterval(interval)
    assert len(counts) == 60
    assert max(most) <= seats
    assert not line.places
    assert not line.taken


def test_cancels_race_with_turns():
    """Some are cancelled as their turn comes: no seat is lost, and none taken twice."""
    line, tokens, ends = Seats(1), [CancelToken() for _ in range(300)], []

    def work(mine):
        for token in mine:
            place = LinePlace()
            try:
                line.wait(place, token, lambda: None)
            except Cancelled:
                ends.append("cancelled")
                continue
            assert len(line.taken) == 1
            ends.append("went")
            line.leave(place)

    def cancel():
        for token in tokens[::2]:
            token.cancel("race")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        together(*[lambda n=n: work(tokens[n::30]) for n in range(30)], cancel)
    finally:
        sys.setswitchinterval(interval)
    assert len(ends) == 300
    assert not line.places
    assert not line.taken


def test_time_opens_the_line():
    """Only the first in line watches the clock, and the others follow."""

    class Hours(Seats):
        opens_at = math.inf

        def decide(self, place):
            return max(self.opens_at, super().decide(place))

    line, went = Hours(9), []
    with FakeClock() as clock:
        line.opens_at = clock.now() + 100

        def work():
            line.wait(LinePlace(), CancelToken(), lambda: None)
            went.append(clock.now())

        threads = [threading.Thread(target=work) for _ in range(5)]
        for thread in threads:
            thread.start()
        clock.wait_for_sleepers(5)
        clock.advance(99)
        assert not went
        clock.advance(2)
        for thread in threads:
            thread.join(LONG)
    assert len(went) == 5


def test_an_exception_at_any_step_loses_nobody():
    """A signal handler raises at the n-th step of a look, and it goes on."""

    class Watchdog(Exception):
        pass

    for number in range(1, 400):
        line, first, second = Seats(1), LinePlace(), LinePlace()
        line.places[first] = line.places[second] = None
        line.look()
        assert first.is_admitted
        count = [number]

        def trace(frame, event, arg, count=count):
            if "cancel/line" not in frame.f_code.co_filename:
                return None
            count[0] -= 1
            if count[0] == 0:
                raise Watchdog
            return trace

        line.taken.pop(first)
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            line.look()
        except Watchdog:
            pass
        finally:
            sys.settrace(before)
        line.look()  # the next one who looks
        assert second.is_admitted, number
        assert second.bell.wait(time.monotonic() + 1), number
        assert list(line.taken) == [second]
        if count[0] > 0:
            assert number > 20
            return
    raise AssertionError("a look has more than 400 steps")
