"""A process that speaks Chat Completions; the path says what it does.

::

    python -m benchmarks.agent_server [CERTIFICATE KEY]

It prints its port, and ends when its standard input does. ``/loop-50/v1/...`` calls a
tool until 50 results are there, ``/call-NAME`` calls that tool once, ``/say-300``
says so many pieces of text, ``/pace-300-10`` says one every 10 milliseconds.
``/silent``, ``/head``, ``/stall-3`` stop before the headers, before the first event and
after some; ``/flow`` never ends; ``/busy`` is status 503.
"""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Final

from syncagent.messages import AssistantBlock, AssistantMessage, Text, ToolCall
from syncagent.testing.providers.openai_chat import speech as openai_chat
from syncagent.usage import Usage

HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
BUSY: Final = (
    b"HTTP/1.1 503 Busy\r\nContent-Type: application/json\r\nRetry-After: 60\r\n"
    b"Content-Length: 2\r\n\r\n{}"
)
END: Final = b"0\r\n\r\n"
#: The id of the last tool call in a payload is the number of the round.
_ROUND: Final = re.compile(rb"call_(\d+)")


@contextmanager
def agent_server(*certificate: str) -> Iterator[str]:
    """Run it; give its address, to which what it is to do is added.

    :param certificate: the files of a certificate and its key, for TLS.
    """
    command = [sys.executable, "-m", "benchmarks.agent_server", *certificate]
    scheme = "https" if certificate else "http"
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield f"{scheme}://127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()
        process.wait(10)


def chunks(*content: AssistantBlock) -> list[bytes]:
    """Return the events of an answer, each in a chunk."""
    is_call = any(isinstance(block, ToolCall) for block in content)
    message = AssistantMessage(content, "tool_calls" if is_call else "end_turn")
    frames = [frame.encode() for frame in openai_chat.frames(message, Usage(10, 10))]
    return [b"%x\r\n%s\r\n" % (len(frame), frame) for frame in frames]


@cache
def text(pieces: int) -> list[bytes]:
    return chunks(Text("token" * pieces))


def reply(what: str, body: bytes) -> bytes:
    """Return a whole answer."""
    kind, _, rest = what.partition("-")
    if kind == "say":
        return HEAD + b"".join(text(int(rest))) + END
    at = body.rfind(b"call_")
    found = _ROUND.match(body, at) if at >= 0 else None
    number = int(found[1]) if found else 0
    if number >= (int(rest) if kind == "loop" else 1):
        return HEAD + b"".join(text(3)) + END
    name, arguments = (rest, "{}")
    if kind == "loop":
        name, arguments = "add", f'{{"first": {number}, "second": 2}}'
    said = chunks(Text("I add it."), ToolCall(f"call_{number + 1}", name, arguments))
    return HEAD + b"".join(said) + END


class Pacer:
    """Sends the pieces of many answers, each at its pace, from a single thread."""

    #: Streams take turns, so that their pieces do not all come at the same moment.
    SLOTS: Final = 10

    def __init__(self) -> None:
        self._slots: list[deque[tuple[socket.socket, Iterator[bytes], threading.Event]]]
        self._slots = [deque() for _ in range(self.SLOTS)]
        self._next = 0
        self._pause = 0.0
        self._lock = threading.Lock()

    def send(self, sock: socket.socket, pieces: list[bytes], pause: float) -> None:
        """Send *pieces* to *sock*, with *pause* seconds from one to the next."""
        done = threading.Event()
        with self._lock:
            if self._pause == 0.0:
                threading.Thread(target=self._work, daemon=True).start()
            self._pause = pause
            self._slots[self._next % self.SLOTS].append((sock, iter(pieces), done))
            self._next += 1
        done.wait()

    def _work(self) -> None:
        due, number, never = time.perf_counter(), 0, threading.Event()
        while True:
            due += self._pause / self.SLOTS
            never.wait(max(0.0, due - time.perf_counter()))
            slot = self._slots[number % self.SLOTS]
            number += 1
            for _ in range(len(slot)):
                sock, pieces, done = slot.popleft()
                piece = next(pieces, None)
                try:
                    if piece is not None:
                        sock.sendall(piece)
                except OSError:
                    piece = None
                if piece is None:
                    done.set()
                else:
                    slot.append((sock, pieces, done))


PACER: Final = Pacer()


def converse(sock: socket.socket, context: ssl.SSLContext | None) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if context is not None:
        sock = context.wrap_socket(sock, server_side=True)
    with suppress(OSError), sock, sock.makefile("rb") as file:
        while line := file.readline().decode():
            size = 0
            while head := file.readline().strip().lower():
                if head.startswith(b"content-length:"):
                    size = int(head[15:])
            what = line.split()[1].split("/")[1]
            answer(sock, what, file.read(size))


def answer(sock: socket.socket, what: str, body: bytes) -> None:
    kind, _, number = what.partition("-")
    if kind == "busy":
        sock.sendall(BUSY)
    elif kind == "flow":
        sock.sendall(HEAD + text(1)[0])
        while True:
            sock.sendall(text(1)[1])
    elif kind in ("silent", "head", "stall"):
        begin = b"" if kind == "silent" else HEAD
        sock.sendall(begin + b"".join(text(999)[: int(number or 0)]))
        sock.recv(1)  # until it hangs up
    elif kind == "pace":
        pieces, milliseconds = (int(part) for part in number.split("-"))
        sock.sendall(HEAD)
        PACER.send(sock, [*text(pieces), END], milliseconds / 1000)
    else:
        sock.sendall(reply(what, body))


def serve(listener: socket.socket, context: ssl.SSLContext | None) -> None:
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=converse, args=(sock, context), daemon=True).start()


def main() -> None:
    context = None
    if sys.argv[1:]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*sys.argv[1:])
    listener = socket.create_server(("127.0.0.1", 0), backlog=2000)
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=serve, args=(listener, context), daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
