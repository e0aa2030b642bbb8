"""The types of results, as mypy --strict and pyright see them; never run."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import assert_type

from syncagent import (
    Agent,
    Driver,
    Handle,
    RunResult,
    RunStream,
    Runtime,
    ToolContext,
    llm_function,
    run_many,
    tool,
)
from syncagent.background.run_many import Batch
from syncagent.driver import Finished


class Person:
    name: str


@llm_function(model="local")
def find(text: str) -> Person:
    """Find the person."""
    raise NotImplementedError


@tool
def ask_another(ctx: ToolContext) -> str:
    found = ctx.agent(Agent("local"), "Who?", output=Person)
    assert_type(found, RunResult[Person])
    return found.output.name if found.output else "nobody"


def run(agent: Agent) -> None:
    assert_type(agent.run("x"), RunResult[None])
    assert_type(agent.run("x").output, None)
    assert_type(agent.run("x", output=Person, timeout=3), RunResult[Person])
    assert_type(agent.run("x", output=Person).output, Person | None)
    assert_type(agent.run("x", output=list[str]).output, list[str] | None)
    assert_type(agent.run("x", output=Literal["a", "b"]), RunResult[Any])
    assert_type(agent.run("x", output=Person).handle, Handle[Person] | None)


def resume(agent: Agent) -> None:
    # The run that is resumed may have had an output.
    assert_type(agent.resume({}), RunResult[Any])
    assert_type(agent.resume({}, output=Person), RunResult[Person])
    assert_type(agent.resume_stream({}, output=Person).result, RunResult[Person])


def stream(agent: Agent) -> None:
    with agent.stream("x", output=Person) as events:
        assert_type(events, RunStream[Person])
    assert_type(events.result.output, Person | None)
    assert_type(agent.stream("x").result, RunResult[None])
    assert_type(find.stream("x").result, RunResult[Person])


def start(agent: Agent, runtime: Runtime) -> None:
    handle = agent.start("x", output=Person)
    assert_type(handle, Handle[Person])
    assert_type(handle.result(5), RunResult[Person])
    assert_type(runtime.start(agent, "x", output=Person), Handle[Person])
    assert_type(find.start("x").result(5).output, Person | None)
    with agent.start("x") as other:
        assert_type(other.result().text, str)


def drive(agent: Agent) -> None:
    with agent.drive("x", output=Person) as driver:
        assert_type(driver, Driver[Person])
        step = driver.next()
        if isinstance(step, Finished):
            assert_type(step.result.output, Person | None)


def many(agent: Agent, batch: Batch[Person]) -> None:
    assert_type(run_many(agent, ["x"], output=Person, width=2), Batch[Person])
    assert_type(
        run_many([(agent, "x")], output=Person).results()[0].output, Person | None
    )
    assert_type(run_many(lambda: agent, ["x"]).results(), list[RunResult[None]])
    for outcome in batch:
        assert_type(outcome.result(), RunResult[Person])


def takes_any(result: RunResult) -> RunResult[object]:
    return result


def take_any(agent: Agent) -> RunResult[object]:
    return takes_any(agent.run("x", output=Person))
