"""An authorization server for each test, and a person who logs in."""

import pytest
from support.auth_server import AuthServer, Person, call

from syncagent.cancel import CancelToken
from syncagent.mcp.oauth import OAuth
from syncagent.transport import Transport, close_idle

VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "REQUESTS_CA_BUNDLE")


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    """Neither the environment nor another test's connections have a say."""
    for name in (*VARIABLES, *map(str.upper, VARIABLES), "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    yield
    close_idle()


@pytest.fixture
def server():
    with AuthServer() as server:
        yield server


@pytest.fixture
def person():
    return Person()


@pytest.fixture
def auth(person):
    return OAuth(open_browser=person)


@pytest.fixture
def get(server):
    """Make one request to the server with given credentials, as a connection does."""
    transport = Transport()
    return lambda auth, token=None: call(
        auth, server.url, token or CancelToken(timeout=20), transport
    )
