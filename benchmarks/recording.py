"""What it costs to record a run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.agent_floor import add
from benchmarks.agent_loop import process_cpu
from benchmarks.agent_server import agent_server
from benchmarks.measure import Row, per_call, side_by_side
from syncagent import Agent
from syncagent.models import OpenAIChat
from syncagent.testing import ScriptedModel
from syncagent.transport import close_idle

#: Pieces of text of a run without a network, and tool rounds of one with it.
PIECES = 5_000
ROUNDS = 50


def rows() -> Iterator[Row]:
    """Measure everything, one row after the other."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        yield event(path)
        yield delta(path)
        yield tool_round(path)
    close_idle()


def scripted() -> Agent:
    return Agent(ScriptedModel(["x" * PIECES], piece=1))


def event(path: Path) -> Row:
    """CPU that recording adds to an event, against writing the same line."""
    scripted().run("go", record=path)
    lines = path.read_bytes().splitlines(keepends=True)
    line = next(line for line in lines if b"text_delta" in line)

    def added() -> float:
        recorded = process_cpu(lambda: scripted().run("go", record=path))
        return (recorded - process_cpu(lambda: scripted().run("go"))) / PIECES

    def floor() -> float:
        with path.open("wb") as file:
            return per_call(lambda: file.write(line), PIECES)

    value, base = side_by_side(added, floor)
    return Row(
        "CPU that recording adds to an event",
        "file.write() of the same line, buffered",
        value * 1e6,
        base * 1e6,
        "us",
        most=5.0,
    )


def delta(path: Path) -> Row:
    """CPU of a piece of text that costs nothing else: the worst case."""
    value, base = side_by_side(
        lambda: process_cpu(lambda: scripted().run("go", record=path)),
        lambda: process_cpu(lambda: scripted().run("go")),
    )
    return Row(
        "CPU of a piece of scripted text, recorded",
        "the same run, unrecorded",
        value / PIECES * 1e6,
        base / PIECES * 1e6,
        "us",
        limit=3.0,
    )


def tool_round(path: Path) -> Row:
    """CPU of a tool round over a socket, which is what runs are made of."""
    with agent_server() as server:
        url = f"{server}/loop-{ROUNDS}/v1"
        model = OpenAIChat("fake", base_url=url, api_key="none")

        def run(**settings: Path) -> None:
            Agent(model, tools=[add]).run("add", **settings)

        run()
        value, base = side_by_side(
            lambda: process_cpu(lambda: run(record=path)), lambda: process_cpu(run)
        )
    return Row(
        "CPU of a tool round over a socket, recorded",
        "the same run, unrecorded",
        value / ROUNDS * 1e6,
        base / ROUNDS * 1e6,
        "us",
        limit=1.5,
    )
