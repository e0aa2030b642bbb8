"""Our MCP server with real clients: our own, and the official one of Python."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pipe_server import service
from support.mcp_clients import served
from support.processes import script_environment
from support.threads import LONG

from syncagent.cancel import CancelToken
from syncagent.exceptions import Cancelled
from syncagent.integrations.web.mcp import MCPApp
from syncagent.mcp import MCPServer

HERE = Path(__file__).parent
COMMAND = [sys.executable, str(HERE / "pipe_server.py")]
#: The Python with the official package; see tests/mcp/real.
OFFICIAL = (
    Path(os.environ.get("SYNCAGENT_MCP_REAL") or "/nonexistent") / "mcp2/bin/python"
)


def opened(era):
    return MCPServer.stdio(COMMAND, env=script_environment(), era=era)


@pytest.mark.slow
@pytest.mark.parametrize("era", ["legacy", "modern", "auto"])
def test_our_own_client_on_pipes(era):
    """It calls, cancels, and calls again."""
    with opened(era) as server:
        assert server.call("add", {"a": 1, "b": 2}).content[0].text == "3"
        check_cancel(server)
        assert server.info.name == "pipe-server"
        assert server.era == ("legacy" if era == "legacy" else "modern")


def test_our_own_client_over_http():
    """The same service, in another way."""
    with served(MCPApp(service)) as port:
        with MCPServer.http(f"http://127.0.0.1:{port}/mcp") as server:
            assert server.call("add", {"a": 1, "b": 2}).content[0].text == "3"
            check_cancel(server)
            assert server.era == "modern"


def check_cancel(server):
    """Cancel a call once it has reported, and see that the server goes on."""
    token = CancelToken()
    with pytest.raises(Cancelled):
        server.call("wait", token=token, on_progress=lambda report: token.cancel())
    assert server.call("add", {"a": 2, "b": 2}).content[0].text == "4"


def check_official(mode, target):
    found = subprocess.run(
        [OFFICIAL, HERE / "official_client.py", mode, target],
        capture_output=True,
        text=True,
        timeout=3 * LONG,
        check=False,
        env=script_environment(),
    )
    assert found.returncode == 0, found.stderr[-2000:]
    seen = json.loads(found.stdout)
    assert (seen["added"], seen["again"]) == ("3", "4")
    assert seen["was_cancelled"]
    assert seen["seconds"] < LONG
    assert seen["reports"] == ["waiting"]
    return seen


@pytest.mark.mcp_real
@pytest.mark.skipif(not OFFICIAL.exists(), reason="the official client is not there")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_official_client_on_pipes(mode):
    """It calls, answers a question, cancels, and calls again, in both eras."""
    seen = check_official(mode, json.dumps(COMMAND))
    assert seen["asked"] == "Hello Ada"
    assert seen["version"] == ("2025-11-25" if mode == "legacy" else "2026-07-28")


@pytest.mark.mcp_real
@pytest.mark.skipif(not OFFICIAL.exists(), reason="the official client is not there")
def test_the_official_client_over_http():
    """It calls, answers a question, cancels by leaving, and calls again."""
    with served(MCPApp(service)) as port:
        seen = check_official("auto", f"http://127.0.0.1:{port}/mcp")
    assert seen["asked"] == "Hello Ada"
    assert seen["version"] == "2026-07-28"
