"""What a checkpoint of a stored run costs, and a stored tool round."""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from benchmarks.agent_floor import add
from benchmarks.agent_loop import process_cpu
from benchmarks.agent_server import agent_server
from benchmarks.measure import Row, side_by_side
from benchmarks.models import messages
from benchmarks.stores_places import Place
from syncagent import Agent
from syncagent.conversation.saved import save_delta
from syncagent.conversation.state import Delta
from syncagent.models import OpenAIChat
from syncagent.stores import RunStore
from syncagent.stores.backend import Backend
from syncagent.stores.keeper import StoreKeeper
from syncagent.stores.records import Verdict
from syncagent.stores.submission import new_run
from syncagent.stores.urls import open_backend
from syncagent.testing import ScriptedModel, call, say
from syncagent.transport import close_idle

#: Rounds of a run whose checkpoints are measured, and messages before it.
ROUNDS: Final = 150
RUNS: Final = 5
SIZES: Final = (10, 800)
#: Tool rounds of a run over a socket, and how often it is measured.
LOOP: Final = 50
TIMES: Final = 9

UPDATE: Final = (
    "UPDATE syncagent_run SET tail = ?, begun = ?, messages = ?, seconds_left = ?, "
    "step = ? WHERE id = ? AND attempt = ? AND state = 'running'{gate} AND step <= ? "
    "RETURNING cancel, cancel_mode, conversation_key"
)
BEGUN: Final = {True: '["call_1"]', False: "[]"}
GATE: Final = " AND coalesce(cancel_mode, '') <> 'now'"
INSERT: Final = (
    "INSERT INTO syncagent_message (conversation_key, n, body, calls) "
    "VALUES (?, ?, ?, ?) ON CONFLICT (conversation_key, n) DO UPDATE "
    "SET body = excluded.body, calls = excluded.calls"
)


def rows(place: Place) -> Iterator[Row]:
    """Measure everything, one row after the other."""
    yield from checkpoints(place)
    with agent_server() as server:
        url = f"{server}/loop-{LOOP}/v1"
        model = OpenAIChat("fake", base_url=url, api_key="none")
        limit = 1.2 if place.is_sqlite else None
        yield from tool_rounds(
            place, "over a socket", lambda: Agent(model, tools=[add]), limit
        )
    close_idle()
    yield from tool_rounds(place, "scripted", lambda: scripted(LOOP))


def scripted(rounds: int, before: int = 0) -> Agent:
    wishes = [
        say("I add it.", call("add", {"first": n, "second": 2}, f"call_{n}"))
        for n in range(rounds)
    ]
    model = ScriptedModel([*wishes, "ok"])
    return Agent(model, tools=[add], messages=list(messages(before)))


# -- checkpoints -------------------------------------------------------------------


def to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


class ByHand:
    """The statements of a checkpoint, with the bare driver, in a store of its own."""

    def __init__(self, place: Place, id: str) -> None:
        url = place.new()
        backend = open_backend(url)
        run = new_run(
            "go",
            owner="",
            agent="",
            conversation="",
            labels=None,
            timeout=None,
            id=id,
            run_id=None,
            unfollowed_seconds=None,
            lease=15.0,
        )
        backend.add(run, None)
        backend.claim(id, "by hand", "")
        backend.close()
        self._id, self._mark = id, "?"
        self._execute, self._many = self._connect(url, place.is_sqlite)

    def _connect(self, url: str, is_sqlite: bool) -> tuple[Any, Any]:
        if is_sqlite:
            path = url.removeprefix("sqlite:///")
            self._connection: Any = sqlite3.connect(path, isolation_level=None)
            self._connection.execute("PRAGMA synchronous = NORMAL")
            return self._connection.execute, self._connection.executemany
        import psycopg

        self._mark = "%s"
        self._connection = psycopg.connect(url, autocommit=True, prepare_threshold=3)
        cursor = self._connection.cursor()
        return cursor.execute, cursor.executemany

    def statements(self, is_gate: bool) -> tuple[str, str]:
        """Return both of them, in the form of the driver."""
        update = UPDATE.replace("{gate}", GATE if is_gate else "")
        return update.replace("?", self._mark), INSERT.replace("?", self._mark)

    def write(self, delta: Delta, step: int, is_gate: bool) -> tuple[float, float]:
        """Write a checkpoint; return its seconds, and those to encode it before."""
        update, insert = self.statements(is_gate)
        tail = msgspec.json.decode(delta.tail)
        said = [(msgspec.json.decode(each.body), each.calls) for each in delta.messages]
        before = time.perf_counter()
        params = (
            *(to_json(tail), BEGUN[is_gate], delta.total, None, step),
            *(self._id, 1, step),
        )
        rows = [
            (self._id, n, to_json(body), calls.decode())
            for n, (body, calls) in enumerate(said, delta.first)
        ]
        begin = time.perf_counter()
        self._write(update, params, insert, rows)
        return time.perf_counter() - begin, begin - before

    def _write(
        self, update: str, params: tuple[Any, ...], insert: str, rows: list[Any]
    ) -> None:
        if not rows:
            assert self._fetch(update, params)
            return
        self._execute("BEGIN IMMEDIATE" if self._mark == "?" else "BEGIN")
        assert self._fetch(update, params)
        self._many(insert, rows)
        self._execute("COMMIT")

    def _fetch(self, update: str, params: tuple[Any, ...]) -> list[Any]:
        rows: list[Any] = self._execute(update, params).fetchall()
        return rows

    def close(self) -> None:
        self._connection.close()


