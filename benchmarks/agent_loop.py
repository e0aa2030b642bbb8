"""What a tool round costs, against the same loop written by hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import requests

from benchmarks.agent_floor import NAME, HandWritten, add
from benchmarks.agent_server import agent_server
from benchmarks.measure import Row, side_by_side
from syncagent import Agent
from syncagent.models import OpenAIChat
from syncagent.transport import close_idle

#: So many rounds, measured so often.
ROUNDS = {50: 15, 200: 7, 800: 5}


def rows() -> Iterator[Row]:
    """Measure everything, one row after the other."""
    with agent_server() as server, requests.Session() as session:
        growth = []
        for rounds, times in ROUNDS.items():
            row = tool_loop(f"{server}/loop-{rounds}/v1", session, rounds, times)
            growth.append(row)
            yield row
        yield Row(
            "CPU of a round, of 800 against one of 50",
            NAME,
            growth[-1].value / growth[0].value,
            growth[-1].floor / growth[0].floor,
            "x",
            limit=1.0,
        )
    close_idle()


def tool_loop(base_url: str, session: requests.Session, rounds: int, times: int) -> Row:
    """CPU of this process for a round: one answer, one call of a tool."""
    model = OpenAIChat("fake", base_url=base_url, api_key="none")

    def ours() -> None:
        agent = Agent(model, tools=[add])
        result = agent.run("add")
        assert result.turns == rounds + 1
        assert result.text == "token" * 3

    def theirs() -> None:
        floor = HandWritten(session, base_url)
        assert floor.run("add") == "token" * 3
        assert len(floor.messages) == 2 * rounds + 2

    ours()
    theirs()
    seen: list[float] = []

    def noted() -> float:
        seen.append(process_cpu(ours))
        return seen[-1]

    value, floor = side_by_side(noted, lambda: process_cpu(theirs), rounds=times)
    low, high = (edge(seen) / rounds * 1e6 for edge in (min, max))
    return Row(
        f"CPU of a round, of {rounds}",
        NAME,
        value / rounds * 1e6,
        floor / rounds * 1e6,
        "us",
        limit=1.2,
        note=f"{low:.0f} to {high:.0f} us",
    )


def process_cpu(work: Callable[[], object]) -> float:
    """Return the seconds that all threads of this process compute for *work*."""
    begin = time.process_time()
    work()
    return time.process_time() - begin
