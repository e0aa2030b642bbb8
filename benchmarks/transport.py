"""What calls and streams cost, against requests and sseclient-py as they are."""

from __future__ import annotations

import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import certifi
import requests
import sseclient

from benchmarks.measure import Row, side_by_side
from benchmarks.servers import servers
from syncagent.transport import Transport
from syncagent.transport.adapter import shared_adapter

EVENTS = 20_000
CALLS = 100


def rows() -> Iterator[Row]:
    """Measure everything, one row after the other."""
    with servers() as (server, authority):
        transport = Transport(verify=authority)
        session = requests.Session()
        # By function, as a session's own setting counts less than the environment's.
        session.post = partial(session.post, verify=authority)  # type: ignore[method-assign]
        for scheme in ("http", "https"):
            yield from events(server, scheme, transport, session)
        for scheme in ("http", "https"):
            yield requests_in_a_row(server, scheme, transport, session)
        yield new_connections(server, "one authority", authority)
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as bundle:
            bundle.write(
                Path(certifi.where()).read_text() + Path(authority).read_text()
            )
            bundle.flush()
            yield new_connections(server, "the authorities of certifi", bundle.name)
        yield memory_per_stream(server, transport, session)
        session.close()
        shared_adapter().close()


def events(
    server: Any, scheme: str, transport: Transport, session: requests.Session
) -> Iterator[Row]:
    """CPU per event, from the socket to the caller's hands."""
    for per_chunk, name in ((1, "one a chunk"), (80, "packed")):
        url = server.url(f"many/{EVENTS}/{per_chunk}", scheme)
        floors: list[tuple[str, Callable[[requests.Response], Any], float | None]] = [
            ("sseclient-py", lambda r: read(as_sseclient(r)), 1.0),
            ("iter_lines()", lambda r: read(r.iter_lines()), None),
        ]
        for floor_name, consume, limit in floors:
            value, floor = side_by_side(
                lambda url=url: cpu(lambda: read(transport.stream(url, json={}))),
                lambda url=url, consume=consume: cpu(
                    lambda: consume(session.post(url, json={}, stream=True))
                ),
                rounds=7,
            )
            yield Row(
                f"{scheme} event, {name}",
                floor_name,
                value / EVENTS * 1e6,
                floor / EVENTS * 1e6,
                "us",
                limit=limit,
            )


def as_sseclient(response: requests.Response) -> Iterator[Any]:
    return sseclient.SSEClient(response.iter_content(None)).events()


def read(events: Any) -> None:
    for _ in events:
        pass


def cpu(work: Callable[[], object]) -> float:
    """Return the seconds that this thread has computed for *work*."""
    begin = time.thread_time()
    work()
    return time.thread_time() - begin


def requests_in_a_row(
    server: Any, scheme: str, transport: Transport, session: requests.Session
) -> Row:
    """A small request and its answer, on a connection that is kept alive."""
    url = server.url("ok", scheme)

    def ours() -> None:
        transport.post(url, data=b"{}").json()

    def theirs() -> None:
        session.post(url, data=b"{}").json()

    value, floor = side_by_side(lambda: each(ours), lambda: each(theirs))
    name = f"{scheme} request, kept alive"
    return Row(name, "requests", value * 1e6, floor * 1e6, "us", limit=1.15)


def each(function: Callable[[], object]) -> float:
    """Return the median seconds of one of many calls."""
    times = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def new_connections(server: Any, name: str, authority: str) -> Row:
    """A request on a new connection with TLS."""
    url, transport = server.url("ok", "https"), Transport(verify=authority)

    def ours() -> float:
        shared_adapter().close()
        begin = time.perf_counter()
        transport.post(url, data=b"{}")
        return time.perf_counter() - begin

    def theirs() -> float:
        with requests.Session() as session:
            begin = time.perf_counter()
            session.post(url, data=b"{}", verify=authority)
            return time.perf_counter() - begin

    value, floor = side_by_side(ours, theirs)
    return Row(
        f"https, new connection, {name}", "requests", value * 1e6, floor * 1e6, "us"
    )


def memory_per_stream(
    server: Any, transport: Transport, session: requests.Session, number: int = 50
) -> Row:
    """Bytes that a stream holds while it is open."""
    url = server.url("chunked/e/stall")

    def ours(stack: ExitStack) -> None:
        next(stack.enter_context(transport.stream(url, json={})))

    def theirs(stack: ExitStack) -> None:
        response = stack.enter_context(session.post(url, json={}, stream=True))
        events = as_sseclient(response)
        next(events)
        stack.callback(events.close)  # type: ignore[attr-defined]

    return Row(
        "memory per open stream",
        "requests with sseclient-py",
        bytes_each(ours, number) / 1024,
        bytes_each(theirs, number) / 1024,
        "KiB",
    )


def bytes_each(make: Callable[[ExitStack], None], number: int) -> float:
    with ExitStack() as stack:
        make(stack)  # what is made once
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(number):
            make(stack)
        after = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    return (after - before) / number
