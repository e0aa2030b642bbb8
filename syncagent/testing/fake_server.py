"""A real server on loopback that answers as providers do, from a script."""

from __future__ import annotations

import io
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from types import ModuleType, TracebackType
from typing import Any, Final

import msgspec

from .rules import anthropic as anthropic_rules
from .rules import gemini as gemini_rules
from .rules import openai_chat as openai_chat_rules
from .rules import openai_responses as openai_responses_rules
from .script import (
    Act,
    Broken,
    Comment,
    Delay,
    Drop,
    Reply,
    Send,
    Split,
    Stall,
    Status,
    say,
)
from .speech import anthropic, gemini, openai_chat, openai_responses

__all__ = ["FakeServer", "SeenRequest"]

#: Seconds after which whatever somebody waits for here has failed.
_LIMIT: Final = 30.0

#: By the end of the path: how it is said, and what is rejected.
_DIALECTS: Final[dict[str, tuple[ModuleType, ModuleType]]] = {
    "/chat/completions": (openai_chat, openai_chat_rules),
    "/responses": (openai_responses, openai_responses_rules),
    "/messages": (anthropic, anthropic_rules),
    ":streamGenerateContent": (gemini, gemini_rules),
    ":generateContent": (gemini, gemini_rules),
}


class SeenRequest(msgspec.Struct, frozen=True):
    """What a client has sent."""

    path: str
    #: Names in small letters.
    headers: dict[str, str]
    payload: dict[str, Any]


class _HungUp(Exception):
    """The client is gone."""


class FakeServer:
    """Speak all four wire dialects on loopback, and do what a script says.

    ::

        with FakeServer([say("Hello"), say(call("weather", {"city": "Oslo"}))]) as fake:
            model = OpenAIChat("fake", base_url=fake.base_url, api_key="any")

    Each request gets the next reply of the script. A payload that the real provider
    would reject is answered with status 400 and its complaint, and uses none up.

    :param script: replies, or strings to say.
    :param context: for TLS.
    """

    def __init__(
        self, script: Iterable[Reply | str] = (), context: ssl.SSLContext | None = None
    ) -> None:
        self._script = [say(r) if isinstance(r, str) else r for r in script]
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        #: Connections that are open; whoever closes one takes it out first.
        self._open: set[socket.socket] = {self._listener}
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
        """What to give a model as its ``base_url``."""
        scheme = "http" if self._context is None else "https"
        return f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def add(self, *replies: Reply | str) -> None:
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
        self._spawn(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it, with all its connections."""
        with self._changed:
            self._is_over = True
            for sock in self._open:
                with suppress(OSError):  # as a plain socket, also with TLS
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(timeout=_LIMIT)
        self._listener.close()

    def _spawn(self, work: Any, *args: Any) -> None:
        thread = threading.Thread(
            target=work, args=args, name="syncagent-fake-server", daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while not self._is_over:
                sock, _ = self._listener.accept()
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

    def _next_reply(self) -> Reply | None:
        with self._changed:
            reply = self._script[self._turn] if self._turn < len(self._script) else None
            self._turn += 1
            return reply

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

    def give(self) -> None:
        path = self._request.path.partition("?")[0]
        found = (parts for end, parts in _DIALECTS.items() if path.endswith(end))
        speech, rules = next(found, (None, None))
        if speech is None or rules is None:
            self._whole(404, {"error": {"message": f"no such path: {path}"}})
            return
        wrong = rules.complaint(self._request.payload)
        if wrong is not None:
            self._whole(400, speech.error(400, wrong))
            return
        reply = self._server._next_reply()
        if reply is None:
            self._whole(500, speech.error(500, "the script is over"))
        elif any(isinstance(act, Status) for act in reply.acts):
            status = next(act for act in reply.acts if isinstance(act, Status))
            said = speech.error(status.status, status.message)
            self._whole(status.status, said, status.headers)
        elif self._request.payload.get("stream") or ":stream" in path:
            self._speech = speech
            self._stream(reply, speech.frames(reply.message, reply.usage))
        else:
            self._pass_time(reply.acts)
            self._whole(200, speech.body(reply.message, reply.usage))

    def _whole(
        self, status: int, said: Any, headers: Mapping[str, str] | None = None
    ) -> None:
        body = msgspec.json.encode(said)
        more = {"Content-Length": str(len(body)), **(headers or {})}
        self._send(_head(status, "application/json", more) + body)

    def _pass_time(self, acts: Iterable[Act]) -> None:
        """Do of *acts* what makes sense for an answer that is no stream."""
        for act in acts:
            if isinstance(act, (Delay, Stall, Drop)):
                self._do(act, iter(()))

    def _stream(self, reply: Reply, frames: Iterator[str]) -> None:
        self._send(_head(200, "text/event-stream", {"Transfer-Encoding": "chunked"}))
        for act in reply.acts:
            self._do(act, frames)
        if next(frames, None) is None:
            self._send(b"0\r\n\r\n")
        else:  # the script has sent less than all: that is a stream that is cut
            raise OSError("cut")

    def _do(self, act: Act, frames: Iterator[str]) -> None:
        if isinstance(act, Send):
            for frame in islice(frames, act.number):
                self._chunk(frame.encode())
        elif isinstance(act, Split):
            data = next(frames, "").encode()
            for begin in range(0, len(data), act.size):
                self._chunk(data[begin : begin + act.size])
        elif isinstance(act, Comment):
            for _ in range(act.times):
                self._chunk(f": {act.text}\n\n".encode())
        elif isinstance(act, Delay):
            self._wait(act.seconds)
        elif isinstance(act, Stall):
            self._stall(act)
        elif isinstance(act, Drop):
            raise OSError("dropped")
        elif isinstance(act, Broken):
            for frame in self._speech.error_frames(act.message):
                self._chunk(frame.encode())
            raise OSError("broken")

    def _stall(self, act: Stall) -> None:
        if act.gate is None:
            self._wait(_LIMIT)
        else:
            act.gate.stop_here()

    def _wait(self, seconds: float) -> None:
        """Let time pass, unless the client hangs up."""
        poller = select.poll()
        poller.register(self._sock, select.POLLIN | select.POLLRDHUP)
        if poller.poll(seconds * 1000):
            self._gone()

    def _chunk(self, data: bytes) -> None:
        self._send(b"%x\r\n%s\r\n" % (len(data), data))

    def _send(self, data: bytes) -> None:
        try:
            self._sock.sendall(data)
        except OSError:
            self._gone()

    def _gone(self) -> None:
        self._server._note_hang_up()
        raise _HungUp


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
