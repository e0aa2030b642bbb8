"""What runs over HTTP cost, and how soon a run ends whose client has gone."""

from __future__ import annotations

import json
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from benchmarks.measure import Row
from benchmarks.web_app import EVENTS
from syncagent.testing import FakeServer, Send, Stall, say

_TESTS: Final = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(_TESTS))

from support.web import servers as serving  # noqa: E402

#: How often a stream is read, each way in turn, and a client goes.
ROUNDS: Final = 7
TIMES: Final = 25
IDLE: Final = 200

Read = Callable[[], None]


def rows() -> Iterator[Row]:
    """Measure everything, one row after the other."""
    with _server("gunicorn-gthread") as server:
        yield from flowing(server)
    for name in serving.SERVERS:
        with _server(name) as server:
            yield leaving(server)
    yield from idle()


def _server(name: str, threads: int = 8) -> Any:
    return serving.Server(name, threads=threads, app="benchmarks.web_app")


# -- events ------------------------------------------------------------------------


def flowing(server: Any) -> Iterator[Row]:
    """Read the same events, made and sent in three ways."""
    ways: dict[str, Callable[[], Any]] = {
        "ours": lambda: server.stream("flow", _Nobody()),
        "by hand": lambda: serving.Client(server.port, "GET", "/by-hand"),
        "recorded": lambda: serving.Client(server.port, "GET", "/recorded"),
    }
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(ROUNDS + 1):
        for way, begin in ways.items():
            found[way].append(_read(server, begin))
    medians = {
        way: [1e6 * statistics.median(each) for each in zip(*times[1:], strict=True)]
        for way, times in found.items()
    }
    for index, what in enumerate(("time", "CPU of the worker")):
        for floor in ("by hand", "recorded"):
            yield Row(
                f"{what} per event, through gunicorn gthread",
                _FLOORS[floor],
                medians["ours"][index],
                medians[floor][index],
                "µs",
            )


_FLOORS: Final = {
    "by hand": "a generator over agent.stream()",
    "recorded": "the same bytes, made before",
}


class _Nobody:
    """In place of a provider, where none is asked."""

    base_url = "http://127.0.0.1:9"


def _read(server: Any, begin: Callable[[], Any]) -> tuple[float, float]:
    """Return the seconds, and those of CPU in the worker, that each event takes."""
    before = server.state()["cpu"]
    start = time.perf_counter()
    with begin() as client:
        while client.response.read1(65536):
            pass
    seconds = time.perf_counter() - start
    return seconds / EVENTS, (server.state()["cpu"] - before) / EVENTS


# -- leaving -----------------------------------------------------------------------


def leaving(server: Any) -> Row:
    """Measure from a client's close to the end of its run's connection."""
    reply = say("Once upon a time", acts=[Send(3), Stall()])
    with FakeServer(lambda request: reply) as fake:
        ours = [_leave(server, fake) for _ in range(TIMES)]
        floor = [_hang_up(fake) for _ in range(TIMES)]
    return Row(
        f"client closes, provider sees it: {server.name}",
        "the provider's own client closes",
        1e6 * statistics.median(ours),
        1e6 * statistics.median(floor),
        "µs",
        most=50_000.0,
        note=f"slowest {1e3 * max(ours):.1f} ms",
    )


def _leave(server: Any, fake: FakeServer) -> float:
    number = len(fake.hang_ups)
    with server.stream("talk", fake) as client:
        client.until("text_delta")
        begin = time.monotonic()
        client.vanish()
    fake.wait_for_hang_up(number + 1)
    return fake.hang_ups[number] - begin


def _hang_up(fake: FakeServer) -> float:
    number = len(fake.hang_ups)
    said = [{"role": "user", "content": "Go on."}]
    asked = {"model": "fake", "stream": True, "messages": said}
    body = json.dumps(asked).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nAuthorization: Bearer any\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    port = int(fake.base_url.split(":")[2].split("/")[0])
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(head.encode() + body)
        data = b""
        while b"Once" not in data:
            data += client.recv(65536)
        begin = time.monotonic()
    fake.wait_for_hang_up(number + 1)
    return fake.hang_ups[number] - begin


# -- idle streams ------------------------------------------------------------------


def idle() -> Iterator[Row]:
    """Measure what a process has more of, with many streams that say nothing."""
    reply = say("never", acts=[Stall()])
    with FakeServer(lambda request: reply) as fake:
        ours = _more(lambda server: server.stream("talk", fake), b"event: run")
    floor = _more(lambda server: serving.Client(server.port, "GET", "/idle"), b"begin")
    plain = "a generator that waits in a queue"
    name = f"of {IDLE} idle streams, each"
    yield Row(f"memory {name}", plain, ours["kib"], floor["kib"], "KiB")
    yield Row(f"threads {name}", plain, ours["threads"], floor["threads"], "")


def _more(begin: Callable[[Any], Any], first: bytes) -> dict[str, float]:
    with ExitStack() as stack:
        server = _server("gunicorn-gthread", threads=IDLE + 8)
        stack.enter_context(server)
        before = server.state()
        for _ in range(IDLE):
            client = stack.enter_context(begin(server))
            assert first in client.response.read1(65536)
        after = server.state()
    return {name: (after[name] - before[name]) / IDLE for name in before}
