"""What runs in the background cost; with drivers, and saved states.

::

    python -m benchmarks.handles ours

prints the KiB by which this process has grown, with many idle handles.
"""

from __future__ import annotations

import os
import queue
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from benchmarks import saved
from benchmarks.agent_crowd import PROCESSES, resident
from benchmarks.agent_loop import process_cpu
from benchmarks.latency import delay, percentile_99
from benchmarks.measure import Row, per_call, side_by_side
from benchmarks.transport import cpu
from syncagent import Agent, CancelToken, Handle, RunFinished
from syncagent.background.subscriptions import EventLog, Subscription
from syncagent.testing import Gate, ScriptedModel

#: How many pieces of text a run has that is followed.
DELTAS: Final = 5000
#: How many follow it.
CROWDS: Final = (1, 10, 100)
#: How many handles there are at once, live ones, and idle ones.
LIVE: Final = 50
IDLE: Final = 500
#: How often a run is cancelled, and begun.
TIMES: Final = 120
ALL: Final = DELTAS + 100  # a buffer in which nobody lags

By = Callable[[], object]


def rows() -> Iterator[Row]:
    """Measure everything, one row after the other."""
    yield from followed()
    for number in CROWDS:
        yield from fan_out(number)
        yield waking(number)
    yield threads()
    yield memory()
    yield from first_event()
    yield from short_runs()
    yield cancelling()
    yield from saved.rows()


def long_run(*hooks: object) -> Agent:
    return Agent(ScriptedModel(["token" * DELTAS]), hooks=hooks)


def count(events: Iterable[object]) -> None:
    assert sum(1 for _ in events) > DELTAS


def wall(work: By) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


# -- events ------------------------------------------------------------------------


def streamed() -> None:
    count(long_run().stream("go"))


def subscribed() -> None:
    count(long_run().start("go", buffer=ALL).subscribe())


def queued(number: int = 1) -> None:
    """The same by hand: a thread that puts all events into a queue for each."""
    boxes: list[queue.SimpleQueue[Any]] = [queue.SimpleQueue() for _ in range(number)]

    def work() -> None:
        for event in long_run().stream("go"):
            for box in boxes:
                box.put(event)

    def follow(box: queue.SimpleQueue[Any]) -> None:
        seen = 1
        while type(box.get()) is not RunFinished:
            seen += 1
        assert seen > DELTAS

    thread = threading.Thread(target=work, daemon=True)
    others = each_on_a_thread(follow, boxes[1:])
    thread.start()
    follow(boxes[0])
    for other in (thread, *others):
        other.join()


def each_on_a_thread(
    work: Callable[[Any], object], things: Iterable[Any]
) -> list[threading.Thread]:
    made = [threading.Thread(target=work, args=(thing,)) for thing in things]
    for thread in made:
        thread.start()
    return made


def followed() -> Iterator[Row]:
    """An event, from the model to whoever follows the run."""
    for name, floor in (("stream()", streamed), ("a queue by hand", queued)):
        for kind, measure in (("time", wall), ("CPU", process_cpu)):
            value, least = side_by_side(
                lambda measure=measure: measure(subscribed),
                lambda measure=measure, floor=floor: measure(floor),
                rounds=11,
            )
            yield per_event(
                f"an event of start().subscribe(), {kind}", name, value, least
            )


def per_event(
    name: str, floor_name: str, value: float, floor: float, **more: Any
) -> Row:
    each = 1e6 / DELTAS
    return Row(name, floor_name, value * each, floor * each, "us", **more)


class OwnTime:
    """A hook that notes what the thread of a run has computed."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def on_finish(self, result: object) -> None:
        self.seconds = time.thread_time()


def fan_out(number: int) -> Iterator[Row]:
    """Many who follow one run: until all have seen its end, and the run's own CPU."""

    def ours(number: int = number) -> float:
        own = OwnTime()
        handle = long_run(own).start("go", buffer=ALL)
        made = each_on_a_thread(count, [handle.subscribe() for _ in range(number)])
        handle.result()
        for thread in made:
            thread.join()
        return own.seconds

    value, floor = side_by_side(
        lambda: wall(ours), lambda: wall(lambda: queued(number)), rounds=7
    )
    each = value / DELTAS / number * 1e6
    yield per_event(
        f"an event for {number} subscribers, time",
        "a queue for each by hand",
        value,
        floor,
        note=f"{each:.2f} us for each of them",
    )
    value, floor = side_by_side(ours, lambda: ours(0), rounds=7)
    name = f"an event, CPU of the run, {number} subscribers"
    yield per_event(name, "without any", value, floor, limit=1.3)


def waking(number: int) -> Row:
    """An event for many who wait for one: what it costs the thread that has it."""
    log, boxes = EventLog(), [queue.SimpleQueue[Any]() for _ in range(number)]
    places = [Subscription(log, 0, CancelToken()) for _ in range(number)]
    made = each_on_a_thread(list, places)
    made += each_on_a_thread(lambda box: list(iter(box.get, None)), boxes)
    pause = threading.Event()

    def put(what: object) -> None:
        for box in boxes:
            box.put(what)

    def once(tell: Callable[[Any], object]) -> float:
        pause.wait(0.01)  # all of them sleep, really
        return cpu(lambda: tell(1))

    value, floor = side_by_side(lambda: once(log.publish), lambda: once(put), 101)
    log.close()
    put(None)
    for thread in made:
        thread.join()
    name = f"an event, CPU of the run, {number} that wait"
    return Row(name, "a queue for each by hand", value * 1e6, floor * 1e6, "us")


