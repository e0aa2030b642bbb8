"""How long after cancel() a run has returned, wherever it was stuck."""

from __future__ import annotations

import logging
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from benchmarks.agent_floor import Stoppable
from benchmarks.agent_server import agent_server
from benchmarks.agent_stuck import Place, Stuck, places
from benchmarks.latency import delay, percentile_99
from benchmarks.measure import Row
from syncagent import Agent, CancelToken
from syncagent.models import OpenAIChat
from syncagent.tools.processes import pool
from syncagent.transport import close_idle

#: How often a run is cancelled in each place, and where a process is killed.
TIMES: Final = 120
KILLS: Final = 40
#: How many runs are cancelled at once, and how often.
MANY: Final = 200
CROWDS: Final = 5
#: How many times the floor a median may be, and all runs of a crowd; and how many
#: microseconds a median may be.
LIMIT: Final = 2.0
LIMIT_OF_CROWD: Final = 1.3
MOST: Final = 1000.0

#: Returns the seconds from a cancel, or a kill, until a thread has returned.
Floor = Callable[[random.Random], float]


def rows() -> Iterator[Row]:
    """Measure everything, one row after the other."""
    randomly = random.Random(TIMES)
    # Who is asked and does not answer is left behind, and that is logged.
    logging.getLogger("syncagent").addHandler(logging.NullHandler())
    with agent_server() as server:
        for place in places(server):
            yield one_place(place, FLOORS[place.floor][1](server, place), randomly)
        yield from all_at_once(server)
    pool.close_idle()
    close_idle()


def one_place(place: Place, floor: Floor, randomly: random.Random) -> Row:
    """Cancel a run and its floor, in turns."""
    times: list[float] = []
    floors: list[float] = []
    for _ in range(KILLS if place.is_process else TIMES):
        floors.append(floor(randomly))
        stuck = Stuck(place)
        times.append(delay(stuck.run, stuck.wait_until_there, stuck.cancel, randomly))
        stuck.check()
    return Row(
        f"cancel in: {place.name}",
        FLOORS[place.floor][0],
        statistics.median(times) * 1e6,
        statistics.median(floors) * 1e6,
        "us",
        limit=LIMIT if place.floor == "by hand" else None,
        most=None if place.is_process else MOST,
        note=f"p99 {percentile_99(times) * 1e3:.2f} ms, of the floor "
        f"{percentile_99(floors) * 1e3:.2f} ms",
    )


# -- what it is compared with ------------------------------------------------------


def hand_floor(server: str, place: Place) -> Floor:
    """A loop by hand, at the same place of the same server."""
    path = place.path or "stall-3"

    def measure(randomly: random.Random) -> float:
        hand = Stoppable(f"{server}/{path}/v1")

        return delay(
            lambda: hand.run("go") and None,
            hand.wait_until_connected,
            hand.stop,
            randomly,
        )

    return measure


def token_floor(*_: Any) -> Floor:
    """A token, and who waits for it."""

    def measure(randomly: random.Random) -> float:
        token = CancelToken()

        def block() -> None:
            token.wait()

        return delay(block, int, token.cancel, randomly)

    return measure


def program_floor(*_: Any) -> Floor:
    """A program that is told to end."""
    return lambda randomly: end_of(["sleep", "600"], signal.SIGTERM, randomly)


def python_floor(*_: Any) -> Floor:
    """A Python that is killed, with as much in it as a worker has."""
    code = (
        "import benchmarks.agent_tools, syncagent.tools.processes.worker, time; "
        "print(flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", code]
    return lambda randomly: end_of(command, signal.SIGKILL, randomly, says_so=True)


def end_of(
    command: list[str], number: int, randomly: random.Random, says_so: bool = False
) -> float:
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        if says_so:
            process.stdout.readline()

        def block() -> None:
            process.wait()

        return delay(block, int, lambda: os.killpg(process.pid, number), randomly)


FLOORS: Final[dict[str, tuple[str, Callable[[str, Place], Floor]]]] = {
    "by hand": ("by hand: shutdown()", hand_floor),
    "token": ("token.cancel() -> token.wait()", token_floor),
    "program": ("killpg() -> Popen.wait(), sleep", program_floor),
    "python": ("killpg() -> Popen.wait(), Python", python_floor),
}


# -- many of them ------------------------------------------------------------------


def all_at_once(server: str) -> Iterator[Row]:
    """Many runs, each on its thread: until the last has returned, per run."""
    base_url = f"{server}/stall-3/v1"
    model = OpenAIChat("fake", base_url=base_url, api_key="none")
    hands: list[Stoppable] = []

    def by_hand(token: CancelToken, there: Callable[[str], None]) -> None:
        hand = Stoppable(base_url)
        hands.append(hand)
        there("stream")
        hand.run("go")

    def stop_each(token: CancelToken) -> None:
        while hands:
            hands.pop().stop()

    def shared(token: CancelToken, there: Callable[[str], None]) -> None:
        run(Agent(model), token, there)

    agents: list[Agent] = []

    def alone(token: CancelToken, there: Callable[[str], None]) -> None:
        agent = Agent(model)
        agents.append(agent)
        run(agent, CancelToken(), there)

    def cancel_each(token: CancelToken) -> None:
        while agents:
            agents.pop().cancel()

    sides: list[tuple[Any, Any]] = [
        (by_hand, stop_each),
        (shared, CancelToken.cancel),
        (alone, cancel_each),
    ]
    rounds = [[crowd(*side) for side in sides] for _ in range(CROWDS)]
    floor, *values = map(statistics.median, zip(*rounds, strict=True))
    for name, value in zip(("one token", "agent.cancel()"), values, strict=True):
        yield Row(
            f"cancel {MANY} runs at once by {name}, each",
            "by hand: shutdown(), one after the other",
            value / MANY * 1e6,
            floor / MANY * 1e6,
            "us",
            limit=LIMIT_OF_CROWD,
            note=f"all of them: {value * 1e3:.0f} ms",
        )


def run(agent: Agent, token: CancelToken, there: Callable[[str], None]) -> None:
    with agent.stream("go", cancel=token) as stream:
        for event in stream:
            there("stream" if type(event).__name__ == "TextDelta" else "")
    assert stream.result.cancelled


def crowd(
    work: Callable[[CancelToken, Callable[[str], None]], None],
    cancel: Callable[[CancelToken], object],
) -> float:
    """Return the seconds from *cancel* until many threads have returned."""
    token, there = CancelToken(), threading.Semaphore(0)

    def note(phase: str) -> None:
        if phase == "stream":
            there.release()

    threads = [threading.Thread(target=work, args=(token, note)) for _ in range(MANY)]
    for thread in threads:
        thread.start()
    for _ in threads:
        there.acquire()
    threading.Event().wait(1.0)  # those by hand do not say when they are there
    begin = time.perf_counter()
    cancel(token)
    for thread in threads:
        thread.join()
    return time.perf_counter() - begin
