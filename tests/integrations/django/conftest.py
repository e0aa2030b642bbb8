"""Fixtures of the Django tests."""

import pytest
from sites import SITES, Site, reply_to
from support.postgres import cluster  # noqa: F401

from syncagent.testing import FakeServer


@pytest.fixture(scope="module", params=SITES)
def site(request, tmp_path_factory):
    """The site behind a real server, in a process of its own."""
    with Site(request.param, tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture
def fake():
    """A provider that says what the prompt of a request asks for."""
    with FakeServer(reply_to) as running:
        yield running
