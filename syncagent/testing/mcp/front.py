"""The HTTP side of a fake MCP server: ``/mcp`` streamable, ``/sse`` HTTP+SSE.

One thread per connection reads its requests and watches for a hang-up; what a request
asks for is played on a thread of its own.
"""

from __future__ import annotations

import itertools
import socket
import time
import uuid
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from .exchange import ExchangeOver, MCPExchange
from .journal import Journal, ReceivedMessage, SeenExchange, TransportName
from .pipes import FakeProcess
from .protocol import FakeProtocol
from .rules import LEGACY_VERSIONS, is_modern, mistakes_in_post
from .scripts import Scripts
from .sessions import FakeSession
from .streams import FakeEventStream, HTTPAnswer, read_request

__all__ = [
    "FakeFront",
]

#: The revision since which clients name theirs in a header.
_NAMED_VERSION: Final = "2025-06-18"


class _PostWire:
    """The way back over streamable HTTP: the response to the POST."""

    process: FakeProcess | None = None

    def __init__(
        self, http: HTTPAnswer, session: FakeSession, key: str, has_event_ids: bool
    ) -> None:
        self.http: HTTPAnswer | None = http
        self._response = http
        self._session = session
        self._stream = FakeEventStream(key, has_ids=has_event_ids)
        self._has_event_ids = has_event_ids
        self._is_stream = False

    @property
    def is_over(self) -> bool:
        can_resume = self._is_stream and self._has_event_ids
        return self._response.is_over and not can_resume

    def send(self, data: bytes) -> None:
        if self._response.form == "json":
            self._session.stream.put(data)
        else:
            self._open().put(data)

    def answer(self, data: bytes, status: int) -> None:
        is_json = self._response.form != "sse" or status != 200
        if is_json and not self._is_stream and not self._response.has_begun:
            self._response.status(status, data)
        else:
            self._open().put(data, is_last=True)

    def _open(self) -> FakeEventStream:
        if not self._is_stream:
            self._is_stream = True
            self._session.streams[self._stream.key] = self._stream
            self._stream.attach(self._response)
        return self._stream


class _SSEWire:
    """The way back over HTTP+SSE: the stream of the session."""

    process: FakeProcess | None = None
    is_over = False

    def __init__(self, http: HTTPAnswer, session: FakeSession) -> None:
        self.http: HTTPAnswer | None = http
        self._session = session

    def send(self, data: bytes) -> None:
        self._session.stream.put(data)

    def answer(self, data: bytes, status: int) -> None:
        self._session.stream.put(data)


