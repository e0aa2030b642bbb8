"""A terminal with a conversation in it, and a server that says what it is told to."""

import pytest
from console import chat
from support.commands import ready

from syncagent.testing import FakeServer


@pytest.fixture(scope="session", autouse=True)
def _ready():
    ready()


@pytest.fixture
def server():
    with FakeServer() as server:
        yield server


@pytest.fixture
def start(server):
    """Return a function that begins a conversation with the server."""
    consoles = []

    def begin(*arguments, is_waited_for=True, **settings):
        console = chat(
            "--model",
            "vllm:test",
            "--tools",
            "typed_tools:ALL",
            *arguments,
            VLLM_BASE_URL=server.base_url,
            VLLM_API_KEY="none",
            **settings,
        )
        consoles.append(console)
        if is_waited_for:
            console.wait_for_prompt()
        return console

    yield begin
    for console in consoles:
        console.close()
