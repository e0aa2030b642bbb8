"""The first screen of docs/tools.rst: what a cancel ends at once, and what not."""

import socket
import sqlite3
import subprocess
import sys
import threading
import time

import pytest
import requests
from support.threads import until
from support.tools import LONG, SOON, Background, agent_for, outcomes

from syncagent import ToolContext, ToolDefaults, abandoned
from syncagent.testing import call

#: Seconds that what cannot be stopped takes.
SECONDS = 1.0
FOR_EVER = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT * FROM n"
)
#: Set when a tool of this process begins.
BEGUN = threading.Event()


@pytest.fixture
def silent():
    """A server that accepts, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


def sleeper(seconds):
    return [sys.executable, "-c", f"import time; time.sleep({seconds})"]


# -- tools, which worker processes can import --------------------------------------


def plain_get(url: str, seconds: float) -> str:
    """Fetch a page."""
    BEGUN.set()
    try:
        return requests.get(url, timeout=seconds).text
    except requests.ReadTimeout:
        return "nothing"


def plain_program(url: str, seconds: float) -> str:
    """Run a program."""
    BEGUN.set()
    subprocess.run(sleeper(seconds), check=True)
    return "done"


def plain_sleep(url: str, seconds: float) -> str:
    """Sleep."""
    BEGUN.set()
    time.sleep(seconds)  # noqa: TID251 - what everybody writes
    return "done"


def get(url: str, seconds: float, ctx: ToolContext) -> str:
    """Fetch a page."""
    BEGUN.set()
    return ctx.http.get(url, timeout=LONG).text


def program(url: str, seconds: float, ctx: ToolContext) -> str:
    """Run a program."""
    BEGUN.set()
    ctx.run_process(sleeper(LONG))
    return "done"


def sleep(url: str, seconds: float, ctx: ToolContext) -> str:
    """Sleep."""
    BEGUN.set()
    ctx.sleep(LONG)
    return "done"


def query(url: str, seconds: float, ctx: ToolContext) -> str:
    """Ask a database for everything."""
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    try:
        ctx.on_cancel(connection.interrupt)
        for _ in connection.execute(FOR_EVER):
            BEGUN.set()  # not before: there is nothing to interrupt yet
    finally:
        connection.close()
    return "done"


def compute(url: str, seconds: float, ctx: ToolContext) -> str:
    """Compute."""
    BEGUN.set()
    while True:
        ctx.checkpoint()


PLAIN = [plain_get, plain_program, plain_sleep]


def cancelled(function, url, seconds, *, force=False, **settings):
    """Cancel a run in a tool; return its outcome, and how long it took to end."""
    arguments = {"url": url, "seconds": seconds}
    BEGUN.clear()
    agent = agent_for(function, calls=[call(function.__name__, arguments)], **settings)
    background = Background(agent)
    BEGUN.wait(LONG if "tool_defaults" not in settings else 0.3)
    start = time.monotonic()
    agent.cancel(force=force)
    result = background.result()
    return result, time.monotonic() - start


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("function", PLAIN)
def test_what_a_cancel_waits_for(silent, function, force):
    """Item 4: on the run's thread, a call that looks at nothing is waited for."""
    is_late = True
    while is_late:  # on a busy machine the tool may end before the cancel
        result, _ = cancelled(function, silent, SECONDS, force=force)
        is_late = not result.cancelled
    assert outcomes(result) == ["done"]


@pytest.mark.parametrize("function", [get, program, sleep, query, compute])
def test_what_a_cancel_ends(silent, function):
    """Item 4: what uses its context ends at once."""
    result, seconds = cancelled(function, silent, LONG)
    assert outcomes(result) == ["interrupted"]
    assert seconds < SOON


@pytest.mark.parametrize("function", PLAIN)
def test_what_a_cancel_kills(silent, function):
    """Item 4: in a process, everything ends at once."""
    result, seconds = cancelled(
        function, silent, LONG, tool_defaults=ToolDefaults(on_cancel="kill")
    )
    assert outcomes(result) in (["interrupted"], ["not_started"])
    assert seconds < SOON


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("function", PLAIN)
def test_what_a_cancel_leaves_behind(silent, function, force):
    """Item 4: on a thread of its own, a call is left behind; with force at once."""
    defaults = ToolDefaults(on_cancel="abandon", grace=LONG if force else 0.0)
    result, seconds = cancelled(
        function, silent, SECONDS, force=force, tool_defaults=defaults
    )
    assert outcomes(result) == ["abandoned"]
    assert seconds < SOON
    until(lambda: not abandoned())
