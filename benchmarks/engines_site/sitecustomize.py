"""Note when a run is submitted, handed to an engine, and begun, in any process.

Python imports this module by its name when it starts. So the recipes of the tests are
measured as they are.
"""

from __future__ import annotations

import os
import time
from typing import Any

from syncagent.stores import RunStore


def note(what: str, id: str, at: float | None = None) -> None:
    """Append a line to the ledger: what happened to a run, and when."""
    now = time.perf_counter() if at is None else at
    path = os.environ["BENCHMARK_LEDGER"]
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)
    os.write(descriptor, f"{what} {id} {now}\n".encode())
    os.close(descriptor)


_init, _submit, _work = RunStore.__init__, RunStore.submit, RunStore.work


def init(
    self: RunStore, url: Any, make_agent: Any = None, enqueue: Any = None, **more: Any
) -> None:
    def made(run: Any) -> Any:
        note("make_agent", run.id)
        return make_agent(run)

    def sent(run: Any) -> Any:
        note("enqueue", run.id)
        return enqueue(run)

    _init(self, url, make_agent and made, enqueue and sent, **more)


def submit(self: RunStore, *args: Any, **settings: Any) -> str:
    began = time.perf_counter()
    id = _submit(self, *args, **settings)
    note("submit", id, began)
    return id


def work(self: RunStore, id: str) -> Any:
    note("work", id)
    return _work(self, id)


# The tests set the lease in the default of this function.
init.__kwdefaults__ = _init.__kwdefaults__  # type: ignore[assignment]
RunStore.__init__ = init  # type: ignore[method-assign]
RunStore.submit = submit  # type: ignore[method-assign,assignment]
RunStore.work = work  # type: ignore[method-assign]
