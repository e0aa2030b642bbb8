"""HTTP responses of a fake MCP server: whole, as a stream of events, or broken.

Guarantees:

- One lock per response: a response is written by the thread that plays the exchange,
  and by any that notifies.
- A write to a client that is gone is dropped; ``hung_up`` says so.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Literal

import msgspec

from .journal import SeenExchange

__all__ = [
    "FakeEventStream",
    "HTTPAnswer",
    "encode_event",
    "read_request",
]

#: Zero on systems that cannot report a hang-up apart from data.
_HANG_UP: Final[int] = getattr(select, "POLLRDHUP", 0)


def encode_event(
    data: str | bytes | None,
    *,
    event: str | None = "message",
    id: str | None = None,
    retry: int | None = None,
) -> bytes:
    """Return a server-sent event."""
    lines = [] if event is None else [b"event: " + event.encode()]
    if id is not None:
        lines.append(b"id: " + id.encode())
    if retry is not None:
        lines.append(b"retry: %d" % retry)
    if data is not None:
        lines.append(b"data: " + (data.encode() if isinstance(data, str) else data))
    return b"\n".join([*lines, b"", b""])


class FakeEventStream:
    """Events in order, for whichever response carries them at the moment."""

    def __init__(self, key: str, *, has_ids: bool) -> None:
        self.key = key
        self._has_ids = has_ids
        self._events: list[bytes] = []
        self._carried = 0
        self._carrier: HTTPAnswer | None = None
        self._is_over = False
        self._lock = threading.RLock()

    @property
    def is_open(self) -> bool:
        """True while a client reads it."""
        carrier = self._carrier
        return carrier is not None and not carrier.is_over

    def put(
        self, data: str | bytes, *, event: str | None = "message", is_last: bool = False
    ) -> None:
        """Add an event; it is kept until a client asks for the stream again."""
        with self._lock:
            id = f"{self.key}.{len(self._events) + 1}" if self._has_ids else None
            self._events.append(encode_event(data, event=event, id=id))
            self._is_over = self._is_over or is_last
            self._carry()

    def attach(self, carrier: HTTPAnswer, after: int | None = None) -> None:
        """Send the events after number *after*, or those never sent, by *carrier*."""
        with self._lock:
            self._carrier = carrier
            self._carried = self._carried if after is None else after
            carrier.begin()
            if self._has_ids and after is None:
                prime = encode_event("", event=None, id=f"{self.key}.{self._carried}")
                carrier.chunk(prime)
            self._carry()

    def detach(self) -> None:
        """End the response that carries it; later events wait for the next."""
        with self._lock:
            carrier, self._carrier = self._carrier, None
        if carrier is not None:
            carrier.end()

    def _carry(self) -> None:
        carrier = self._carrier
        if carrier is None or carrier.is_over or carrier.hung_up:
            return
        for frame in self._events[self._carried :]:
            carrier.chunk(frame)
        self._carried = len(self._events)
        if self._is_over:
            carrier.end()


class HTTPAnswer:
    """The response to one HTTP request, for a script to write as it likes."""

    def __init__(self, sock: socket.socket, request: SeenExchange) -> None:
        self._sock = sock
        self.request = request
        #: Headers for the response, whatever it is.
        self.headers: dict[str, str] = {}
        #: The form of an MCP answer: JSON, an SSE stream, or the latter only if
        #: something comes before the answer.
        self.form: Literal["auto", "json", "sse"] = "auto"
        self.hung_up = False
        #: True as soon as nothing more will be written.
        self.is_over = False
        #: True if the connection must not be used again.
        self.must_close = False
        self._has_begun = False
        self._is_chunked = False
        self._lock = threading.RLock()
        self._woken, self._wake = socket.socketpair()

    @property
    def has_begun(self) -> bool:
        """True as soon as a byte of the response is sent."""
        return self._has_begun

    def status(
        self,
        status: int,
        body: Any = b"",
        *,
        headers: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> None:
        """Respond with a status and a body: bytes, text, or a value to encode."""
        if isinstance(body, str):
            body = body.encode()
        elif not isinstance(body, bytes):
            body = msgspec.json.encode(body)
        more = {"Content-Length": str(len(body)), **(headers or {})}
        if body:
            more = {"Content-Type": content_type, **more}
        with self._lock:
            self.raw(self._head(status, more) + body)
            self._finish()

    def accept(self) -> None:
        """Respond with 202, which is for notifications, and has no body."""
        self.status(202)

    def begin(
        self,
        status: int = 200,
        *,
        content_type: str = "text/event-stream",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send the headers of a response whose body follows in chunks."""
        with self._lock:
            if self._has_begun:
                return
            more = {"Content-Type": content_type, "Transfer-Encoding": "chunked"}
            self._is_chunked = True
            self.raw(self._head(status, {**more, **(headers or {})}))

    def event(
        self,
        data: str | bytes | None,
        *,
        event: str | None = "message",
        id: str | None = None,
        retry: int | None = None,
    ) -> None:
        """Send one event, exactly as given; the stream begins with it if need be."""
        self.chunk(encode_event(data, event=event, id=id, retry=retry))

    def comment(self, text: str = "keep-alive", times: int = 1) -> None:
        """Send comments, as servers do to keep a connection alive."""
        for _ in range(times):
            self.chunk(f": {text}\n\n".encode())

    def chunk(self, data: bytes) -> None:
        """Send bytes of the body; the stream begins with them if need be."""
        with self._lock:
            self.begin()
            self.raw(b"%x\r\n%s\r\n" % (len(data), data))

    def end(self) -> None:
        """End the response in good order; an SSE stream may be empty."""
        with self._lock:
            if self.is_over:
                return
            self.begin()
            if self._is_chunked:
                self.raw(b"0\r\n\r\n")
            self._finish()

    def raw(self, data: bytes) -> None:
        """Send bytes as they are: no headers and no chunks around them."""
        with self._lock:
            if self.is_over or self.hung_up:
                return
            self._has_begun = True
            try:
                self._sock.sendall(data)
            except OSError:
                self.hung_up = True

    def close(self, *, reset: bool = False) -> None:
        """Close the connection now: before, in or after the headers.

        :param reset: with an error for the client, instead of an end.
        """
        with self._lock:
            self.must_close = True
            if reset:
                linger = struct.pack("ii", 1, 0)
                with suppress(OSError):
                    self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self._finish()

    def wait_over(self, on_hang_up: Callable[[], None]) -> None:
        """Block until the response is over, or the client hangs up."""
        poller = select.poll()
        poller.register(self._woken, select.POLLIN)
        poller.register(self._sock, _HANG_UP or select.POLLIN)
        number = self._sock.fileno()
        while not self.is_over and not self.hung_up:
            for found, events in poller.poll():
                if found != number:
                    continue
                if events & ~select.POLLIN or not self._has_data():
                    self.hung_up = True
                else:
                    poller.unregister(number)  # the next request; it can wait
        if self.hung_up and not self.is_over:
            on_hang_up()

    def release(self) -> None:
        """Close what is needed to wait."""
        with self._lock:
            self.is_over = True
            self._woken.close()
            self._wake.close()

    def _has_data(self) -> bool:
        try:
            return bool(self._sock.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def _head(self, status: int, headers: Mapping[str, str]) -> bytes:
        lines = [f"HTTP/1.1 {status} Scripted"]
        lines += [f"{k}: {v}" for k, v in {**headers, **self.headers}.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def _finish(self) -> None:
        if not self.is_over:
            self.is_over = True
            with suppress(OSError):
                self._wake.send(b"!")


def read_request(file: Any) -> SeenExchange | None:
    """Read one HTTP request; return ``None`` at the end of the connection."""
    first = file.readline().decode("latin-1").split(" ")
    if len(first) < 2:
        return None
    headers: dict[str, str] = {}
    while line := file.readline().decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = file.read(int(headers.get("content-length", 0)))
    return SeenExchange(first[0], first[1], headers, body, time.monotonic())
