"""A worker of a store in a process of its own, and runs that no worker has."""

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from support.commands import LIMIT, environment

from syncagent.stores import RunStore

WORKER = Path(__file__).with_name("store_worker.py")


class Worker:
    """A process that works on the runs of a store."""

    def __init__(self, url, server):
        self._process = subprocess.Popen(
            [sys.executable, WORKER, url],
            env=environment(server),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.send_signal = self._process.send_signal
        assert self._process.stdout.readline() == "ready\n"

    def submit(self, prompt, **options):
        """Have it begin a run; return the id."""
        line = json.dumps({"prompt": prompt, **options})
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def close(self):
        self._process.kill()
        self._process.communicate(timeout=LIMIT)


@contextmanager
def working(url, server):
    """Yield a worker."""
    worker = Worker(url, server)
    try:
        yield worker
    finally:
        worker.close()


def submit(url, prompt="Charge all three.", **options):
    """Add a run that no worker takes; return its id."""
    with RunStore(url, enqueue=lambda run: None) as store:
        return store.submit(prompt, **options)


def get(url, id):
    """Return a run."""
    with RunStore(url) as store:
        return store.get(id)
