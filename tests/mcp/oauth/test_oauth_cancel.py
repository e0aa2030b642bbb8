"""A cancel ends a login at once, in every phase, and leaves the next one intact."""

import os
import signal
import threading
from functools import partial

import pytest
from support.auth_server import AS, PRM
from support.threads import LONG

from syncagent.cancel import CancelToken
from syncagent.exceptions import Cancelled
from syncagent.mcp.oauth import FileTokens, MemoryTokens, OAuth
from syncagent.testing import Gate

#: The requests of a login, in their order.
PHASES = [PRM, AS, "/as/register", "/as/token"]


def cancelled_at(gate, work, token):
    """Cancel *token* when *work* has reached *gate*; return what it raised."""
    raised = []

    def run():
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    gate.wait_reached()
    token.cancel("enough")
    thread.join(LONG)
    assert not thread.is_alive()
    return raised[0]


@pytest.mark.parametrize("path", PHASES)
def test_a_cancel_ends_each_request_of_a_login(server, auth, person, get, path):
    """The server that does not answer is left, and the next login works."""
    gate, token = Gate(), CancelToken()
    server.gates[path] = gate
    error = cancelled_at(gate, lambda: get(auth, token), token)
    assert isinstance(error, Cancelled)
    assert error.reason == "enough"
    gate.open()
    assert get(auth) == 200


def test_a_cancel_ends_the_wait_for_the_browser(server, get):
    """The listener and its thread end, too; the autouse fixture would see them."""
    gate, token = Gate(), CancelToken()
    pages = []

    def slow_person(page):
        pages.append(page)
        gate.stop_here()

    auth = OAuth(open_browser=slow_person)
    error = cancelled_at(gate, lambda: get(auth, token), token)
    assert isinstance(error, Cancelled)
    gate.open()


def test_a_signal_handler_ends_the_wait_for_the_browser(server, get):
    """On the main thread, where signal handlers run."""
    token = CancelToken()
    auth = OAuth(open_browser=lambda page: os.kill(os.getpid(), signal.SIGUSR1))
    before = signal.signal(signal.SIGUSR1, lambda *_: token.cancel("by a signal"))
    try:
        with pytest.raises(Cancelled) as caught:
            get(auth, token)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert caught.value.reason == "by a signal"


def test_a_cancel_ends_the_wait_for_a_web_application(server, get):
    """redirect= runs on a thread of its own, and has the token to learn of it."""
    gate, token = Gate(), CancelToken()
    seen = []

    def redirect(page, inner):
        seen.append(inner)
        gate.stop_here()
        return page

    auth = OAuth(redirect=redirect, redirect_uri="https://app.example.com/back")
    error = cancelled_at(gate, lambda: get(auth, token), token)
    assert isinstance(error, Cancelled)
    assert seen[0].cancelled
    gate.open()


@pytest.mark.parametrize("is_due", [True, False])
def test_a_cancel_ends_a_refresh(server, person, get, is_due):
    """Before a request, or after a refusal."""
    from test_oauth_login import change

    tokens = MemoryTokens()
    auth = OAuth(open_browser=person, tokens=tokens)
    get(auth)
    if is_due:
        change(tokens, server, renew_at=1.0, expires_at=2.0)
        auth._grants.clear()
    else:
        server.valid.clear()
    gate, token = Gate(), CancelToken()
    server.gates["/as/token"] = gate
    error = cancelled_at(gate, lambda: get(auth, token), token)
    assert isinstance(error, Cancelled)
    gate.open()
    assert get(auth) == 200


def test_a_cancel_ends_the_wait_for_the_login_of_another_thread(server, auth, get):
    """The login itself goes on."""
    gate, waiting = Gate(), CancelToken()
    server.gates[AS] = gate
    results = []
    first = threading.Thread(target=lambda: results.append(get(auth)))
    first.start()
    gate.wait_reached()
    asked = Gate()
    server.answers["/mcp"] = lambda handler, _: (asked.stop_here(), handler.mcp())[1]
    asked.open()
    error = cancelled_at(asked, lambda: get(auth, waiting), waiting)
    assert isinstance(error, Cancelled)
    gate.open()
    first.join(LONG)
    assert results == [200]


def test_a_deadline_ends_a_login_like_a_cancel(server, auth, get):
    """With its own origin."""
    server.gates["/as/token"] = Gate()
    with pytest.raises(Cancelled) as caught:
        get(auth, CancelToken(timeout=0.2))
    assert caught.value.origin == "deadline"


@pytest.mark.stress
def test_a_hundred_cancelled_logins_leave_nothing(server, person, get, tmp_path):
    """No thread, no descriptor, no lock."""
    tokens = FileTokens(tmp_path)
    for _ in range(25):
        for path in PHASES:
            gate, token = Gate(), CancelToken()
            server.gates[path] = gate
            tokens.delete(f"client {server.issuer}")
            auth = OAuth(open_browser=person, tokens=tokens)
            cancelled_at(gate, partial(get, auth, token), token)
            gate.open()
            del server.gates[path]
    assert get(auth) == 200
