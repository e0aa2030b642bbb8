"""What a process with a store costs when it is idle, is killed, or has many runs.

::

    python -m benchmarks.stores_process KIND URL SERVER

prints the KiB by which this process has grown, and how many threads it has more, with
runs of a kind: ``stored``, ``bare`` or ``parked``.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from benchmarks.agent_crowd import resident, start
from benchmarks.agent_server import agent_server
from benchmarks.measure import Row
from benchmarks.stores_peer import peer
from benchmarks.stores_places import Place
from syncagent import Agent, tool
from syncagent.models import OpenAIChat
from syncagent.stores import RunStore, StoredRun
from syncagent.stores.backend import Backend
from syncagent.testing import ScriptedModel, call, say

#: How often a process is killed, by its lease.
KILLS: Final = {1.5: 5, 15.0: 1}
#: Seconds that an idle process is watched, and its lease.
IDLE: Final = 15.0
LEASE: Final = 1.5
#: How many runs a process has, and how often that is measured.
CROWD: Final = 100
PROCESSES: Final = 3
_PAUSE: Final = threading.Event()  # never set


def rows(place: Place) -> Iterator[Row]:
    """Measure everything, one row after the other."""
    yield idle(place)
    for lease, times in KILLS.items():
        yield takeover(place, lease, times)
    with agent_server() as server:
        yield from memory(place, f"{server}/stall-3/v1")


# -- idle --------------------------------------------------------------------------


def idle(place: Place) -> Row:
    """Statements for each beat, and CPU, of a process without runs."""
    store = RunStore(
        place.new(), lambda _: Agent(ScriptedModel([])), lambda _: None, lease=LEASE
    )
    store.open()
    _PAUSE.wait(LEASE)  # until it has begun
    beats = 0
    beat = store.backend.beat

    def counted(*arguments: Any) -> Any:
        nonlocal beats
        beats += 1
        return beat(*arguments)

    store.backend.beat = counted  # type: ignore[method-assign,assignment]
    with counting(store.backend, place) as statements:
        begin = time.process_time()
        _PAUSE.wait(IDLE)
        computed = time.process_time() - begin
    store.close()
    return Row(
        f"{place.name}: statements of an idle process, each beat",
        "UPDATE of the lease",
        len(statements) / beats,
        1.0,
        "",
        most=2.0,
        note=f"{beats} beats in {IDLE:g} s, {computed / beats * 1e6:.0f} us of CPU "
        f"each: {computed / beats / 5 * 100:.3f} % with a lease of 15 s",
    )


@contextmanager
def counting(backend: Backend, place: Place) -> Iterator[list[str]]:
    """Note each statement that the driver executes."""
    statements: list[str] = []
    if place.is_sqlite:
        connection = backend._connection  # type: ignore[attr-defined]
        connection.set_trace_callback(statements.append)
        yield statements
        connection.set_trace_callback(None)
        return
    import psycopg

    execute = psycopg.Cursor.execute

    def noted(cursor: Any, query: Any, *arguments: Any, **settings: Any) -> Any:
        statements.append(str(query))
        return execute(cursor, query, *arguments, **settings)

    psycopg.Cursor.execute = noted  # type: ignore[method-assign,assignment]
    yield statements
    psycopg.Cursor.execute = execute  # type: ignore[method-assign]


# -- killed ------------------------------------------------------------------------


def takeover(place: Place, lease: float, times: int) -> Row:
    """From kill -9 until another process goes on with the run."""
    url, begun = place.new(), threading.Event()

    def make_agent(_: Any) -> Agent:
        begun.set()
        return Agent(ScriptedModel(["ok"]))

    store = RunStore(url, make_agent, lease=lease)
    store.open()
    taken = []
    for number in range(times):
        begun.clear()
        with peer("work", url, lease) as other:
            id = other.ask("go")
            assert other.hear() == id
            # So that it is killed at different times after its last beat.
            _PAUSE.wait(lease / 3 * (number + 0.5) / times)
            os.kill(other.pid, signal.SIGKILL)
            begin = time.perf_counter()
            assert begun.wait(3 * lease)
            taken.append(time.perf_counter() - begin)
    store.close()
    return Row(
        f"{place.name}: kill -9 to another process, lease {lease:g} s",
        "the lease",
        statistics.median(taken),
        lease,
        "s",
        limit=1.3,
        note=f"{min(taken):.2f} to {max(taken):.2f} s",
    )


# -- memory ------------------------------------------------------------------------


def memory(place: Place, server: str) -> Iterator[Row]:
    """What a process grows by for each run."""
    figures: dict[str, list[list[float]]] = {"bare": [], "stored": [], "parked": []}
    for _ in range(PROCESSES):
        for kind, measured in figures.items():
            module = [sys.executable, "-m", "benchmarks.stores_process", kind]
            command = [*module, place.new(), server]
            said = subprocess.run(command, capture_output=True, text=True, check=True)
            measured.append([float(word) / CROWD for word in said.stdout.split()])
    sizes = {
        kind: [statistics.median(values) for values in zip(*measured, strict=True)]
        for kind, measured in figures.items()
    }
    for kind, name in (("stored", "live"), ("parked", "parked")):
        yield Row(
            f"{place.name}: resident memory of a {name} run",
            "a live run that is not stored",
            sizes[kind][0],
            sizes["bare"][0],
            "KiB",
            note=f"{sizes[kind][1]:.2f} threads, of the floor {sizes['bare'][1]:.2f}",
        )


@tool(requires_approval=True)
def act() -> str:
    """Do nothing."""
    return "done"


def main() -> None:
    kind, url, server = sys.argv[1:]

    def make_agent(run: StoredRun) -> Agent:
        if run.agent == "parked":
            return Agent(ScriptedModel([say(call("act", {}, "c1"))]), tools=[act])
        base_url = server.replace("stall", "say") if run.agent == "warm" else server
        return Agent(OpenAIChat("fake", base_url=base_url, api_key="none"))

    store = RunStore(url, make_agent, lambda _: None)

    def work(agent: str = kind) -> None:
        store.work(store.submit("go", agent=agent))

    work("warm")
    work("parked")
    model = OpenAIChat("fake", base_url=server, api_key="none")
    before, threads = resident(), threading.active_count()
    if kind == "parked":
        for _ in range(CROWD):
            work()
    else:
        start(CROWD, work if kind == "stored" else lambda: Agent(model).run("go"))
    size = 0.0
    while not _PAUSE.wait(1.0) and resident() > size:  # until all has come
        size = resident()
    print(size - before, threading.active_count() - threads, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
