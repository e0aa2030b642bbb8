"""``run_many()`` against a ThreadPoolExecutor over ``agent.run()``, written by hand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from requests.structures import CaseInsensitiveDict

from benchmarks.measure import Row, compare_calls, side_by_side
from syncagent import Agent, Budget, CancelToken, Limiter, run_many
from syncagent.models import OpenAIChat
from syncagent.options import Options
from syncagent.testing import Delay, FakeServer, ScriptedModel, Send, Status, say

#: How many times the pool written by hand it may take.
LIMIT: Final = 1.1


def rows() -> Iterator[Row]:
    """Measure instant responses, and ones that a server paces."""
    instant = Agent(ScriptedModel(lambda messages: "Hello.", piece=100))
    yield compare("run_many, 400 instant runs, width 8", instant, 400, 8)
    paced = say("Hello.", acts=[Delay(0.05), Send()])
    with FakeServer(lambda request: paced) as server:
        model = OpenAIChat("fake", base_url=server.base_url, api_key="none")
        yield compare("run_many, 200 paced runs, width 20", Agent(model), 200, 20)

    yield idle_limiter()
    yield from used_limiters()
    yield idle_budget()
    yield storm(50, 10)


#: The headers of a response without and with limits of the provider.
PLAIN: Final = CaseInsensitiveDict(
    {
        "Content-Type": "text/event-stream",
        "Transfer-Encoding": "chunked",
        "Date": "Wed, 18 Nov 2026 20:00:00 GMT",
        **{f"X-Header-{number}": "value" for number in range(12)},
    }
)
LIMITED: Final = CaseInsensitiveDict(
    {
        **PLAIN,
        "x-ratelimit-limit-requests": "500000",
        "x-ratelimit-remaining-requests": "499999",
        "x-ratelimit-reset-requests": "1ms",
        "x-ratelimit-limit-tokens": "500000000",
        "x-ratelimit-remaining-tokens": "499999999",
        "x-ratelimit-reset-tokens": "1ms",
    }
)


def passing(limiter: Limiter, headers: Any = PLAIN) -> Callable[[], object]:
    """Return a function that takes one request through a limiter."""
    model = ScriptedModel(["x"])
    options, token = Options(), CancelToken()

    def one() -> None:
        passage = limiter.passage(model, 100, options)
        passage.enter(token, None)
        passage.begun(headers)
        passage.leave()

    return one


def idle_limiter() -> Row:
    """Measure a limiter that does not limit: the promise is 2 µs.

    The fastest of many short samples: others use the machine, too.
    """
    number = range(2_000)

    def fastest(function: Callable[[], object]) -> float:
        work = timed(lambda: [None for _ in number if function()])
        return min(work() for _ in range(60)) / len(number)

    value, floor = fastest(passing(Limiter())), fastest(lambda: None)
    name = "a request through a Limiter that does not limit"
    return Row(name, "a call of a function", value * 1e6, floor * 1e6, "µs", most=2.0)


def used_limiters() -> Iterator[Row]:
    """Measure limiters that count, where nobody has to wait."""
    floor = passing(Limiter())
    many = 10**9
    for name, limiter, headers in (
        ("the same with headers of the provider", Limiter(), LIMITED),
        ("the same with concurrent=", Limiter(concurrent=many), PLAIN),
    ):
        one = passing(limiter, headers)
        yield compare_calls(name, one, "without", floor, number=5_000)


def idle_budget() -> Row:
    """Measure a run under a budget that is not used up."""
    agent = Agent(ScriptedModel(lambda messages: "Hello.", piece=100))
    budget = Budget(tokens=10**12)
    return compare_calls(
        "a run under a Budget",
        lambda: agent.fork().run("go", budget=budget),
        "without",
        lambda: agent.fork().run("go"),
        number=500,
    )


def storm(threads: int, each: int) -> Row:
    """Count the requests of a storm against a server that has a rate."""
    rate, burst = 100.0, 12.0
    level, at, lock = [burst], [time.monotonic()], threading.Lock()

    def respond(request: object) -> Any:
        with lock:
            now = time.monotonic()
            level[0] = min(burst, level[0] + (now - at[0]) * rate)
            at[0] = now
            if level[0] >= 1:
                level[0] -= 1
                return say("Hello.")
            wait = f"{int((1 - level[0]) / rate * 1000) + 1}"
        return say("", acts=[Status(429, "no", {"retry-after-ms": wait})])

    needed = threads * each
    with FakeServer(respond) as server:
        model = OpenAIChat(
            "fake", base_url=server.base_url, api_key="none", limiter=Limiter()
        )
        run_many(Agent(model), ["go"] * needed, width=threads).results()
        sent = len(server.requests)
    name = f"a storm of {threads} threads, {needed} runs, 100/s allowed"
    return Row(name, "requests that are needed", sent, needed, "requests", LIMIT)


def compare(name: str, agent: Agent, number: int, width: int) -> Row:
    """Measure both, in turns."""
    prompts = ["go"] * number

    def by_hand() -> None:
        with ThreadPoolExecutor(width) as pool:
            for _ in pool.map(lambda prompt: agent.fork().run(prompt), prompts):
                pass

    def ours() -> None:
        for _ in run_many(agent, prompts, width=width):
            pass

    value, floor = side_by_side(timed(ours), timed(by_hand), 9)
    return Row(name, "ThreadPoolExecutor", value * 1e3, floor * 1e3, "ms", LIMIT)


def timed(work: Callable[[], Any]) -> Callable[[], float]:
    """Return a function that does *work* and returns the seconds it takes."""

    def run() -> float:
        begin = time.perf_counter()
        work()
        return time.perf_counter() - begin

    return run
