"""A real server on loopback that plays every provider from a script."""

from __future__ import annotations

import io
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice, pairwise
from typing import Any, Final, NoReturn

import msgspec

from .._closeable import Closeable
from ..exceptions import ConfigurationError
from .providers.played import PLAYED, PlayedProvider, find_played
from .script import (
    Act,
    Broken,
    Comment,
    Delay,
    Drop,
    ScriptedResponse,
    Send,
    Split,
    Stall,
    Status,
    say,
)

__all__ = ["FakeServer", "SeenRequest"]

#: Seconds after which any wait in here has failed.
_LIMIT: Final = 30.0
#: Seconds between two looks at a gate; a client that hangs up is seen at once.
_LOOK: Final = 0.01
#: Zero on systems that cannot report a hang-up apart from data.
_HANG_UP: Final[int] = getattr(select, "POLLRDHUP", 0)


class SeenRequest(msgspec.Struct, frozen=True):
    """A request that a client has sent."""

    path: str
    #: By lower-case name.
    headers: dict[str, str]
    payload: dict[str, Any]
    #: The payload as it was sent.
    body: bytes = b""


class _HungUp(Exception):
    """The client has closed the connection."""


class FakeServer(Closeable):
    """Speak all four wire dialects on loopback, from a script.

    ::

        with FakeServer([say("Hello"), say(call("weather", {"city": "Oslo"}))]) as fake:
            model = OpenAIChat("fake", base_url=fake.base_url, api_key="any")

    Each request gets the next response of the script. A request that the real provider
    would reject gets its complaint with status 400, or 401 without a key, and does not
    advance the script. After the last response the status is 501.

    :param script: responses, or strings as their text; or a function that takes each
        request and returns the response to it.
    :param context: for TLS.
    """

    def __init__(
        self,
        script: Iterable[ScriptedResponse | str]
        | Callable[[SeenRequest], ScriptedResponse | str] = (),
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._decide = script if callable(script) else None
        self._script: list[ScriptedResponse] = []
        if not callable(script):
            self.add(*script)
        self._context = context
        self._listener: socket.socket | None = None
        self._base_url = ""
        #: The open connections. A thread removes one from here before it closes it.
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._changed = threading.Condition()
        self._is_closed = False
        self._turn = 0
        #: All requests, in order.
        self.requests: list[SeenRequest] = []
        #: Monotonic times at which clients hung up in the middle of a response.
        self.hang_ups: list[float] = []

    @property
    def base_url(self) -> str:
        """The ``base_url`` for a model.

        :raises RuntimeError: the server does not listen yet.
        """
        if not self._base_url:
            raise RuntimeError(
                "FakeServer does not listen yet; use `with FakeServer(...) as server`"
            )
        return self._base_url

    def url_of(self, endpoint: str) -> str:
        """Return the ``base_url`` at which the server has the rules of an endpoint.

        :param endpoint: the part of a model string before the colon, such as
            ``mistral``.
        :raises ConfigurationError: the server has no rules for it.
        """
        if endpoint not in PLAYED:
            raise ConfigurationError(
                f"FakeServer has no rules for {endpoint!r}; it has those of "
                f"{', '.join(sorted(PLAYED))}"
            )
        return self.base_url.replace("/v1", f"/{endpoint}/v1")

    def add(self, *responses: ScriptedResponse | str) -> None:
        """Append to the script."""
        self._script += [say(r) if isinstance(r, str) else r for r in responses]

    def wait_for_hang_up(self, number: int = 1, timeout: float = _LIMIT) -> None:
        """Block until *number* clients have hung up in the middle of a response.

        :raises TimeoutError: they have not within *timeout* seconds.
        """
        with self._changed:
            if not self._changed.wait_for(
                lambda: len(self.hang_ups) >= number, timeout=timeout
            ):
                raise TimeoutError(f"only {len(self.hang_ups)} clients have hung up")

    def __enter__(self) -> FakeServer:
        if self._listener is not None:
            raise RuntimeError("a FakeServer can be entered once; make another one")
        listener = self._listener = socket.create_server(("127.0.0.1", 0))
        self._open.add(listener)
        scheme = "http" if self._context is None else "https"
        self._base_url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/v1"
        self._spawn(self._accept, listener)
        return self

    def close(self) -> None:
        """End the server and all its connections."""
        with self._changed:
            self._is_closed = True
            for sock in self._open:
                with suppress(OSError):  # as a plain socket, also with TLS
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(timeout=_LIMIT)
        if self._listener is not None:
            self._listener.close()

    def _spawn(self, work: Any, *args: Any) -> None:
        thread = threading.Thread(
            target=work, args=args, name="syncagent-fake-server", daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while not self._is_closed:
                sock, _ = listener.accept()
                self._spawn(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        sock.settimeout(_LIMIT)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._context is not None:
            sock = self._context.wrap_socket(
                sock, server_side=True, do_handshake_on_connect=False
            )
        with self._changed:
            self._open.add(sock)
            is_closed = self._is_closed
        try:
            if is_closed:
                return
            if isinstance(sock, ssl.SSLSocket):
                sock.do_handshake()
            with sock.makefile("rb") as file:
                while (request := _read(file)) is not None:
                    with self._changed:
                        self.requests.append(request)
                        self._changed.notify_all()
                    _Exchange(self, sock, request).respond()
        except (OSError, ValueError, _HungUp):
            pass  # the client hung up, or the script drops the connection
        finally:
            with self._changed:
                self._open.discard(sock)
            sock.close()

    def _next_response(self, request: SeenRequest) -> ScriptedResponse | None:
        if self._decide is not None:
            response = self._decide(request)
            return say(response) if isinstance(response, str) else response
        with self._changed:
            if self._turn == len(self._script):
                return None
            self._turn += 1
            return self._script[self._turn - 1]


class _Exchange:
    """One request of one client, and the response to it."""

    def __init__(
        self, server: FakeServer, sock: socket.socket, request: SeenRequest
    ) -> None:
        self._server = server
        self._sock = sock
        self._request = request
        self._played: PlayedProvider | None = None
        #: The headers of a response that is not streamed; they go with its first piece.
        self._head = b""
        self._is_stream = False

    @property
    def _speech(self) -> Any:
        assert self._played is not None
        return self._played.speech

    def respond(self) -> None:
        try:
            send = self._prepare()
        except Exception as error:  # a thread that dies would leave the client waiting
            message = f"the fake server failed: {type(error).__name__}: {error}"
            send = self._whole(500, {"error": {"type": "error", "message": message}})
        send()

    def _prepare(self) -> Callable[[], None]:
        """Return a function that sends the response; nothing is sent before."""
        path = self._request.path.partition("?")[0]
        self._played = played = find_played(path)
        if played is None:
            return self._whole(404, {"error": {"message": f"no such path: {path}"}})
        headers = self._request.headers
        if not played.has_key(headers):
            names = " or ".join(map(repr, played.key_headers))
            return self._error(401, f"no API key; it belongs in the header {names}")
        if "x-api-key" in played.key_headers and not headers.get("anthropic-version"):
            return self._error(400, "anthropic-version: header is required")
        payload = self._request.payload
        complaint = played.complaint(payload, path)
        if complaint is not None:
            return self._error(getattr(complaint, "status", 400), complaint)
        scripted = self._server._next_response(self._request)
        if scripted is None:  # the header is for clients that retry every status >= 500
            return self._error(501, "the script is over", {"x-should-retry": "false"})
        for act in scripted.acts:
            if isinstance(act, Status):
                return self._error(act.status, act.message, act.headers)
        self._is_stream = ":stream" in path or bool(payload.get("stream"))
        return self._deliver(scripted)

    def _deliver(self, scripted: ScriptedResponse) -> Callable[[], None]:
        message, usage, acts = scripted.message, scripted.usage, scripted.acts
        speech = self._speech
        frames = [frame.encode() for frame in speech.frames(message, usage)]
        if self._is_stream:
            return lambda: self._stream(acts, frames)
        body = msgspec.json.encode(speech.body(message, usage))
        self._head = _head(200, "application/json", {"Content-Length": str(len(body))})
        # As many pieces as a stream has, so that acts mean the same for both.
        cuts = [len(body) * n // len(frames) for n in range(len(frames) + 1)]
        pieces = [body[a:b] for a, b in pairwise(cuts)]
        return lambda: self._play(acts, iter(pieces))

    def _error(
        self, status: int, message: str, headers: Mapping[str, str] | None = None
    ) -> Callable[[], None]:
        assert self._played is not None
        return self._whole(status, self._played.error(status, message), headers)

    def _whole(
        self, status: int, document: Any, headers: Mapping[str, str] | None = None
    ) -> Callable[[], None]:
        body = msgspec.json.encode(document)
        more = {"Content-Length": str(len(body)), **(headers or {})}
        data = _head(status, "application/json", more) + body
        return lambda: self._send(data)

    def _stream(self, acts: tuple[Act, ...], frames: list[bytes]) -> None:
        first, *others = acts or (Send(0),)
        if isinstance(first, Stall) and first.before_headers:
            self._stall(first)
            acts = tuple(others)
        self._send(_head(200, "text/event-stream", {"Transfer-Encoding": "chunked"}))
        self._play(acts, iter(frames))
        self._send(b"0\r\n\r\n")

    def _play(self, acts: Iterable[Act], pieces: Iterator[bytes]) -> None:
        for act in acts:
            self._do(act, pieces)
        if next(pieces, None) is not None:
            raise OSError("cut")  # the acts do not send everything

    def _do(self, act: Act, pieces: Iterator[bytes]) -> None:
        if isinstance(act, Send):
            for piece in islice(pieces, act.number):
                self._put(piece)
        elif isinstance(act, Split):
            data = next(pieces, b"")
            for begin in range(0, len(data), act.size):
                self._put(data[begin : begin + act.size])
        elif isinstance(act, Comment) and self._is_stream:  # a document has no comments
            self._put(f": {act.text}\n\n".encode(), act.times)
        elif isinstance(act, Delay):
            self._wait(act.seconds)
        elif isinstance(act, Stall):
            self._stall(act)
        elif isinstance(act, Drop):
            raise OSError("dropped")
        elif isinstance(act, Broken):
            if self._is_stream:
                for frame in self._speech.error_frames(act.message):
                    self._put(frame.encode())
            raise OSError("broken")

    def _stall(self, act: Stall) -> None:
        if act.gate is None:
            return self._wait(_LIMIT)
        end = time.monotonic() + _LIMIT
        while time.monotonic() < end:
            with suppress(TimeoutError):
                return act.gate.stop_here(0)
            self._wait(_LOOK)
        raise TimeoutError(f"the gate was not opened within {_LIMIT} s")

    def _wait(self, seconds: float) -> None:
        """Let time pass, unless the client hangs up."""
        end = time.monotonic() + seconds
        mask = select.POLLIN | _HANG_UP
        while (remaining := end - time.monotonic()) > 0:
            poller = select.poll()
            poller.register(self._sock, mask)
            for _, events in poller.poll(remaining * 1000):
                if events & ~select.POLLIN or not self._has_data():
                    self._hang_up()
                mask = _HANG_UP  # the next request has arrived; it can wait

    def _has_data(self) -> bool:
        """Return whether there is data to read, and not the end of the stream."""
        if isinstance(self._sock, ssl.SSLSocket) and not _HANG_UP:
            return False  # it is encrypted, and a hang-up begins with data, too
        try:
            # As a plain socket: a TLS socket has no peek.
            return bool(socket.socket.recv(self._sock, 1, socket.MSG_PEEK))
        except OSError:
            return False

    def _put(self, data: bytes, times: int = 1) -> None:
        """Send a piece of the response."""
        if self._is_stream:
            data = b"%x\r\n%s\r\n" % (len(data), data)
        for _ in range(times):
            head, self._head = self._head, b""
            self._send(head + data)

    def _send(self, data: bytes) -> None:
        try:
            self._sock.sendall(data)
        except OSError:
            self._hang_up()

    def _hang_up(self) -> NoReturn:
        server = self._server
        with server._changed:
            if not server._is_closed:
                server.hang_ups.append(time.monotonic())
            server._changed.notify_all()
        raise _HungUp


def _head(status: int, kind: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", f"Content-Type: {kind}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "x-request-id: fake", "", ""]).encode("latin-1")


def _read(file: io.BufferedReader) -> SeenRequest | None:
    """Read one request; return None at the end of the connection."""
    first = file.readline().decode("latin-1").split(" ")
    if len(first) < 2:
        return None
    headers: dict[str, str] = {}
    while line := file.readline().decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = file.read(int(headers.get("content-length", 0)))
    try:
        payload = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        payload = {}
    return SeenRequest(first[1], headers, payload, body)
