"""A process that answers every POST with one long answer of a model.

::

    python -m benchmarks.speaker DELTAS

It prints its port, and ends when its standard input does. The path says which wire
dialect is meant; an event is a chunk, and as many are sent at once as will go.
"""

from __future__ import annotations

import socket
import sys
import threading
from typing import Any

from syncagent.messages import AssistantMessage, Text
from syncagent.testing.providers.anthropic import speech as anthropic
from syncagent.testing.providers.gemini import speech as gemini
from syncagent.testing.providers.openai_chat import speech as openai_chat
from syncagent.testing.providers.openai_responses import speech as openai_responses
from syncagent.usage import Usage

SPEECHES: dict[str, Any] = {
    "/chat/completions": openai_chat,
    "/responses": openai_responses,
    "/messages": anthropic,
    ":streamGenerateContent": gemini,
}
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


def answer(speech: Any, deltas: int) -> bytes:
    """Return an answer of so many pieces of text, as it goes over the wire."""
    message = AssistantMessage((Text("token" * deltas),))
    chunks = (
        frame.encode() for frame in speech.frames(message, Usage(10, deltas), piece=5)
    )
    return HEAD + b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in chunks) + b"0\r\n\r\n"


def serve(listener: socket.socket, answers: dict[str, bytes]) -> None:
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=speak, args=(sock, answers), daemon=True).start()


def speak(sock: socket.socket, answers: dict[str, bytes]) -> None:
    with sock, sock.makefile("rb") as file:
        while line := file.readline().decode():
            size = 0
            while head := file.readline().strip().lower():
                if head.startswith(b"content-length:"):
                    size = int(head[15:])
            file.read(size)
            path = line.split()[1].partition("?")[0]
            end = next(end for end in answers if path.endswith(end))
            sock.sendall(answers[end])


def main() -> None:
    deltas = int(sys.argv[1])
    answers = {end: answer(speech, deltas) for end, speech in SPEECHES.items()}
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=serve, args=(listener, answers), daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
