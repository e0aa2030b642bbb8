"""What the events of a stored run cost, and when another process sees them.

::

    python -m benchmarks.stores_events URL SERVER RUNS

prints the transactions with events in a second, with so many slow runs at once.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

from benchmarks.agent_loop import process_cpu
from benchmarks.agent_server import agent_server
from benchmarks.measure import Row, side_by_side
from benchmarks.stores_peer import peer
from benchmarks.stores_places import Place
from syncagent import Agent
from syncagent.events import TextDelta, ToolProgress, decode_event, encode_event
from syncagent.models import OpenAIChat
from syncagent.stores import RunStore
from syncagent.stores.records import EventBatch
from syncagent.transport import close_idle

#: Pieces of text of a run, and how often it is measured.
DELTAS: Final = 20_000
TIMES: Final = 9
#: How many slow runs there are at once; they say something every 20 milliseconds.
CROWDS: Final = (1, 20, 200)
PIECES: Final = 200
#: How many events are written one by one, and how many are in a log.
SEEN: Final = 150
LOG: Final = 20_000
_PAUSE: Final = threading.Event()  # never set


def rows(place: Place) -> Iterator[Row]:
    """Measure everything, one row after the other."""
    with agent_server() as server:
        yield delta(place, f"{server}/say-{DELTAS}/v1")
        for number in CROWDS:
            yield writes(place, f"{server}/pace-{PIECES}-20/v1", number)
    close_idle()
    yield seen(place)
    yield reading(place)


def agent(url: str) -> Agent:
    return Agent(OpenAIChat("fake", base_url=url, api_key="none"))


def delta(place: Place, url: str) -> Row:
    """CPU of this process for a piece of text over a socket."""
    store = RunStore(place.new(), lambda _: agent(url), lambda _: None)

    def stored() -> float:
        id = store.submit("go")
        seconds = process_cpu(lambda: store.work(id))
        run = store.get(id)
        assert run is not None
        assert run.result is not None
        assert run.result.text == "token" * DELTAS
        return seconds

    stored()
    value, floor = side_by_side(
        stored, lambda: process_cpu(lambda: agent(url).run("go")), rounds=TIMES
    )
    store.close()
    return Row(
        f"{place.name}: CPU of a delta",
        "not stored",
        value / DELTAS * 1e6,
        floor / DELTAS * 1e6,
        "us",
        limit=1.3,
    )


# -- how often it writes -----------------------------------------------------------


def writes(place: Place, server: str, number: int) -> Row:
    """Transactions with events in a second, in a process of its own."""
    module = [sys.executable, "-m", "benchmarks.stores_events"]
    printed = subprocess.run(
        [*module, place.new(), server, str(number)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    count, seconds, pieces = (float(word) for word in printed.split())
    return Row(
        f"{place.name}: writes in a second, {number} slow runs",
        "one for each delta",
        count / seconds,
        pieces / seconds,
        "/s",
        most=40.0,
        note=f"{count:.0f} in {seconds:.1f} s",
    )


def main() -> None:
    url, server, runs = sys.argv[1:]
    number, count = int(runs), 0
    store = RunStore(url, lambda _: agent(server), max_workers=number)
    append = store.backend.append

    def counted(batches: Iterable[EventBatch]) -> list[str]:
        nonlocal count
        count += 1
        return append(batches)

    store.backend.append = counted  # type: ignore[method-assign]
    begin = time.perf_counter()
    ids = [store.submit("go") for _ in range(number)]
    for id in ids:
        with store.events(id, after=10**9) as events:
            for _ in events:
                pass
    print(count, time.perf_counter() - begin, number * PIECES, flush=True)
    store.close()


# -- another process ---------------------------------------------------------------


class Log:
    """A run whose events are written here, without a run that makes them."""

    def __init__(self, place: Place) -> None:
        self.url = place.new()
        self.store = RunStore(self.url, lambda _: agent(""), lambda _: None)
        self.id = self.store.submit("go")
        worker = self.store.open().id
        claim = self.store.backend.claim(self.id, worker, "")
        assert claim is not None
        self._run_id = claim.run.run_id
        self._next = 1

    def append(self, *events: Any) -> None:
        lines = [encode_event(event) for event in events]
        batch = EventBatch(self._run_id, 1, self._next, lines)
        self._next = batch.last + 1
        assert not self.store.backend.append([batch])

    def close(self) -> None:
        self.store.cancel(self.id)
        self.store.close()


def seen(place: Place) -> Row:
    """From before an event is written until another process has it."""
    log = Log(place)
    times, floors = [], []
    with peer("follow", log.url) as other:
        assert other.ask(log.id) == "following"
        for number in range(SEEN):
            _PAUSE.wait(0.005)
            begin = time.perf_counter()
            log.append(TextDelta(str(number)))
            written = time.perf_counter()
            at, text = other.hear().split()
            assert text == str(number)
            times.append(float(at) - begin)
            floors.append(written - begin)
        log.store.backend.release(log.id, 1, is_urgent=False)
        log.close()
        assert other.hear() == "over"
    return Row(
        f"{place.name}: an event until another process has it",
        "until it is written",
        statistics.median(times) * 1e6,
        statistics.median(floors) * 1e6,
        "us",
        note=f"min {min(times) * 1e6:.0f} us",
    )


def reading(place: Place) -> Row:
    """Events of a long log in a second, against decoding them."""
    log = Log(place)
    events = [ToolProgress("call_1", "token" * 5) for _ in range(100)]
    for _ in range(LOG // 100):
        log.append(*events)
    line = encode_event(events[0])

    def ours() -> float:
        begin = time.perf_counter()
        with log.store.events(log.id) as followed:
            for _ in range(LOG):
                assert followed.get(10) is not None
        return time.perf_counter() - begin

    def floor() -> float:
        begin = time.perf_counter()
        for _ in range(LOG):
            decode_event(line)
        return time.perf_counter() - begin

    value, base = side_by_side(ours, floor, rounds=TIMES)
    log.store.backend.release(log.id, 1, is_urgent=False)
    log.close()
    return Row(
        f"{place.name}: an event of a long log",
        "decode it",
        value / LOG * 1e6,
        base / LOG * 1e6,
        "us",
        note=f"{LOG / value:,.0f} in a second",
    )


if __name__ == "__main__":
    main()
