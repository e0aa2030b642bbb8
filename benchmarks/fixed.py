"""What is paid once: a run with a short response, a tool call of each kind, start()."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any, Final

import requests

from benchmarks.agent_floor import NAME, HandWritten
from benchmarks.agent_server import agent_server
from benchmarks.agent_tools import echo
from benchmarks.measure import Row, per_call, side_by_side
from benchmarks.transport import cpu
from syncagent import Agent, tool
from syncagent.models import OpenAIChat
from syncagent.testing import ScriptedModel, call, say
from syncagent.tools.context import ToolContext
from syncagent.tools.processes import pool
from syncagent.transport import close_idle

RUNS: Final = 100
CALLS: Final = 50


def rows() -> Iterator[Row]:
    """Measure everything, one row after the other."""
    yield from short_runs()
    yield from tool_calls()
    yield from handles()
    pool.close_idle()
    close_idle()


def short_runs() -> Iterator[Row]:
    """CPU of a run with one short response, over a connection that is kept."""
    with agent_server() as server:
        base_url, session = f"{server}/say-1/v1", requests.Session()
        model = OpenAIChat("fake", base_url=base_url, api_key="none")
        same = Agent(model)

        def by_hand() -> None:
            for _ in range(RUNS):
                HandWritten(session, base_url, [], {}).run("go")

        def new_agents() -> None:
            for _ in range(RUNS):
                Agent(model).run("go")

        def one_agent() -> None:
            for _ in range(RUNS):
                same.fork().run("go")

        for name, ours in (("a new agent", new_agents), ("a fork", one_agent)):
            value, floor = side_by_side(
                lambda ours=ours: cpu(ours) / RUNS, lambda: cpu(by_hand) / RUNS
            )
            yield Row(
                f"{name}, one short response, CPU",
                NAME,
                value * 1e6,
                floor * 1e6,
                "us",
                limit=1.2,
            )
        session.close()


def run_true(ctx: ToolContext) -> str:
    """Run a program that does nothing."""
    return str(ctx.run_process(["true"]).exit_code)


def tool_calls() -> Iterator[Row]:
    """What a call of each kind adds to a run, against the least that does the same."""
    kinds: list[tuple[str, Any, str, Callable[[], object]]] = [
        ("plain", echo, "the function", lambda: echo(1)),
        ("on a thread", tool(isolation="thread")(echo), "a thread", in_thread),
        (
            "that may be abandoned",
            tool(on_cancel="abandon")(echo),
            "a thread",
            in_thread,
        ),
        ("that runs a program", tool(run_true), "subprocess.run()", in_program),
    ]
    for name, made, floor_name, least in kinds:
        value, floor = side_by_side(
            lambda made=made: (calls(made, CALLS) - calls(made, 0)) / CALLS,
            lambda least=least: per_call(least, CALLS),
            rounds=9,
        )
        yield Row(f"a tool call {name}", floor_name, value * 1e6, floor * 1e6, "us")


def calls(made: Any, number: int) -> float:
    """Return the seconds of a run with so many calls of a tool, in one round."""
    name = getattr(made, "name", None) or made.__name__
    arguments = {} if name == "run_true" else {"value": 1}
    wishes = [call(name, arguments) for _ in range(number)]
    script = [say(*wishes), say("ok")] if wishes else [say("ok"), say("ok")]
    agent = Agent(ScriptedModel(script), tools=[made])
    if not number:
        agent.run("go")
    begin = time.perf_counter()
    agent.run("go")
    return time.perf_counter() - begin


def in_thread() -> None:
    done: SimpleQueue[int] = SimpleQueue()
    threading.Thread(target=lambda: done.put(echo(1)), daemon=True).start()
    done.get()


def in_program() -> None:
    subprocess.run(["true"], check=True, capture_output=True)


def handles() -> Iterator[Row]:
    """A run in the background, and its events, against a thread and a queue."""

    def agents() -> list[Agent]:
        return [Agent(ScriptedModel([say("ok")])) for _ in range(RUNS)]

    def in_foreground() -> float:
        made = agents()
        begin = time.perf_counter()
        for agent in made:
            in_a_thread(agent)
        return (time.perf_counter() - begin) / RUNS

    def in_a_thread(agent: Agent) -> None:
        done: SimpleQueue[object] = SimpleQueue()
        threading.Thread(target=lambda: done.put(agent.run("go")), daemon=True).start()
        done.get()

    def started(follow: bool) -> float:
        made = agents()
        begin = time.perf_counter()
        for agent in made:
            handle = agent.start("go")
            if follow:
                for _ in handle.subscribe():
                    pass
            handle.result()
        return (time.perf_counter() - begin) / RUNS

    floor_name = "agent.run() in a thread, and a queue"
    for name, follow in (("start()", False), ("start() and subscribe()", True)):
        value, floor = side_by_side(
            lambda follow=follow: started(follow), in_foreground, rounds=9
        )
        yield Row(f"{name}, one turn", floor_name, value * 1e6, floor * 1e6, "us")
