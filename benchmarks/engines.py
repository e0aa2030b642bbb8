"""Runs of a store on engines, against the engine's own task, and against threads.

The recipes are those of the tests and of the documentation, on real brokers. An engine
whose package or server is not installed is left out, with a line that says so.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any, Final

from benchmarks.engines_crews import ENGINES, LedgerCrew, Servers, Threads, until
from benchmarks.measure import Row
from syncagent.stores import RunStore

#: How often each thing is measured.
TIMES: Final = 30
#: How many runs are queued, for how many workers, and over how many seconds they are
#: cancelled.
QUEUED: Final = 100
WORKERS: Final = 4
SECONDS: Final = 6.0
_PAUSE: Final = threading.Event()  # never set


def rows() -> Iterator[Row]:
    """Measure everything, one row after the other."""
    with ExitStack() as stack:
        servers = Servers(stack)
        for engine in ENGINES:
            why = servers.missing(engine)
            if why:
                print(f"without rows for {engine}: {why}")
                continue
            with servers.crew(engine) as crew:
                crew.have(1)
                yield begin(crew)
                with servers.crew(Threads(engine.database)) as floor:
                    yield cancel(crew, floor)
            with servers.crew(engine) as crew:
                yield crowd(crew)


# -- from submit() to the worker -----------------------------------------------------


def begin(crew: LedgerCrew) -> Row:
    """From submit(), and from a bare send, to the first line of the task."""
    to_work, to_agent, bare = [], [], []
    with RunStore(crew.url) as store:
        for number in range(TIMES + 3):
            _PAUSE.wait(random.uniform(0.0, 0.2))  # engines that poll do it at any time
            id = crew.submit("quick")
            began = crew.moment("submit", id)
            work, agent = (crew.moment(what, id) for what in ("work", "make_agent"))
            store.result(id, 20.0)
            _PAUSE.wait(random.uniform(0.0, 0.2))
            crew.client.do("deliver", id, 1)  # the task of a run that has ended
            sent, got = (crew.moment(what, id, 2) for what in ("enqueue", "work"))
            if number >= 3:  # the first ones open connections
                to_work.append(work - began)
                to_agent.append(agent - began)
                bare.append(got - sent)
    return Row(
        f"{crew.engine}: submit() to the first line of work()",
        "its task, from send to first line",
        *(statistics.median(times) * 1000 for times in (to_work, bare)),
        "ms",
        note=f"min {min(to_work) * 1000:.1f} and {min(bare) * 1000:.1f}; "
        f"to make_agent {statistics.median(to_agent) * 1000:.1f}",
    )


# -- cancel --------------------------------------------------------------------------


def cancel(crew: LedgerCrew, floor: LedgerCrew) -> Row:
    """From cancel() until the end is stored; the same without an engine."""
    figures: list[list[float]] = [[], []]
    with RunStore(crew.url) as store, RunStore(floor.url) as bare:
        for _ in range(TIMES):
            for each, of, times in zip(
                (crew, floor), (store, bare), figures, strict=True
            ):
                times.append(cancelled(each, of))
    ours, floors = figures
    return Row(
        f"{crew.engine}: cancel() to the stored end",
        f"threads of the store, {crew.engine.database}",
        *(statistics.median(times) * 1000 for times in figures),
        "ms",
        note=f"min {min(ours) * 1000:.1f} and {min(floors) * 1000:.1f}",
    )


def cancelled(crew: LedgerCrew, store: RunStore) -> float:
    """Cancel a run in the middle of a tool; return the seconds until its end."""
    id = crew.submit("held")
    run = store.get(id)
    crew.pid_at(run, "hold-0")
    _PAUSE.wait(random.uniform(0.04, 0.06))  # until its events are stored
    begin = time.perf_counter()
    receipt = store.cancel(id)
    assert receipt.wait(20.0)
    seconds = time.perf_counter() - begin
    assert receipt
    return seconds


# -- many ----------------------------------------------------------------------------


def crowd(crew: LedgerCrew) -> Row:
    """Queue runs, start workers, end tools and cancel runs at random; count faults."""
    with RunStore(crew.url) as store, ThreadPoolExecutor(2 * QUEUED) as pool:
        ids = [crew.submit("slow") for _ in range(QUEUED)]
        crew.have(WORKERS)
        begin = time.perf_counter()
        cancels = [pool.submit(at_random, crew, store, id) for id in ids]
        told = [each.result() for each in cancels]
        with suppress(AssertionError):  # else some are lost
            until(lambda: not store.list(live=True), 60.0)
        seconds = time.perf_counter() - begin
        faults = [faults_of(crew, store, *each[:3]) for each in told]
    states = [state for state, _ in faults]
    waits = [waited for _, receipt, _, waited in told if receipt]
    lost, doubled, late = (
        sum(name in found for _, found in faults)
        for name in ("lost", "doubled", "late")
    )
    return Row(
        f"{crew.engine}: {QUEUED} runs, lost + doubled + late",
        f"runs, on {WORKERS} workers",
        lost + doubled + late,
        QUEUED,
        "",
        most=0.0,
        note=f"{lost} + {doubled} + {late}; {states.count('done')} done, "
        f"{states.count('cancelled')} cancelled, in {seconds:.1f} s; cancel to the end "
        f"{statistics.median(waits) * 1000:.0f} ms, at most {max(waits) * 1000:.0f} ms",
    )


def at_random(crew: LedgerCrew, store: RunStore, id: str) -> tuple[Any, ...]:
    """End the tool of a run, or cancel the run; or first one, and then the other."""
    run = store.get(id)
    ends_at, cancels_at = (random.uniform(0.0, SECONDS) for _ in range(2))
    if random.random() < 0.5:
        _PAUSE.wait(ends_at)
        crew.let_go(run)
        return id, None, [], 0.0
    timer = threading.Timer(ends_at, crew.let_go, [run])
    timer.start()
    _PAUSE.wait(cancels_at)
    begin = time.perf_counter()
    receipt = store.cancel(id)
    before = crew.effects(run)
    receipt.wait(60.0)
    waited = time.perf_counter() - begin
    timer.join()
    return id, receipt, before, waited


def faults_of(
    crew: LedgerCrew, store: RunStore, id: str, receipt: Any, before: list[str]
) -> tuple[str, set[str]]:
    """Return how a run ended, and what was wrong with it.

    ``lost``: it has not ended, or not as its canceller was told; ``doubled``: a tool
    was called twice; ``late``: a tool began after the cancel, and was not recorded.
    """
    run = store.get(id)
    assert run is not None
    effects, faults = crew.effects(run), set()
    is_right = receipt is None or bool(receipt) == (run.state == "cancelled")
    expected = 3 if run.state == "done" else 0
    if run.is_live or not is_right or len(effects) < expected:
        faults.add("lost")
    if len(effects) != len(set(effects)):
        faults.add("doubled")
    if receipt and set(effects) - set(before) - set(receipt.begun):
        faults.add("late")
    return run.state, faults