# -- threads, memory, begin and end ------------------------------------------------


def threads() -> Row:
    """How many threads live handles need."""
    gates = [Gate() for _ in range(LIVE)]
    before = threading.active_count()
    handles = [Agent(ScriptedModel([gate, "ok"])).start("go") for gate in gates]
    for gate in gates:
        gate.wait_reached()
    value = threading.active_count() - before
    for gate in gates:
        gate.open()
    for handle in handles:
        handle.close()
    return Row(
        f"threads of {LIVE} live handles", "one each", value, LIVE, "", limit=1.0
    )


def memory() -> Row:
    """What a process grows by with idle handles, and with idle threads."""
    grown: dict[str, list[float]] = {"ours": [], "floor": []}
    for _ in range(PROCESSES):
        for kind, sizes in grown.items():
            command = [sys.executable, "-m", "benchmarks.handles", kind]
            said = subprocess.run(command, capture_output=True, text=True, check=True)
            sizes.append(float(said.stdout))
    return Row(
        f"resident memory of each of {IDLE} idle handles",
        "an idle thread",
        statistics.median(grown["ours"]) / IDLE,
        statistics.median(grown["floor"]) / IDLE,
        "KiB",
    )


def grow(kind: str) -> None:
    """Have many of one kind, and print what that takes."""
    model, never = ScriptedModel(lambda _: "ok"), threading.Event()

    def handle() -> Handle:
        made = Agent(model).start("go", keep_alive=True)
        made.result()
        return made

    def thread() -> threading.Thread:
        made = threading.Thread(target=never.wait, daemon=True)
        made.start()
        return made

    make: Callable[[], object] = handle if kind == "ours" else thread
    kept = [make()]
    before = resident()
    kept += [make() for _ in range(IDLE)]
    print(resident() - before, flush=True)
    os._exit(0)  # none of them ends by itself


def one_begin() -> float:
    gate = Gate()
    agent = Agent(ScriptedModel([gate, "never"]))
    begin = time.perf_counter()
    handle = agent.start("go")
    handle.subscribe().get()
    taken = time.perf_counter() - begin
    handle.close()
    return taken


def one_thread() -> float:
    event = threading.Event()
    begin = time.perf_counter()
    thread = threading.Thread(target=event.set, daemon=True)
    thread.start()
    event.wait()
    taken = time.perf_counter() - begin
    thread.join()
    return taken


def one_by_hand() -> float:
    gate, box = Gate(), queue.SimpleQueue[Any]()
    agent = Agent(ScriptedModel([gate, "never"]), hooks=[Posting(box)])
    begin = time.perf_counter()
    thread = threading.Thread(target=agent.run, args=("go",))
    thread.start()
    box.get()
    taken = time.perf_counter() - begin
    gate.wait_reached()
    agent.cancel()
    thread.join()
    return taken


class Posting:
    """A hook that says when the model is about to be asked."""

    def __init__(self, box: queue.SimpleQueue[Any]) -> None:
        self._box = box

    def before_model(self, event: object) -> None:
        self._box.put(event)


def first_event() -> Iterator[Row]:
    """From start() until somebody has the first event in his hands."""
    floors = [
        ("Thread.start() -> Event", one_thread),
        ("a Thread with agent.run() -> a queue", one_by_hand),
    ]
    for floor_name, floor in floors:
        value, least = side_by_side(
            lambda: statistics.median(one_begin() for _ in range(TIMES)),
            lambda floor=floor: statistics.median(floor() for _ in range(TIMES)),
        )
        name = "start() until the first event is there"
        yield Row(name, floor_name, value * 1e6, least * 1e6, "us")


def short_runs() -> Iterator[Row]:
    """A run of one turn, on a thread of its own."""

    def on_thread() -> None:
        agent = Agent(ScriptedModel(["ok"]))
        thread = threading.Thread(target=agent.run, args=("go",))
        thread.start()
        thread.join()

    ways: list[tuple[str, By]] = [
        ("start().result()", lambda: Agent(ScriptedModel(["ok"])).start("go").result()),
        (
            "run(backgroundable=True)",
            lambda: Agent(ScriptedModel(["ok"])).run("go", backgroundable=True),
        ),
    ]
    for name, way in ways:
        value, floor = side_by_side(
            lambda way=way: per_call(way, TIMES), lambda: per_call(on_thread, TIMES)
        )
        floor_name = "a Thread with agent.run()"
        yield Row(f"one turn, {name}", floor_name, value * 1e6, floor * 1e6, "us")


def cancelling() -> Row:
    """From cancel() until result() has returned, and until run() has."""
    randomly = random.Random(TIMES)

    def one(is_handle: bool) -> float:
        gate = Gate()
        agent = Agent(ScriptedModel([gate, "never"]))
        if is_handle:
            handle = agent.start("go")
            seconds = delay(handle.result, gate.wait_reached, handle.cancel, randomly)
            assert handle.cancelled()
            return seconds
        return delay(lambda: agent.run("go"), gate.wait_reached, agent.cancel, randomly)

    floors, times = [], []
    for _ in range(TIMES):
        floors.append(one(is_handle=False))
        times.append(one(is_handle=True))
    return Row(
        "handle.cancel() until result() has returned",
        "agent.cancel() until run() has",
        statistics.median(times) * 1e6,
        statistics.median(floors) * 1e6,
        "us",
        note=f"p99 {percentile_99(times) * 1e3:.2f} ms, of the floor "
        f"{percentile_99(floors) * 1e3:.2f} ms",
    )


if __name__ == "__main__":
    grow(sys.argv[1])
