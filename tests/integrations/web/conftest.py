"""Fixtures with real servers, each started once for all tests that can share it."""

from contextlib import ExitStack
from functools import cache

import pytest
from support.web.kept_sites import FRAMEWORKS, kept_site
from support.web.replies import reply_to
from support.web.servers import SERVERS, Server

from syncagent.testing import FakeServer

#: Enough for the tests with many clients at a time.
THREADS = 24


@pytest.fixture(scope="session")
def start_server():
    """Return a function that starts a server, or returns it if it runs already."""
    with ExitStack() as stack:

        @cache
        def start(name):
            return stack.enter_context(Server(name, threads=THREADS))

        yield start


@pytest.fixture(scope="session", params=SERVERS)
def server(request, start_server):
    """Each kind of server with the application of the tests."""
    return start_server(request.param)


@pytest.fixture(
    scope="session", params=[each for each in SERVERS if each != "gunicorn-sync"]
)
def threaded(request, start_server):
    """Each kind of server that serves several requests at a time."""
    return start_server(request.param)


@pytest.fixture(scope="session")
def gthread(start_server):
    """One server, for what does not depend on its kind."""
    return start_server("gunicorn-gthread")


@pytest.fixture
def fake():
    """A provider whose answer is named by the prompt of the request."""
    with FakeServer(reply_to) as running:
        yield running


@pytest.fixture(params=FRAMEWORKS)
def site(request, tmp_path):
    """An application with a store, in each framework."""
    if request.param != "wsgi":
        pytest.importorskip(request.param)
    with kept_site(request.param, tmp_path) as made:
        yield made
