"""A real server on loopback that answers as providers do, from a script."""

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
from types import ModuleType
from typing import Any, Final

import msgspec

from .._closeable import Closeable
from .providers.anthropic import rules as anthropic_rules
from .providers.anthropic import speech as anthropic
from .providers.gemini import rules as gemini_rules
from .providers.gemini import speech as gemini
from .providers.openai_chat import rules as openai_chat_rules
from .providers.openai_chat import speech as openai_chat
from .providers.openai_responses import rules as openai_responses_rules
from .providers.openai_responses import speech as openai_responses
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

#: Seconds after which whatever somebody waits for here has failed.
_LIMIT: Final = 30.0
#: Seconds between two looks at a gate; a client that hangs up is seen at once.
_LOOK: Final = 0.01
#: Not every system can tell a hang-up from data without a look at the data.
_HANG_UP: Final[int] = getattr(select, "POLLRDHUP", 0)

#: By the end of the path: how it is said, what is rejected, and where the key is.
_DIALECTS: Final[dict[str, tuple[ModuleType, ModuleType, str]]] = {
    "/chat/completions": (openai_chat, openai_chat_rules, "authorization"),
    "/responses": (openai_responses, openai_responses_rules, "authorization"),
    "/messages": (anthropic, anthropic_rules, "x-api-key"),
    ":streamGenerateContent": (gemini, gemini_rules, "x-goog-api-key"),
    ":generateContent": (gemini, gemini_rules, "x-goog-api-key"),
}


class SeenRequest(msgspec.Struct, frozen=True):
    """What a client has sent."""

    path: str
    #: Names in small letters.
    headers: dict[str, str]
    payload: dict[str, Any]


class _HungUp(Exception):
    """The client is gone."""


