"""What an agent costs: made, asked, forked; its events, turns and tool processes."""

from __future__ import annotations

import gc
import multiprocessing
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any, Final

from benchmarks.agent_tools import echo
from benchmarks.measure import Row, per_call, side_by_side
from benchmarks.models import DELTAS, messages, speaker
from benchmarks.transport import cpu
from syncagent import Agent, CancelToken, tool
from syncagent.events import TextDelta
from syncagent.models import OpenAIChat
from syncagent.testing import ScriptedModel, call, say
from syncagent.tools.processes import call as workers
from syncagent.tools.processes import pool
from syncagent.transcript import Transcript
from syncagent.transport import close_idle

AGENTS: Final = 1000
TOOLS: Final = 20


def rows() -> Iterator[Row]:
    """Measure everything, one row after the other."""
    yield from making()
    yield idle_memory()
    yield forking()
    yield from events()
    yield from turns()
    yield from processes()


# -- making ------------------------------------------------------------------------


class Bare:
    """The least that an agent by hand has: a conversation, tools, and a way to stop."""

    def __init__(self, model: str, tools: list[Callable[..., Any]]) -> None:
        self.model = model
        self.tools = {each.__name__: each for each in tools}
        self.messages: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        self.stopped = threading.Event()


def make_function(number: int) -> Callable[..., Any]:
    def function(city: str, days: int = 3, units: list[str] | None = None) -> str:
        """Tell the weather.

        :param city: where.
        :param days: how many.
        :param units: of what.
        """
        return city * days

    function.__name__ = f"weather_{number}"
    return function


def making() -> Iterator[Row]:
    """Make an agent whose tools have been seen before."""
    model = OpenAIChat("fake", base_url="http://127.0.0.1:9", api_key="none")
    functions = [make_function(number) for number in range(TOOLS)]
    for number, most in ((0, None), (TOOLS, 50.0)):
        some = functions[:number]
        Agent(model, tools=some)  # the first time, schemas are made
        value, floor = side_by_side(
            lambda some=some: per_call(lambda: Agent(model, tools=some), 2000),
            lambda some=some: per_call(lambda: Bare("fake", some), 2000),
        )
        name = f"make an agent with {number} tools"
        by_hand = "an object with list, dict, Lock, Event"
        yield Row(name, by_hand, value * 1e6, floor * 1e6, "us", most=most)


def idle_memory() -> Row:
    """Bytes of an agent that does nothing."""
    model = OpenAIChat("fake", base_url="http://127.0.0.1:9", api_key="none")
    functions = [make_function(number) for number in range(TOOLS)]

    def measure(make: Callable[[], Any]) -> float:
        make()
        gc.collect()
        tracemalloc.start()
        kept = [make() for _ in range(AGENTS)]
        used = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return used / len(kept) / 1024

    return Row(
        f"memory of an idle agent with {TOOLS} tools",
        "an object with list, dict, Lock, Event",
        measure(lambda: Agent(model, tools=functions)),
        measure(lambda: Bare("fake", functions)),
        "KiB",
    )


def forking() -> Row:
    """Fork an agent with a long conversation."""
    said = messages(1000)
    agent = Agent(ScriptedModel(), messages=said)
    value, floor = side_by_side(
        lambda: per_call(agent.fork, 200), lambda: per_call(lambda: list(said), 200)
    )
    return Row(
        "fork an agent with 1,000 messages",
        "list(messages)",
        value * 1e6,
        floor * 1e6,
        "us",
    )


# -- events and turns --------------------------------------------------------------


