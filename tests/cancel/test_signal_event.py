"""The signal: a threading.Event without a lock."""

import gc
import threading

from support.threads import LONG, together

from syncagent import CancelToken


def test_it_is_an_event():
    """What takes a threading.Event takes the signal, and it is always the same one."""
    token = CancelToken()
    assert isinstance(token.signal, threading.Event)
    signal = token.signal
    assert token.signal is signal


def test_it_is_the_token_in_another_coat():
    """Set, clear and wait on either side are seen on the other."""
    token = CancelToken()
    signal = token.signal
    assert not signal.is_set()
    signal.set()
    assert token.cancelled
    assert token.origin == "user"
    assert signal.wait(0)
    signal.clear()
    assert not token.cancelled
    token.cancel()
    assert signal.is_set()
    assert signal.wait() is True


def test_wait_takes_what_an_event_takes():
    """A negative timeout is none at all, as for a plain Event."""
    signal = CancelToken().signal
    assert signal.wait(-1) is False
    assert signal.wait(timeout=0.001) is False


def test_cancel_wakes_a_waiter_on_the_signal():
    """Promise 2: a tool that knows only its signal wakes at once."""
    token = CancelToken()
    signal = token.signal
    together(lambda: signal.wait(LONG) or 1 / 0, token.cancel)


def test_the_signal_keeps_its_token_alive():
    """Somebody who holds only the signal is still told."""
    parent = CancelToken()
    signal = parent.child().signal
    gc.collect()
    parent.cancel()
    assert signal.is_set()


def test_set_takes_no_lock():
    """There is no lock in it that a signal handler could wait for."""
    signal = CancelToken().signal
    assert set(vars(signal)) == {"_token"}
    assert "unset" in repr(signal)
    signal.set()
    assert "unset" not in repr(signal)
