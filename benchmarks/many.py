"""``run_many()`` against a ThreadPoolExecutor over ``agent.run()``, written by hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from benchmarks.measure import Row, side_by_side
from syncagent import Agent, run_many
from syncagent.models import OpenAIChat
from syncagent.testing import Delay, FakeServer, ScriptedModel, Send, say

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
