"""What the cancel token costs."""

from __future__ import annotations

import random
import statistics
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator

from benchmarks.measure import Row, compare_calls, side_by_side
from syncagent import CancelToken
from syncagent.cancel import RunClaim, RunSlot

#: Wake-ups per round and side.
WAKES = 200


def rows() -> Iterator[Row]:
    """Measure everything, one row after the other."""
    yield wake_up()
    yield from checks()
    yield from making()
    yield memory_per_token()
    yield from growth()
    yield one_run()


def wake_up() -> Row:
    """cancel() to the moment the waiting thread runs, against a plain Event."""
    value, floor = side_by_side(
        lambda: median_wake(lambda: CancelToken().signal, via_token=True),
        lambda: median_wake(threading.Event),
    )
    return Row(
        "token.cancel() -> token.wait() wakes",
        "Event.set() -> Event.wait()",
        value * 1e6,
        floor * 1e6,
        "us",
        limit=1.5,
    )


def median_wake(make: Callable[[], threading.Event], via_token: bool = False) -> float:
    """Return the median seconds from set to awake, one event per wake-up."""
    delays = []
    events = [make() for _ in range(WAKES)]
    woken_at = [0.0] * WAKES
    ready = [threading.Event() for _ in range(WAKES)]
    done = [threading.Event() for _ in range(WAKES)]
    # The token itself, not its signal: the Event's methods are a thin coat over it.
    waits = [e._token.wait if via_token else e.wait for e in events]  # type: ignore[attr-defined]
    sets = [e._token.cancel if via_token else e.set for e in events]  # type: ignore[attr-defined]

    def wait() -> None:
        for number in range(WAKES):
            ready[number].set()
            waits[number]()
            woken_at[number] = time.perf_counter()
            done[number].set()

    thread = threading.Thread(target=wait)
    thread.start()
    pause, randomly = threading.Event(), random.Random(WAKES)
    for number in range(WAKES):
        ready[number].wait()
        pause.wait(randomly.uniform(0.0001, 0.002))  # it sleeps; nobody knows how long
        begin = time.perf_counter()
        sets[number]()
        done[number].wait()
        delays.append(woken_at[number] - begin)
    thread.join()
    return statistics.median(delays)


def checks() -> Iterator[Row]:
    token, event = CancelToken(), threading.Event()
    limited = CancelToken(timeout=3600)
    child = token.child().child()
    floor = "Event.is_set()"
    yield compare_calls(
        "checkpoint(), live token", token.checkpoint, floor, event.is_set, limit=3.0
    )
    yield compare_calls(
        "checkpoint(), grandchild", child.checkpoint, floor, event.is_set, limit=3.0
    )
    yield compare_calls(
        "checkpoint(), token with a deadline", limited.checkpoint, floor, event.is_set
    )
    yield compare_calls("signal.is_set()", token.signal.is_set, floor, event.is_set)


def making() -> Iterator[Row]:
    token = CancelToken()
    floor = "threading.Event()"
    options = {"number": 20_000}
    yield compare_calls(
        "make and drop a token", CancelToken, floor, threading.Event, **options
    )
    yield compare_calls(
        "make and drop one with a timeout",
        lambda: CancelToken(3600),
        floor,
        threading.Event,
        **options,
    )
    yield compare_calls(
        "make and drop a child", token.child, floor, threading.Event, **options
    )
    yield compare_calls(
        "cancel a new token",
        lambda: CancelToken().cancel(),
        "set a new Event",
        lambda: threading.Event().set(),
        **options,
    )


def memory_per_token(number: int = 10_000) -> Row:
    """Bytes that stay per token, against a plain Event."""
    value, floor = bytes_each(CancelToken, number), bytes_each(threading.Event, number)
    return Row("memory per token", "per Event", value, floor, "bytes")


def bytes_each(make: Callable[[], object], number: int) -> float:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = [make() for _ in range(number)]
        after = tracemalloc.get_traced_memory()[0]
        return (after - before) / len(kept)
    finally:
        tracemalloc.stop()


def growth() -> Iterator[Row]:
    """Cancel a token with many children; the cost per child must not grow."""
    for number in (1_000, 10_000):
        value, floor = side_by_side(
            lambda number=number: seconds_to_cancel(number) / number,
            lambda number=number: seconds_to_set(number) / number,
        )
        yield Row(
            f"cancel a token with {number:,} children, each",
            f"set {number:,} Events, each",
            value * 1e9,
            floor * 1e9,
            "ns",
        )


def seconds_to_cancel(number: int) -> float:
    parent = CancelToken()
    children = [parent.child() for _ in range(number)]
    begin = time.perf_counter()
    parent.cancel()
    end = time.perf_counter()
    assert children[-1].cancelled
    return end - begin


def seconds_to_set(number: int) -> float:
    events = [threading.Event() for _ in range(number)]
    begin = time.perf_counter()
    for event in events:
        event.set()
    return time.perf_counter() - begin


def one_run() -> Row:
    """All that a run costs beside its work: claim, checkpoint, settle, release."""
    slot = RunSlot()
    lock = threading.Lock()

    def run() -> None:
        claim = RunClaim()
        slot.begin(claim)
        claim.token.checkpoint()
        claim.finish()
        slot.end(claim)

    def guarded() -> None:
        event = threading.Event()
        with lock:
            event.is_set()

    return compare_calls(
        "begin, check, finish and end a run",
        run,
        "new Event, checked under a lock",
        guarded,
        number=20_000,
    )
