"""Our MCP server in real web servers: WSGI, Flask, and Django in both forms."""

import http.client
import json
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.mcp_clients import Posted, modern_call
from support.processes import script_environment
from support.threads import LONG
from support.web.servers import HERE as WEB

from syncagent.cancel import CancelToken, clock

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
#: Seconds in which a client that leaves has ended its call, on a busy machine.
PROMPT = 8.0
_GUNICORN = [
    *(sys.executable, "-m", "gunicorn", "-c", str(WEB / "hooks.conf.py")),
    *("-k", "gthread", "--threads", "8", "--log-level", "warning", "-b", "fd://{fd}"),
]
COMMANDS = {
    "gunicorn": [*_GUNICORN, "mcp_site:plain"],
    "waitress, Flask": [
        *(sys.executable, "-W", "error", "-c"),
        "import mcp_site, socket, waitress; "
        "waitress.serve(mcp_site.flask_app, sockets=[socket.socket(fileno={fd})])",
    ],
    "gunicorn, Django": [*_GUNICORN, "mcp_site:django_wsgi"],
    "uvicorn, Django": [
        *(sys.executable, "-m", "uvicorn", "--fd", "{fd}", "--log-level", "warning"),
        "mcp_site:django_asgi",
    ],
}


@contextmanager
def started(name):
    """Start a server; yield its process and its port."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        port, number = listener.getsockname()[1], listener.fileno()
        process = subprocess.Popen(
            [part.format(fd=number) for part in COMMANDS[name]],
            cwd=HERE,
            env=script_environment(),
            pass_fds=[number],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
    try:
        state_of(port)
        yield process, port
    finally:
        process.terminate()
        try:
            process.wait(LONG)
        finally:
            process.kill()
            process.wait(LONG)
            process.stderr.close()


def state_of(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG)
    try:
        connection.request("GET", "/state")
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def wait_for(port, **expected):
    """Wait until the site has counted that much."""
    until, token = clock.now() + PROMPT, CancelToken()
    while not expected.items() <= (state := state_of(port)).items():
        assert clock.now() < until, state
        token.wait(0.02)


@pytest.mark.parametrize("name", COMMANDS)
def test_calls_and_cancels(name):
    """A short call gets JSON, a long one a stream, and a leave is a cancel."""
    with started(name) as (_, port):
        post = Posted(port, modern_call("add", {"a": 1, "b": 2})).head()
        assert post.headers["content-type"] == "application/json"
        assert post.json()["result"]["structuredContent"] == 3
        expected = "shop" if "Flask" in name else "no application"
        text = Posted(port, modern_call("where")).json()["result"]["content"][0]["text"]
        assert text == expected

        post = Posted(port, modern_call("hold"))
        wait_for(port, held=1)
        post.vanish()  # mostly before the headers
        wait_for(port, cancelled=1)

        post = Posted(port, modern_call("hold", progressToken=1)).head()
        assert post.headers["content-type"].startswith("text/event-stream")
        assert post.event()["params"]["message"] == "held"
        post.vanish()
        wait_for(port, held=2, cancelled=2)

        with Posted(port, b"", method="GET").head() as post:
            assert post.status == 405


@pytest.mark.parametrize("name", ["gunicorn", "uvicorn, Django"])
def test_the_end_of_a_server_ends_its_calls(name):
    """SIGTERM does not wait for a call that never ends."""
    with started(name) as (process, port):
        with Posted(port, modern_call("hold", progressToken=1)).head() as post:
            assert post.event()["params"]["message"] == "held"
            began = clock.now()
            process.terminate()
            assert "error" in post.event()
            process.wait(LONG)
            assert clock.now() - began < PROMPT
