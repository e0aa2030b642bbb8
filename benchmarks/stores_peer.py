"""Another process that has a store open.

::

    python -m benchmarks.stores_peer ROLE URL [LEASE]

It says when it is ready, then does what each line of its standard input names, and ends
with it. Times are those of the monotonic clock, which all processes share.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from syncagent import Agent
from syncagent.events import TextDelta
from syncagent.stores import RunStore
from syncagent.testing import Gate, ScriptedModel

#: How the floor in PostgreSQL cancels: one statement, as a person writes it.
CANCEL: Final = (
    "UPDATE floor SET cancel = 'stop' WHERE id = %s RETURNING pg_notify('floor', id)"
)


class Peer:
    """The other process, as this one sees it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.pid = process.pid
        self._process = process

    def tell(self, line: str) -> None:
        """Have it do what *line* names."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        """Return the next line that it prints."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def ask(self, line: str) -> str:
        """Have it do what *line* names; return what it prints."""
        self.tell(line)
        return self.hear()


@contextmanager
def peer(role: str, url: str, *options: object) -> Iterator[Peer]:
    """Run another process until the end of the block."""
    command = [sys.executable, "-m", "benchmarks.stores_peer", role, url]
    with subprocess.Popen(
        [*command, *map(str, options)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        one = Peer(process)
        assert one.hear() == "ready"
        try:
            yield one
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(20)


# -- in that process ---------------------------------------------------------------


def lines(do: Callable[[str], object]) -> None:
    say("ready")
    for line in sys.stdin:
        do(line.strip())


def say(*words: object) -> None:
    print(*words, flush=True)


def cancel(url: str) -> None:
    """Cancel the runs that are named, and say when that began."""
    with RunStore(url) as store:
        store.open()

        def cancel_one(id: str) -> None:
            begin = time.perf_counter()
            receipt = store.cancel(id)
            end = time.perf_counter()
            assert receipt
            say(begin, end)

        lines(cancel_one)


def cancel_by_hand(url: str) -> None:
    """The same with psycopg alone."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:

        def cancel_one(id: str) -> None:
            begin = time.perf_counter()
            assert connection.execute(CANCEL, (id,)).fetchone()
            say(begin, time.perf_counter())

        lines(cancel_one)


def follow(url: str) -> None:
    """Follow a run; say when each piece of its text was there."""
    with RunStore(url) as store:

        def tell(id: str) -> None:
            with store.events(id) as events:
                say("following")
                for event in events:
                    if isinstance(event, TextDelta):
                        say(time.perf_counter(), event.text)
            say("over")

        lines(tell)


def work(url: str, lease: float) -> None:
    """Work on runs that never end; say which have begun."""

    def make_agent(run: Any) -> Agent:
        gate = Gate()

        def announce() -> None:
            gate.wait_reached()
            say(run.id)

        threading.Thread(target=announce, daemon=True).start()
        return Agent(ScriptedModel([gate, "never"]))

    store = RunStore(url, make_agent, lease=lease)
    lines(lambda _: say(store.submit("go")))
    os._exit(0)


ROLES: Final[dict[str, Callable[..., None]]] = {
    "cancel": cancel,
    "cancel by hand": cancel_by_hand,
    "follow": follow,
    "work": work,
}


def main() -> None:
    role, url, *options = sys.argv[1:]
    ROLES[role](url, *map(float, options))


if __name__ == "__main__":
    main()