class FakeFront:
    """Serves the HTTP connections of a fake MCP server."""

    def __init__(
        self, server: Any, journal: Journal, protocol: FakeProtocol, scripts: Scripts
    ) -> None:
        self._server = server
        self._journal = journal
        self._protocol = protocol
        self._scripts = scripts
        self._numbers = itertools.count(1)
        self.sessions: dict[str, FakeSession] = {}
        #: Ids of sessions that were given out and are no more.
        self.lost_ids: set[str] = set()
        #: The session of all modern clients, and of legacy ones without an id.
        self.modern = FakeSession(journal, "http")
        self.modern.era = "modern"
        self.stateless = FakeSession(journal, "http")
        self.stateless.era = "legacy"

    def serve(self, sock: socket.socket) -> None:
        """Serve a connection until its end."""
        with sock.makefile("rb") as file:
            while (request := read_request(file)) is not None:
                self._journal.add(request)
                http = HTTPAnswer(sock, request)
                http.form = self._server.form
                try:
                    self._handle(http, request)
                finally:
                    http.release()
                if http.must_close or http.hung_up:
                    return

    def forget(self, session: FakeSession) -> None:
        """Lose a session."""
        with self._journal.changed:
            if session.id in self.sessions:
                del self.sessions[session.id]
                self.lost_ids.add(session.id)

    def _handle(self, http: HTTPAnswer, request: SeenExchange) -> None:
        path = urlsplit(request.path).path
        handlers = {
            ("POST", "/mcp"): self.post,
            ("GET", "/mcp"): self.get,
            ("DELETE", "/mcp"): self.delete,
            ("GET", "/sse"): self.open_sse,
            ("POST", "/messages"): self.post_sse,
        }
        handler = handlers.get((request.verb, path))
        if not self._is_authorized(http, request) or self._is_scripted(http, request):
            return None
        if handler is None:
            known = {known for _, known in handlers}
            return http.status(405 if path in known else 404, b"")
        handler(http, request)
        return None

    def _is_authorized(self, http: HTTPAnswer, request: SeenExchange) -> bool:
        token = self._server.require_token
        given = request.headers.get("authorization")
        if token is None or given == f"Bearer {token}":
            return True
        challenge = self._server.challenge
        if given is not None:
            challenge = f'{challenge}, error="invalid_token"'.replace(
                "Bearer,", "Bearer"
            )
        http.status(401, b"", headers={"WWW-Authenticate": challenge})
        return False

    def _is_scripted(self, http: HTTPAnswer, request: SeenExchange) -> bool:
        """Play a script for the verb; return whether it has responded."""
        received = self._received(request, {"method": request.verb}, "http", None)
        wire = _PostWire(http, self.stateless, "verb", False)
        exchange = MCPExchange(self._server, self.stateless, wire, received)
        script = self._scripts.find(exchange)
        if script is None:
            return False
        try:
            script(exchange)
        except ExchangeOver:
            http.wait_over(exchange.mark_hung_up)
        return http.is_over or http.hung_up

    def _received(
        self,
        request: SeenExchange,
        message: Any,
        transport: TransportName,
        session: str | None,
    ) -> ReceivedMessage:
        return ReceivedMessage(
            message, transport, request.headers, session, time.monotonic()
        )

    # -- streamable HTTP --------------------------------------------------------------

    def post(self, http: HTTPAnswer, request: SeenExchange) -> None:
        message = self._decoded(http, request)
        if message is None:
            return None
        id = request.headers.get("mcp-session-id")
        received = self._received(request, message, "http", id)
        self._journal.add(received)
        mistakes = list(mistakes_in_post(request.headers))
        self._journal.complain(*(f"{received.method}: {each}" for each in mistakes))
        if any(each.startswith("Accept") for each in mistakes):
            return http.status(406, _error(-32000, "Not Acceptable"))
        session = self._session_of(http, received)
        if session is not None:
            key = f"s{next(self._numbers)}"
            has_ids = self._server.event_ids and session.era == "legacy"
            wire = _PostWire(http, session, key, has_ids)
            exchange = self._protocol.receive(session, wire, received)
            if not received.is_request and not http.is_over:
                http.accept()
            http.wait_over(exchange.mark_hung_up)
        return None

    def _decoded(self, http: HTTPAnswer, request: SeenExchange) -> Any:
        """Return the message of a POST; respond and return ``None`` if it has none."""
        try:
            return msgspec.json.decode(request.body)
        except msgspec.DecodeError as error:
            self._journal.complain(f"a POST without JSON: {error}")
            http.status(400, _error(-32700, "Parse error"))
            return None

    def _session_of(
        self, http: HTTPAnswer, received: ReceivedMessage
    ) -> FakeSession | None:
        """Return the session of a POST; if there is none, respond."""
        era = self._server.era
        claims_modern = is_modern(received)
        if era == "modern" or (era == "both" and claims_modern):
            return self.modern
        if received.method == "initialize":
            return self._new_session(http)
        if claims_modern:
            return self.stateless
        if not self._server.sessions:
            self._check_version(received, None)
            return self.stateless
        return self._known_session(http, received.headers, received)

    def _new_session(self, http: HTTPAnswer) -> FakeSession:
        id = uuid.uuid4().hex if self._server.sessions else None
        has_ids = self._server.event_ids
        if id is None:
            self.stateless.version = ""
            return self.stateless
        session = FakeSession(self._journal, "http", id=id, has_event_ids=has_ids)
        session.era = "legacy"
        session.withdraws = self._server.withdraws
        self.sessions[id] = session
        http.headers["Mcp-Session-Id"] = id
        return session

    def _known_session(
        self,
        http: HTTPAnswer,
        headers: Mapping[str, str],
        received: ReceivedMessage | None = None,
    ) -> FakeSession | None:
        """Return the session that the headers name; if there is none, respond."""
        id = headers.get("mcp-session-id")
        label = "a request" if received is None else received.method or "a response"
        if id is None:
            self._journal.complain(f"{label}: Mcp-Session-Id is missing")
            http.status(400, _error(-32600, "Bad Request: Missing session ID"))
            return None
        session = self.sessions.get(id)
        if session is None:
            if id not in self.lost_ids:
                self._journal.complain(f"{label}: no session ever had the id {id!r}")
            http.status(self._server.lost_status, _error(-32001, "Session not found"))
            return None
        if received is not None:
            self._check_version(received, session.version)
        return session

    def _check_version(self, received: ReceivedMessage, version: str | None) -> None:
        header = received.headers.get("mcp-protocol-version")
        expected = LEGACY_VERSIONS if version is None else (version,)
        needs_none = version is not None and version < _NAMED_VERSION
        if header not in expected and not (header is None and needs_none):
            self._journal.complain(
                f"{received.method}: MCP-Protocol-Version must be "
                f"{' or '.join(expected)}; got {header!r}"
            )

    def get(self, http: HTTPAnswer, request: SeenExchange) -> None:
        headers, status = request.headers, self._server.get_status
        if "text/event-stream" not in headers.get("accept", ""):
            self._journal.complain("GET: Accept must name text/event-stream")
        if self._server.era == "modern":
            self._journal.complain("GET: modern HTTP has no such stream")
        if self._server.era == "modern" or not self._server.sessions:
            status = 405
        if status != 200:
            return http.status(status, b"")
        session = self._known_session(http, headers)
        if session is None:
            return None
        stream, after = session.stream, None
        last = headers.get("last-event-id")
        if last is not None:
            key, _, number = last.rpartition(".")
            known = {session.stream.key: session.stream, **session.streams}
            if key not in known:
                return http.status(400, _error(-32600, f"no event {last!r}"))
            stream, after = known[key], int(number)
        elif stream.is_open:
            return http.status(409, _error(-32000, "Only one SSE stream is allowed"))
        stream.attach(http, after)
        self._journal.wake()
        if self._server.closes_get:
            stream.detach()
        http.wait_over(self._journal.wake)
        return None

    def delete(self, http: HTTPAnswer, request: SeenExchange) -> None:
        if self._server.era == "modern" or not self._server.sessions:
            self._journal.complain("DELETE: there is no session to end")
            return http.status(405, b"")
        session = self._known_session(http, request.headers)
        if session is not None:
            self.forget(session)
            session.stream.detach()
            http.status(self._server.delete_status, b"")
        return None

    # -- HTTP+SSE ---------------------------------------------------------------------

    def open_sse(self, http: HTTPAnswer, request: SeenExchange) -> None:
        session = FakeSession(self._journal, "sse", id=uuid.uuid4().hex)
        session.withdraws = self._server.withdraws
        session.era = "legacy"
        assert session.id is not None
        self.sessions[session.id] = session
        endpoint = self._server.endpoint or "/messages"
        session.stream.attach(http)
        session.stream.put(f"{endpoint}?session={session.id}", event="endpoint")
        self._journal.wake()
        http.wait_over(self._journal.wake)
        self.forget(session)

    def post_sse(self, http: HTTPAnswer, request: SeenExchange) -> None:
        query = parse_qs(urlsplit(request.path).query)
        session = self.sessions.get(query.get("session", [""])[0])
        if session is None:
            return http.status(404, b"")
        message = self._decoded(http, request)
        if message is None:
            return None
        received = self._received(request, message, "sse", session.id)
        self._journal.add(received)
        http.accept()
        self._protocol.receive(session, _SSEWire(http, session), received)
        return None


def _error(code: int, message: str) -> dict[str, Any]:
    error = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": None, "error": error}
