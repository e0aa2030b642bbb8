"""An agent that is stopped wherever it can be stuck, before your eyes."""

from __future__ import annotations

import argparse
import threading
from typing import Final

import msgspec

from .. import __version__
from ..agent import Agent
from ..cancel import CancelToken, Receipt
from ..interrupts import ApprovalRequest
from ..models.dialects import OpenAIChat
from ..result import RunResult
from ..retry import Retries
from ..testing import FakeServer, Reply, Send, Stall, Status, call, say
from ..tools.context import ToolContext
from ..tools.tool import tool

SUMMARY: Final = "stop an agent wherever it can be stuck, and go on with it"

#: Seconds for which the agent is stuck before the other thread cancels it.
STUCK: Final = 0.3

_STORY: Final = "Once upon a time there was a thread that waited for a token, and "


@tool
def wait_for_news(ctx: ToolContext) -> str:
    """Wait for something that never comes, and stop when the run does."""
    ctx.sleep(3600)
    return "news"


@tool(on_cancel="kill")
def count_for_ever() -> int:
    """Count, look at nothing, and listen to nobody; in a process of its own."""
    number = 0
    while True:
        number += 1


@tool(requires_approval=True)
def delete_everything() -> str:
    """Delete everything, if somebody says so."""
    return "gone"


class Scene(msgspec.Struct, frozen=True):
    """One place to be stuck in."""

    title: str
    reply: Reply


SCENES: Final = (
    Scene("waiting for an answer to begin", say("never", acts=[Stall()])),
    Scene("in the middle of an answer", say(_STORY * 3, acts=[Send(18), Stall()])),
    Scene(
        "waiting to try again after an error",
        say("never", acts=[Status(503, headers={"retry-after": "60"})]),
    ),
    Scene("in a tool that waits", say("Let me see.", call("wait_for_news"))),
    Scene("in a tool that loops for ever", say("I count.", call("count_for_ever"))),
    Scene("waiting for an approval", say("May I?", call("delete_everything"))),
)


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Run the demo; return the exit code."""
    print(f"syncagent {__version__}: one agent, on a real server on this machine.")
    print("Another thread calls agent.cancel() wherever the agent is stuck:\n")
    with FakeServer() as server:
        agent = _agent(server)
        for scene in SCENES:
            server.add(scene.reply)
            print(f"  {scene.title:<37}", end="", flush=True)
            receipt, result = cancel_from_another_thread(agent, token)
            token.checkpoint()  # it was Ctrl+C
            print(f"ended {1000 * (receipt.latency or 0):6.2f} ms after cancel()")
            for line in _kept(result):
                print(f"      {line}")
        server.add("I am still here, and remember all of it.")
        print("\nThen the same agent is asked whether it is well:\n")
        print(f"  {agent.run('Are you well?', cancel=token).text}")
    print(
        f"\n{len(agent.messages)} messages, valid for every provider; nothing is left "
        "running: no process, no socket, no thread.\n"
        "Read on: docs/agents.rst (how do I stop it?), docs/tools.rst, examples/."
    )
    return 0


def _agent(server: FakeServer) -> Agent:
    def approve(request: ApprovalRequest, token: CancelToken) -> bool:
        return token.wait(3600)  # a person who has gone for lunch

    model = OpenAIChat(
        "demo", base_url=server.base_url, api_key="none", retries=Retries(limit=1)
    )
    tools = [wait_for_news, count_for_ever, delete_everything]
    return Agent(model, tools=tools, approve=approve)


def cancel_from_another_thread(
    agent: Agent, token: CancelToken
) -> tuple[Receipt, RunResult]:
    """Run *agent* here, cancel it from there, when it has been stuck for a while."""
    receipts: list[Receipt] = []
    watchdog = threading.Timer(STUCK, lambda: receipts.append(agent.cancel("watchdog")))
    watchdog.start()
    try:
        result = agent.run("Go on.", cancel=token)
    finally:
        watchdog.cancel()
        watchdog.join(timeout=STUCK + 1)
    if not receipts and not token.cancelled:
        raise RuntimeError("the run ended by itself, which it should never do")
    return (receipts or [agent.cancel()])[0], result


def _kept(result: RunResult) -> list[str]:
    """Say what is left of a run."""
    lines = [f"kept: {result.text!r:.60}"] if result.text else []
    for tool_outcome in result.tool_outcomes:
        lines.append(f"tool {tool_outcome.name}: {tool_outcome.outcome}")
    return lines
