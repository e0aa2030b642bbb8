"""From a cancel in another process until the run has stopped, and run() returned."""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from benchmarks.agent_server import agent_server
from benchmarks.latency import percentile_99
from benchmarks.measure import Row
from benchmarks.stores_peer import Peer, peer
from benchmarks.stores_places import Place
from syncagent import Agent, CancelToken
from syncagent.events import TextDelta
from syncagent.models import OpenAIChat
from syncagent.stores import RunStore
from syncagent.testing import Gate, ScriptedModel
from syncagent.transport import close_idle

#: How often a run is cancelled.
TIMES: Final = 120
#: How many times the floor.
LIMIT_SQLITE: Final = 3.0
LIMIT_POSTGRES: Final = 1.3
IN_PROCESS: Final = "agent.cancel() in the same process"
_PAUSE: Final = threading.Event()  # never set

#: Seconds until the blocked thread was awake, until it had looked, if it looks, and
#: until all had returned.
Delays = tuple[float, float, float]


class Stuck(Gate):
    """A model that never replies; it notes when its thread was awake again."""

    def __init__(self, base_url: str = "") -> None:
        super().__init__()
        self.left_at = self.looked_at = 0.0
        self._base_url = base_url
        self._deltas = 0

    def stop_here(
        self, timeout: float = 60.0, *, token: CancelToken | None = None
    ) -> None:
        try:
            super().stop_here(timeout, token=token)
        finally:
            self.left_at = time.perf_counter()

    def agent(self, _: object = None) -> Agent:
        if not self._base_url:
            return Agent(ScriptedModel([self, "never"]))
        model = OpenAIChat("fake", base_url=self._base_url, api_key="none")
        return Agent(model, hooks=[self])

    def on_event(self, event: object) -> None:
        if isinstance(event, TextDelta):
            self._deltas += 1
            if self._deltas == 2:
                self._reached.set()


def measure(
    run: Callable[[], object],
    stuck: Stuck,
    cancel: Callable[[], float],
    randomly: random.Random,
) -> Delays:
    """Return the seconds after *cancel* has begun, wherever that was."""
    ended = [0.0]

    def work() -> None:
        run()
        ended[0] = time.perf_counter()

    thread = threading.Thread(target=work)
    thread.start()
    stuck.wait_reached()
    # Until its events are stored, and its threads sleep.
    _PAUSE.wait(randomly.uniform(0.04, 0.06))
    begin = cancel()
    thread.join()
    times = (stuck.left_at, stuck.looked_at or stuck.left_at, ended[0])
    woken, looked, returned = (at - begin for at in times)
    return woken, looked, returned


def rows(place: Place) -> Iterator[Row]:
    """Measure everything, one row after the other."""
    if not place.is_sqlite:
        yield from against_hand(place)
        return
    with agent_server() as server:
        yield against_process(
            place, "a silent stream", f"{server}/stall-3/v1", LIMIT_SQLITE
        )
    close_idle()
    # No socket to shut down, so that what the store adds is more of the whole.
    yield against_process(place, "a scripted model", "", None)


class Cancels:
    """A store here, and another process that cancels its runs."""

    def __init__(self, url: str, other: Peer) -> None:
        self._stuck: Stuck | None = None
        self._store = RunStore(url, self._make_agent, enqueue=lambda _: None)
        self._other = other
        self.randomly = random.Random(TIMES)

    def _make_agent(self, run: Any) -> Agent:
        assert self._stuck is not None
        return self._stuck.agent()

    def stored(self, base_url: str = "") -> Delays:
        """Cancel a stored run from the other process."""
        stuck = self._stuck = Stuck(base_url)
        id = self._store.submit("go")

        def cancel() -> float:
            return float(self._other.ask(id).split()[0])

        return measure(lambda: self._store.work(id), stuck, cancel, self.randomly)

    def close(self) -> None:
        self._store.close()


def in_process(base_url: str, randomly: random.Random) -> float:
    stuck = Stuck(base_url)
    agent = stuck.agent()

    def cancel() -> float:
        begin = time.perf_counter()
        agent.cancel()
        return begin

    return measure(lambda: agent.run("go"), stuck, cancel, randomly)[-1]


def against_process(place: Place, name: str, base_url: str, limit: float | None) -> Row:
    """Until run() has returned, against a cancel in the same process."""
    url = place.new()
    times, floors = [], []
    with peer("cancel", url) as other:
        cancels = Cancels(url, other)
        for _ in range(TIMES):
            floors.append(in_process(base_url, cancels.randomly))
            times.append(cancels.stored(base_url)[-1])
        cancels.close()
    return row(
        f"{place.name}: cancel elsewhere to run() returned, {name}",
        *(IN_PROCESS, times, floors, limit),
    )


def against_hand(place: Place) -> Iterator[Row]:
    """Until the run stopped, and until run() has returned, against psycopg alone."""
    url = place.new()
    times, floors = [], []
    with peer("cancel", url) as other, peer("cancel by hand", url) as hand:
        cancels, floor = Cancels(url, other), Listener(url, hand)
        for _ in range(TIMES):
            floors.append(floor.cancelled(cancels.randomly))
            times.append(cancels.stored())
        cancels.close()
        floor.close()
    names = (
        ("the run stopped", "UPDATE + NOTIFY to a bare listener"),
        ("the run stopped", "the same, and the SELECT of the row"),
        ("run() returned", "the same, and the UPDATE of the end"),
    )
    for index, (name, floor_name) in enumerate(names):
        ours, by_hand = ([each[index] for each in side] for side in (times, floors))
        title = f"{place.name}: cancel elsewhere to {name}"
        limit = None if index else LIMIT_POSTGRES
        yield row(title, floor_name, ours, by_hand, limit)


class Listener:
    """A bare listener, which looks when it is told to, and writes the end."""

    def __init__(self, url: str, other: Peer) -> None:
        import psycopg

        self._other = other
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute(
            "CREATE TABLE floor (id text PRIMARY KEY, cancel text, ended_at float)"
        )
        self._connection.execute("LISTEN floor")
        self._numbers = iter(range(100_000))

    def cancelled(self, randomly: random.Random) -> Delays:
        """Have the other process cancel; return until it is heard, and written."""
        id = f"run-{next(self._numbers)}"
        self._connection.execute("INSERT INTO floor VALUES (%s)", (id,))
        stuck = Stuck()

        def run() -> None:
            stuck._reached.set()
            (notify,) = self._connection.notifies(stop_after=1)
            stuck.left_at = time.perf_counter()
            look = "SELECT cancel FROM floor WHERE id = %s"
            assert self._connection.execute(look, (notify.payload,)).fetchone()
            stuck.looked_at = time.perf_counter()
            end = "UPDATE floor SET ended_at = 1 WHERE id = %s AND ended_at IS NULL"
            self._connection.execute(end, (id,))

        def cancel() -> float:
            return float(self._other.ask(id).split()[0])

        return measure(run, stuck, cancel, randomly)

    def close(self) -> None:
        self._connection.close()


def row(
    name: str,
    floor_name: str,
    times: list[float],
    floors: list[float],
    limit: float | None,
) -> Row:
    note = f"min {min(times) * 1e6:.0f} us, of the floor {min(floors) * 1e6:.0f} us; "
    return Row(
        name,
        floor_name,
        statistics.median(times) * 1e6,
        statistics.median(floors) * 1e6,
        "us",
        limit=limit,
        note=note + f"p99 {percentile_99(times) * 1e3:.2f} ms",
    )
