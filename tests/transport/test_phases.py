"""Promise 2: a cancel ends a call at once, whatever it is doing, and leaves nothing."""

import errno
import http.client
import os
import signal
import socket
import ssl
import zlib

import pytest
import requests
from phases import CASES, Call, check, once_there
from support.threads import LONG

from syncagent import Cancelled, CancelToken
from syncagent.exceptions import ProviderUnavailable
from syncagent.testing import FakeClock

MODES = ["stream", "post"]


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


#: Whatever a library below could take for an error of its own.
WATCHDOGS = [
    TimeoutError("watchdog"),
    ValueError("watchdog"),
    BrokenPipeError(errno.EPIPE, "watchdog"),
    ConnectionResetError(errno.ECONNRESET, "watchdog"),
    BlockingIOError(errno.EAGAIN, "watchdog"),
    ssl.SSLError("watchdog"),
    http.client.RemoteDisconnected("watchdog"),
    http.client.IncompleteRead(b""),
    requests.ConnectionError("watchdog"),
    socket.gaierror(socket.EAI_AGAIN, "watchdog"),
    ProviderUnavailable("watchdog", retryable=True),
    RuntimeError("watchdog"),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "scheme"), CASES)
def test_a_signal_handler_raises(name, scheme, mode, server, make_transport):
    """S1: a script's own watchdog ends the call, with whatever it raises."""
    # Each case takes another one; in all, every exception is raised in many places.
    watchdog = WATCHDOGS[zlib.crc32(f"{name}{scheme}{mode}".encode()) % len(WATCHDOGS)]
    raises_in_handler(watchdog, Call(name, scheme, server, make_transport), mode)


@pytest.mark.parametrize("watchdog", WATCHDOGS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    "name", ["connect", "tls handshake", "send", "headers", "error body", "gzip"]
)
def test_a_signal_handler_raises_anything(name, watchdog, server, make_transport):
    """S1: no type of exception is taken for a failure of the call."""
    raises_in_handler(watchdog, Call(name, "https", server, make_transport), "post")


def raises_in_handler(watchdog, call, mode):
    def handler(number, frame):
        raise watchdog

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        thread = once_there(call, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        with pytest.raises(type(watchdog)) as raised:
            call.make(mode, CancelToken())
        thread.join(LONG)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert raised.value is watchdog
    assert call.attempts == 1
    watchdog.__traceback__ = None
    raised = None
    if call.phase != "send":  # a server that does not read sees no end
        call.wait_until_gone()
