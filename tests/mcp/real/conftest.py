"""Real servers: one process per variant and worker over HTTP, journals, no leaks."""

import pytest
from real_servers import Journal, connect, running

from syncagent.mcp import Sampling
from syncagent.testing import ScriptedModel, no_leaks


def pytest_collection_modifyitems(items):
    """Keep the tests of a variant in one process of pytest: they share a server."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        variant = callspec and callspec.params.get("variant")
        if variant is not None:
            item.add_marker(pytest.mark.xdist_group(f"{variant}"))


@pytest.fixture
def nothing_left(request):
    """Replace the check of all tests: a shared server keeps what it opened."""
    if "shared" in request.fixturenames:
        yield
        return
    with no_leaks():
        yield


@pytest.fixture(scope="module")
def journal():
    """Yield the journal that the servers of a module write to."""
    journal = Journal()
    yield journal
    journal.close()


@pytest.fixture(scope="module")
def process(variant, journal):
    """Yield the process of an HTTP server, None on stdio."""
    with running(variant, journal) as process:
        yield process


@pytest.fixture(scope="module")
def shared(variant, journal, process):
    """Yield a connected server object that the tests of a module share."""
    with no_leaks():
        with connect(variant, journal, process, **SETTINGS) as server:
            server.connect()
            yield server


def answer(question):
    """Answer a form as a person would who leaves the age out."""
    return {"name": "Ada"}


#: A model that always says the same, for servers that want one.
MODEL = ScriptedModel(lambda messages: "Well.")
SETTINGS = {
    "elicit": answer,
    "roots": ("/srv/books",),
    "sampling": Sampling(MODEL, requires_approval=False),
}
