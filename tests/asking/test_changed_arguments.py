"""Arguments that an approval changes pass the hooks, the deny rules and the policy."""

from contextlib import closing

import pytest
from support.questions import (
    asking,
    check_usable,
    model,
    outcomes,
    said_to_model,
    the_one,
)
from support.threads import LONG, until
from support.web.runs import ANNA, make_runs

from syncagent import Agent, Approval, Rule, tool
from syncagent.driver import Finished
from syncagent.hooks import Change, Deny, Skip
from syncagent.integrations.web.bodies import AnswerBody
from syncagent.testing import ScriptedModel, call, say

READ = say(call("read", {"path": "/data/a"}))
SECRET = {"path": "/etc/passwd"}
#: The paths that the tool was called with.
calls = []


@pytest.fixture(autouse=True)
def no_calls():
    calls.clear()


@tool(requires_approval=True)
def read(path: str) -> str:
    """Read a file."""
    calls.append(path)
    return f"the text of {path}"


class Seen:
    """A hook that sees paths, and decides about some of them."""

    def __init__(self, **decisions):
        self.paths = []
        self._decisions = decisions

    def before_tool(self, event):
        path = event.arguments["path"]
        event.arguments["path"] = "/tampered"  # a copy
        self.paths.append(path)
        return self._decisions.get(path.rsplit("/", 1)[-1])


# -- the ways to answer ----------------------------------------------------------------


def by_handler(answers, **settings):
    answers = iter(answers)
    agent = asking(READ, "Done.", approve=lambda _: next(answers), **settings)
    return agent, agent.run("Go.")


def by_stream(answers, **settings):
    answers = iter(answers)
    agent = asking(READ, "Done.", approve=lambda _: next(answers), **settings)
    with agent.stream("Go.") as stream:
        for _ in stream:
            pass
    return agent, stream.result


def by_resume(answers, **settings):
    agent = asking(READ, "Done.", **settings)
    result = agent.run("Go.")
    for answer in answers:
        result = agent.resume({the_one(agent).id: answer})
    return agent, result


def by_load(answers, **settings):
    agent = asking(READ, **settings)
    result = agent.run("Go.")
    for answer in answers:
        agent = Agent.load(agent.save(), model("Done."), **settings)
        result = agent.resume({the_one(agent).id: answer})
    return agent, result


def by_driver(answers, **settings):
    agent = asking(READ, "Done.", **settings)
    answers = list(answers)
    with agent.drive("Go.") as driver:
        while not isinstance(step := driver.next(), Finished):
            if step.is_blocking:
                driver.answer(step.id, answers.pop(0))
    return agent, step.result


def by_handle(answers, **settings):
    agent = asking(READ, "Done.", **settings)
    answers = list(answers)
    with agent.start("Go.") as handle:
        for event in handle.subscribe():
            asked = getattr(event, "interrupts", ())
            for each in asked:
                handle.answer(each.id, answers.pop(0))
        return agent, handle.result()


def by_outer_handler(answers, **settings):
    answers = iter(answers)
    inner = asking(READ, "Done.", name="inner", **settings)
    outer = Agent(
        ScriptedModel([say(call("inner", {"prompt": "Go."})), "All done."]),
        tools=[inner],
        approve=lambda _: next(answers),
    )
    outer.run("Go.")
    return outer, None


WAYS = [by_handler, by_stream, by_resume, by_load, by_driver, by_handle]


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def answered(request):
    """Return a function that answers the questions of a run in turn."""

    def run(*answers, tools=(read,), **settings):
        return request.param(answers, tools=tools, **settings)

    return run


# -- what counts -----------------------------------------------------------------------


def test_a_hook_denies(answered):
    """H1: a hook that denies holds, whatever the approver says."""
    seen = Seen(passwd=Deny("not there"))
    agent, result = answered(Approval(True, SECRET), hooks=[seen])
    assert outcomes(result) == ["denied"]
    assert "Denied: not there" in said_to_model(agent.messages)
    assert seen.paths == ["/data/a", "/etc/passwd"]
    assert calls == []
    check_usable(agent)


def test_a_hook_denies_in_a_sub_agent():
    """H1: the same where the approver is that of the outer run."""
    seen = Seen(passwd=Deny("not there"))
    by_outer_handler([Approval(True, SECRET)], tools=[read], hooks=[seen])
    assert seen.paths == ["/data/a", "/etc/passwd"]
    assert calls == []


