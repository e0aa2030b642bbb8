"""A limiter and a budget that never limit, and a storm of refusals."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

from benchmarks.measure import Row, per_call, side_by_side
from syncagent import Agent, Budget, CancelToken, Limiter, run_many
from syncagent.models import OpenAIChat
from syncagent.testing import FakeServer, ScriptedModel, Status, say
from syncagent.usage import Usage

#: Microseconds that a request may spend in a limiter that does not limit.
LIMITER: Final = 2.0
#: Requests for each one that is needed, in a storm of refusals.
STORM: Final = 1.1
#: How much more a run may cost with a budget.
BUDGET: Final = 1.3
KEY: Final = ("http://a", "m")
NUMBER: Final = 2000


def rows() -> Iterator[Row]:
    """Measure the limiter alone, a run with a budget, and the storm."""
    limiter, token = Limiter(), CancelToken()
    usage = Usage(10, 5)

    def through() -> None:
        admission = limiter.admission(KEY, 100)
        admission.enter(token)
        admission.head(200, {})
        admission.leave()
        admission.settle(usage)

    value = min(per_call(through, NUMBER) for _ in range(9))
    yield Row(
        "a request through a limiter that does not limit",
        "the limit of 2 us",
        value * 1e6,
        LIMITER,
        "us",
        1.0,
    )
    value, floor = side_by_side(
        lambda: per_call(run_with(Budget(tokens=10**12)), 200),
        lambda: per_call(run_with(None), 200),
        15,
    )
    yield Row("a run with a budget", "without", value * 1e6, floor * 1e6, "us", BUDGET)
    for runs in (50, 200):
        sent = statistics.median(storm(runs) for _ in range(5))
        needed = runs
        yield Row(
            f"requests in a storm, 50 threads, {runs} runs",
            "requests that are needed",
            sent,
            needed,
            "",
            STORM,
        )


def run_with(budget: Budget | None) -> Any:
    """Return a function that makes a run of one turn."""
    model = ScriptedModel(lambda messages: "ok")
    return lambda: Agent(model, budget=budget).run("go")


def storm(runs: int) -> int:
    """Return how many requests are sent until all runs have succeeded.

    The server has room for 12 requests in a quarter of a second, a quarter of what 50
    threads send at once, and names the wait.
    """
    begin, used, lock = [0.0], [0], threading.Lock()

    def respond(request: Any) -> Any:
        with lock:
            now = time.monotonic()
            if now - begin[0] >= 0.25:
                begin[0], used[0] = now, 0
            used[0] += 1
            if used[0] <= 12:
                return "Hello."
            wait = {"retry-after-ms": f"{(begin[0] + 0.252 - now) * 1000:.0f}"}
        return say("no", acts=[Status(429, "slow down", wait)])

    with FakeServer(respond) as server:
        model = OpenAIChat(
            "any", base_url=server.base_url, api_key="none", limiter=Limiter()
        )
        batch = run_many(Agent(model), ["go"] * runs, width=50)
        assert len(batch.results()) == runs  # none has failed
        return len(server.requests)
