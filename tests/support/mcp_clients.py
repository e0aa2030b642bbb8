"""Raw MCP clients of our own server: pipes and sockets, no library in between."""

import http.client
import itertools
import json
import os
import select
import socket
import socketserver
import threading
from contextlib import contextmanager
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from support.threads import LONG
from syncagent.cancel import CancelToken
from syncagent.mcp.serving.stdio import StdioServer

MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"


def envelope(capabilities=None, **meta):
    """Return the ``_meta`` of a modern request."""
    return {
        f"{PREFIX}protocolVersion": MODERN,
        f"{PREFIX}clientCapabilities": capabilities or {},
        **meta,
    }


class PipeClient:
    """A client that writes and reads lines on two descriptors."""

    def __init__(self, writing, reading):
        self._writing = writing
        self._reading = reading
        self._rest = b""
        self._ids = itertools.count(1)

    def send(self, message):
        self.send_bytes(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def send_bytes(self, data):
        while data:
            data = data[os.write(self._writing, data) :]

    def request(self, method, params=None, id=None):
        """Send a request as it is, and return its id."""
        id = next(self._ids) if id is None else id
        self.send({"id": id, "method": method, "params": params or {}})
        return id

    def call(self, name, arguments=None, *, id=None, meta=None, **params):
        """Call a tool, in the legacy way unless *meta* has an envelope."""
        meta = {} if meta is None else {"_meta": meta}
        params = {"name": name, "arguments": arguments or {}, **params, **meta}
        return self.request("tools/call", params, id)

    def cancel(self, id, reason="enough"):
        params = {"requestId": id, "reason": reason}
        self.send({"method": "notifications/cancelled", "params": params})

    def initialize(self, capabilities=None, version="2025-11-25"):
        """Shake hands as a legacy client, and return the result."""
        params = {
            "protocolVersion": version,
            "capabilities": capabilities or {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        result = self.result_of(self.request("initialize", params, id="init"))
        self.send({"method": "notifications/initialized"})
        return result

    def receive(self, seconds=LONG):
        """Return the next message; None at the end of the output."""
        while b"\n" not in self._rest:
            ready = select.select([self._reading], [], [], seconds)[0]
            assert ready, f"no message within {seconds} s"
            data = os.read(self._reading, 1 << 16)
            if not data:
                return None
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def response_to(self, id):
        """Return the next response, which is the one to the request *id*."""
        while True:
            message = self.receive()
            assert message is not None, "the server has left"
            if "method" not in message:
                assert message["id"] == id, message
                return message

    def result_of(self, id):
        response = self.response_to(id)
        assert "result" in response, response
        return response["result"]

    def error_of(self, id):
        return self.response_to(id)["error"]

    def is_silent(self):
        """True if nothing comes before the answer to a ping."""
        id = self.request(
            "tools/list", {"_meta": envelope()}, id=f"is{next(self._ids)}"
        )
        return self.receive().get("id") == id

    def leave(self):
        """Close the input of the server."""
        if self._writing is not None:
            os.close(self._writing)
            self._writing = None

    def close(self):
        self.leave()
        os.close(self._reading)


@contextmanager
def piped(service, *, grace=2.0, token=None):
    """Serve a client on pipes, on a thread; check that the server ends."""
    token = CancelToken() if token is None else token
    server_in, client_out = os.pipe()
    client_in, server_out = os.pipe()
    client = PipeClient(client_out, client_in)
    server = StdioServer(service, server_in, server_out, token=token, grace=grace)

    def serve():
        with server:
            server.run()
        os.close(server_in)
        os.close(server_out)

    thread = threading.Thread(target=serve, daemon=True)
    client.thread, client.token = thread, token
    thread.start()
    try:
        yield client
    finally:
        client.leave()
        thread.join(LONG)
        client.close()
        assert not thread.is_alive(), f"the server did not end in {LONG} s"


# -- HTTP ------------------------------------------------------------------------------


class _ThreadedServer(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 128


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, *args):
        pass


@contextmanager
def served(app):
    """Serve a WSGI application on a thread for each connection; return the port."""
    with make_server("127.0.0.1", 0, app, _ThreadedServer, _QuietHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join(LONG)


class Posted:
    """One POST on a socket of its own."""

    def __init__(self, port, message, headers=None, *, method="POST", path="/mcp"):
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        fields = {
            "Host": f"127.0.0.1:{port}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **standard_headers(message),
            "Content-Length": str(len(body)),
            "Connection": "close",
            **(headers or {}),
        }
        lines = [
            f"{name}: {value}" for name, value in fields.items() if value is not None
        ]
        head = "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""])
        self.socket = socket.create_connection(("127.0.0.1", port), LONG)
        self.socket.settimeout(LONG)
        self.socket.sendall(head.encode("latin-1") + body)
        self._file = None
        self._method = method

    def head(self):
        """Read the status and the headers."""
        self._file = http.client.HTTPResponse(self.socket, method=self._method)
        self._file.begin()
        self.status = self._file.status
        self.headers = {name.lower(): value for name, value in self._file.getheaders()}
        return self

    def json(self):
        """Return the body of a response that is no stream."""
        if self._file is None:
            self.head()
        with self:
            return json.loads(self._file.read())

    def event(self):
        """Return the next message of a stream, None at its end."""
        while True:
            line = self._file.readline()
            if not line:
                return None
            if line.startswith(b"data: "):
                return json.loads(line[6:])

    def vanish(self):
        """Close the connection."""
        if self._file is not None:
            self._file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.vanish()


def standard_headers(message):
    """Return the headers that repeat a modern request."""
    if not isinstance(message, dict) or "method" not in message:
        return {}
    params = message.get("params") or {}
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"]}
    if message["method"] == "tools/call":
        headers["Mcp-Name"] = params.get("name")
    return headers


def modern(method, params=None, *, id=1, capabilities=None, **meta):
    """Return a modern request."""
    params = {**(params or {}), "_meta": envelope(capabilities, **meta)}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def modern_call(name, arguments=None, *, id=1, capabilities=None, more=None, **meta):
    """Return a modern call."""
    params = {"name": name, "arguments": arguments or {}, **(more or {})}
    return modern("tools/call", params, id=id, capabilities=capabilities, **meta)
