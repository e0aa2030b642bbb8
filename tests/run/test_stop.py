"""Stop(reason) from any hook ends the run as a cancel does, as ``stopped``."""

import time

import pytest
from support.agents import SUM, add, check_usable, model, outcomes, told
from support.two_rounds import CLASSES, make_agent, on_server

from syncagent import Agent, CancelPolicy, tool
from syncagent.driver import Finished
from syncagent.events import ToolFinished
from syncagent.exceptions import RunCancelled
from syncagent.hooks import Stop
from syncagent.messages import AssistantMessage, ToolMessage
from syncagent.testing import (
    FakeServer,
    ScriptedModel,
    Send,
    Stall,
    call,
    complaints,
    no_leaks,
    say,
)
from syncagent.transport import close_idle

METHODS = ["before_model", "after_model", "before_tool", "after_tool", "on_event"]


@pytest.fixture(autouse=True)
def nothing_idle():
    """No connection outlives its test."""
    yield
    close_idle()


def stopping(method, when=lambda event: True, reason="not allowed"):
    """Return a hook that stops the run once, in *method*, and counts its calls."""

    class Stopping:
        calls = 0
        has_stopped = False

        def decide(self, event):
            self.calls += 1
            if not self.has_stopped and when(event):
                self.has_stopped = True
                return Stop(reason)
            return None

    setattr(Stopping, method, Stopping.decide)
    return Stopping()


def by_run(agent, prompt):
    return agent.run(prompt)


def by_stream(agent, prompt):
    with agent.stream(prompt) as stream:
        list(stream)
    return stream.result


def by_handle(agent, prompt):
    return agent.start(prompt).result(20)


def by_driver(agent, prompt):
    with agent.drive(prompt) as driver:
        while not isinstance(step := driver.next(), Finished):
            pass
        return step.result


FACES = pytest.mark.parametrize(
    "face", [by_run, by_stream, by_handle, by_driver], ids=lambda face: face.__name__
)


@FACES
@pytest.mark.parametrize("method", METHODS)
def test_any_hook_ends_the_run(method, face):
    """The conversation is valid, and the same run can go on, or another one."""
    agent = Agent(model(SUM, SUM, SUM), tools=[add], hooks=[stopping(method)])
    result = face(agent, "Add.")
    assert (result.stop_reason, result.cancelled) == ("stopped", True)
    cancellation = result.cancellation
    assert (cancellation.reason, cancellation.origin) == ("not allowed", "hook")
    assert complaints(agent.messages) == {}
    with pytest.raises(RunCancelled, match=r"stopped by a hook.*not allowed"):
        result.raise_for_status()
    assert agent.can_resume
    resumed = agent.resume()
    assert (resumed.stop_reason, resumed.run_id) == ("end_turn", result.run_id)
    check_usable(agent)


def test_no_tool_of_the_round_starts():
    """Before a tool: nothing of the round runs. After one: nothing else does."""
    made = []

    @tool
    def note(what: str) -> str:
        """Write a note."""
        made.append(what)
        return what

    calls = say(*(call("note", {"what": w}, w) for w in "abc"))
    second = stopping("before_tool", lambda event: event.call.call_id == "b")
    result = Agent(model(calls), tools=[note], hooks=[second]).run("Go.")
    assert (outcomes(result), made) == (["not_started"] * 3, [])
    after = stopping("after_tool", lambda event: event.call.call_id == "a")
    agent = Agent(model(calls), tools=[note], hooks=[after])
    result = agent.run("Go.")
    assert (outcomes(result), made) == (["done", "not_started", "not_started"], ["a"])
    assert "not started" in told(agent)


def test_before_the_model_no_request_is_made():
    """And a stop after a response leaves it as it is, complete."""
    scripted = model("Hello.")
    agent = Agent(scripted, hooks=[stopping("before_model")])
    assert agent.run("Hi.").turns == 0
    agent = Agent(model("Hello."), hooks=[stopping("after_model")])
    result = agent.run("Hi.")
    assert (result.text, result.turns) == ("Hello.", 1)
    assert not agent.messages[-1].is_cut


def secret():
    """Return a condition: the text so far holds the word, in one piece or more."""
    text = []

    def is_told(event):
        text.append(getattr(event, "text", ""))
        return "secret" in "".join(text)

    return is_told


