"""Handles in every state that one can be in, and how to let each of them go on."""

import sys
import threading
from contextlib import ExitStack, contextmanager

from support.agents import check_usable, model
from support.threads import LONG, until
from support.tools import Door, give_back
from syncagent import Agent, ConfigurationError, ToolContext, abandoned, tool
from syncagent.events import TextDelta
from syncagent.messages import Text, UserMessage
from syncagent.models import OpenAIChat
from syncagent.testing import FakeServer, Gate, ScriptedModel, Status, call, say
from syncagent.tools.tool import Tool

#: What is said to a handle while it is busy.
MORE = "More."


class Flowing(ScriptedModel):
    """Says the same word over and over, until it is to stop."""

    def __init__(self):
        super().__init__(lambda messages: "on and on")
        self.is_enough = threading.Event()

    def _pieces(self, text):
        yield "on "
        while not self.is_enough.wait(0.001):
            yield "and on "


class Scene:
    """An agent, a handle of it in some state, and what lets that go on."""

    def __init__(self, agent, handle, let_go, *, close=None):
        self.agent = agent
        self.handle = handle
        self.let_go = let_go
        self._close = close

    def wait_for_state(self, state):
        """Wait until the handle is there."""
        until(lambda: self.handle.state == state)
        return self

    def word(self):
        """Return why its last run has ended."""
        try:
            return self.handle.result(LONG).stop_reason
        except ConfigurationError:
            return "-"
        except ValueError:
            return "error"

    def check_end(self):
        """See that nothing is left, and that the agent can be used again."""
        self.handle.shutdown()
        assert self.handle.ended.wait(LONG)
        self.let_go()
        until(lambda: not self.agent.is_running and not abandoned())
        check_usable(self.agent)
        if self._close is not None:
            self._close()


@contextmanager
def switching_often():
    """Have threads take turns much more often than usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def nothing():
    """Let nothing go."""


def words_of(agent):
    """Return what the user has said to it, in order."""
    return [
        block.text
        for message in agent.messages
        if isinstance(message, UserMessage)
        for block in message.content
        if isinstance(block, Text)
    ]


# -- nothing to do -----------------------------------------------------------------


def never_used(folder):
    agent = Agent(model())
    return Scene(agent, agent.start(), nothing).wait_for_state("idle")


def after_interrupt(folder):
    scene = silent_stream(folder)
    scene.handle.interrupt()
    scene.let_go = nothing
    return scene.wait_for_state("idle")


def done(folder):
    agent = Agent(model())
    return Scene(agent, agent.start("Do it."), nothing).wait_for_state("done")


def failed(folder):
    agent = Agent(model(ValueError("no")))
    scene = Scene(agent, agent.start("Do it."), nothing).wait_for_state("failed")
    assert scene.handle.ended.wait(LONG)
    return scene


def shut_down(folder):
    scene = silent_stream(folder)
    scene.handle.shutdown()
    scene.let_go = nothing
    return scene.wait_for_state("done")


# -- the model ---------------------------------------------------------------------


def silent_stream(folder):
    gate = Gate()
    agent = Agent(model(gate, "late"))
    scene = Scene(agent, agent.start("Do it."), gate.open)
    gate.wait_reached()
    return scene


def flowing_stream(folder):
    talker = Flowing()
    agent = Agent(talker)
    handle = agent.start("Do it.")
    follower = handle.subscribe()
    while not isinstance(follower.get(LONG), TextDelta):
        pass
    return Scene(agent, handle, talker.is_enough.set)


def retry_back_off(folder):
    later = Status(503, headers={"retry-after": "30"})
    answers = [say("never", acts=[later])]
    with ExitStack() as stack:
        server = stack.enter_context(
            FakeServer(lambda request: answers.pop() if answers else "ok")
        )
        model = OpenAIChat("fake", base_url=server.base_url, api_key="any", retries=1)
        agent = Agent(model)
        handle = agent.start("Do it.")
        until(lambda: agent._conversation.slot.live.phase == "retry")
        return Scene(agent, handle, nothing, close=stack.pop_all().close)


def queued(folder):
    gate = Gate()
    agent = Agent(model(gate, "first"))
    agent.start("First.")
    gate.wait_reached()
    handle = agent.start("Do it.", on_busy="queue")
    until(lambda: len(agent._conversation.line) == 1)
    return Scene(agent, handle, gate.open)


# -- somebody is asked -------------------------------------------------------------


@tool(requires_approval=True)
def risky() -> str:
    """Do something that not everybody may."""
    return "did it"


@tool(requires_auth="bank")
def pay(ctx: ToolContext) -> str:
    """Do something that needs credentials."""
    return "paid"


@tool
def inquire(ctx: ToolContext) -> str:
    """Ask the user."""
    return ctx.ask("How?")


def approval(folder):
    return _asked(risky, "waiting_for_approval", True)


def auth(folder):
    return _asked(pay, "waiting_for_auth", "secret")


def user_input(folder):
    return _asked(inquire, "waiting_for_input", "like this")


def _asked(function, state, answer):
    agent = Agent(model(say(call(function.name))), tools=[function])
    handle = agent.start("Do it.")

    def let_go():
        for asked in handle.interrupts:
            handle.answer(asked.id, answer)

    scene = Scene(agent, handle, let_go).wait_for_state(state)
    scene.answer = answer
    until(lambda: handle.interrupts)
    return scene


# -- tools -------------------------------------------------------------------------


def own_thread(folder):
    gate = Gate()

    @tool
    def work(ctx: ToolContext) -> str:
        """Stop when it should."""
        gate.stop_here(token=ctx.token)
        return "worked"

    return _working(work, gate)


def worker_thread(folder):
    gate = Gate()

    @tool(on_cancel="abandon", grace=0.0)
    def work() -> str:
        """Never stop when it should."""
        gate.stop_here(LONG)
        return "worked"

    return _working(work, gate)


def _working(function, gate):
    agent = Agent(model(say(call("work"))), tools=[function])
    scene = Scene(agent, agent.start("Do it."), gate.open)
    gate.wait_reached()
    return scene.wait_for_state("executing_tool")


def process(folder):
    door = Door(folder)
    work = Tool(give_back, on_cancel="kill")
    agent = Agent(model(say(call(work.name, door.arguments))), tools=[work])
    handle = agent.start("Do it.")
    scene = Scene(agent, handle, door.open, close=door.close)
    door.wait_reached()
    return scene


def other_agent(folder):
    gate = Gate()
    other = Agent(model(gate, "found"))

    @tool
    def delegate(ctx: ToolContext) -> str:
        """Let another agent do it."""
        return ctx.agent(other, "Find it.").text

    agent = Agent(model(say(call("delegate"))), tools=[delegate])
    scene = Scene(agent, agent.start("Do it."), gate.open)
    gate.wait_reached()
    return scene.wait_for_state("waiting_for_agent")
