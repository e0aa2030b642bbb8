"""How long after cancel() a call has returned, wherever it was stuck."""

from __future__ import annotations

import random
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.measure import Row
from benchmarks.servers import servers
from syncagent import Cancelled, CancelToken
from syncagent.testing import Gate
from syncagent.transport import Transport
from syncagent.transport.adapter import shared_adapter

#: How often a call is cancelled in each place.
TIMES = 120
#: How many calls are cancelled at once.
MANY = 200

#: What is promised for an otherwise idle machine, in microseconds.
MEDIAN_US = 500
P99_US = 5000


def rows() -> Iterator[Row]:
    """Measure everything, one row after the other."""
    from phases import CASES, Call

    randomly = random.Random(TIMES)
    floor = statistics.median(wake_ups(randomly))
    everything: list[float] = []
    with servers() as (server, authority):

        def make_transport(**settings: Any) -> Transport:
            return Transport(verify=authority, **settings)

        def row(name: str, times: list[float]) -> Row:
            everything.extend(times)
            return Row(
                name,
                "shutdown() -> recv()",
                statistics.median(times) * 1e6,
                floor * 1e6,
                "us",
                most=MEDIAN_US,
                note=f"p99 {percentile_99(times) * 1e3:.2f} ms",
            )

        yield row("cancel in: name look-up", look_ups(randomly))
        for name, scheme in CASES:

            def make(name: str = name, scheme: str = scheme) -> Any:
                # What the server says is heard by a thread of this process, which would
                # be in the way just when it counts.
                return Call(name, scheme, server, make_transport, is_quiet=True)

            yield row(f"cancel in: {name}, {scheme}", stuck_calls(make, randomly))
        yield Row(
            "cancel in: anything, 99th percentile",
            "median of shutdown() -> recv()",
            percentile_99(everything) * 1e6,
            floor * 1e6,
            "us",
            most=P99_US,
        )
        yield all_at_once(server, make_transport(), floor)
        shared_adapter().close()


def percentile_99(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.99)]


def delay(
    block: Callable[[], None],
    wait_until_blocked: Callable[[], object],
    unblock: Callable[[], object],
    randomly: random.Random,
) -> float:
    """Return the seconds from *unblock* until *block*, in another thread, is over."""
    ended = [0.0]

    def run() -> None:
        block()
        ended[0] = time.perf_counter()

    thread = threading.Thread(target=run)
    thread.start()
    wait_until_blocked()
    threading.Event().wait(randomly.uniform(0.001, 0.004))  # it sleeps, really
    begin = time.perf_counter()
    unblock()
    thread.join()
    return ended[0] - begin


def wake_ups(randomly: random.Random) -> Iterator[float]:
    """The floor: a bare socket, blocked in recv, shut down."""
    for _ in range(5 * TIMES):
        here, there = socket.socketpair()
        with here, there:
            yield delay(
                lambda here=here: here.recv(1) and None,
                lambda: None,
                lambda here=here: here.shutdown(socket.SHUT_RDWR),
                randomly,
            )


def stuck_calls(make: Callable[[], Any], randomly: random.Random) -> list[float]:
    times = []
    for number in range(TIMES):
        call, token = make(), CancelToken()
        mode = "stream" if number % 2 else "post"

        def block(
            call: Any = call, token: CancelToken = token, mode: str = mode
        ) -> None:
            try:
                call.make(mode, token)
            except Cancelled:
                pass

        times.append(delay(block, call.wait_until_there, token.cancel, randomly))
    return times


def look_ups(randomly: random.Random) -> list[float]:
    times = []
    for _ in range(TIMES):
        gate, token = Gate(), CancelToken()

        def resolver(*_: Any, gate: Gate = gate) -> list[Any]:
            gate.stop_here()
            return []

        def block(token: CancelToken = token, resolver: Any = resolver) -> None:
            transport = Transport(resolver=resolver)
            try:
                transport.post("https://model.example/", token=token, json={})
            except Cancelled:
                pass

        times.append(delay(block, gate.wait_reached, token.cancel, randomly))
        gate.open()
    return times


def all_at_once(server: Any, transport: Transport, floor: float) -> Row:
    """Many streams under one token: until the last has returned, per stream."""
    token, there = CancelToken(), threading.Semaphore(0)

    def read() -> None:
        url = server.url("chunked/e/stall")
        try:
            for _ in transport.stream(url, token=token.child(), json={}):
                there.release()
        except Cancelled:
            pass

    threads = [threading.Thread(target=read) for _ in range(MANY)]
    for thread in threads:
        thread.start()
    for _ in threads:
        there.acquire()
    threading.Event().wait(0.05)
    begin = time.perf_counter()
    token.cancel()
    for thread in threads:
        thread.join()
    whole = time.perf_counter() - begin
    return Row(
        f"cancel {MANY} streams at once, each",
        "shutdown() -> recv()",
        whole / MANY * 1e6,
        floor * 1e6,
        "us",
        note=f"all of them: {whole * 1e3:.0f} ms",
    )