def test_a_hook_denies_over_http():
    """H1: the same where the user of a page has changed the arguments."""
    seen = Seen(passwd=Deny("not there"))
    agent = asking(READ, "Done.", tools=[read], hooks=[seen])
    with closing(make_runs()) as runs:
        run = runs.start(agent, "Go.", owner=ANNA)
        [asked] = until(lambda: run.handle.interrupts)
        runs.answer(run, {asked.id: AnswerBody(allow=True, arguments=SECRET)})
        result = run.handle.result(LONG)
    assert outcomes(result) == ["denied"]
    assert seen.paths == ["/data/a", "/etc/passwd"]
    assert calls == []


def test_a_hook_skips(answered):
    """H1: a hook that skips the call holds, too."""
    seen = Seen(passwd=Skip("made up"))
    agent, result = answered(Approval(True, SECRET), hooks=[seen])
    assert outcomes(result) == ["done"]
    assert said_to_model(agent.messages) == ["made up"]
    assert calls == []


@pytest.mark.parametrize("remember", [False, "arguments", "tool"])
def test_a_deny_rule(answered, remember):
    """H1: a deny rule for these arguments holds, and no approval replaces it."""
    rule = Rule("read", False, SECRET, "never")
    answer = Approval(True, SECRET, remember=remember)
    agent, result = answered(answer, rules=[rule])
    assert outcomes(result) == ["denied"]
    assert "Denied: never" in said_to_model(agent.messages)
    assert calls == []
    assert agent.rules == (rule,)


def test_a_deny_rule_where_no_approval_is_needed(answered):
    """H1: a deny rule holds for changed arguments that need no approval, too."""
    lenient = tool(
        name="read", requires_approval=lambda given, _: given["path"] == "/data/a"
    )(read.function)
    rule = Rule("read", False, SECRET)
    _, result = answered(Approval(True, SECRET), tools=[lenient], rules=[rule])
    assert outcomes(result) == ["denied"]
    assert calls == []


def test_hooks_that_agree(answered):
    """Changed arguments that no hook minds are called, once, with one question."""
    seen = Seen()
    agent, result = answered(Approval(True, {"path": "/data/b"}), hooks=[seen])
    assert outcomes(result) == ["done"]
    assert calls == ["/data/b"]
    assert seen.paths == ["/data/a", "/data/b"]
    check_usable(agent)


def test_unchanged_arguments_are_not_shown_again(answered):
    """A plain yes is about arguments that the hooks have seen."""
    seen = Seen()
    answered(True, hooks=[seen])
    assert (seen.paths, calls) == (["/data/a"], ["/data/a"])


def test_a_hook_changes_them(answered):
    """H1: the approver is asked about what a hook has made of the arguments."""
    seen = Seen(b=Change({"path": "/data/c"}))
    answers = [Approval(True, {"path": "/data/b"}, remember="arguments"), True]
    agent, result = answered(*answers, hooks=[seen])
    assert outcomes(result) == ["done"]
    assert calls == ["/data/c"]
    assert seen.paths == ["/data/a", "/data/b"]
    assert agent.rules == ()  # the first answer was not about what was called


def test_a_no_to_what_a_hook_made(answered):
    """H1: the second answer counts, not the first."""
    seen = Seen(b=Change({"path": "/data/c"}))
    _, result = answered(Approval(True, {"path": "/data/b"}), False, hooks=[seen])
    assert outcomes(result) == ["denied"]
    assert calls == []


def test_a_change_to_the_same(answered):
    """A hook that returns the approved arguments as they are asks for nothing more."""
    seen = Seen(b=Change({"path": "/data/b"}))
    _, result = answered(Approval(True, {"path": "/data/b"}), hooks=[seen])
    assert (outcomes(result), calls) == (["done"], ["/data/b"])


def test_what_is_remembered(answered):
    """The rule is about the arguments that were called."""
    answer = Approval(True, {"path": "/data/b"}, remember="arguments")
    agent, _ = answered(answer, hooks=[Seen()])
    assert agent.rules == (Rule("read", True, {"path": "/data/b"}),)


def test_nothing_is_remembered_of_what_a_hook_denies(answered):
    """A hook has denied the call: the approval was about nothing."""
    answer = Approval(True, SECRET, remember="tool")
    agent, _ = answered(answer, hooks=[Seen(passwd=Deny())])
    assert agent.rules == ()