def events() -> Iterator[Row]:
    """CPU per event of a served stream, against the model alone."""
    with speaker() as base_url:
        model = OpenAIChat("fake", base_url=base_url, api_key="none")

        def asked() -> None:
            count = sum(type(event) is TextDelta for event in model.ask("go"))
            assert count == DELTAS

        def streamed() -> None:
            events = Agent(model).stream("go")
            count = sum(type(event) is TextDelta for event in events)
            assert count == DELTAS

        def run() -> None:
            assert len(Agent(model).run("go").text) == 5 * DELTAS

        asked()
        for name, ours in (("stream()", streamed), ("run()", run)):
            value, floor = side_by_side(
                lambda ours=ours: cpu(ours), lambda: cpu(asked), rounds=11
            )
            yield Row(
                f"an event of agent.{name}",
                "of model.ask()",
                value / DELTAS * 1e6,
                floor / DELTAS * 1e6,
                "us",
            )
    close_idle()


def turns() -> Iterator[Row]:
    """A run without a network: one turn, and two with a call of a tool between."""
    name = call("echo", {"value": 1})
    scripts: list[tuple[str, list[Any]]] = [
        ("one turn", [say("ok")]),
        ("a tool call, two turns", [say(name), say("ok")]),
    ]
    for title, script in scripts:

        def model(script: list[Any] = script) -> ScriptedModel:
            waiting = list(script)
            return ScriptedModel(lambda _: waiting.pop(0) if waiting else script[0])

        def ours(model: Any = model) -> float:
            agents = [Agent(model(), tools=[echo]) for _ in range(200)]
            return cpu(lambda: [agent.run("go") for agent in agents]) / 200

        def theirs(model: Any = model, script: list[Any] = script) -> float:
            models = [model() for _ in range(200)]
            return cpu(lambda: answer(models, len(script))) / 200

        value, floor = side_by_side(ours, theirs)
        floor_name = "model.ask() alone, and the call"
        yield Row(
            f"a scripted run, {title}", floor_name, value * 1e6, floor * 1e6, "us"
        )


def answer(models: list[ScriptedModel], number: int) -> None:
    for model in models:
        transcript = Transcript()
        for _ in range(number):
            for _ in model.ask(transcript):
                pass
            echo(1)


# -- processes ---------------------------------------------------------------------


def processes() -> Iterator[Row]:
    """A call in a warm process, and the same with all that an agent does around it."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=echo_for_ever, args=(there,), daemon=True)
    process.start()
    target = workers.find_target(echo)

    def floor() -> None:
        here.send(((1,), {}))
        assert here.recv() == 1

    tokens = [CancelToken(), CancelToken()]  # the tool's, and the one for force

    def ours() -> None:
        how: dict[str, Any] = {"context": None, "kill_on": tokens, "serve": print}
        assert workers.call(target, (1,), {}, **how) == 1

    ours()
    floor()
    value, least = side_by_side(
        lambda: per_call(ours, 300), lambda: per_call(floor, 300)
    )
    name = "a bare Pipe, there and back"
    yield Row("a call in a warm process", name, value * 1e6, least * 1e6, "us")
    value, inline = side_by_side(
        lambda: scripted_calls(tool(isolation="process")(echo)),
        lambda: scripted_calls(tool(echo)),
    )
    yield Row(
        "a tool in a warm process, by an agent",
        name,
        (value - inline) * 1e6,
        least * 1e6,
        "us",
        note="what it adds to the call of one that is in none",
    )
    here.close()
    process.join(10)
    pool.close_idle()


def echo_for_ever(there: Connection[Any, Any]) -> None:
    try:
        while True:
            args, kwargs = there.recv()
            there.send(echo(*args, **kwargs))
    except EOFError:
        pass


def scripted_calls(made: Any, number: int = 100) -> float:
    """Return the seconds that a call of a tool takes in a run with many."""
    wish, left = say(call("echo", {"value": 1})), [number]

    def script(_: Any) -> Any:
        left[0] -= 1
        return wish if left[0] >= 0 else say("ok")

    agent = Agent(ScriptedModel(script), tools=[made])
    begin = time.perf_counter()
    result = agent.run("go")
    assert len(result.tool_outcomes) == number
    return (time.perf_counter() - begin) / number
