"""An agent that is stopped wherever it can be stuck, before your eyes."""

from __future__ import annotations

import argparse
import threading
from typing import Final

import msgspec

from ... import __version__
from ...agent import Agent
from ...cancel import CancelToken, Receipt
from ...events import TextDelta
from ...interrupts import ApprovalRequest
from ...models.dialects import OpenAIChat
from ...result import RunResult
from ...testing import FakeServer, ScriptedResponse, Send, Stall, Status, call, say
from ...tools.context import ToolContext
from ...tools.tool import tool
from ...transport.retries import Retries
from ..colours import Paint
from .model import PACE
from .tools import count_for_ever, delete_files

SUMMARY: Final = "stop an agent wherever it can be stuck, and go on with it"

_STORY: Final = "Once upon a time there was a thread that waited for a token, and "


@tool
def wait_for_news(ctx: ToolContext) -> str:
    """Wait for something that never comes, and stop when the run does."""
    ctx.sleep(3600)
    return "news"


class Scene(msgspec.Struct, frozen=True):
    """One place to be stuck in."""

    title: str
    reply: ScriptedResponse
    #: Seconds for which the agent is stuck before the other thread cancels it.
    seconds: float = 0.4


SCENES: Final = (
    Scene(
        "waiting for an answer to begin",
        say("never", acts=[Stall(before_headers=True)]),
    ),
    Scene("in the middle of an answer", say(_STORY * 3, acts=[Send(18), Stall()])),
    Scene("in a tool that waits", say("Let me see.", call("wait_for_news"))),
    Scene(
        "before another try after an error",
        say("never", acts=[Status(503, headers={"retry-after": "60"})]),
    ),
    Scene(
        "waiting for somebody's approval",
        say("May I?", call("delete_files", {"folder": "/"})),
    ),
    Scene(
        "in a tool that loops for ever",
        say("I count.", call("count_for_ever")),
        seconds=1.0,  # it is a process, which has to start
    ),
)


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Run the demo; return the exit code.

    Cancellation: ends at once.
    """
    paint = Paint()
    title = paint(f"syncagent {__version__}", "bold")
    print(f"{title}: one agent, a real server on this machine, and six places")
    cancel = paint("agent.cancel()", "cyan")
    print(f"to be stuck in. Each time another thread calls {cancel}.\n")
    with FakeServer() as server:
        agent = _agent(server)
        for number, scene in enumerate(SCENES, 1):
            server.add(scene.reply)
            print(f"  {number}  {scene.title:<34} ", end="", flush=True)
            receipt, result = cancel_from_another_thread(agent, scene.seconds, token)
            token.checkpoint()  # it was Ctrl+C
            _show(receipt, result, paint)
        _go_on(agent, server, token)
    print(_READ_ON.format(number=len(agent.messages)))
    return 0


_READ_ON: Final = """
Its {number} messages are valid for every provider, and nothing is left running:
no process, no socket, no thread.

Try it yourself:  syncagent chat     (no key needed; Ctrl+C stops an answer)
                  syncagent run "a story" --timeout 2
Read on:          docs/quickstart.rst, docs/stopping.rst, examples/"""


def _agent(server: FakeServer) -> Agent:
    def approve(request: ApprovalRequest, token: CancelToken) -> bool:
        return token.wait(3600)  # a person who has gone for lunch

    model = OpenAIChat(
        "demo", base_url=server.base_url, api_key="none", retries=Retries(limit=1)
    )
    tools = [wait_for_news, count_for_ever, delete_files]
    return Agent(model, tools=tools, approve=approve)


def cancel_from_another_thread(
    agent: Agent, seconds: float, token: CancelToken
) -> tuple[Receipt, RunResult]:
    """Run *agent* here, cancel it from there, when it has been stuck for a while.

    Cancellation: ends at once.
    """
    receipts: list[Receipt] = []
    watchdog = threading.Timer(seconds, lambda: receipts.append(agent.cancel("enough")))
    watchdog.start()
    try:
        result = agent.run("Go on.", cancel=token)
    finally:
        watchdog.cancel()
        watchdog.join(timeout=seconds + 1)
    if not receipts and not token.cancelled:
        raise RuntimeError("the run ended by itself, which it should never do")
    return (receipts or [agent.cancel()])[0], result


def _show(receipt: Receipt, result: RunResult, paint: Paint) -> None:
    """Say how fast it was, in which phase, and what is left of the run."""
    took = f"ended {1000 * (receipt.latency or 0):6.2f} ms after cancel()"
    print(f"{paint(took, 'green')}")
    lines = [f"phase {result.cancellation.phase}" if result.cancellation else ""]
    if result.text:
        lines.append(f"kept {result.text[:48].strip()!r}")
    for each in result.tool_outcomes:
        lines.append(f"tool {each.name}: {each.outcome}")
    print(paint(f"     {'; '.join(lines)}", "dim"))


def _go_on(agent: Agent, server: FakeServer, token: CancelToken) -> None:
    """Show that it can still be talked to."""
    server.add("I am still here, and remember all of it. Where were we?")
    print("\nThe same agent, asked whether it is well:\n\n  ", end="", flush=True)
    with agent.stream("Are you well?", cancel=token) as stream:
        for event in stream:
            if isinstance(event, TextDelta):
                print(event.text, end="", flush=True)
                token.sleep(PACE)
    token.checkpoint()
    print()
