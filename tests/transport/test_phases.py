"""Promise 2: a cancel ends a call at once, whatever it is doing, and leaves nothing."""

import os
import signal
import threading

import pytest
from phases import CASES, Call
from support.threads import LONG

from syncagent import Cancelled, CancelToken
from syncagent.testing import FakeClock
from syncagent.transport import Transport

MODES = ["stream", "post"]


@pytest.fixture
def make_transport(certificates):
    return lambda **settings: Transport(verify=certificates.authority, **settings)


def once_there(call, function):
    """Call *function* from another thread as soon as the call is stuck."""

    def wait():
        call.wait_until_there()
        function()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def check(call, origin, stop, server, make_transport, scheme):
    """The call was cancelled, its connection is gone, and others work."""
    assert stop.value.origin == origin
    call.wait_until_gone()
    assert make_transport().post(server.url("ok", scheme), json={}).json() == {}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "scheme"), CASES)
def test_cancel_from_another_thread(name, scheme, mode, server, make_transport):
    """cancel() in one thread ends the call in another."""
    token, call = CancelToken(), Call(name, scheme, server, make_transport)
    thread = once_there(call, lambda: token.cancel("enough"))
    with pytest.raises(Cancelled) as stop:
        call.make(mode, token)
    thread.join(LONG)
    check(call, "user", stop, server, make_transport, scheme)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "scheme"), CASES)
def test_cancel_in_a_signal_handler(name, scheme, mode, server, make_transport):
    """A handler that interrupts the call itself ends it."""
    token, call = CancelToken(), Call(name, scheme, server, make_transport)
    before = signal.signal(
        signal.SIGUSR1, lambda *_: token.cancel("enough", origin="signal")
    )
    try:
        thread = once_there(call, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        with pytest.raises(Cancelled) as stop:
            call.make(mode, token)
        thread.join(LONG)
    finally:
        signal.signal(signal.SIGUSR1, before)
    check(call, "signal", stop, server, make_transport, scheme)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "scheme"), CASES)
def test_deadline(name, scheme, mode, server, make_transport):
    """The token's deadline ends the call, before any of its timeouts has a say."""
    with FakeClock() as clock:
        token = CancelToken(timeout=1000)
        call = Call(name, scheme, server, make_transport)
        thread = once_there(call, lambda: clock.advance(1000))
        with pytest.raises(Cancelled) as stop:
            call.make(mode, token)
        thread.join(LONG)
        check(call, "deadline", stop, server, make_transport, scheme)
