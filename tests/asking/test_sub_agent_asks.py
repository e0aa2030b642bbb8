"""A sub-agent asks whoever answers for the run that it is a part of."""

import pytest
from support.agents import check_usable, model, outcomes, told
from support.threads import LONG

from syncagent import Agent, Approval, ToolContext, tool
from syncagent.events import InterruptRaised
from syncagent.testing import ScriptedModel, call, no_leaks, say

#: What the outer model says to call the sub-agent once.
DELEGATE = say(call("helper", {"prompt": "Do it."}))


@tool(requires_approval=True)
def change(what: str) -> str:
    """Change something."""
    return f"changed {what}"


@tool(requires_auth="github")
def publish(ctx: ToolContext) -> str:
    """Publish something."""
    return f"published by {ctx.credentials}"


@tool
def wonder(ctx: ToolContext) -> str:
    """Ask the user."""
    return ctx.ask("why?")


CALLS = {
    "change": call("change", {"what": "it"}),
    "publish": call("publish"),
    "wonder": call("wonder"),
}


def reply(name):
    """Return a model that calls a tool, and then tells what came of it."""

    def answer(messages):
        if type(messages[-1]).__name__ == "UserMessage":
            return say(CALLS[name])
        return messages[-1].content[0].content[0].text

    return ScriptedModel(answer)


def helper(name, **settings):
    """Return a sub-agent that calls one tool, and says what came of it."""
    tools = [change, publish, wonder]
    return Agent(reply(name), tools=tools, name="helper", **settings)


def in_thread(name):
    """Return a tool that runs a sub-agent on a thread of its own."""

    @tool(name="helper", isolation="thread")
    def delegate(prompt: str, ctx: ToolContext) -> str:
        """Have it done."""
        return ctx.agent(helper(name), prompt).text

    return delegate


HANDLERS = {
    "change": {"approve": lambda request: request.tool == "change"},
    "publish": {"authenticate": lambda request: f"a user of {request.provider}"},
    "wonder": {"ask": lambda question: f"{question} because"},
}
SAID = {
    "change": "changed it",
    "publish": "published by a user of github",
    "wonder": "why? because",
}


@pytest.mark.parametrize("name", HANDLERS)
@pytest.mark.parametrize("is_threaded", [False, True])
def test_handlers_of_the_outer_agent_answer(name, is_threaded):
    """What the inner one has no handler for is asked where it was begun."""
    inner = in_thread(name) if is_threaded else helper(name)
    agent = Agent(model(DELEGATE), tools=[inner], **HANDLERS[name])
    result = agent.run("Go.")
    assert outcomes(result) == ["done"]
    assert SAID[name] in told(agent)
    check_usable(agent)


def test_its_own_handler_comes_first():
    """Who brings one answers for itself."""
    inner = helper("change", approve=lambda request: Approval(False, reason="mine"))
    agent = Agent(model(DELEGATE), tools=[inner], approve=lambda request: 1 / 0)
    agent.run("Go.")
    assert "Denied: mine" in told(agent)


@pytest.mark.parametrize("is_threaded", [False, True])
@pytest.mark.parametrize("name", HANDLERS)
def test_a_handle_answers(name, is_threaded):
    """Its followers hear of the question, and answer it directly."""
    answers = {"change": True, "publish": "a user of github", "wonder": "why? because"}
    inner = in_thread(name) if is_threaded else helper(name)
    agent = Agent(model(DELEGATE), tools=[inner])
    with no_leaks(), agent.start("Go.") as handle, handle.subscribe() as events:
        for event in events:
            if isinstance(event, InterruptRaised):
                [asked] = event.interrupts
                assert asked in handle.interrupts
                assert handle.answer(asked.id, answers[name])
        assert outcomes(handle.result(LONG)) == ["done"]
    assert SAID[name] in told(agent)


def test_nobody_can_be_asked():
    """The model is told what is missing; nothing has run."""
    agent = Agent(model(DELEGATE), tools=[helper("change")])
    result = agent.run("Go.")
    assert outcomes(result) == ["failed"]
    assert "needs an answer before it can call change" in told(agent)
    check_usable(agent)


def test_what_is_remembered_goes_for_all_calls():
    """Each call is a fork; the answer is asked for once."""
    asked = []

    def approve(request):
        asked.append(request.tool)
        return Approval(True, remember=True)

    agent = Agent(model(DELEGATE, DELEGATE), tools=[helper("change")], approve=approve)
    assert outcomes(agent.run("Go.")) == ["done", "done"]
    assert asked == ["change"]


def test_a_cancel_takes_the_question_back():
    """Promise 2: nobody waits for a person any more, and the tool never runs."""
    agent = Agent(model(DELEGATE), tools=[helper("change")])
    with no_leaks():
        handle = agent.start("Go.")
        with handle.subscribe() as events:
            raised = next(e for e in events if isinstance(e, InterruptRaised))
        receipt = handle.cancel()
        assert receipt.wait(LONG)
        assert not handle.answer(raised.interrupts[0].id, True)
        assert handle.result(LONG).cancelled
    check_usable(agent)