@pytest.mark.parametrize("partial_text", ["keep", "discard", "rollback"])
@pytest.mark.parametrize("kind", CLASSES)
def test_a_guard_on_text_ends_the_stream_at_once(kind, partial_text):
    """Over a socket that stays open: cut within a moment, and nothing is left."""
    reply = say("The secret is " * 9, acts=[Send(12), Stall()])
    guard = stopping("on_event", secret(), "it told the secret")
    policy = CancelPolicy(partial_text=partial_text)
    with no_leaks(), FakeServer([reply]) as server:
        agent = Agent(on_server(kind, server), hooks=[guard], cancel_policy=policy)
        began = time.monotonic()
        result = agent.run("Tell me.")
        assert time.monotonic() - began < 5
        server.wait_for_hang_up()
        assert result.stop_reason == "stopped"
        assert result.cancellation.latency < 0.5
        close_idle()
    assert complaints(agent.messages) == {}
    if partial_text == "rollback":
        assert agent.messages == ()
        return
    last = agent.messages[-1]
    assert (last.is_cut, last.cut_origin) == (True, "hook")
    assert last.cut_reason == "it told the secret"
    assert last.text.endswith("<system>A policy stopped this message</system>")
    assert ("secret" in last.text) == (partial_text == "keep")


def test_no_event_follows_the_one_that_was_stopped():
    """The guard sees no further text, and neither does the caller."""
    guard = stopping("on_event", secret())
    agent = Agent(ScriptedModel(["xx secret yy zz"], piece=9), hooks=[guard])
    with agent.stream("Tell me.") as stream:
        events = list(stream)
    text = [each.text for each in events if type(each).__name__ == "TextDelta"]
    assert "secret" in "".join(text)
    assert "yy" not in "".join(text)
    assert type(events[-1]).__name__ == "RunFinished"


@pytest.mark.parametrize("method", METHODS)
def test_a_cancel_that_came_first_wins(method):
    """What a hook returns after a cancel is ignored."""
    agent = Agent(model(SUM), tools=[add])

    class Late:
        def decide(self, event):
            agent.cancel("mine")
            return Stop("too late")

    setattr(Late, method, Late.decide)
    agent = Agent(model(SUM), tools=[add], hooks=[Late()])
    result = agent.run("Add.")
    assert result.stop_reason == "cancelled"
    assert result.cancellation.reason == "mine"
    check = [m for m in agent.messages if isinstance(m, AssistantMessage) and m.is_cut]
    assert all(message.cut_reason == "mine" for message in check)


def test_a_deferred_cancel_that_came_first_wins():
    """It falls due with the stop, and has its own reason."""

    class Late:
        def on_event(self, event):
            if type(event).__name__ == "TextDelta":
                agent.cancel("later", mode="after_turn")
                return Stop("now")
            return None

    agent = Agent(ScriptedModel(["one two three four"], piece=4), hooks=[Late()])
    result = agent.run("Count.")
    assert (result.stop_reason, result.cancellation.reason) == ("cancelled", "later")
    assert agent.messages[-1].is_cut


def test_a_cancel_after_a_stop_has_a_true_receipt():
    """Promise 3: the run was live, and ends as cancelled; the first reason stands."""
    receipts = []
    finished = stopping("on_event", lambda event: type(event) is ToolFinished)
    agent = Agent(model(SUM), tools=[add], hooks=[finished])
    with agent.stream("Go.") as stream:
        for event in stream:
            if type(event) is ToolFinished:
                receipts.append(agent.cancel("second"))
    assert receipts[0]
    assert not receipts[0].first
    assert stream.result.stop_reason == "stopped"
    assert stream.result.cancelled


def test_a_stop_in_a_sub_agent_ends_only_that():
    """Its caller gets its text as a failed result, and goes on."""
    inner = Agent(
        ScriptedModel(lambda messages: "inner words"),
        name="inner",
        system="Help.",
        hooks=[stopping("after_model")],
    )
    outer = Agent(
        model(say(call("inner", {"prompt": "Go."})), "I go on."),
        tools=[inner.as_tool()],
    )
    result = outer.run("Ask it.")
    assert (result.stop_reason, result.text) == ("end_turn", "I go on.")
    assert outcomes(result) == ["failed"]
    assert "stopped early (stopped)" in told(outer)


def test_a_stop_in_two_rounds_leaves_them_valid():
    """At every event there is, in turn."""
    for number in range(1, 60):
        seen = iter(range(1, 1000))
        guard = stopping("on_event", lambda event, s=seen, n=number: next(s) == n)
        agent = make_agent(hooks=[guard])
        result = agent.run("Do it.")
        assert complaints(agent.messages) == {}
        if not result.cancelled:
            assert number > 20
            return
        assert result.stop_reason == "stopped"
        resumed = agent.resume()
        assert (resumed.stop_reason, len(resumed.tool_outcomes)) == ("end_turn", 4)
        results = [m for m in resumed.messages if isinstance(m, ToolMessage)]
        assert len(results) == 2


def test_other_observers_may_return_anything():
    """Only hooks can stop a run; on_event of a driver returns what it likes."""
    with Agent(model("Hi.")).drive("Go.", on_event=lambda event: Stop("no")) as driver:
        assert driver.next().result.stop_reason == "end_turn"


def test_a_reason_is_a_string():
    """A hook that stops with something else has a bug, which is raised."""
    agent = Agent(model("Hi."), hooks=[stopping("before_model", reason=7)])
    with pytest.raises(TypeError, match="reason"):
        agent.run("Go.")
