"""Everything at once, from many threads."""

import gc
import random
import sys
import time

import pytest
from counting import Counter
from support.threads import LONG, together

from syncagent import Cancelled, CancelToken


class Storm:
    """Threads that do everything there is to a few shared tokens.

    Every killable must end fired or taken back, exactly one of them and once; every
    callback must run at most once, and never after it was taken back; the reason that
    stands must be that of the one call of its generation that returned true.
    """

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds
        self.tokens = [CancelToken() for _ in range(3)]
        self.kept = []
        self.wrong = []
        self.steps = 0

    def work(self, seed):
        randomly = random.Random(seed)
        acts = [self.cancel, self.attach, self.register, self.family, self.wait]
        acts += [self.reset, self.solo]
        while time.monotonic() < self.end:
            randomly.choice(acts)(randomly.choice(self.tokens), randomly)
            self.steps += 1

    def cancel(self, token, randomly):
        token.cancel(str(randomly.random()))

    def reset(self, token, randomly):
        token.reset()

    def attach(self, token, randomly):
        counter = Counter()
        token.attach(counter)
        if randomly.random() < 0.1:
            self.kept.append((token, counter))
        elif token.detach(counter) != (counter.fired == 0):
            # The canceller owns it: it may be about to fire.
            self.kept.append((None, counter))

    def register(self, token, randomly):
        calls = []
        registration = token.on_cancel(lambda: calls.append(1))
        if randomly.random() < 0.5 and registration.close() and calls:
            self.wrong.append("called, but taken back in time")
        if len(calls) > 1:
            self.wrong.append("called twice")

    def family(self, token, randomly):
        child = token.child()
        grandchild = CancelToken.any_of(child, randomly.choice(self.tokens))
        counter = Counter()
        grandchild.attach(counter)
        child.cancel("child")
        if not grandchild.cancelled:
            self.wrong.append("a child's cancel did not come down")
        self.kept.append((grandchild, counter))

    def wait(self, token, randomly):
        token.wait(randomly.choice((0, 1e-5, 1e-4)))
        try:
            token.checkpoint()
        except Cancelled:
            pass

    def solo(self, token, randomly):
        mine = CancelToken()
        firsts = [mine.cancel(str(number)) for number in range(3)]
        if firsts != [True, False, False] or mine.reason != "0":
            self.wrong.append("the first reason did not stay")

    def check(self):
        for token in self.tokens:
            token.cancel("last")
        assert self.wrong == []
        lost = [c for token, c in self.kept if token is not None and c.fired != 1]
        twice = [c for token, c in self.kept if c.fired > 1]
        assert (lost, twice) == ([], [])


def blow(seconds, threads):
    storm = Storm(seconds)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        workers = [lambda seed=seed: storm.work(seed) for seed in range(threads)]
        together(*workers, timeout=seconds + 60)
    finally:
        sys.setswitchinterval(interval)
    storm.check()
    assert storm.steps > threads


@pytest.mark.slow
def test_a_hundred_threads_do_everything_at_once():
    """Nothing is lost, nothing is fired twice, the first reason wins."""
    blow(seconds=1, threads=100)


@pytest.mark.stress
@pytest.mark.parametrize("threads", [2, 10, 100, 400])
def test_a_long_storm(threads):
    """The same for longer, with few and with many threads."""
    blow(seconds=40, threads=threads)


def test_one_of_many_cancellers_is_first():
    """Of fifty threads that cancel, one is told that it was first: its reason stays."""
    for _ in range(20):
        token, firsts = CancelToken(), []

        def cancel(name, token=token, firsts=firsts):
            if token.cancel(name):
                firsts.append(name)

        together(*(lambda n=n: cancel(str(n)) for n in range(50)))
        assert firsts == [token.reason]


@pytest.mark.slow
def test_cancel_in_a_finalizer():
    """Promise 1: __del__ may cancel, wherever the collector happens to run it."""
    token, seen = CancelToken(), []

    class Doomed:
        def __init__(self):
            self.me = self  # only the collector can free it

        def __del__(self):
            seen.append(token.cancel("finalized"))
            token.reset()

    threshold = gc.get_threshold()
    gc.set_threshold(50)  # in the middle of everything
    try:
        for _ in range(20_000):
            Doomed()
            token.child().attach(Counter())
            token.wait(0)
    finally:
        gc.set_threshold(*threshold)
        gc.collect()
    assert len(seen) == 20_000


def test_cancel_ten_thousand_children_from_two_threads():
    """All are cancelled when both calls have returned, and each thing fired once."""
    parent = CancelToken()
    children = [parent.child() for _ in range(10_000)]
    counters = []
    for child in children[::100]:
        counter = Counter()
        child.attach(counter)
        counters.append(counter)
    together(parent.cancel, parent.cancel, timeout=LONG)
    assert all(child.cancelled for child in children)
    assert {counter.fired for counter in counters} == {1}