def test_the_policy_has_another_reason(answered):
    """H1: the policy sees the new arguments; a new reason is shown to the approver."""
    policy = tool(
        name="read", requires_approval=lambda given, _: f"it reads {given['path']}"
    )(read.function)
    _, result = answered(
        *(Approval(True, {"path": "/data/b"}), Approval(True, {"path": "/data/c"})),
        *(Approval(True, {"path": "/data/c"}),),
        tools=[policy],
    )
    assert (outcomes(result), calls) == (["done"], ["/data/c"])


# -- the questions ---------------------------------------------------------------------


def test_the_second_question():
    """It has an id of its own, and shows what will be called."""
    agent = asking(READ, hooks=[Seen(b=Change({"path": "/data/c"}))], tools=[read])
    agent.run("Go.")
    first = the_one(agent)
    answers = {first.id: Approval(True, {"path": "/data/b"})}
    agent.resume(answers)
    second = the_one(agent)
    assert second.id != first.id
    assert second.arguments == {"path": "/data/c"}
    state = agent.save()
    assert the_one(Agent.load(state, ScriptedModel([]), tools=[read])) == second


def test_ids_after_a_restart():
    """A third question, in another process, has a third id."""
    settings = {"tools": [read], "hooks": [Seen(b=Change({"path": "/data/c"}))]}
    agent, ids = asking(READ, **settings), []
    agent.run("Go.")
    for _ in range(3):
        agent = Agent.load(agent.save(), ScriptedModel([]), **settings)
        ids.append(the_one(agent).id)
        agent.resume({ids[-1]: Approval(True, {"path": "/data/b"})})
    assert len(set(ids)) == 3


def test_no_endless_loop():
    """A handler and a hook that never agree end with a denied call."""
    asked = []

    def approve(request):
        asked.append(request.arguments["path"])
        return Approval(True, {"path": "/data/b"})

    seen = Seen(b=Change({"path": "/data/c"}))
    agent = asking(READ, "Done.", tools=[read], approve=approve, hooks=[seen])
    result = agent.run("Go.")
    assert outcomes(result) == ["denied"]
    assert "changed" in said_to_model(agent.messages)[0]
    assert asked[:2] == ["/data/a", "/data/c"]
    assert len(asked) <= 20
    assert calls == []
    check_usable(agent)


def test_several_calls():
    """Each of several approvals is checked by itself, and asked again by itself."""
    script = say(
        *(call("read", {"path": f"/data/{name}"}, name) for name in ("a", "e", "i"))
    )
    answers = {
        "/data/a": Approval(True, {"path": "/data/b"}),
        "/data/e": Approval(True, SECRET),
        "/data/c": True,
        "/data/i": True,
    }
    seen = Seen(b=Change({"path": "/data/c"}), passwd=Deny())
    asked = []

    def approve(request):
        asked.append(request.arguments["path"])
        return answers[asked[-1]]

    agent = asking(script, "Done.", tools=[read], approve=approve, hooks=[seen])
    assert outcomes(agent.run("Go.")) == ["done", "denied", "done"]
    assert asked == ["/data/a", "/data/e", "/data/i", "/data/c"]
    assert calls == ["/data/c", "/data/i"]


def test_a_state_saved_by_the_hook():
    """A state saved while hooks look again asks about what will be called."""
    states = []

    class Saves:
        def before_tool(self, event):
            states.append(agent.save())

    settings = {"tools": [read], "hooks": [Saves()]}
    agent = asking(READ, "Done.", **settings)
    agent.run("Go.")
    agent.resume({the_one(agent).id: Approval(True, {"path": "/data/b"})})
    calls.clear()
    other = Agent.load(states[-1], ScriptedModel(["Done."]), tools=[read])
    other.resume()
    shown = the_one(other).arguments
    other.resume({the_one(other).id: True})
    assert calls == [shown["path"]]


def test_a_cancel_in_the_hook():
    """A cancel while hooks look again starts nothing."""

    class Cancels(Seen):
        def before_tool(self, event):
            super().before_tool(event)
            if len(self.paths) == 2:
                agent.cancel()

    agent = asking(
        *(READ, "Done."),
        tools=[read],
        hooks=[Cancels()],
        approve=lambda _: Approval(True, {"path": "/data/b"}),
    )
    result = agent.run("Go.")
    assert result.cancelled
    assert calls == []
    check_usable(agent)
