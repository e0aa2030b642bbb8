"""MCP by hand: raw pipes and raw HTTP, without any client."""

import http.client
import json
import subprocess
from contextlib import contextmanager
from urllib.parse import urlsplit

LIMIT_S = 20
PREFIX = "io.modelcontextprotocol/"
META = {
    f"{PREFIX}protocolVersion": "2026-07-28",
    f"{PREFIX}clientCapabilities": {"elicitation": {"form": {}}},
    f"{PREFIX}clientInfo": {"name": "raw", "version": "1"},
}
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "raw", "version": "1"},
}
BOTH_KINDS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}


def message(method, params=None, id=None):
    """Return a request, or a notification without an id."""
    made = {"jsonrpc": "2.0", "method": method}
    if id is not None:
        made["id"] = id
    if params is not None:
        made["params"] = params
    return made


def cancel_of(id):
    return message("notifications/cancelled", {"requestId": id, "reason": "enough"})


def call(name, arguments=None, id=2, **more):
    return message(
        "tools/call", {"name": name, "arguments": arguments or {}, **more}, id
    )


class Pipe:
    """A process of a fake server, and its pipes."""

    def __init__(self, command):
        kinds = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen(command, **kinds)

    def send(self, *messages):
        lines = b"".join(json.dumps(each).encode() + b"\n" for each in messages)
        self.process.stdin.write(lines)
        self.process.stdin.flush()

    def line(self):
        return self.process.stdout.readline()

    def read(self):
        return json.loads(self.line())

    def ask(self, made):
        self.send(made)
        return self.read()

    def initialize(self, version="2025-11-25"):
        said = self.ask(
            message("initialize", {**INITIALIZE, "protocolVersion": version}, 1)
        )
        self.send(message("notifications/initialized"))
        return said["result"]

    def close(self):
        self.process.stdin.close()
        code = self.process.wait(LIMIT_S)
        self.process.stdout.close()
        self.process.stderr.close()
        return code


@contextmanager
def pipe_to(server, command=None):
    pipe = Pipe(command or server.command)
    try:
        yield pipe
    finally:
        pipe.process.kill()
        with pipe.process:
            pass


class Line:
    """A keep-alive HTTP connection to a fake server."""

    def __init__(self, server):
        address = urlsplit(server.url)
        self.connection = http.client.HTTPConnection(
            address.hostname, address.port, timeout=LIMIT_S
        )
        self.headers = dict(BOTH_KINDS)

    def post(self, made, path="/mcp", **headers):
        """Send a message; return the response, with its body unread."""
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        body = made if isinstance(made, bytes) else json.dumps(made)
        self.connection.request("POST", path, body, {**self.headers, **more})
        return self.connection.getresponse()

    def get(self, path="/mcp", **headers):
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        head = {**self.headers, "Accept": "text/event-stream", **more}
        self.connection.request("GET", path, headers=head)
        return self.connection.getresponse()

    def initialize(self, version="2025-11-25"):
        """Open a legacy session."""
        response = self.post(
            message("initialize", {**INITIALIZE, "protocolVersion": version}, 1)
        )
        said = json.loads(response.read())
        id = response.getheader("Mcp-Session-Id")
        if id is not None:
            self.headers["Mcp-Session-Id"] = id
        self.headers["MCP-Protocol-Version"] = version
        accepted = self.post(message("notifications/initialized"))
        accepted.read()
        assert accepted.status == 202
        return said["result"]

    def modern(self, made, **headers):
        """Send a modern request, with its headers and its ``_meta``."""
        params = made.get("params", {})
        made = {**made, "params": {"_meta": META, **params}}
        expected = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": made["method"]}
        name = params.get("name") or params.get("uri")
        if name is not None:
            expected["Mcp_Name"] = name
        return self.post(made, **{**expected, **headers})

    def close(self):
        self.connection.close()


@contextmanager
def line_to(server):
    line = Line(server)
    try:
        yield line
    finally:
        line.close()


def events(response):
    """Yield the events of a response as dicts."""
    event = {}
    while line := response.readline():
        text = line.decode().rstrip("\r\n")
        if not text and event:
            yield event
            event = {}
        elif text:
            name, _, value = text.partition(": ")
            event[name] = value
    assert not event


def messages(response):
    """Yield the messages of an SSE response."""
    for event in events(response):
        if event.get("data"):
            yield json.loads(event["data"])
