"""A real Ctrl+C in the middle of a run; say in JSON how it went.

::

    python sigint_script.py stream|backoff|tool|approval|ask|sub_agent|queue
"""

import faulthandler
import json
import os
import signal
import sys
import threading
from contextlib import ExitStack

from support.agents import model
from support.threads import until

from syncagent import Agent, ToolContext, abandoned, tool
from syncagent.cancel import live_runs
from syncagent.events import TextDelta
from syncagent.models import OpenAIChat
from syncagent.testing import (
    FakeServer,
    Gate,
    Send,
    Stall,
    Status,
    call,
    complaints,
    no_leaks,
    say,
)
from syncagent.transport import close_idle

#: Seconds after which something is stuck.
STUCK = 15


class Scenes:
    """Each makes an agent, and returns what blocks until the point is reached."""

    def __init__(self, stack):
        self.stack = stack
        self.gate = Gate()
        self.agent = None
        self.has_run = False
        self._words = threading.Event()
        self.settings = {}

    def stream(self):
        self._serve(say("Hello there, you all", acts=[Send(3), Stall()]), "ok")
        return self._words.wait

    def backoff(self):
        busy = Status(503, headers={"retry-after": "60"})
        self._serve(say("x", acts=[busy]), "ok")
        return lambda: until(lambda: [run.phase for run in live_runs()] == ["retry"])

    def tool(self):
        def block() -> None:
            """Wait."""
            self.gate.stop_here(STUCK)

        self.agent = Agent(model(say("One.", call("block"))), tools=[block])
        return self.gate.wait_reached

    def approval(self):
        def approve(request):
            self.gate.stop_here(STUCK)
            return True

        @tool(requires_approval=True)
        def careful() -> None:
            """Do it."""
            self.has_run = True

        reply = say(call("careful"))
        self.agent = Agent(model(reply), tools=[careful], approve=approve)
        return self.gate.wait_reached

    def ask(self):
        def curious(ctx: ToolContext) -> str:
            """Ask."""
            return ctx.ask("Who?")

        def answer(question):
            self.gate.stop_here(STUCK)
            return "Me."

        self.agent = Agent(model(say(call("curious"))), tools=[curious], ask=answer)
        return self.gate.wait_reached

    def sub_agent(self):
        below = Agent(model(self.gate), name="below")
        self.agent = Agent(model(say(call("below", {"prompt": "x"}))), tools=[below])
        return self.gate.wait_reached

    def queue(self):
        self.agent = Agent(model(self.gate))
        first = threading.Thread(target=lambda: self.agent.run("first"), daemon=True)
        first.start()
        self.gate.wait_reached()
        self.settings["on_busy"] = "queue"
        self.stack.callback(first.join, STUCK)
        return lambda: until(lambda: self.agent._conversation.line)

    def _serve(self, *script):
        server = self.stack.enter_context(FakeServer(script))
        self.stack.callback(close_idle)
        real = OpenAIChat("m", base_url=server.base_url, api_key="k")
        self.agent = Agent(real, hooks=[self])

    def on_event(self, event):
        if isinstance(event, TextDelta):
            self._words.set()


def interrupt(scenes, wait):
    """Run the agent until Ctrl+C; tell whether that went up."""
    heard = threading.Event()

    def hear(signum, frame):
        if not heard.is_set():
            heard.set()
            raise KeyboardInterrupt

    def press():
        wait()
        # Again and again: Python may overlook one on the way into a wait.
        while not heard.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            pause.wait(0.1)

    pause = threading.Event()
    signal.signal(signal.SIGINT, hear)
    presser = threading.Thread(target=press, daemon=True)
    presser.start()
    try:
        scenes.agent.run("hi", **scenes.settings)
    except KeyboardInterrupt:
        return True
    finally:
        presser.join(STUCK)
    return False


def play(name, stack):
    scenes = Scenes(stack)
    wait = getattr(scenes, name)()
    went_up = interrupt(scenes, wait)
    scenes.gate.open()
    agent = scenes.agent
    until(lambda: not agent.is_running and not abandoned())
    before = complaints(agent.messages)
    said = [repr(message) for message in agent.messages]
    result = agent.run("Go on.")
    after = complaints(agent.messages)
    return {
        "went_up": went_up,
        "has_run": scenes.has_run,
        "complaints": {**before, **after},
        "next": result.stop_reason,
        "messages": said,
    }


if __name__ == "__main__":
    faulthandler.dump_traceback_later(STUCK, exit=True)
    with no_leaks(), ExitStack() as stack:
        told = play(sys.argv[1], stack)
    print(json.dumps(told))
