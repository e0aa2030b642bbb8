"""A plain threading.Event that cancels a token."""

import threading
from collections import deque

import pytest
from support.threads import together

from syncagent.cancel import CancelToken, cancel_on_event


def test_an_event_that_is_set_cancels():
    """At once, and on whatever thread sets it."""
    event, token = threading.Event(), CancelToken()
    cancel_on_event(event, token)
    assert not token.cancelled
    event.set()
    assert token.cancelled


def test_an_event_that_was_set_before_cancels():
    """Publish first, then look: there is no moment at which it would be missed."""
    event, token = threading.Event(), CancelToken()
    event.set()
    cancel_on_event(event, token)
    assert token.cancelled


def test_who_is_closed_hears_no_more():
    """The event outlives its runs, and holds none of them."""
    event, token = threading.Event(), CancelToken()
    registration = cancel_on_event(event, token)
    registration.close()
    registration.close()
    event.set()
    assert not token.cancelled
    assert not event._cond._waiters


def test_others_that_wait_for_the_event_are_woken_all_the_same():
    """We stand among them, and in nobody's way."""
    event, woken = threading.Event(), []
    tokens = [CancelToken() for _ in range(3)]

    def wait():
        woken.append(event.wait(10))

    def act():
        for token in tokens:
            cancel_on_event(event, token)
        while len(event._cond._waiters) < 3 + 2:
            pass
        event.set()

    together(wait, wait, act)
    assert woken == [True, True]
    assert all(token.cancelled for token in tokens)


@pytest.mark.parametrize("close_first", [True, False])
def test_setting_and_closing_at_once(close_first):
    """Neither side trips over the other."""
    for _ in range(300):
        event, token = threading.Event(), CancelToken()
        registration = cancel_on_event(event, token)
        acts = [registration.close, event.set]
        together(*(acts if close_first else acts[::-1]))
        assert not event._cond._waiters


def test_what_we_rely_on_in_the_standard_library():
    """An event keeps those who wait in a deque of locks, and releases each."""
    event = threading.Event()
    assert isinstance(event._cond._waiters, deque)
    released = []

    class Lock:
        def release(self):
            released.append(self)

    event._cond._waiters.append(Lock())
    event.set()
    assert len(released) == 1
    assert not event._cond._waiters
