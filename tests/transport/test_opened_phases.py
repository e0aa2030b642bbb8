"""Promise 2 for opened responses: a cancel ends them at once, in every phase."""

import os
import signal

import pytest
from phases import CASES, Call, check, once_there
from support.threads import LONG

from syncagent import Cancelled, CancelToken
from syncagent.testing import FakeClock

#: Opened responses are never sent again, so they never wait for that.
STUCK = [case for case in CASES if case[0] != "retry"]
#: The other origins take the same way; each phase is enough, without TLS.
PHASES = ("connect", "send", "headers", "only comments", "between events", "flow")
WAYS = ["events", "read"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "scheme"), STUCK)
def test_cancel_from_another_thread(name, scheme, way, server, make_transport):
    """cancel() in one thread ends the request or the reading in another."""
    token, call = CancelToken(), Call(name, scheme, server, make_transport)
    thread = once_there(call, lambda: token.cancel("enough"))
    with pytest.raises(Cancelled) as stop:
        call.make(way, token)
    thread.join(LONG)
    check(call, "user", stop, server, make_transport, scheme)
    assert call.attempts <= 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PHASES)
def test_cancel_in_a_signal_handler(name, way, server, make_transport):
    """A handler that interrupts it ends it."""
    token, call = CancelToken(), Call(name, "http", server, make_transport)
    before = signal.signal(
        signal.SIGUSR1, lambda *_: token.cancel("enough", origin="signal")
    )
    try:
        thread = once_there(call, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        with pytest.raises(Cancelled) as stop:
            call.make(way, token)
        thread.join(LONG)
    finally:
        signal.signal(signal.SIGUSR1, before)
    check(call, "signal", stop, server, make_transport, "http")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PHASES)
def test_a_signal_handler_raises(name, way, server, make_transport):
    """The exception of a handler comes out as it is, and nothing is left behind."""

    def handler(number, frame):
        raise TimeoutError("watchdog")

    call = Call(name, "http", server, make_transport)
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        thread = once_there(call, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        with pytest.raises(TimeoutError, match="watchdog"):
            call.make(way, CancelToken())
        thread.join(LONG)
    finally:
        signal.signal(signal.SIGUSR1, before)
    if call.phase != "send":  # a server that does not read sees no end
        call.wait_until_gone()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PHASES)
def test_deadline(name, way, server, make_transport):
    """The deadline of the token ends it, before any timeout has passed."""
    with FakeClock() as clock:
        token = CancelToken(timeout=1000)
        call = Call(name, "http", server, make_transport)
        thread = once_there(call, lambda: clock.advance(1000))
        with pytest.raises(Cancelled) as stop:
            call.make(way, token)
        thread.join(LONG)
        check(call, "deadline", stop, server, make_transport, "http")