class Watched:
    """Times each checkpoint of runs, or the same by hand, in turns.

    :param before: how many messages the conversation has.
    """

    def __init__(self, place: Place, before: int) -> None:
        self._place = place
        self._before = before
        self.times: dict[bool, list[float]] = {True: [], False: []}
        self.inner: dict[bool, list[float]] = {True: [], False: []}
        self.floors: dict[bool, list[tuple[float, float]]] = {True: [], False: []}

    def run(self) -> None:
        """Make a run, in a store of its own."""
        self._hand = ByHand(self._place, f"public-{self._before}")
        # The first run fills the conversation: two messages for each round.
        rounds = iter((self._before // 2, ROUNDS))
        store = RunStore(
            self._place.new(), lambda _: scripted(next(rounds), 0), lambda _: None
        )
        store.work(store.submit("fill", conversation="long"))
        id = store.submit("add", conversation="long")
        with self._watching(store.backend):
            result = store.work(id)
        assert result is not None
        assert result.turns == ROUNDS + 1
        store.close()
        self._hand.close()

    @contextmanager
    def _watching(self, backend: Backend) -> Iterator[None]:
        keep, store = StoreKeeper._checkpoint, backend.checkpoint
        taken: list[float] = []

        def kept(keeper: StoreKeeper, *, is_gate: bool) -> bool:
            # In turns, each with the caches as the turn of the model has left them.
            is_ours = len(self.times[is_gate]) <= len(self.floors[is_gate])
            run, conversation = keeper._run, keeper._conversation
            assert run is not None
            assert conversation is not None
            write = (save_delta(conversation, run), keeper._step + 1, is_gate)
            if not is_ours:
                self.floors[is_gate].append(self._hand.write(*write))
                return keep(keeper, is_gate=is_gate)
            begin = time.perf_counter()
            is_stored = keep(keeper, is_gate=is_gate)
            self.times[is_gate].append(time.perf_counter() - begin)
            self.inner[is_gate].append(taken[-1])
            self._hand.write(*write)
            return is_stored

        def written(
            id: str, attempt: int, delta: Delta | None, **settings: Any
        ) -> Verdict:
            begin = time.perf_counter()
            verdict = store(id, attempt, delta, **settings)
            taken.append(time.perf_counter() - begin)
            return verdict

        StoreKeeper._checkpoint = kept  # type: ignore[method-assign,assignment]
        backend.checkpoint = written  # type: ignore[method-assign]
        try:
            yield
        finally:
            StoreKeeper._checkpoint = keep  # type: ignore[method-assign]


def checkpoints(place: Place) -> Iterator[Row]:
    """The gate before a tool, and the write after it."""
    few, many = (Watched(place, size) for size in SIZES)
    for _ in range(RUNS):
        few.run()
        many.run()
    for is_gate, name in ((True, "gate before a tool"), (False, "write after a tool")):
        bare = [seconds for seconds, _ in few.floors[is_gate]]
        encoded = [sum(seconds) for seconds in few.floors[is_gate]]
        sides = (
            ("back end", "bare driver, same statements", few.inner[is_gate], bare),
            ("in all", "the same, and encode it", few.times[is_gate], encoded),
        )
        for part, floor_name, times, floors in sides:
            yield Row(
                f"{place.name}: {name}, {part}",
                floor_name,
                statistics.median(times) * 1e6,
                statistics.median(floors) * 1e6,
                "us",
                limit=1.5,
                note=f"min {min(times) * 1e6:.0f} us, of the floor "
                f"{min(floors) * 1e6:.0f} us",
            )
        yield Row(
            f"{place.name}: {name}, after {SIZES[1]} messages",
            f"after {SIZES[0]}",
            statistics.median(many.times[is_gate]) * 1e6,
            statistics.median(few.times[is_gate]) * 1e6,
            "us",
            limit=1.1,
        )


# -- tool rounds -------------------------------------------------------------------


def tool_rounds(
    place: Place, name: str, make: Callable[[], Agent], limit: float | None = None
) -> Iterator[Row]:
    """A run of many rounds: time, and CPU of the whole process."""
    store = RunStore(place.new(), lambda _: make(), lambda _: None)
    walls: dict[bool, list[float]] = {True: [], False: []}

    def stored(id: str) -> None:
        result = store.work(id)
        assert result is not None
        assert result.turns == LOOP + 1

    def bare() -> None:
        assert make().run("add").turns == LOOP + 1

    def measured(is_stored: bool) -> float:
        id = store.submit("add")
        begin = time.perf_counter()
        computed = process_cpu(lambda: stored(id) if is_stored else bare())
        walls[is_stored].append(time.perf_counter() - begin)
        return computed

    measured(False)
    measured(True)
    walls[True].clear()
    walls[False].clear()
    cpus = side_by_side(lambda: measured(True), lambda: measured(False), rounds=TIMES)
    store.close()
    times = [statistics.median(walls[is_stored]) for is_stored in (True, False)]
    for what, (value, floor) in (("time", times), ("CPU", cpus)):
        yield Row(
            f"{place.name}: tool round {name}, {what}",
            "not stored",
            value / LOOP * 1e6,
            floor / LOOP * 1e6,
            "us",
            limit=limit if what == "time" else None,
            note=""
            if what == "CPU"
            else f"min {min(walls[True]) / LOOP * 1e6:.0f} us, of the floor "
            f"{min(walls[False]) / LOOP * 1e6:.0f} us",
        )
