"""Sub-agents of a stored run: their tools pass its gate, and are part of its call."""

import threading

import pytest
from support.store_work import by_hand
from support.threads import LONG, meanwhile

from syncagent import Agent, ToolContext, tool
from syncagent.messages import ToolMessage
from syncagent.stores import RunStore
from syncagent.testing import ScriptedModel, call, complaints, say


class Scene:
    """An agent with a sub-agent, which calls a tool."""

    def __init__(self, *, idempotent=False):
        self.begun = []
        self.about_to_call = threading.Event()
        self.go_on = threading.Event()
        self._idempotent = idempotent

    def make_agent(self, run):
        @tool
        def act() -> str:
            """Have an effect."""
            self.begun.append("act")
            return "acted"

        def respond_inside(messages):
            if isinstance(messages[-1], ToolMessage):
                return "Acted."
            self.about_to_call.set()
            assert self.go_on.wait(LONG)
            return say(call("act"))

        @tool(idempotent=self._idempotent)
        def delegate(ctx: ToolContext) -> str:
            """Have another agent do it."""
            inner = Agent(ScriptedModel(respond_inside), tools=[act])
            return ctx.agent(inner, "Act.").text

        def respond(messages):
            if isinstance(messages[-1], ToolMessage):
                return "All done."
            return say(call("delegate"))

        return Agent(ScriptedModel(respond), tools=[delegate])


class Deaf:
    """A back end without hints: only what a worker writes tells it anything."""

    def __init__(self, backend):
        self._backend = backend

    def __getattr__(self, name):
        return getattr(self._backend, name)

    def listen(self, worker, on_hint):
        threading.Event().wait(0.05)

    def cancels(self, worker):
        return {}


@pytest.mark.slow
def test_a_cancel_from_elsewhere_keeps_the_tool_of_a_sub_agent_from_beginning(url):
    """The gate refuses it, although no hint of the cancel has arrived."""
    scene = Scene()
    store = by_hand(url, scene.make_agent, lease=60.0)
    store.backend = Deaf(store.backend)
    with store, RunStore(url) as other:
        id = store.submit("Go.")
        with meanwhile(lambda: store.work(id)):
            assert scene.about_to_call.wait(LONG)
            receipt = other.cancel(id, "no")
            scene.go_on.set()
        assert receipt.first
        assert receipt.begun == ("call_delegate",)
        assert scene.begun == []
        run = other.get(id)
        assert run.state == "cancelled"
        assert complaints(run.result.messages) == {}


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_worker_that_died_in_a_sub_agent(url, idempotent):
    """The outer call is interrupted, or made again if it is idempotent."""
    scene = Scene(idempotent=idempotent)
    scene.go_on.set()

    class Dies:
        """The worker dies with the gate of the inner tool: nothing more is written."""

        def __init__(self, backend):
            self._backend = backend

        def __getattr__(self, name):
            return getattr(self._backend, name)

        def checkpoint(self, id, attempt, delta, **options):
            if delta is None:
                self._backend.single("DELETE FROM syncagent_worker")
                self._backend.recover(10, 5)
            return self._backend.checkpoint(id, attempt, delta, **options)

    store = by_hand(url, scene.make_agent, lease=60.0)
    store.backend = Dies(store.backend)
    with store, by_hand(url, scene.make_agent) as other:
        id = store.submit("Go.")
        assert store.work(id).cancellation.origin == "lost"
        assert scene.begun == []
        assert other.work(id).text == "All done."
        run = other.get(id)
        (outcome,) = run.result.tool_outcomes
        assert outcome.outcome == ("done" if idempotent else "interrupted")
        assert scene.begun == (["act"] if idempotent else [])
