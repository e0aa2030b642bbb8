"""What models cost: an event on its way in, a payload on its way out."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import requests
import sseclient

from benchmarks.measure import Row, side_by_side
from benchmarks.transport import cpu
from syncagent.events import TextDelta
from syncagent.messages import AssistantMessage, Message, Text, UserMessage
from syncagent.models import Anthropic, Gemini, Model, OpenAIChat, OpenAIResponses
from syncagent.providers.openai_chat.request import OpenAIChatDialect
from syncagent.transcript import Transcript
from syncagent.transport import close_idle

DELTAS = 20_000
HELLO = [UserMessage.of("hello")]
#: How a hand-written loop finds the text in what it has decoded.
TEXT_OF: dict[type[Model], Callable[[Any], Any]] = {
    OpenAIChat: lambda d: d["choices"] and d["choices"][0]["delta"].get("content"),
    OpenAIResponses: lambda d: (
        d["delta"] if d["type"] == "response.output_text.delta" else None
    ),
    Anthropic: lambda d: (
        d["delta"].get("text") if d["type"] == "content_block_delta" else None
    ),
    Gemini: lambda d: [
        part.get("text") for part in d["candidates"][0]["content"]["parts"]
    ],
}


def rows() -> Iterator[Row]:
    """Measure everything, one row after the other."""
    with speaker() as base_url, requests.Session() as session:
        for kind, text_of in TEXT_OF.items():
            model = kind("fake", base_url=base_url, api_key="none")
            yield deltas(model, session, text_of)
    close_idle()
    for kind in TEXT_OF:
        yield from payloads(kind)
    yield memory()


@contextmanager
def speaker() -> Iterator[str]:
    """Run the server; give its address."""
    command = [sys.executable, "-m", "benchmarks.speaker", str(DELTAS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        process.stdin.close()
        process.wait(10)


def deltas(
    model: Model, session: requests.Session, text_of: Callable[[Any], Any]
) -> Row:
    """CPU per piece of text, from the socket to the caller's hands."""

    def ours() -> None:
        count = sum(type(event) is TextDelta for event in model.ask(HELLO))
        assert count == DELTAS

    def theirs() -> None:
        response = session.post(model._url(), data=b"{}", stream=True)
        count = 0
        for event in sseclient.SSEClient(response.iter_content(None)).events():
            if event.data == "[DONE]":
                break
            count += bool(text_of(json.loads(event.data)))
        assert count >= DELTAS

    value, floor = side_by_side(lambda: cpu(ours), lambda: cpu(theirs), rounds=7)
    return Row(
        f"{type(model).__name__}, a piece of text",
        "requests, sseclient-py, json.loads",
        value / DELTAS * 1e6,
        floor / DELTAS * 1e6,
        "us",
        limit=1.0,
    )


def messages(length: int) -> list[Message]:
    words = "word " * 40
    pairs = (
        (UserMessage.of(words), AssistantMessage((Text(words),)))
        for _ in range(length // 2)
    )
    return [message for pair in pairs for message in pair]


def payloads(kind: type[Model]) -> Iterator[Row]:
    """The payload of the next turn, against a short one and a copy of the bytes."""
    for length in (100, 1_000, 10_000):
        long, short = Conversation(kind, length), Conversation(kind, 10)

        def floor(long: Conversation = long, short: Conversation = short) -> float:
            seconds = short.next_turn()
            begin = time.perf_counter()
            bytes(memoryview(long.payload))
            return seconds + time.perf_counter() - begin

        value, least = side_by_side(long.next_turn, floor, rounds=60)
        yield Row(
            f"{kind.__name__}, payload of turn {length:,}",
            "of turn 10, and copying so many bytes",
            value * 1e6,
            least * 1e6,
            "us",
            limit=2.0,
            note=f"{len(long.payload) / 1024:,.0f} KiB",
        )


class Conversation:
    """One that grows by a turn at a time."""

    def __init__(self, kind: type[Model], length: int) -> None:
        self._dialect = kind.dialect_class()
        self._transcript = Transcript(messages(length))
        self.payload = self._dialect.build_payload("m", self._transcript)

    def next_turn(self) -> float:
        """Return the seconds that its payload takes."""
        self._transcript.append(UserMessage.of("next"))
        begin = time.perf_counter()
        self.payload = self._dialect.build_payload("m", self._transcript)
        seconds = time.perf_counter() - begin
        self._transcript.append(AssistantMessage((Text("ok"),)))
        return seconds


def memory(number: int = 2_000) -> Row:
    """Bytes that a message holds, its encoded form included."""

    def measure(make: Callable[[], Any]) -> float:
        tracemalloc.start()
        kept = make()
        used = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        del kept
        return used / number

    def ours() -> Any:
        transcript = Transcript(messages(number))
        OpenAIChatDialect().build_payload("m", transcript)
        return transcript

    def theirs() -> Any:
        return [
            {"role": "user", "content": "word " * 40 + str(each)}
            for each in range(number)
        ]

    return Row(
        "memory per message, encoded once",
        "a dict with the same text",
        measure(ours),
        measure(theirs),
        "B",
    )
