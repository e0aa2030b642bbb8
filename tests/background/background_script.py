"""Send a run to the background from a real signal; say in JSON how it went.

::

    python background_script.py headers|stream|tool|worker|approval [backgroundable]
    python background_script.py ctrl_c|sigterm
"""

import faulthandler
import json
import os
import signal
import sys
import threading
from contextlib import ExitStack

from support.background import Replies, connections, model_on
from support.threads import until

from syncagent import Agent, cancel_on_signals, tool
from syncagent.models import OpenAIChat
from syncagent.testing import (
    FakeServer,
    Gate,
    ScriptedModel,
    Send,
    Stall,
    call,
    complaints,
    no_leaks,
    say,
)
from syncagent.transport import close_idle

#: Seconds after which something is stuck.
STUCK = 15
WORDS = "Hello there, all of you."


class Scenes:
    """Each makes an agent, and returns what blocks until the point is reached."""

    def __init__(self, stack):
        self.stack = stack
        self.gate = Gate()
        self.later = Gate()
        self.server = self.agent = None

    def headers(self):
        def reply():
            self.gate.stop_here()
            return say(WORDS, acts=[Send(3), Stall(self.later), Send()])

        return self._serve(reply)

    def stream(self):
        acts = [Send(3), Stall(self.gate), Send(2), Stall(self.later), Send()]
        return self._serve(say(WORDS, acts=acts))

    def tool(self):
        return self._call(self._block)

    def worker(self):
        return self._call(tool(name="block", isolation="thread")(self._block))

    def approval(self):
        @tool(requires_approval=True)
        def block() -> None:
            """Do it."""

        def approve(request):
            self.gate.stop_here()
            return True

        return self._call(block, approve=approve)

    def _block(self) -> None:
        """Wait."""
        self.gate.stop_here()

    def _call(self, function, **settings):
        function = (
            function if hasattr(function, "spec") else tool(name="block")(function)
        )
        script = [say("x", call("block")), self.later, WORDS, "ok"]
        self.agent = Agent(ScriptedModel(script), tools=[function], **settings)
        return self.gate

    def _serve(self, reply):
        self.server = self.stack.enter_context(FakeServer(Replies(reply)))
        self.stack.callback(close_idle)
        self.agent = Agent(model_on(self.server, OpenAIChat))
        return self.gate


def by_signal(scenes, gate, settings):
    """Run the agent, and send it away by a signal when it stands at the gate."""
    granted = []

    def hear(signum, frame):
        granted.append(scenes.agent.background())

    def send():
        gate.wait_reached()
        # Again and again: Python may overlook one on the way into a wait.
        while not granted:
            os.kill(os.getpid(), signal.SIGUSR1)
            pause.wait(0.1)
        if not settings:
            gate.open()

    pause = threading.Event()
    signal.signal(signal.SIGUSR1, hear)
    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    result = scenes.agent.run("Do it.", **settings)
    sender.join(STUCK)
    return result, granted[0]


def play(name, settings, stack):
    scenes = Scenes(stack)
    gate = getattr(scenes, name)()
    result, granted = by_signal(scenes, gate, settings)
    told = {
        "granted": granted,
        "stop": result.stop_reason,
        "busy": scenes.agent.is_running,
    }
    gate.open()
    scenes.later.open()
    final = result.handle.result(STUCK)
    server = scenes.server
    return {
        **told,
        "text": final.text,
        "requests": 1 if server is None else len(server.requests),
        "connections": 1 if server is None else connections(server),
        "complaints": complaints(scenes.agent.messages),
        "next": scenes.agent.run("Go on.").stop_reason,
    }


def signalled(signum):
    """Press Ctrl+C, or so, while a run is in the background."""
    gate = Gate()
    agent = Agent(ScriptedModel([gate, WORDS, "ok"]))
    threading.Thread(
        target=lambda: (gate.wait_reached(), agent.background()), daemon=True
    ).start()
    went_up = False
    with cancel_on_signals():
        handle = agent.run("Do it.", backgroundable=True).handle
        try:
            os.kill(os.getpid(), signum)
            until(lambda: handle.done() or signum == signal.SIGINT)
            os.kill(os.getpid(), signum) if signum == signal.SIGINT else None
        except KeyboardInterrupt:  # nothing was there that it could have cancelled
            went_up = True
    gate.open()
    final = handle.result(STUCK)
    origin = None if final.cancellation is None else final.cancellation.origin
    after = agent.run("Go on.").stop_reason
    return {"went_up": went_up, "stop": final.stop_reason, "by": origin, "next": after}


if __name__ == "__main__":
    faulthandler.dump_traceback_later(STUCK, exit=True)
    scene, *more = sys.argv[1:]
    with no_leaks(), ExitStack() as stack:
        if scene == "ctrl_c":
            told = signalled(signal.SIGINT)
        elif scene == "sigterm":
            told = signalled(signal.SIGTERM)
        else:
            told = play(scene, dict.fromkeys(more, True), stack)
    print(json.dumps(told))