class FakeServer(Closeable):
    """Speak all four wire dialects on loopback, and do what a script says.

    ::

        with FakeServer([say("Hello"), say(call("weather", {"city": "Oslo"}))]) as fake:
            model = OpenAIChat("fake", base_url=fake.base_url, api_key="any")

    Each request gets the next reply of the script. One that the real provider would
    reject is answered with its complaint, status 400, or 401 if there is no key, and
    uses none up. After the last reply the answer is status 501.

    :param script: replies, or strings to say; or a function that is given each
        request and returns what to reply, for as many as there may be.
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
        #: Connections that are open; whoever closes one takes it out first.
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._changed = threading.Condition()
        self._is_over = False
        self._turn = 0
        #: All requests, in order.
        self.requests: list[SeenRequest] = []
        #: When clients have hung up in the middle of an answer: monotonic times.
        self.hang_ups: list[float] = []

    @property
    def base_url(self) -> str:
        """What to give a model as its ``base_url``.

        :raises RuntimeError: the server has not begun.
        """
        if not self._base_url:
            raise RuntimeError(
                "FakeServer does not listen yet; use `with FakeServer(...) as server`"
            )
        return self._base_url

    def add(self, *replies: ScriptedResponse | str) -> None:
        """Go on with the script."""
        self._script += [say(r) if isinstance(r, str) else r for r in replies]

    def wait_for_hang_up(self, number: int = 1, timeout: float = _LIMIT) -> None:
        """Block until so many clients have hung up in the middle of an answer.

        :raises TimeoutError: they have not.
        """
        with self._changed:
            if not self._changed.wait_for(
                lambda: len(self.hang_ups) >= number, timeout=timeout
            ):
                raise TimeoutError(f"only {len(self.hang_ups)} clients have hung up")

    def __enter__(self) -> FakeServer:
        if self._listener is not None:
            raise RuntimeError("a FakeServer begins once; make another one")
        listener = self._listener = socket.create_server(("127.0.0.1", 0))
        self._open.add(listener)
        scheme = "http" if self._context is None else "https"
        self._base_url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/v1"
        self._spawn(self._accept, listener)
        return self

    def close(self) -> None:
        """End it, with all its connections."""
        with self._changed:
            self._is_over = True
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
            while not self._is_over:
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
            is_over = self._is_over
        try:
            if not is_over:
                self._converse(sock)
        except (OSError, ValueError, _HungUp):
            pass  # the client is gone, or the script wants it to be
        finally:
            with self._changed:
                self._open.discard(sock)
            sock.close()

    def _converse(self, sock: socket.socket) -> None:
        if isinstance(sock, ssl.SSLSocket):
            sock.do_handshake()
        with sock.makefile("rb") as file:
            while (request := _read(file)) is not None:
                with self._changed:
                    self.requests.append(request)
                    self._changed.notify_all()
                _Answer(self, sock, request).give()

    def _next_reply(self, request: SeenRequest) -> ScriptedResponse | None:
        if self._decide is not None:
            reply = self._decide(request)
            return say(reply) if isinstance(reply, str) else reply
        with self._changed:
            if self._turn == len(self._script):
                return None
            self._turn += 1
            return self._script[self._turn - 1]

    def _note_hang_up(self) -> None:
        with self._changed:
            if not self._is_over:
                self.hang_ups.append(time.monotonic())
            self._changed.notify_all()


class _Answer:
    """One answer, on its way to one client."""

    def __init__(
        self, server: FakeServer, sock: socket.socket, request: SeenRequest
    ) -> None:
        self._server = server
        self._sock = sock
        self._request = request
        self._speech: Any = None
        #: What goes before the first piece of an answer that is no stream.
        self._head = b""
        self._is_stream = False

    def give(self) -> None:
        try:
            send = self._prepare()
        except Exception as wrong:  # a thread that dies would leave the client waiting
            said = f"the fake server cannot answer: {type(wrong).__name__}: {wrong}"
            send = self._whole(500, {"error": {"type": "error", "message": said}})
        send()

    def _prepare(self) -> Callable[[], None]:
        """Return what sends the answer; nothing is sent before."""
        path = self._request.path.partition("?")[0]
        found = (parts for end, parts in _DIALECTS.items() if path.endswith(end))
        dialect = next(found, None)
        if dialect is None:
            return self._whole(404, {"error": {"message": f"no such path: {path}"}})
        self._speech, rules, key = dialect
        if not _has_key(self._request, key):
            return self._error(401, f"no API key was given; it goes into {key!r}")
        if key == "x-api-key" and not self._request.headers.get("anthropic-version"):
            return self._error(400, "anthropic-version: header is required")
        payload = self._request.payload
        if rules is gemini_rules:  # which has the model's name in its path
            wrong = gemini_rules.complaint(payload, path)
        else:
            wrong = rules.complaint(payload)
        if wrong is not None:
            return self._error(400, wrong)
        reply = self._server._next_reply(self._request)
        if reply is None:  # the header is for clients that repeat whatever is above 500
            return self._error(501, "the script is over", {"x-should-retry": "false"})
        for act in reply.acts:
            if isinstance(act, Status):
                return self._error(act.status, act.message, act.headers)
        return self._reply(reply, ":stream" in path)

    def _reply(self, reply: ScriptedResponse, is_stream: bool) -> Callable[[], None]:
        frames = [f.encode() for f in self._speech.frames(reply.message, reply.usage)]
        self._is_stream = is_stream or bool(self._request.payload.get("stream"))
        if self._is_stream:
            return lambda: self._stream(reply.acts, frames)
        body = msgspec.json.encode(self._speech.body(reply.message, reply.usage))
        self._head = _head(200, "application/json", {"Content-Length": str(len(body))})
        # As many pieces as a stream has, so that acts mean the same.
        cuts = [len(body) * n // len(frames) for n in range(len(frames) + 1)]
        pieces = [body[a:b] for a, b in pairwise(cuts)]
        return lambda: self._play(reply.acts, iter(pieces))

    def _error(
        self, status: int, message: str, headers: Mapping[str, str] | None = None
    ) -> Callable[[], None]:
        return self._whole(status, self._speech.error(status, message), headers)

    def _whole(
        self, status: int, said: Any, headers: Mapping[str, str] | None = None
    ) -> Callable[[], None]:
        body = msgspec.json.encode(said)
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
            raise OSError("cut")  # the script has sent less than all

    def _do(self, act: Act, pieces: Iterator[bytes]) -> None:
        if isinstance(act, Send):
            for piece in islice(pieces, act.number):
                self._put(piece)
        elif isinstance(act, Split):
            data = next(pieces, b"")
            for begin in range(0, len(data), act.size):
                self._put(data[begin : begin + act.size])
        elif isinstance(act, Comment) and self._is_stream:  # no place in a document
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
        raise TimeoutError(f"nobody opened the gate within {_LIMIT} s")

    def _wait(self, seconds: float) -> None:
        """Let time pass, unless the client hangs up."""
        end = time.monotonic() + seconds
        wanted = select.POLLIN | _HANG_UP
        while (left := end - time.monotonic()) > 0:
            poller = select.poll()
            poller.register(self._sock, wanted)
            for _, events in poller.poll(left * 1000):
                if events & ~select.POLLIN or not self._has_data():
                    self._gone()
                wanted = _HANG_UP  # the next request is there, and can wait

    def _has_data(self) -> bool:
        """Is there data to read, and not the end of all data?"""
        if isinstance(self._sock, ssl.SSLSocket) and not _HANG_UP:
            return False  # nobody can look into it, and a hang-up begins with data
        try:
            # As a plain socket: one with TLS does not let anybody peek.
            return bool(socket.socket.recv(self._sock, 1, socket.MSG_PEEK))
        except OSError:
            return False

    def _put(self, data: bytes, times: int = 1) -> None:
        """Send a piece of the answer."""
        if self._is_stream:
            data = b"%x\r\n%s\r\n" % (len(data), data)
        for _ in range(times):
            head, self._head = self._head, b""
            self._send(head + data)

    def _send(self, data: bytes) -> None:
        try:
            self._sock.sendall(data)
        except OSError:
            self._gone()

    def _gone(self) -> None:
        self._server._note_hang_up()
        raise _HungUp


def _has_key(request: SeenRequest, header: str) -> bool:
    given = request.headers.get(header, "")
    if header == "authorization":
        scheme, _, given = given.partition(" ")
        return scheme.lower() == "bearer" and bool(given.strip())
    return bool(given)


def _head(status: int, kind: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", f"Content-Type: {kind}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "x-request-id: fake", "", ""]).encode("latin-1")


def _read(file: io.BufferedReader) -> SeenRequest | None:
    """Read one request; ``None`` at the end of the connection."""
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
    return SeenRequest(first[1], headers, payload)
