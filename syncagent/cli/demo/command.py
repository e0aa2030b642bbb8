"""The command ``syncagent demo``: an agent is cancelled wherever it can be stuck."""

from __future__ import annotations

import argparse
import threading
from typing import Final

from ... import __version__
from ...agent import Agent
from ...cancel import CancelToken, Receipt
from ...events import TextDelta
from ...models.dialects import OpenAIChat
from ...result import RunResult
from ...testing import FakeServer, Send, Stall, Status, call, say
from ...tools.context import ToolContext
from ...tools.tool import tool
from ...transport.retries import Retries
from ..colours import Paint
from .model import PACE, STORY
from .tools import count_for_ever, delete_files

SUMMARY: Final = "cancel an agent wherever it can be stuck, and continue with it"


@tool
def wait_for_news(ctx: ToolContext) -> str:
    """Wait for something that never comes, and stop when the run does."""
    ctx.sleep(3600)
    return "news"


#: A place to be stuck in, the response that leads there, and the seconds to wait before
#: the cancel.
_SCENES: Final = (
    (
        "waiting for a response to begin",
        *(say("never", acts=[Stall(before_headers=True)]), 0.4),
    ),
    ("in the middle of a response", say(STORY, acts=[Send(18), Stall()]), 0.4),
    ("in a tool that waits", say("Let me see.", call("wait_for_news")), 0.4),
    (
        "before a retry after an error",
        *(say("never", acts=[Status(503, headers={"retry-after": "60"})]), 0.4),
    ),
    (
        "waiting for an approval",
        *(say("May I?", call("delete_files", {"folder": "/"})), 0.4),
    ),
    # Longer: the process of the tool has to start.
    ("in a tool that loops for ever", say("I count.", call("count_for_ever")), 1.0),
)
_READ_ON: Final = """
Its {number} messages are valid for every provider, and nothing is left running:
no process, no socket, no thread.

Try it yourself:  syncagent chat     (no key needed; Ctrl+C stops a response)
                  syncagent run "a story" --timeout 2
Read on:          docs/quickstart.rst, docs/stopping.rst, examples/"""


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
        model = OpenAIChat(
            "demo", base_url=server.base_url, api_key="none", retries=Retries(limit=1)
        )
        agent = Agent(
            model,
            tools=[wait_for_news, count_for_ever, delete_files],
            approve=lambda request, token: token.wait(3600),  # a person at lunch
        )
        for number, (place, response, seconds) in enumerate(_SCENES, 1):
            server.add(response)
            print(f"  {number}  {place:<34} ", end="", flush=True)
            receipt, result = _cancel_from_another_thread(agent, seconds, token)
            took = f"ended {1000 * (receipt.latency or 0):6.2f} ms after cancel()"
            print(paint(took, "green"))
            cancellation = result.cancellation
            parts = [f"phase {cancellation.phase}" if cancellation else ""]
            if result.text:
                parts.append(f"kept {result.text[:48].strip()!r}")
            parts += [
                f"tool {each.name}: {each.outcome}" for each in result.tool_outcomes
            ]
            print(paint(f"     {'; '.join(parts)}", "dim"))
        print("\nThe same agent, asked whether it is well:\n\n  ", end="", flush=True)
        server.add("I am still here, and remember all of it. Where were we?")
        with agent.stream("Are you well?", cancel=token) as stream:
            for event in stream:
                if isinstance(event, TextDelta):
                    print(event.text, end="", flush=True)
                    token.sleep(PACE)
        token.checkpoint()
    print("\n" + _READ_ON.format(number=len(agent.messages)))
    return 0


def _cancel_from_another_thread(
    agent: Agent, seconds: float, token: CancelToken
) -> tuple[Receipt, RunResult]:
    """Run *agent* on this thread and cancel it from another after *seconds*.

    Cancellation: raises at once.
    """
    receipts: list[Receipt] = []
    watchdog = threading.Timer(seconds, lambda: receipts.append(agent.cancel("enough")))
    watchdog.start()
    try:
        result = agent.run("Go on.", cancel=token)
    finally:
        watchdog.cancel()
        watchdog.join(timeout=seconds + 1)
    token.checkpoint()  # Ctrl+C
    if not receipts:
        raise RuntimeError("the run ended by itself, which it should never do")
    return receipts[0], result
