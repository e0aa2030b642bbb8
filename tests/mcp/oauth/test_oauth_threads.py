"""One login, or one refresh, for any number of threads and processes."""

import threading
import time

import pytest
from support.threads import LONG, together
from test_oauth_login import change

from syncagent.cancel import CancelToken
from syncagent.exceptions import Cancelled, MCPAuthRequired
from syncagent.mcp.oauth import FileTokens, MemoryTokens, OAuth
from syncagent.testing import Gate


def test_threads_with_one_401_share_one_login(server, auth, person, get):
    """All of their requests succeed."""
    results = []
    together(*[lambda: results.append(get(auth))] * 8)
    assert results == [200] * 8
    assert len(person.pages) == 1


def test_threads_with_one_expired_token_share_one_refresh(server, person, get):
    """A refresh token that is used twice would end all tokens of the user."""
    tokens = MemoryTokens()
    auth = OAuth(open_browser=person, tokens=tokens)
    get(auth)
    change(tokens, server, renew_at=1.0, expires_at=2.0)
    auth._grants.clear()
    results = []
    together(*[lambda: results.append(get(auth))] * 8)
    assert results == [200] * 8
    assert server.count("/as/token") == 2


def test_threads_whose_token_was_revoked_share_one_refresh(server, auth, person, get):
    """Those that come late find the new token."""
    get(auth)
    server.valid.clear()
    results = []
    together(*[lambda: results.append(get(auth))] * 8)
    assert results == [200] * 8
    assert server.count("/as/token") == 2
    assert len(person.pages) == 1


def test_objects_with_one_store_share_one_login(server, person, get, tmp_path):
    """Also if each has only the folder in common with the others."""
    results = []
    make = lambda: OAuth(open_browser=person, tokens=FileTokens(tmp_path / "t"))  # noqa: E731
    together(*[lambda: results.append(get(make()))] * 4)
    assert results == [200] * 4
    assert len(person.pages) == 1


def waiting_pair(server, auth, get, token):
    """Start a login that waits for its person, and a thread that waits for it."""
    errors, results = [], []

    def first():
        try:
            results.append(get(auth, token))
        except BaseException as error:
            errors.append(error)

    def second():
        try:
            results.append(get(auth))
        except BaseException as error:
            errors.append(error)

    return [threading.Thread(target=f) for f in (first, second)], errors, results


@pytest.mark.parametrize("how", ["refused", "cancelled"])
def test_a_failed_login_fails_those_who_waited_and_a_cancelled_one_does_not(
    server, get, person, how
):
    """A person who said no is not asked again by the next thread in line."""
    gate, token, pages = Gate(), CancelToken(), []

    def slow_person(page):
        pages.append(page)
        if len(pages) == 1:
            gate.stop_here()
        if how == "refused" or len(pages) > 1:
            person(page)

    auth = OAuth(open_browser=slow_person)
    if how == "refused":
        server.redirect_fields = {"code": None, "error": "access_denied"}
    (first, second), errors, results = waiting_pair(server, auth, get, token)
    first.start()
    gate.wait_reached()
    second.start()
    is_waiting = lambda: len(auth._tokens._turns._watch.bells) == 1  # noqa: E731
    until = time.monotonic() + LONG
    while not is_waiting() and time.monotonic() < until:
        threading.Event().wait(0.005)
    if how == "cancelled":
        token.cancel()
    gate.open()
    for thread in (first, second):
        thread.join(LONG)
    if how == "refused":
        assert [type(error) for error in errors] == [MCPAuthRequired] * 2
        assert len(pages) == 1
    else:
        assert [type(error) for error in errors] == [Cancelled]
        assert results == [200]
        assert len(pages) == 2
