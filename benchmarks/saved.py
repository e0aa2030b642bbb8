"""What a saved state costs, and a driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from benchmarks.agent_loop import process_cpu
from benchmarks.agent_tools import echo
from benchmarks.measure import Row, per_call, side_by_side
from benchmarks.models import messages
from syncagent import Agent
from syncagent.driver import Finished
from syncagent.messages import Message
from syncagent.testing import ScriptedModel, call, say

#: How many messages there are.
SIZES: Final = (10, 100, 1000)
#: How many tool rounds a driver is pulled through.
ROUNDS: Final = 200

By = Callable[[], object]


def rows() -> Iterator[Row]:
    """Measure everything, one row after the other."""
    for number in SIZES:
        yield from saving(number)
    yield driving()


def saving(number: int) -> Iterator[Row]:
    """A conversation as JSON, there and back, against msgspec alone."""
    said: tuple[Message, ...] = tuple(messages(number))
    model = ScriptedModel(["ok"])
    agent = Agent(model, messages=said)
    state, plain = agent.save(), msgspec.json.encode(said)
    decoder = msgspec.json.Decoder(tuple[Message, ...])
    sides: list[tuple[str, By, str, By]] = [
        ("save()", agent.save, "encode", lambda: msgspec.json.encode(said)),
        (
            "Agent.load()",
            lambda: Agent.load(state, model),
            "decode",
            lambda: decoder.decode(plain),
        ),
    ]
    calls = 20_000 // number
    for name, ours, floor_name, theirs in sides:
        value, floor = side_by_side(
            lambda ours=ours: per_call(ours, calls),
            lambda theirs=theirs: per_call(theirs, calls),
        )
        yield Row(
            f"{name} of {len(said):,} messages",
            f"msgspec, {floor_name} them",
            value * 1e6,
            floor * 1e6,
            "us",
        )


def driving() -> Row:
    """CPU of a round of tools: pulled along by a driver, and by run()."""

    def agent() -> Agent:
        wishes = [say(call("echo", {"value": 1}, f"c{n}")) for n in range(ROUNDS)]
        return Agent(ScriptedModel([*wishes, "ok"]), tools=[echo])

    def ours() -> None:
        with agent().drive("go") as driver:
            steps = 0
            while not isinstance(driver.next(), Finished):
                steps += 1
        assert steps == ROUNDS

    def theirs() -> None:
        assert len(agent().run("go").tool_outcomes) == ROUNDS

    value, floor = side_by_side(lambda: process_cpu(ours), lambda: process_cpu(theirs))
    return Row(
        f"CPU of a round, driver.next(), of {ROUNDS}",
        "run()",
        value / ROUNDS * 1e6,
        floor / ROUNDS * 1e6,
        "us",
    )
