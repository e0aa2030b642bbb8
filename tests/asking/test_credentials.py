"""Credentials are asked for once, and again if they are no good."""

import pytest
from support.agents import check_usable, model, outcomes, told

from syncagent import Agent, Approval, AuthenticationFailed, ToolContext, tool
from syncagent.testing import call, say


@tool(requires_auth="github")
def publish(ctx: ToolContext) -> str:
    """Publish something."""
    if ctx.credentials == "expired":
        raise AuthenticationFailed("GitHub says 401")
    return f"as {ctx.credentials}"


@tool(requires_auth="gitlab")
def mirror(ctx: ToolContext) -> str:
    """Put it elsewhere too."""
    return f"as {ctx.credentials}"


@tool(requires_auth="github", isolation="process")
def publish_apart(ctx: ToolContext) -> str:
    """Publish something, in a process of its own."""
    if ctx.credentials == "expired":
        raise AuthenticationFailed("GitHub says 401")
    return f"as {ctx.credentials}"


PUBLISH = say(call("publish"))


class Desk:
    """Gives credentials, and notes who has asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def authenticate(self, request):
        self.asked.append(request.provider)
        return self.answers.pop(0)


def agent_with(desk, *script, tools=(publish, mirror), **settings):
    return Agent(
        model(*script), tools=tools, authenticate=desk.authenticate, **settings
    )


def test_once_for_all_runs():
    """Who has logged in is not asked again, in this run or the next."""
    desk = Desk("me")
    agent = agent_with(desk, PUBLISH, PUBLISH, "done", PUBLISH)
    assert outcomes(agent.run("Go.")) == ["done", "done"]
    assert outcomes(agent.run("Go.")) == ["done"]
    assert desk.asked == ["github"]
    check_usable(agent)


def test_once_for_all_calls_of_a_round():
    """Three calls need two logins: two questions, in the order of the calls."""
    calls = (call("publish", {}, "a"), call("mirror"), call("publish", {}, "b"))
    agent = Agent(model(say(*calls)), tools=[publish, mirror])
    asked = agent.run("Go.").interrupts
    assert [each.provider for each in asked] == ["github", "gitlab"]
    result = agent.resume({each.id: each.provider.upper() for each in asked})
    assert outcomes(result) == ["done"] * 3
    assert told(agent).count("as GITHUB") == 2


@pytest.mark.parametrize("refusal", [None, False, Approval(False, reason="not today")])
def test_a_refusal_is_for_one_call(refusal):
    """It is told to the model; the next call is asked about again."""
    desk = Desk(refusal, "me")
    agent = agent_with(desk, PUBLISH, PUBLISH)
    assert outcomes(agent.run("Go.")) == ["denied", "done"]
    assert desk.asked == ["github", "github"]
    assert ("not today" if refusal else "no credentials for github") in told(agent)


@pytest.mark.parametrize("the_tool", [publish, publish_apart])
def test_those_that_are_no_good_are_forgotten(the_tool):
    """A tool that is refused by its server says so, and they are asked for again."""
    desk = Desk("expired", "fresh")
    again = say(call(the_tool.name))
    agent = agent_with(desk, again, again, tools=[the_tool])
    assert outcomes(agent.run("Go.")) == ["failed", "done"]
    assert desk.asked == ["github", "github"]
    assert "as fresh" in told(agent)


def test_forgetting():
    """Whoever logs out is asked again; a fork has its own."""
    desk = Desk("me", "you")
    agent = agent_with(desk, PUBLISH, "done", PUBLISH, "done", PUBLISH)
    agent.run("Go.")
    other = agent.fork()
    other.forget_credentials()
    agent.run("Go.")
    assert desk.asked == ["github"]
    other.run("Go.")
    assert desk.asked == ["github", "github"]


@pytest.mark.parametrize("answer", [True, Approval(True)])
def test_a_yes_is_no_password(answer):
    """What was meant for an approval is refused before anything is lost."""
    agent = Agent(model(PUBLISH), tools=[publish])
    [asked] = agent.run("Go.").interrupts
    with pytest.raises(ValueError, match="needs text or credentials"):
        agent.resume({asked.id: answer})
    assert outcomes(agent.resume({asked.id: "me"})) == ["done"]
