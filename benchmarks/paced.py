"""Many runs at once whose text comes slowly, as it does from a model.

It is what a web server does all day: most threads wait, and each piece of text wakes
one of them up. ::

    python -m benchmarks.paced ours URL THREADS PIECES MILLISECONDS [AUTHORITY]

prints the seconds of CPU, the seconds in all, and the KiB that the process has grown.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import requests
import trustme
from requests.adapters import HTTPAdapter

from benchmarks.agent_crowd import resident, start
from benchmarks.agent_floor import NAME, HandWritten
from benchmarks.agent_server import agent_server
from benchmarks.measure import Row
from syncagent import Agent
from syncagent.models import OpenAIChat
from syncagent.transport import Transport

#: Threads, pieces of text for each, and milliseconds between two pieces: slower with
#: many threads, so that the machine is not the limit.
CROWDS: Final = (
    (10, 200, 10),
    (50, 200, 10),
    (200, 200, 10),
    (500, 120, 60),
    (1000, 60, 300),
)
TLS_CROWDS: Final = ((50, 200, 10), (200, 150, 20))
#: Seconds between the beginnings of two runs: requests do not all come at once.
SPREAD: Final = 0.002
#: Processes for each side, in turns.
ROUNDS: Final = 3

Figures = tuple[float, float, float]


def rows() -> Iterator[Row]:
    """Measure everything, one row after the other."""
    with agent_server() as server:
        for crowd in CROWDS:
            yield from compare(server, crowd, cpu=1.1)
    with tempfile.TemporaryDirectory() as folder:
        authority = trustme.CA()
        paths = [str(Path(folder, name)) for name in ("chain", "key", "authority")]
        issued = authority.issue_cert("127.0.0.1")
        issued.cert_chain_pems[0].write_to_path(paths[0])
        issued.private_key_pem.write_to_path(paths[1])
        authority.cert_pem.write_to_path(paths[2])
        with agent_server(*paths[:2]) as server:
            for crowd in TLS_CROWDS:
                yield from compare(server, crowd, paths[2], cpu=1.15)


def compare(
    server: str, crowd: tuple[int, int, int], *authority: str, cpu: float
) -> Iterator[Row]:
    """Measure both sides in processes of their own, in turns."""
    figures: dict[str, list[Figures]] = {"floor": [], "ours": []}
    for _ in range(ROUNDS):
        for kind in figures:
            figures[kind].append(measure(kind, server, crowd, *authority))
    threads, _, pause = crowd
    over = ", TLS" if authority else ""
    names = ("CPU", "time", "memory of each")
    units, limits = ("s", "s", "KiB"), (cpu, 1.1, 1.3)
    for index, name in enumerate(names):
        ours, floor = (
            [figure[index] for figure in figures[kind]] for kind in ("ours", "floor")
        )
        yield Row(
            f"{threads:,} runs, a delta each {pause} ms{over}: {name}",
            NAME,
            statistics.median(ours),
            statistics.median(floor),
            units[index],
            limit=limits[index],
            note=f"{min(ours):.2f} to {max(ours):.2f}, of the floor "
            f"{min(floor):.2f} to {max(floor):.2f}",
        )


def measure(
    kind: str, server: str, crowd: tuple[int, int, int], *authority: str
) -> Figures:
    """Let one side run in a new process; return CPU, time and memory of a run."""
    sizes = [str(number) for number in crowd]
    command = [sys.executable, "-m", "benchmarks.paced", kind, server, *sizes]
    printed = subprocess.run(
        [*command, *authority], capture_output=True, text=True, check=True
    ).stdout
    cpu, seconds, size = (float(word) for word in printed.split())
    return cpu, seconds, size / crowd[0]


class Crowd:
    """Threads that make runs of one kind, with a connection for each."""

    def __init__(self, kind: str, threads: int, authority: str | None) -> None:
        self._kind = kind
        self._threads = threads
        self._session = requests.Session()
        self._session.verify = authority or True
        self._session.trust_env = False  # REQUESTS_CA_BUNDLE would count instead
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_maxsize=threads))
        self._transport = Transport(verify=authority or True)

    def run(self, base_url: str, text: str) -> Figures:
        """Make all runs; return CPU once all have begun, time in all, and growth."""
        model = OpenAIChat(
            "fake", base_url=base_url, api_key="none", transport=self._transport
        )
        said: list[str] = []
        gate, never = threading.Barrier(self._threads + 1), threading.Event()

        def work() -> None:
            never.wait(gate.wait() * SPREAD)
            if self._kind == "ours":
                said.append(Agent(model).run("go").text)
            else:
                # Without a timeout: with one, each read costs a system call more.
                hand = HandWritten(self._session, base_url, [], {}, timeout=None)
                said.append(hand.run("go"))

        threads, before = start(self._threads, work), resident()
        begin = time.perf_counter()
        gate.wait()
        # What a beginning costs is measured elsewhere (benchmarks.fixed).
        never.wait(self._threads * SPREAD + 0.3)
        computed = time.process_time()
        sizes = [before]
        for thread in reversed(threads):  # the last one first: the others end with it
            while thread.is_alive():
                thread.join(0.25)
                sizes.append(resident())
        figures = time.process_time() - computed, time.perf_counter() - begin
        assert said == [text] * self._threads
        return *figures, max(sizes) - before


def main() -> None:
    kind, server, *rest = sys.argv[1:]
    threads, pieces, pause = (int(word) for word in rest[:3])
    crowd = Crowd(kind, threads, rest[3] if rest[3:] else None)
    # So slowly that there is a connection for each.
    crowd.run(f"{server}/pace-1-{threads * 2}/v1", "token")
    figures = crowd.run(f"{server}/pace-{pieces}-{pause}/v1", "token" * pieces)
    print(*figures)


if __name__ == "__main__":
    main()
