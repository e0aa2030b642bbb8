"""What is nobody's mistake goes up out of a run, and leaves the agent in order."""

import json
import sys

import pytest
from support.agents import SUM, add, check_usable, model
from support.every_line import interrupt_each_line, some_lines
from support.processes import run_script

from syncagent import Agent, ToolContext, tool
from syncagent.events import TextDelta, ToolStarted
from syncagent.messages import ToolMessage
from syncagent.testing import ScriptedModel, call, complaints, say

KINDS = [KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError]
#: Also what nobody has heard of.
KINDS.append(type("Unheard", (BaseException,), {}))

METHODS = [
    "before_model",
    "after_model",
    "before_tool",
    "after_tool",
    "on_event",
    "on_finish",
]

careful = tool(name="add", requires_approval=True)(add)
secret = tool(name="add", requires_auth="bank")(add)


def curious(ctx: ToolContext) -> str:
    """Ask the user."""
    return ctx.ask("Who are you?")


class Fails:
    """A function that raises once."""

    def __init__(self, kind):
        self._errors = [kind("from a test")]

    def __call__(self, *args):
        if self._errors:
            raise self._errors.pop()


def raises(kind, agent, run=None):
    """See that it goes up, and that the agent is in order after it."""
    with pytest.raises(kind, match="from a test") as caught:
        (run or agent.run)("hi")
    assert type(caught.value) is kind
    agent.model._script[:] = ["ok"] * 3
    check_usable(agent)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_out_of_a_hook(method, kind):
    """Promises 4 and 8: from every method."""
    watcher = type("Hook", (), {method: Fails(kind)})()
    raises(kind, Agent(model(SUM), tools=[add], hooks=[watcher]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "asking"), [("approve", careful), ("authenticate", secret)]
)
def test_out_of_a_handler(name, asking, kind):
    """Promise 4: nothing has run, and the model is told so."""
    agent = Agent(model(SUM), tools=[asking], **{name: Fails(kind)})
    raises(kind, agent)
    [results] = [m for m in agent.messages if isinstance(m, ToolMessage)]
    assert "not started" in results.content[0].content[0].text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("isolation", [None, "thread"])
def test_out_of_a_tool_and_what_it_asks(isolation, kind):
    """From the tool itself and from the handler, on whatever thread they are."""
    broken = tool(name="add", isolation=isolation)(_breaking(kind))
    raises(kind, Agent(model(SUM), tools=[broken]))
    asking = tool(isolation=isolation)(curious)
    reply = say(call("curious"))
    raises(kind, Agent(model(reply), tools=[asking], ask=Fails(kind)))


def _breaking(kind):
    fails = Fails(kind)

    def broken(a: int, b: int) -> None:
        """Break."""
        fails()

    return broken


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("script", [[], [SUM]])
def test_out_of_the_model(script, kind):
    """In the first turn and in a later one; the rounds before it are kept."""
    agent = Agent(model(*script, kind("from a test")), tools=[add])
    raises(kind, agent)
    has_results = any(isinstance(m, ToolMessage) for m in agent.messages)
    assert has_results is bool(script)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("event", [TextDelta, ToolStarted])
def test_out_of_the_body_of_the_loop(event, kind):
    """Promise 5: what was said by then is kept, and the tool has not run."""
    agent = Agent(model(say("One moment.", call("add", {"a": 1, "b": 2}))), tools=[add])

    def consume(prompt):
        with agent.stream(prompt) as stream:
            for each in stream:
                if isinstance(each, event):
                    raise kind("from a test")

    raises(kind, agent, consume)
    assert "One" in agent.messages[1].text


@pytest.mark.parametrize("kind", KINDS)
def test_out_of_the_policy_that_says_who_must_be_asked(kind):
    """Nothing has run: what cannot say no has not said yes."""
    ran = []

    @tool(requires_approval=Fails(kind))
    def risky() -> None:
        """Do it."""
        ran.append(1)

    raises(kind, Agent(model(say(call("risky"))), tools=[risky]))
    assert not ran


SCENES = ["stream", "backoff", "tool", "approval", "ask", "sub_agent", "queue"]


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.skipif(sys.platform == "win32", reason="no such signal there")
def test_a_real_signal(scene):
    """Ctrl+C in the middle of it, on the main thread of a process of its own."""
    done = run_script("conversation/sigint_script", scene)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["went_up"]
    assert not told["has_run"]
    assert (told["complaints"], told["next"]) == ({}, "end_turn")
    if scene == "stream":
        assert "Hello" in told["messages"][-1]
        assert "interrupted" in told["messages"][-1]


# -- at every line ---------------------------------------------------------------------


class Watches:
    """A hook with all methods, which does nothing."""


for method in METHODS:
    setattr(Watches, method, lambda self, event: None)


def scripted(*script, **settings):
    made = ScriptedModel([*script, "ok", "ok"], piece=50)
    settings = {"tools": [add], "hooks": [Watches()], **settings}
    return Agent(made, **settings)


def stopping():
    """Return an agent whose tool cancels it."""

    def stop() -> None:
        """Cancel."""
        agent.cancel()

    agent = scripted(say(call("stop"), SUM.message.content[0]), tools=[stop, add])
    return agent


def resume(agent):
    result = agent.run("hi")
    agent.resume({result.interrupts[0].id: True})


def close_early(agent):
    with agent.stream("hi") as stream:
        for event in stream:
            if isinstance(event, ToolStarted):
                break


def fail(agent):
    with pytest.raises(ValueError, match="broken"):
        agent.run("hi")


WAYS = {
    "run": (lambda: scripted(SUM), lambda agent: agent.run("hi")),
    "stream": (lambda: scripted(SUM), lambda agent: list(agent.stream("hi"))),
    "closed": (lambda: scripted(SUM), close_early),
    "cancelled": (stopping, lambda agent: agent.run("hi")),
    "failed": (lambda: scripted(SUM, ValueError("broken")), fail),
    "resumed": (lambda: scripted(SUM, tools=[careful]), resume),
    "approved": (
        lambda: scripted(SUM, tools=[careful], approve=lambda request: True),
        lambda agent: agent.run("hi"),
    ),
    "output": (
        lambda: scripted("no number", '{"value": 3}'),
        lambda agent: agent.run("hi", output=int),
    ),
}


@some_lines()
@pytest.mark.slow
def test_ctrl_c_at_every_line(step):
    """Promises 4 and 8: wherever a run with a tool round is, all is well after it."""
    places, problems = interrupt_each_line(*WAYS["run"], step=step)
    assert problems == []
    assert len(places) * step > 300


@pytest.mark.stress
@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_at_every_line_of_every_way(way):
    """Promises 4 and 8: streamed, closed, cancelled, failed, resumed, repaired."""
    places, problems = interrupt_each_line(*WAYS[way])
    assert problems == []
    assert len(places) > 200


@pytest.mark.slow
def test_the_conversation_is_whole_at_every_line():
    """Promise 4: it can be sent at whatever line the run was interrupted."""
    _, problems = interrupt_each_line(*WAYS["resumed"], step=3)
    assert [problem for problem in problems if "cannot be sent" in problem] == []
    assert [problem for problem in problems if "go up" in problem] == []


def test_a_signal_is_not_taken_for_a_cancel():
    """It goes up although the run was cancelled just before."""

    def both() -> None:
        """Cancel, and be interrupted."""
        agent.cancel()
        raise KeyboardInterrupt

    agent = Agent(model(say(call("both"))), tools=[both])
    with pytest.raises(KeyboardInterrupt):
        agent.run("hi")
    assert complaints(agent.messages) == {}
    check_usable(agent)
