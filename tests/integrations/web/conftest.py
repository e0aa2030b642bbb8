"""Fixtures with real servers."""

import pytest
from support.web.servers import SERVERS, Server

from syncagent.testing import FakeServer


@pytest.fixture(scope="module", params=SERVERS)
def server(request):
    """A real server with the application of the tests, in a process of its own."""
    with Server(request.param) as running:
        yield running


@pytest.fixture(scope="module")
def gthread():
    """The server that most tests of the endpoints need only one of."""
    with Server("gunicorn-gthread") as running:
        yield running


@pytest.fixture
def fake():
    """A provider that says what the prompt of a request asks for."""
    from support.web.replies import reply_to

    with FakeServer(reply_to) as running:
        yield running
