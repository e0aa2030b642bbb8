"""Real servers for the tests: where they are, how they start, and their journal."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support.threads import LONG

from syncagent.mcp import MCPServer

SERVERS = Path(__file__).parent / "servers"

#: The folder that install.py has filled; the tests skip without it.
FOLDER = Path(os.environ.get("SYNCAGENT_MCP_REAL") or "/nonexistent")
MISSING = (
    ""
    if (FOLDER / "bin" / "node").exists()
    else "SYNCAGENT_MCP_REAL is no folder that tests/mcp/real/install.py has filled"
)
NODE = str(FOLDER / "bin" / "node")
PACKAGES = FOLDER / "node" / "node_modules" / "@modelcontextprotocol"

#: Ends the thread of a journal.
END = "end of the journal"


@dataclass(frozen=True)
class Variant:
    """A real server on one transport, spoken to in one era."""

    name: str
    #: ``mcp1``, ``mcp2`` or ``everything``.
    kind: str
    #: ``stdio``, ``http`` or ``sse``.
    transport: str
    #: The era that is asked for, and the one that is found.
    era: str = "auto"
    found: str = "legacy"
    options: tuple = ()
    #: Can the server ask while a call is at work?
    asks: bool = True
    #: Can it report progress?
    reports: bool = True
    #: Does it see a cancel? A JSON response without a session leaves no way to tell it.
    hears_cancel: bool = True
    #: Does it say that a list has changed?
    announces: bool = True

    def __repr__(self):
        return self.name

    def command(self, journal="/dev/null"):
        """Return the command of the server."""
        if self.kind == "everything":
            return everything(
                {"http": "streamableHttp"}.get(self.transport, self.transport)
            )
        options = [self.transport, *self.options, "--journal", str(journal)]
        return python_server(self.kind, *options)


def python_server(kind, *options):
    """Return the command of a server on the official Python package."""
    script = SERVERS / f"server{kind[-1]}.py"
    return [str(FOLDER / kind / "bin" / "python"), str(script), *options]


def everything(transport="stdio"):
    """Return the command of server-everything; over HTTP it prints its port."""
    required = (
        [] if transport == "stdio" else ["--require", str(SERVERS / "loopback.cjs")]
    )
    return [NODE, *required, node_script("server-everything"), transport]


def node_script(package):
    """Return the script of a reference server on npm."""
    return str(PACKAGES / package / "dist" / "index.js")


STDIO = [
    Variant("mcp1-stdio", "mcp1", "stdio"),
    Variant("mcp2-stdio-modern", "mcp2", "stdio", found="modern"),
    Variant("mcp2-stdio-legacy", "mcp2", "stdio", era="legacy"),
]
HTTP = [
    Variant("mcp1-http", "mcp1", "http"),
    # With JSON responses the package drops what a tool asks or reports.
    Variant(
        "mcp1-http-json",
        "mcp1",
        "http",
        options=("--json",),
        asks=False,
        reports=False,
    ),
    Variant(
        "mcp1-http-stateless",
        "mcp1",
        "http",
        options=("--stateless",),
        asks=False,
        announces=False,
    ),
    Variant(
        "mcp1-http-stateless-json",
        "mcp1",
        "http",
        options=("--stateless", "--json"),
        asks=False,
        reports=False,
        hears_cancel=False,
        announces=False,
    ),
    Variant("mcp1-sse", "mcp1", "sse"),
    Variant("mcp2-http-modern", "mcp2", "http", found="modern"),
    Variant("mcp2-http-legacy", "mcp2", "http", era="legacy"),
    Variant(
        "mcp2-http-legacy-stateless",
        "mcp2",
        "http",
        era="legacy",
        options=("--stateless",),
        asks=False,
        announces=False,
    ),
    Variant("mcp2-sse", "mcp2", "sse"),
]
PYTHON = [*STDIO, *HTTP]
EVERYTHING = [
    Variant("everything-stdio", "everything", "stdio"),
    Variant("everything-http", "everything", "http"),
    Variant("everything-sse", "everything", "sse"),
]


class Journal:
    """Receives the lines of servers, in their order.

    A thread takes them as they come: the system keeps ten for a test that reads none,
    and then blocks the server that writes one more.
    """

    def __init__(self):
        self._folder = tempfile.mkdtemp(prefix="mcp-")  # short: socket paths are
        self.path = os.path.join(self._folder, "journal")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._come = threading.Condition()
        self._new = []
        self.lines = []
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self):
        while (line := self._socket.recv(1000).decode()) != END:
            with self._come:
                self._new.append(line.strip())
                self._come.notify_all()

    def wait_for(self, line):
        """Wait until a server has written *line*, and return the lines before it."""
        with self._come:
            has_come = self._come.wait_for(lambda: line in self._new, LONG)
            assert has_come, f"no {line!r} in {LONG} s; {self.lines + self._new}"
            place = self._new.index(line)
            before = self._new[:place]
            self.lines += self._new[: place + 1]
            del self._new[: place + 1]
            return before

    def close(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(END.encode(), self.path)
        self._thread.join(LONG)
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)


@dataclass
class HTTPProcess:
    """A server process that listens on a port of the loopback."""

    command: list
    port: int = 0
    process: subprocess.Popen = field(init=False, default=None)

    def start(self):
        """Start it, on the port of the last time if there was one."""
        port = {"REAL_PORT": str(self.port)}
        command = list(self.command)
        if self.port and command[0] != NODE:
            command += ["--port", str(self.port)]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **port},
        )
        with self.process.stdout as output:  # it prints nothing but its port
            line = output.readline().strip()
        if not line.isdigit():
            self.stop()
            raise AssertionError(f"no port from {command}, but {line!r}")
        self.port = int(line)
        return self

    def stop(self, how=signal.SIGKILL):
        self.process.send_signal(how)
        self.process.wait(LONG)

    def url(self, transport):
        return f"http://127.0.0.1:{self.port}/{'sse' if transport == 'sse' else 'mcp'}"


def connect(variant, journal, process=None, **settings):
    """Return a server object for a variant; over HTTP its process is there already."""
    settings = {"name": variant.kind, "era": variant.era, **settings}
    if variant.transport == "stdio":
        return MCPServer.stdio(variant.command(journal.path), **settings)
    kind = "sse" if variant.transport == "sse" else "auto"
    return MCPServer.http(process.url(variant.transport), kind=kind, **settings)


@contextmanager
def running(variant, journal):
    """Run the process of an HTTP server; nothing for a server on stdio."""
    if variant.transport == "stdio":
        yield None
        return
    process = HTTPProcess(variant.command(journal.path)).start()
    try:
        yield process
    finally:
        process.stop()


def is_alive(pid):
    """Tell whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def processes_with(mark):
    """Return the ids of live processes whose command line contains *mark*."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line and is_alive(int(entry.name)):
                found.append(int(entry.name))
    return found
