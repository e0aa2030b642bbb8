"""What the SDK hangs on a token to end it at once."""

import gc
import socket
import sys
import weakref

import pytest
from counting import Counter, Sock
from support.interrupting import interrupted
from support.threads import together

from syncagent import CancelToken
from syncagent.cancel import Killable
from syncagent.testing import Gate


def test_cancel_fires_once():
    """A killable is fired by the first cancel and never again."""
    token, counter = CancelToken(), Counter()
    token.attach(counter)
    together(*[token.cancel] * 10)
    token.cancel()
    assert counter.fired == 1
    assert token.detach(counter) is False


def test_taken_back_is_never_fired():
    """Once taken back, no cancel touches it."""
    token, counter = CancelToken(), Counter()
    token.attach(counter)
    assert token.detach(counter) is True
    token.cancel()
    assert counter.fired == 0
    assert not token._generation.links


def test_attached_late_is_fired_at_once():
    """Promise 6: on a cancelled token nothing can be begun unnoticed."""
    token, counter = CancelToken(), Counter()
    token.cancel()
    token.attach(counter)
    assert counter.fired == 1
    assert token.detach(counter) is False


def test_parents_cancel_fires_what_hangs_on_children():
    """A cancel reaches the sockets of sub-agents and tools."""
    root, counter = CancelToken(), Counter()
    child = root.child().child()
    child.attach(counter)
    root.cancel()
    assert counter.fired == 1


def test_one_that_breaks_its_contract_does_not_stop_the_others():
    """An exception in one killable is not the end of the cancel, nor of cancel()."""

    class Broken(Killable):
        def fire(self):
            raise OSError("not connected")

    token, counter = CancelToken(), Counter()
    token.attach(Broken())
    token.attach(counter)
    assert token.cancel() is True
    assert counter.fired == 1


def test_one_that_cannot_be_let_go_does_not_stop_the_others():
    """After a fork every killable of the parent is dropped, whatever one does."""

    class Broken(Counter):
        def let_go(self):
            raise OSError("bad descriptor")

    token, broken, counter = CancelToken(), Broken(), Counter()
    token.attach(broken)
    token.attach(counter)
    token._cut_after_fork()
    assert counter.let_gone == 1
    assert token.detach(broken) is False


def test_a_blocked_recv_is_ended():
    """Promise 2: a thread that reads from a silent peer goes on at once."""
    token = CancelToken()
    here, there = socket.socketpair()
    with here, there:
        sock = Sock(here)
        token.attach(sock)
        gate = Gate()
        gate.open()

        def read():
            gate.stop_here()
            assert here.recv(1) == b""

        together(read, lambda: (gate.wait_reached(), token.cancel()))
        assert token.detach(sock) is False


@pytest.mark.parametrize("seed", range(5))
def test_attach_detach_and_cancel_at_the_same_moment(seed):
    """Whoever comes first, every killable is either fired or taken back, once."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    fates = []
    try:
        for _ in range(300):
            token, counter = CancelToken(), Counter()

            def own(token=token, counter=counter):
                token.attach(counter)
                fates.append((counter, token.detach(counter)))

            together(own, token.cancel, token.cancel)
    finally:
        sys.setswitchinterval(interval)
    assert all(counter.fired == (not taken) for counter, taken in fates)


def test_an_exception_in_the_middle_of_cancel_leaves_nobody_asleep():
    """A second Ctrl+C inside cancel() lets no killable, child or wait be forgotten."""
    hit_midway = 0
    for steps in range(1, 10_000):
        token, counters = CancelToken(), [Counter() for _ in range(3)]
        child = token.child()
        for counter, owner in zip(counters, (token, child, token), strict=True):
            owner.attach(counter)
        if not interrupted(token.cancel, steps):
            break
        if token.cancelled:
            hit_midway += 1
            assert all(counter.fired >= 1 for counter in counters), steps
            assert child.cancelled
        else:
            assert not any(counter.fired for counter in counters)
            assert token.cancel() is True
    assert hit_midway > 50


def test_a_killable_has_no_cycle():
    """Tokens and killables are freed by counting references alone."""

    class Weak(Counter):
        pass

    gc.disable()
    try:
        token, killable = CancelToken(), Weak()
        token.attach(killable)
        refs = [weakref.ref(token), weakref.ref(killable)]
        del token, killable
        assert [ref() for ref in refs] == [None, None]
    finally:
        gc.enable()


def test_many_threads_hang_things_on_one_token():
    """Nothing is lost when many attach and one cancels."""
    token = CancelToken()
    counters = [[Counter() for _ in range(200)] for _ in range(8)]

    def attach(mine):
        for counter in mine:
            token.attach(counter)

    together(token.cancel, *(lambda mine=mine: attach(mine) for mine in counters))
    assert {c.fired for mine in counters for c in mine} == {1}


def test_one_that_is_attached_across_a_reset_is_fired_once():
    """A cancel before and one after the reset are two, and the first has hit it."""
    token = CancelToken()
    token.cancel()

    class Resetting(Counter):
        def fire(self):
            super().fire()
            token.reset()
            token.cancel()

    killable = Resetting()
    token.attach(killable)
    assert killable.fired == 1


def test_no_python_code_runs_when_a_token_goes():
    """What a signal handler raised in there would be printed, and lost."""
    parent, calls = CancelToken(), []

    def note(frame, event, arg):
        if event == "call":
            calls.append(frame.f_code.co_name)

    for token in (CancelToken(60), parent.child(), parent.child(60)):
        counter = Counter()
        token.attach(counter)
        token.detach(counter)
        sys.setprofile(note)
        try:
            del token
        finally:
            sys.setprofile(None)
    assert calls == []
