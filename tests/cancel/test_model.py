"""Tokens against a reference that is too simple to be wrong."""

import threading

import pytest
from counting import Counter
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from syncagent import Cancelled, CancelToken
from syncagent.testing import FakeClock

pytestmark = pytest.mark.slow


class Model:
    """What a token should be: no threads, no links, everything looked up each time."""

    def __init__(self, parents=(), deadline=None, verbatim=False):
        self.parents = parents
        self.own_deadline = deadline
        self.verbatim = verbatim
        self.cause = None
        self.children = []
        self.background = False
        for parent in parents:
            parent.children.append(self)

    def deadline(self):
        known = [p.deadline() for p in self.parents] + [self.own_deadline]
        return min((d for d in known if d is not None), default=None)

    def cancel(self, reason, origin):
        first = self.cause is None
        if first:
            self.cause = (reason, origin)
            self.spread()
        return first

    def cancel_from(self, cause):
        if self.cause is None:
            self.cause = cause if self.verbatim else (cause[0], "parent")
            return True
        return False

    def spread(self):
        """Reach everybody below, the nearest first: the shortest way counts."""
        reached = [self]
        for model in reached:
            reached += [c for c in model.children if c.cancel_from(model.cause)]

    def tick(self, now):
        """Cancel what is past its deadline, from the top down."""
        due = self.own_deadline is not None and self.own_deadline <= now
        if due and self.cause is None:
            self.cancel("deadline passed", "deadline")

    def reset(self, now):
        self.cause = None
        self.background = False
        if self.own_deadline is not None and self.own_deadline <= now:
            self.own_deadline = None
        for parent in self.parents:
            if parent.cause is not None and self.cancel_from(parent.cause):
                self.spread()


class Tokens(RuleBasedStateMachine):
    """Do anything in any order; token and model must agree after every step."""

    tokens = Bundle("tokens")
    counters = Bundle("counters")

    def __init__(self):
        super().__init__()
        self.clock = FakeClock()
        self.clock.__enter__()
        self.pairs = []
        self.attached = []

    def teardown(self):
        self.clock.__exit__(None, None, None)

    def add(self, token, model):
        self.pairs.append((token, model))
        return token, model

    @rule(target=tokens, timeout=st.none() | st.integers(0, 20))
    def new(self, timeout):
        deadline = None if timeout is None else self.clock.now() + timeout
        return self.add(CancelToken(timeout), Model(deadline=deadline))

    @rule(target=tokens, parent=tokens, timeout=st.none() | st.integers(0, 20))
    def child(self, parent, timeout):
        self.tick()
        deadline = None if timeout is None else self.clock.now() + timeout
        model = Model((parent[1],), deadline)
        if parent[1].cause is not None:
            model.cancel_from(parent[1].cause)
        return self.add(parent[0].child(timeout), model)

    @rule(target=tokens, one=tokens, other=tokens)
    def any_of(self, one, other):
        self.tick()
        model = Model((one[1], other[1]), verbatim=True)
        for parent in (one[1], other[1]):
            if parent.cause is not None:
                model.cancel_from(parent.cause)
        return self.add(CancelToken.any_of(one[0], other[0]), model)

    @rule(
        pair=tokens,
        reason=st.text(max_size=3),
        origin=st.sampled_from(["user", "limit"]),
    )
    def cancel(self, pair, reason, origin):
        self.tick()
        assert pair[0].cancel(reason, origin) == pair[1].cancel(reason, origin)

    @rule(pair=tokens)
    def reset(self, pair):
        self.tick()
        pair[0].reset()
        pair[1].reset(self.clock.now())

    @rule(seconds=st.integers(0, 10))
    def advance(self, seconds):
        self.clock.advance(seconds)
        self.tick()

    @rule(target=counters, pair=tokens)
    def attach(self, pair):
        counter = Counter()
        counter.token, counter.model = pair
        counter.expected, counter.live = 0, True
        pair[0].attach(counter)
        self.attached.append(counter)
        return counter

    @rule(counter=counters)
    def detach(self, counter):
        self.settle()
        assert counter.token.detach(counter) == (counter.expected == 0)
        counter.live = False

    @rule(pair=tokens)
    def ask_for_background(self, pair):
        pair[0].request_background()
        pair[1].background = True

    def tick(self):
        """Let both sides notice what time it is, parents first."""
        for token, model in self.pairs:
            model.tick(self.clock.now())
            assert token.cancelled == (model.cause is not None)

    def settle(self):
        self.tick()
        for counter in self.attached:
            if counter.live and counter.model.cause is not None:
                counter.expected, counter.live = 1, False

    @invariant()
    def they_agree(self):
        self.settle()
        for token, model in self.pairs:
            cause = None if token.reason is None else (token.reason, token.origin)
            assert cause == model.cause
            assert token.background_requested == model.background
            assert token.signal.is_set() == token.cancelled == token.wait(0)
            if cause is None:
                token.checkpoint()
            else:
                with pytest.raises(Cancelled):
                    token.checkpoint()

    @invariant()
    def killables_agree(self):
        self.settle()
        pause = threading.Event()
        for counter in self.attached:
            for _ in range(1000):  # the timer thread may own it and be about to fire
                if counter.fired == counter.expected:
                    break
                pause.wait(0.01)
            assert counter.fired == counter.expected


Tokens.TestCase.settings = settings(
    max_examples=50, stateful_step_count=40, deadline=None
)
TestTokens = Tokens.TestCase


@pytest.mark.stress
class TestTokensForLong(Tokens.TestCase):
    """The same, with many more examples."""

    settings = settings(max_examples=1000, stateful_step_count=40, deadline=None)
