"""An owner of MCP connections over HTTP, and the ways to reach a fake server."""

import threading
from contextlib import contextmanager

from syncagent.cancel import CancelToken
from syncagent.mcp.connection import Caller
from syncagent.mcp.http import HTTPSettings, connect_http

from .threads import LONG

#: Dialects of a server: arguments for the fake one, and for the connection.
DIALECTS = {
    "modern": ({"era": "modern"}, {}),
    "modern-json": ({"era": "modern", "form": "json"}, {}),
    "legacy": ({"era": "legacy"}, {}),
    "legacy-json": ({"era": "legacy", "form": "json"}, {}),
    "stateless": ({"era": "legacy", "sessions": False}, {}),
    "no-get": ({"era": "legacy"}, {}),
    "sse": ({"era": "legacy"}, {"kind": "sse"}),
}


class Owner:
    """Remembers notifications, and answers questions of no call."""

    name = "srv"

    def __init__(self, answer=None, **capabilities):
        self.client_capabilities = capabilities
        self.notes = []
        self.changed = threading.Condition()
        self._answer = answer

    def notified(self, method, params):
        """Remember a notification."""
        with self.changed:
            self.notes.append((method, params))
            self.changed.notify_all()

    def answer(self, question, token):
        """Answer a question of no call."""
        return self._answer(question, token)

    def wait_for(self, method):
        """Wait until *method* was notified."""
        with self.changed:
            assert self.changed.wait_for(
                lambda: any(name == method for name, _ in self.notes), LONG
            )


@contextmanager
def connected(server, owner=None, *, token=None, grace=5.0, **settings):
    """Yield a connection to a fake server, or to a URL, and close it."""
    url = server if isinstance(server, str) else server.url
    if settings.get("kind") == "sse" and not isinstance(server, str):
        url = server.sse_url
    connection = connect_http(
        HTTPSettings(url=url, **settings), owner or Owner(), token or CancelToken()
    )
    try:
        yield connection
    finally:
        connection.close(grace=grace)


def calling(connection, name="echo", arguments=None, *, token=None, **caller):
    """Call a tool, and return the result."""
    return connection.request(
        "tools/call",
        {"name": name, "arguments": arguments or {}},
        Caller(token=token or CancelToken(), **caller),
    )


def text_of(result):
    """Return the text of a tool's result."""
    return result["content"][0]["text"]


class Call:
    """A call on a thread of its own, with its outcome."""

    def __init__(self, function):
        self.value = self.error = None
        self._function = function
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            self.value = self._function()
        except BaseException as error:
            self.error = error

    def ended(self):
        """Wait for the end, and return this."""
        self._thread.join(LONG)
        assert not self._thread.is_alive(), "the call did not end"
        return self
