"""Our MCP server as a process of its own, on its standard streams."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.mcp_clients import PipeClient, envelope
from support.processes import script_command, script_environment
from support.threads import LONG

from syncagent.cancel import clock

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
#: Seconds in which the process has ended, on a busy machine.
PROMPT = 8.0


@contextmanager
def started(*command):
    """Start a server; yield its process and a client."""
    process = subprocess.Popen(
        command or script_command("mcp/serving/pipe_server"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=script_environment(),
        cwd=HERE,
        start_new_session=True,
    )
    client = PipeClient(os.dup(process.stdin.fileno()), os.dup(process.stdout.fileno()))
    process.stdin.close()
    try:
        yield process, client
    finally:
        client.close()
        process.kill()
        process.wait(LONG)
        process.stdout.close()
        process.stderr.close()


def members(process):
    """Return the processes of a server's session that are alive."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                fields = (
                    Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                )
            except OSError:
                continue
            if int(fields[3]) == process.pid and fields[0] != "Z":
                found.append(int(entry))
    return found


def test_prints_do_not_reach_the_client():
    """Whatever a tool prints is on standard error, and it reads nothing."""
    with started() as (process, client):
        result = client.result_of(client.call("chatter", meta=envelope()))
        assert result["content"][0]["text"] == "''"
        client.leave()
        assert client.receive() is None
        assert process.wait(PROMPT) == 0
        lines = process.stderr.read().decode().splitlines()
    assert sorted(lines) == [
        "printed by Python",
        "printed by a program",
        "written to descriptor 1",
    ]


@pytest.mark.parametrize("end", ["leave", "SIGTERM", "SIGINT"])
def test_the_process_ends_at_once_and_leaves_nothing(end):
    """Its tools are stopped, and the programs they have started are gone."""
    with started() as (process, client):
        client.call("wait", meta=envelope(progressToken=1))
        client.receive()
        if end == "leave":
            client.leave()
        else:
            process.send_signal(getattr(signal, end))
        assert process.wait(PROMPT) == 0
        assert members(process) == []
        assert process.stderr.read() == b""


def test_a_deaf_tool_does_not_hold_the_process():
    """It is left behind, and the process ends without it."""
    with started() as (process, client):
        client.call("deaf", meta=envelope(progressToken=1))
        client.receive()
        began = clock.now()
        client.leave()
        assert process.wait(PROMPT) == 0
        assert clock.now() - began < PROMPT
        assert b"deaf did not stop" in process.stderr.read()


def test_the_command_serves_functions_and_agents():
    """``syncagent mcp serve`` takes what other commands take as tools."""
    script = (
        "import argparse, sys; from syncagent.cli import mcp_serve; "
        "from syncagent.cancel import CancelToken; p = argparse.ArgumentParser(); "
        "mcp_serve.add_arguments(p); "
        "sys.exit(mcp_serve.run(p.parse_args(sys.argv[1:]), CancelToken()))"
    )
    places = ["pipe_server:add", "pipe_server:agent", "--name", "mine"]
    with started(sys.executable, "-W", "error", "-c", script, *places) as (
        process,
        client,
    ):
        assert client.initialize()["serverInfo"]["name"] == "mine"
        tools = client.result_of(client.request("tools/list"))["tools"]
        assert [each["name"] for each in tools] == ["add", "helper"]
        result = client.result_of(client.call("helper", {"prompt": "Hi"}))
        assert result["content"][0]["text"] == "I am an agent."
        client.leave()
        assert process.wait(PROMPT) == 0
