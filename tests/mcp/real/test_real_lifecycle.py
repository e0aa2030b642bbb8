"""The lives of real servers: they die, block, leave children, and are closed."""

import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
from real_servers import (
    FOLDER,
    HTTP,
    MISSING,
    STDIO,
    connect,
    everything,
    is_alive,
    processes_with,
)
from support.threads import LONG, meanwhile

from syncagent import Cancelled, CancelToken
from syncagent.exceptions import MCPServerLost
from syncagent.mcp import MCPServer

pytestmark = [
    pytest.mark.mcp_real,
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
]

on_stdio = pytest.mark.parametrize("variant", STDIO, ids=repr, scope="module")
over_http = pytest.mark.parametrize("variant", HTTP, ids=repr, scope="module")

#: Seconds for close(): the sum of its steps in the sheet, and a busy machine.
CLOSED = 5.0


def pid_of(server):
    return server.call("process").structured["result"]


def wait_until_gone(pid):
    """Wait for the end of a process that is not ours."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], LONG)[0], f"process {pid} lives"
    finally:
        os.close(descriptor)


@on_stdio
class TestStdio:
    def test_a_killed_server_fails_its_call_and_starts_again(self, variant, journal):
        """kill -9 in a call is an error at once; the next call has a new process."""
        with connect(variant, journal) as server:
            pid = pid_of(server)

            def kill():
                journal.wait_for("began count doomed")
                os.kill(pid, signal.SIGKILL)

            with meanwhile(kill), pytest.raises(MCPServerLost):
                arguments = {"steps": 40, "seconds": 20, "name": "doomed"}
                server.call("count", arguments)
            assert pid_of(server) != pid

    def test_a_server_that_exits_in_a_call(self, variant, journal):
        """An exit in the middle of a call is an error, not a hang."""
        with connect(variant, journal) as server:
            with pytest.raises(MCPServerLost):
                server.call("die")
            assert server.call("add", {"a": 1, "b": 2}).structured == {"result": 3}

    def test_close_ends_the_children_too(self, variant, journal):
        """A child that the server started ends with it."""
        with connect(variant, journal) as server:
            pid = pid_of(server)
            child = server.call("child").structured["result"]
            assert is_alive(child)
        wait_until_gone(pid)
        wait_until_gone(child)

    def test_close_ends_a_call_and_a_deaf_server(self, variant, journal):
        """close() from another thread ends a call of a tool that blocks, in time."""
        server = connect(variant, journal)
        server.connect()
        pid = pid_of(server)
        took = []

        def close():
            journal.wait_for("began block")
            began = time.monotonic()
            server.close()
            took.append(time.monotonic() - began)

        with meanwhile(close), pytest.raises(MCPServerLost):
            server.call("block", {"seconds": 60})
        assert took[0] < CLOSED
        wait_until_gone(pid)

    def test_a_blocked_server_does_not_hold_its_caller(self, variant, journal):
        """A cancel ends the call of a tool that blocks; kill restarts the server."""
        with connect(variant, journal, on_cancel="kill") as server:
            pid = pid_of(server)
            token = CancelToken()

            def cancel():
                journal.wait_for("began block")
                token.cancel("enough")

            with meanwhile(cancel), pytest.raises(Cancelled):
                server.call("block", {"seconds": 60}, token=token)
            assert pid_of(server) != pid
            wait_until_gone(pid)

    def test_secrets_stay_here(self, variant, journal, monkeypatch):
        """Only a few variables reach the server, and those that were given."""
        monkeypatch.setenv("REAL_SECRET", "hidden")
        with connect(variant, journal, env={"GIVEN": "shown"}) as server:
            names = ("REAL_SECRET", "GIVEN", "PATH")
            values = [
                server.call("variable", {"name": name}).structured["result"]
                for name in names
            ]
        assert values == ["", "shown", os.environ["PATH"]]

    def test_used_by_one_thread_and_closed_by_another(self, variant, journal):
        """Opened on one thread, used on a second, closed on a third."""
        server = connect(variant, journal)
        pids = []
        with meanwhile(server.connect):
            pass
        with meanwhile(lambda: pids.append(pid_of(server))):
            pass
        with meanwhile(server.close):
            pass
        assert server.state == "closed"
        wait_until_gone(pids[0])


#: Connects, prints the ids of the server and of its child, and waits to be killed.
CLIENT = """
import sys, threading
from syncagent.mcp import MCPServer
server = MCPServer.stdio(sys.argv[1:])
print(server.call("process").structured["result"])
print(server.call("child").structured["result"], flush=True)
threading.Event().wait(100)
"""


@on_stdio
def test_no_orphan_after_the_client_is_killed(variant, journal):
    """kill -9 of the program ends its servers, and their children."""
    command = [sys.executable, "-c", CLIENT, *variant.command(journal.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        pids = [int(client.stdout.readline()) for _ in range(2)]
        client.kill()
    for pid in pids:
        wait_until_gone(pid)


@pytest.mark.timeout(90)
@pytest.mark.parametrize("variant", STDIO[:1], ids=repr, scope="module")
def test_a_server_that_a_cancel_has_made_deaf_is_replaced(variant, journal):
    """mcp 1.x reads nothing while a plain function runs: it is killed by the rule."""
    with connect(variant, journal) as server:
        pid = pid_of(server)
        token = CancelToken()

        def cancel():
            journal.wait_for("began block")
            token.cancel("enough")

        with meanwhile(cancel), pytest.raises(Cancelled):
            server.call("block", {"seconds": 80}, token=token)
        with pytest.raises(MCPServerLost):
            server.call("add", {"a": 1, "b": 2})
        assert pid_of(server) != pid
        wait_until_gone(pid)


@over_http
class TestHTTP:
    def test_a_server_that_was_replaced(self, variant, journal, process):
        """After kill -9 a call fails; with a new process on the port all is well."""
        with connect(variant, journal, process) as server:
            pid = pid_of(server)
            process.stop()
            with pytest.raises(MCPServerLost):
                server.call("add", {"a": 1, "b": 2})
            process.start()
            assert pid_of(server) != pid

    def test_a_restart_between_two_calls_is_not_noticed(
        self, variant, journal, process
    ):
        """A lost session is begun again, once, and the call is made."""
        with connect(variant, journal, process) as server:
            pid = pid_of(server)
            process.stop(signal.SIGTERM)
            process.start()
            assert pid_of(server) != pid

    def test_a_killed_server_fails_its_call(self, variant, journal, process):
        """kill -9 in a call is an error at once, not a timeout."""
        with connect(variant, journal, process) as server:
            server.connect()

            def kill():
                journal.wait_for("began count doomed")
                process.stop()

            with meanwhile(kill), pytest.raises(MCPServerLost):
                arguments = {"steps": 40, "seconds": 20, "name": "doomed"}
                server.call("count", arguments)
        process.start()

    def test_close_ends_a_call(self, variant, journal, process):
        """close() from another thread ends a call, in time."""
        server = connect(variant, journal, process)
        server.connect()
        took = []

        def close():
            journal.wait_for("began count open")
            began = time.monotonic()
            server.close()
            took.append(time.monotonic() - began)

        with meanwhile(close), pytest.raises(MCPServerLost):
            server.call("count", {"steps": 40, "seconds": 20, "name": "open"})
        assert took[0] < CLOSED


class TestWrappers:
    @pytest.mark.parametrize("wrap", ["none", "exec", "shell", "background"])
    def test_nothing_is_left_of_a_wrapped_server(self, wrap, tmp_path):
        """Node behind a shell, as npx starts it, ends with the server object."""
        mark = f"mark-{tmp_path.name}-{wrap}-{os.getpid()}"
        node = " ".join(f"'{word}'" for word in [*everything(), mark])
        command = {
            "none": [*everything(), mark],
            "exec": ["sh", "-c", f"exec {node}"],
            "shell": ["sh", "-c", f"{node}; true"],
            "background": ["sh", "-c", f"sleep 600 {mark} 2>/dev/null & {node}; true"],
        }[wrap]
        with MCPServer.stdio(command) as server:
            assert "echo" in [tool.name for tool in server.tools()]
            assert processes_with(mark)
        for pid in processes_with(mark):
            wait_until_gone(pid)

    @pytest.mark.skipif(shutil.which("npx") is None, reason="npx is not installed")
    def test_nothing_is_left_of_npx(self):
        """npm, its shell and Node all end with the server object."""
        mark = f"mark-npx-{os.getpid()}"
        command = ["npx", "--no-install", "mcp-server-everything", "stdio", mark]
        with MCPServer.stdio(command, cwd=FOLDER / "node") as server:
            server.connect()
            assert len(processes_with(mark)) >= 2
        for pid in processes_with(mark):
            wait_until_gone(pid)

    def test_a_killed_node_behind_a_shell(self):
        """The death of the real server is seen through its wrapper."""
        mark = f"mark-killed-{os.getpid()}"
        node = " ".join(f"'{word}'" for word in [*everything(), mark])
        with MCPServer.stdio(["sh", "-c", f"{node}; true"]) as server:
            server.connect()
            (pid,) = [pid for pid in processes_with(mark) if not is_shell(pid)]
            begun = threading.Event()

            def kill():
                assert begun.wait(LONG)
                os.kill(pid, signal.SIGKILL)

            with meanwhile(kill), pytest.raises(MCPServerLost):
                server.call(
                    "trigger-long-running-operation",
                    {"duration": 30, "steps": 300},
                    on_progress=lambda _: begun.set(),
                )
            assert server.call("echo", {"message": "again"}).content


def is_shell(pid):
    with open(f"/proc/{pid}/comm") as file:
        return file.read().strip() in ("sh", "dash", "bash")
