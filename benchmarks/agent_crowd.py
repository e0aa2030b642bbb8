"""Many agents at once, each on its thread, against as many loops written by hand.

::

    python -m benchmarks.agent_crowd ours URL

prints the KiB by which this process has grown, with all streams open.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import requests
from requests.adapters import HTTPAdapter

from benchmarks.agent_floor import NAME, HandWritten
from benchmarks.agent_server import agent_server
from benchmarks.measure import Row, side_by_side
from syncagent import Agent
from syncagent.models import OpenAIChat
from syncagent.transport import close_idle

#: How many at once, and how many more, which have only to come to an end.
CROWD: Final = 200
MOST: Final = 1000
EVENTS: Final = 300
#: How often memory is measured, in a new process each time.
PROCESSES: Final = 5


def rows() -> Iterator[Row]:
    """Measure everything, one row after the other."""
    with agent_server() as server:
        yield from together(server, CROWD, EVENTS, 7, wall=1.15, cpu=1.15)
        yield memory(f"{server}/stall-{EVENTS}/v1")
        yield from together(server, MOST, 30, 7)


class Side:
    """Runs of one kind, with the connection pool that they share."""

    def __init__(self, kind: str, base_url: str, number: int) -> None:
        self._kind = kind
        self._base_url = base_url
        self._number = number
        self._session = requests.Session()
        self._session.mount("http://", HTTPAdapter(pool_maxsize=number))
        self._model = OpenAIChat("fake", base_url=base_url, api_key="none")

    def one(self) -> str:
        """Make one run, with all that is made for it."""
        if self._kind == "ours":
            return Agent(self._model).run("go").text
        return HandWritten(self._session, self._base_url, [], {}).run("go")

    def all(self, text: str) -> tuple[float, float]:
        """Make all runs at once; return the seconds they take, and compute."""
        said: list[str] = []
        gate = threading.Barrier(self._number + 1)

        def work() -> None:
            gate.wait()
            said.append(self.one())

        threads = start(self._number, work)
        begin, computed = time.perf_counter(), time.process_time()
        gate.wait()
        for thread in threads:
            thread.join()
        taken = time.perf_counter() - begin, time.process_time() - computed
        assert said == [text] * self._number
        return taken

    def close(self) -> None:
        """Let go of the connections."""
        self._session.close()
        close_idle()


def start(number: int, work: Callable[[], object]) -> list[threading.Thread]:
    threads = [threading.Thread(target=work, daemon=True) for _ in range(number)]
    for thread in threads:
        thread.start()
    return threads


def together(
    server: str,
    number: int,
    events: int,
    times: int,
    wall: float | None = None,
    cpu: float | None = None,
) -> Iterator[Row]:
    """Runs at the same moment: until all have ended, and CPU of this process."""
    base_url, text = f"{server}/say-{events}/v1", "token" * events
    walls: dict[str, list[float]] = {"ours": [], "floor": []}
    cpus: dict[str, list[float]] = {"ours": [], "floor": []}
    sides = {kind: Side(kind, base_url, number) for kind in walls}

    def measure(kind: str) -> float:
        seconds, computed = sides[kind].all(text)
        walls[kind].append(seconds)
        cpus[kind].append(computed)
        return seconds

    for kind in sides:
        sides[kind].all(text)
    side_by_side(lambda: measure("ours"), lambda: measure("floor"), rounds=times)
    for side in sides.values():
        side.close()
    for name, taken, limit in (("time", walls, wall), ("CPU", cpus, cpu)):
        value, floor = (statistics.median(taken[kind]) for kind in ("ours", "floor"))
        yield Row(
            f"{number:,} runs at once, {events} events each, {name}",
            NAME,
            value * 1e3,
            floor * 1e3,
            "ms",
            limit=limit,
            note=f"{spread(taken['ours'])}, of the floor {spread(taken['floor'])}",
        )


def spread(seconds: list[float]) -> str:
    return f"{min(seconds) * 1e3:.0f} to {max(seconds) * 1e3:.0f} ms"


# -- memory ------------------------------------------------------------------------


def memory(url: str) -> Row:
    """What a process grows by, with all streams open and most of their text there."""
    grown: dict[str, list[float]] = {"ours": [], "floor": []}
    for _ in range(PROCESSES):
        for kind, sizes in grown.items():
            command = [sys.executable, "-m", "benchmarks.agent_crowd", kind, url]
            said = subprocess.run(command, capture_output=True, text=True, check=True)
            sizes.append(float(said.stdout))
    return Row(
        f"resident memory of each of {CROWD} open runs",
        NAME,
        statistics.median(grown["ours"]) / CROWD,
        statistics.median(grown["floor"]) / CROWD,
        "KiB",
        limit=1.3,
        note=f"{min(grown['ours']) / CROWD:.0f} to {max(grown['ours']) / CROWD:.0f}",
    )


def resident() -> float:
    """Return the KiB of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def main() -> None:
    kind, url = sys.argv[1:]
    warm = Side(kind, url.replace("stall", "say"), 1)
    warm.all("token" * EVENTS)
    side = Side(kind, url, CROWD)
    before = resident()
    start(CROWD, side.one)
    pause, size = threading.Event(), 0.0
    while not pause.wait(1.0) and resident() > size:  # until all has come
        size = resident()
    print(size - before, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
