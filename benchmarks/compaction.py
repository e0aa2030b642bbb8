"""Five hundred tool rounds with compaction, and a run that does not use it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from benchmarks.measure import Row, side_by_side
from syncagent import Agent, ClearResults, Summarize, tool
from syncagent.compaction.sizes import estimate
from syncagent.messages import Message, ToolMessage
from syncagent.testing import ScriptedModel, call, say
from syncagent.usage import Usage

#: The model's context window, in tokens.
WINDOW: Final = 16_000
ROUNDS: Final = 500
#: How much more a late round may cost than an early one.
FLAT: Final = 1.3
#: How much more a round may cost with a compaction that has nothing to do.
IDLE: Final = 1.25


@tool
def look(number: int) -> str:
    """Look something up."""
    return f"result {number} " * 60


class Script:
    """Take so many rounds, and note the time of each."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.times: list[float] = []

    def __call__(self, messages: Sequence[Message]) -> Any:
        text = getattr(messages[-1].content[-1], "text", "")
        if text.startswith("<conversation>"):
            return say("A record of the work.", usage=Usage(estimate(messages), 9))
        self.times.append(time.perf_counter())
        # The script must cost the same in every round: it looks at the end only.
        number = len(self.times)
        if number > self.rounds:
            return "Done."
        usage = Usage(self.size(messages), 9)
        return say(call("look", {"number": number}), usage=usage)

    def size(self, messages: Sequence[Message]) -> int:
        """Return the size of the request as a provider would report it."""
        return estimate(messages)


def rows() -> Iterator[Row]:
    """Measure late rounds against early ones, and an idle compaction."""
    value, floor = late_and_early()
    yield Row(
        f"a round with compaction, the last 100 of {ROUNDS}",
        "rounds 50 to 150",
        value * 1e6,
        floor * 1e6,
        "us",
        FLAT,
    )
    value, floor = side_by_side(run_of(100, idle=True), run_of(100, idle=False), 15)
    yield Row(
        "a round, with a compaction that is never due",
        "without one",
        value * 1e4,
        floor * 1e4,
        "us",
        IDLE,
    )


def late_and_early() -> tuple[float, float]:
    """Return the mean time of a late round and of an early one, compactions included.

    The median of seven runs of each.
    """
    late, early = [], []
    for _ in range(7):
        script = Script(ROUNDS)
        agent = Agent(
            ScriptedModel(script, piece=200, context_window=WINDOW),
            tools=[look],
            compaction=[ClearResults(), Summarize()],
        )
        result = agent.run("Find out everything.")
        assert result.compactions > 5
        assert len(result.tool_outcomes) == ROUNDS
        times = script.times
        early.append((times[150] - times[50]) / 100)
        late.append((times[ROUNDS] - times[ROUNDS - 100]) / 100)
    return statistics.median(late), statistics.median(early)


def run_of(rounds: int, *, idle: bool) -> Callable[[], float]:
    """Return a function that makes a run and returns its seconds."""

    class Plain(Script):
        def size(self, messages: Sequence[Message]) -> int:
            return 1000 + len(messages)

    def once() -> float:
        steps = [ClearResults(), Summarize()] if idle else None
        model = ScriptedModel(Plain(rounds), piece=200, context_window=1_000_000)
        agent = Agent(model, tools=[look], compaction=steps)
        begin = time.perf_counter()
        result = agent.run("Find out everything.")
        assert isinstance(result.messages[-2], ToolMessage)
        return time.perf_counter() - begin

    return once
