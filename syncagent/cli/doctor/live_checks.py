"""Checks that run something: a tool process, a cancel, a model."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Final

from ...agent import Agent
from ...cancel import CancelToken
from ...events import TextDelta
from ...exceptions import SyncAgentError
from ...testing import ScriptedModel, call, say
from ...tools.tool import tool
from ..choices import choose_model, has_local_model
from ..demo.tools import count_for_ever
from ..findings import Finding
from ..plain_text import on_one_line

__all__ = ["check_cancel", "check_model", "check_processes"]

#: Seconds for a worker process to start, which takes a tenth of one.
_START_SECONDS: Final = 20.0
#: Seconds for which the endless loop may run.
_LOOP_SECONDS: Final = 0.3


@tool(isolation="process")
def worker_pid() -> int:
    """Return the id of the process."""
    return os.getpid()


def check_processes(token: CancelToken) -> Iterator[Finding]:
    """Call a tool in a process of its own.

    Cancellation: ends at once.
    """
    started = time.monotonic()
    model = ScriptedModel([say(call("worker_pid")), "done"])
    agent = Agent(model, tools=[worker_pid])
    result = agent.run("Which process?", cancel=token, timeout=_START_SECONDS)
    token.checkpoint()
    took = 1000 * (time.monotonic() - started)
    (outcome,) = result.tool_outcomes or (None,)
    if outcome is not None and outcome.outcome == "done":
        yield Finding(name="tool process", value=f"started in {took:.0f} ms")
        return
    error = "it did not start in time" if outcome is None else outcome.error
    yield Finding(
        name="tool process",
        value=on_one_line(error, 200),
        status="problem",
        advice="tools with on_cancel='kill' will not work here; may this process "
        "start others?",
    )


def check_cancel(token: CancelToken) -> Iterator[Finding]:
    """Kill an endless loop.

    Cancellation: ends at once.
    """
    model = ScriptedModel([say(call(count_for_ever.name)), "?"])
    agent = Agent(model, tools=[count_for_ever])
    result = agent.run("Count.", cancel=token, timeout=_LOOP_SECONDS)
    token.checkpoint()
    cancellation = result.cancellation
    if cancellation is not None and not result.abandoned:
        took = f"{1000 * cancellation.latency:.1f} ms"
        value = f"an endless loop ended {took} after its deadline"
        yield Finding(name="stopping", value=value)
        return
    outcomes = [tool.outcome for tool in result.tool_outcomes]
    yield Finding(
        name="stopping",
        value=f"an endless loop did not end: {outcomes}",
        status="problem",
        advice="please report this, with the whole output of syncagent doctor",
    )


def check_model(
    name: str | None, seconds: float, token: CancelToken
) -> Iterator[Finding]:
    """Send a prompt to the model called *name*, or to one that costs nothing.

    Cancellation: ends at once.

    :param seconds: how long the response may take.
    """
    if name is None:
        name = "local" if has_local_model() else "demo"
        yield Finding(
            name="paid models",
            value="not asked, because it costs money",
            status="off",
            advice="ask one with --model PROVIDER:NAME",
        )
    started = time.monotonic()
    first: float | None = None
    try:
        agent = Agent(choose_model(name)[0])
        with agent.stream("Say hello.", cancel=token, timeout=seconds) as stream:
            for event in stream:
                if isinstance(event, TextDelta) and first is None:
                    first = time.monotonic() - started
        result = stream.result
    except SyncAgentError as error:
        yield Finding(name=name, value=on_one_line(str(error), 300), status="problem")
        return
    token.checkpoint()
    took = time.monotonic() - started
    if result.cancelled:
        yield Finding(
            name=name,
            value=f"no complete response in {seconds:g} seconds",
            status="problem",
            advice="allow more with --timeout; is the address right?",
        )
        return
    text = on_one_line(result.text, 40)
    times = f"begins after {first or took:.1f} s, ends after {took:.1f} s"
    yield Finding(name=name, value=f"answers: {text!r}, {times}")
