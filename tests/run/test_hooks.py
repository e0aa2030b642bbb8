"""Hooks see what happens, may interfere, and can neither break nor outlive a run."""

import threading

import pytest
from support.agents import SUM, add, check_usable, model, outcomes, told
from support.threads import meanwhile

from syncagent import Agent, Approval, ConfigurationError, ToolContext, tool
from syncagent.hooks import Change, Deny, Retry, Skip
from syncagent.testing import Gate, call, complaints, say

METHODS = [
    "before_model",
    "after_model",
    "before_tool",
    "after_tool",
    "on_event",
    "on_finish",
]


def hook(**methods):
    """Return an object with these methods."""
    return type("Hook", (), {k: staticmethod(v) for k, v in methods.items()})()


def agent_with(*hooks, script=(SUM,), tools=(add,), **settings):
    return Agent(model(*script), tools=tools, hooks=hooks, **settings)


def recorder(seen):
    """Return a hook that notes what it is shown, by the method."""
    return hook(
        **{
            name: lambda event, name=name: seen.append((name, event))
            for name in METHODS
        }
    )


def test_hooks_see_everything():
    """Each method, in the order in which things happen, with the run's own id."""
    seen = []
    result = agent_with(recorder(seen)).run("Add.")
    order = [name for name, _ in seen if name != "on_event"]
    turn = ["before_model", "after_model"]
    assert order == [*turn, "before_tool", "after_tool", *turn, "on_finish"]
    shown = dict(seen)
    assert shown["on_finish"] == result
    assert shown["before_tool"].arguments == {"a": 1, "b": 2}
    assert shown["after_tool"].result.content[0].value == 3
    assert shown["before_model"].turn == 2
    assert {event.run_id for name, event in seen if name in METHODS[:4]} == {
        result.run_id
    }


def test_on_event_is_shown_what_the_stream_yields():
    """The same events in the same order, before the caller has them."""
    seen = []
    watcher = hook(on_event=seen.append)
    yielded = []
    for event in agent_with(watcher).stream("Add."):
        yielded.append(event)
        assert seen[: len(yielded)] == yielded[: len(seen)]
    assert seen == yielded


def test_on_event_is_shown_the_end_of_calls_that_a_cancel_has_ended():
    """Whoever counts starts and ends gets the same number of both."""
    seen = []

    def stop(ctx: ToolContext) -> None:
        """Cancel the run."""
        agent.cancel()

    calls = say(call("stop"), call("add", {"a": 1, "b": 2}))
    agent = agent_with(hook(on_event=seen.append), script=[calls], tools=[stop, add])
    yielded = list(agent.stream("Stop."))
    assert seen == yielded


def test_hooks_run_on_the_thread_of_the_run():
    """Promise 10: also where tools run on others."""
    threads = []
    watcher = hook(
        **{m: lambda _: threads.append(threading.get_ident()) for m in METHODS}
    )
    both = say(call("add", {"a": 1, "b": 2}, "c1"), call("add", {"a": 1, "b": 2}, "c2"))
    agent_with(watcher, script=[both], parallel_tools=2).run("Add.")
    assert set(threads) == {threading.get_ident()}
    assert len(threads) > 10


# -- what they may ask for -------------------------------------------------------------


def test_deny():
    """The tool does not run, and the model is told why."""
    agent = agent_with(hook(before_tool=lambda _: Deny("not today")))
    assert outcomes(agent.run("Add.")) == ["denied"]
    assert "Denied: not today" in told(agent)
    check_usable(agent)


def test_skip_in_place_of_a_call():
    """The tool does not run, and the model gets that result."""
    agent = agent_with(hook(before_tool=lambda _: Skip({"sum": 42})))
    assert outcomes(agent.run("Add.")) == ["done"]
    assert "{'sum': 42}" in told(agent)


def test_skip_in_place_of_a_result():
    """The tool has run, and the model gets another result."""
    agent = agent_with(hook(after_tool=lambda _: Skip("a secret")))
    assert outcomes(agent.run("Add.")) == ["done"]
    assert "a secret" in told(agent)
    assert "value=3" not in told(agent)


def test_change():
    """The tool gets other arguments; the transcript keeps what the model has said."""
    agent = agent_with(hook(before_tool=lambda _: Change({"a": 5, "b": 5})))
    agent.run("Add.")
    assert "value=10" in told(agent)
    assert agent.messages[1].tool_calls[0].parse() == {"a": 1, "b": 2}


def test_several_hooks_in_order():
    """Each sees what the one before it has changed; after a Deny nobody is asked."""
    seen = []

    def note(event):
        seen.append(event.arguments["a"])
        return Change({"a": event.arguments["a"] + 1, "b": 0})

    noting, deny = hook(before_tool=note), hook(before_tool=lambda _: Deny())
    agent = agent_with(noting, noting, deny, noting)
    assert outcomes(agent.run("Add.")) == ["denied"]
    assert seen == [1, 2]


def test_an_approval_sees_the_changed_arguments():
    """Whoever approves sees what will really be called."""
    asked = []
    careful = tool(requires_approval=True)(add)

    def approve(request):
        asked.append(request.arguments)
        return Approval(True)

    change = hook(before_tool=lambda _: Change({"a": 7, "b": 7}))
    agent = agent_with(change, tools=[careful], approve=approve)
    agent.run("Add.")
    assert asked == [{"a": 7, "b": 7}]
    assert "value=14" in told(agent)


def test_arguments_changed_in_place_change_nothing():
    """What is approved is what is called, whatever somebody does to what was shown."""
    careful = tool(name="total", requires_approval=True)(_total)
    asked = []

    def spoil(event):
        event.arguments["items"]["all"].append(100)

    def approve(request):
        asked.append(dict(request.arguments["items"]))
        request.arguments["items"]["all"] = [1000]
        return True

    script = [say(call("total", {"items": {"all": [1, 2]}}))]
    agent = agent_with(
        hook(before_tool=spoil), tools=[careful], script=script, approve=approve
    )
    agent.run("Add.")
    assert asked == [{"all": [1, 2]}]
    assert "value=3" in told(agent)


def _total(items: dict[str, list[int]]) -> int:
    """Add what is in there."""
    return sum(items["all"])


def once(wish):
    """Return a method that wants something the first time only."""
    wishes = [wish]
    return lambda event: wishes.pop() if wishes else None


def test_retry_of_an_answer():
    """The first answer is dropped, and paid for."""
    agent = agent_with(hook(after_model=once(Retry())), script=["bad", "good"])
    result = agent.run("Say.")
    assert (result.text, result.turns) == ("good", 2)
    assert result.usage.input_tokens == 20
    assert [message.content[0].text for message in agent.messages] == ["Say.", "good"]


def test_retry_of_an_answer_with_calls():
    """None of its calls is made, and none is reported."""
    agent = agent_with(hook(after_model=once(Retry())), script=[SUM, "good"])
    result = agent.run("Say.")
    assert (result.text, result.tool_outcomes) == ("good", ())
    check_usable(agent)


@pytest.mark.parametrize("width", [1, 2])
def test_retry_of_a_call(width):
    """It is made again, once, and the last result counts."""
    numbers = iter([1, 2, 3])

    def draw() -> int:
        """Draw the next number."""
        return next(numbers)

    agent = agent_with(
        hook(after_tool=once(Retry())),
        script=[say(call("draw"))],
        tools=[tool(isolation="thread" if width > 1 else None)(draw)],
    )
    assert outcomes(agent.run("Draw.")) == ["done"]
    assert "value=2" in told(agent)
    check_usable(agent)


def test_retry_of_a_call_that_failed():
    """A tool that works the second time."""
    left = [ValueError("not yet"), None]

    def flaky() -> str:
        """Fail once."""
        if (error := left.pop(0)) is not None:
            raise error
        return "fine"

    def again(event):
        return Retry() if event.outcome.outcome == "failed" else None

    agent = agent_with(
        hook(after_tool=again), script=[say(call("flaky"))], tools=[flaky]
    )
    assert outcomes(agent.run("Try.")) == ["done"]


# -- what they may not -----------------------------------------------------------------

WRONG = {
    "before_model": [Retry(), "yes", True, Deny()],
    "after_model": [Skip(1), "yes", True],
    "before_tool": [Retry(), "yes", False],
    "after_tool": [Deny(), Change({}), 0],
}


@pytest.mark.parametrize(
    ("method", "answer"), [(m, wrong) for m, all_ in WRONG.items() for wrong in all_]
)
def test_an_answer_that_means_nothing(method, answer):
    """It is an error that names the method; the conversation is valid."""
    agent = agent_with(hook(**{method: once(answer)}))
    with pytest.raises(ConfigurationError, match=method):
        agent.run("Add.")
    agent.model._script[:] = ["ok"] * 3
    check_usable(agent)


@pytest.mark.parametrize("wish", [Change({"a": "x", "b": 1}), Change("no"), Change({})])
def test_changed_arguments_that_do_not_fit(wish):
    """The hook's mistake is no mistake of the model: it is raised."""
    agent = agent_with(hook(before_tool=once(wish)))
    with pytest.raises(ConfigurationError, match="a hook changed the arguments of add"):
        agent.run("Add.")
    assert complaints(agent.messages) == {}


@pytest.mark.parametrize("method", ["before_tool", "after_tool"])
def test_a_result_that_is_none(method):
    """Something that no JSON can be made of is refused."""
    agent = agent_with(hook(**{method: once(Skip(object()))}))
    with pytest.raises(ConfigurationError, match="no usable result"):
        agent.run("Add.")
    assert complaints(agent.messages) == {}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [ValueError, StopIteration, ConfigurationError])
def test_a_hook_that_raises_ends_the_run(method, kind):
    """Promises 4 and 8: with its error, a valid conversation, and a free agent."""

    def fail(event):
        if wishes:
            raise wishes.pop()

    wishes = [kind("broken hook")]
    agent = agent_with(hook(**{method: fail}))
    # A generator lets no StopIteration through: it says so with a RuntimeError.
    with pytest.raises(RuntimeError if kind is StopIteration else kind):
        agent.run("Add.")
    agent.model._script[:] = ["ok"] * 3
    check_usable(agent)


def test_a_run_whose_hook_fails_at_the_end_has_a_result():
    """It is over by then; the stream has the result."""
    stream = agent_with(hook(on_finish=lambda result: 1 / 0)).stream("Add.")
    with pytest.raises(ZeroDivisionError):
        list(stream)
    assert (stream.result.text, stream.result.stop_reason) == ("ok", "end_turn")


# -- hooks and cancels -----------------------------------------------------------------


@pytest.mark.parametrize("way", ["inside", "thread"])
@pytest.mark.parametrize("method", METHODS[:-1])
@pytest.mark.parametrize("wish", [None, Retry(), Skip("no"), Change({"a": 9, "b": 9})])
def test_a_cancel_in_a_hook(method, wish, way):
    """Promises 1 and 6: the run is cancelled, and what the hook wants is not done."""
    receipts = []

    def cancel(event):
        if way == "inside":
            receipts.append(agent.cancel("from a hook"))
        else:
            with meanwhile(lambda: receipts.append(agent.cancel("from a hook"))):
                pass
        return wish

    agent = agent_with(hook(**{method: cancel}))
    result = agent.run("Add.")
    assert receipts[0].first
    assert (result.stop_reason, result.cancellation.reason) == (
        "cancelled",
        "from a hook",
    )
    assert len(agent.model.requests) == (0 if method == "before_model" else 1)
    if method in ("after_model", "before_tool"):
        assert outcomes(result) == ["not_started"]
    if method == "after_tool":
        assert "value=3" in told(agent)
    assert complaints(agent.messages) == {}


def test_a_cancel_when_the_run_has_finished():
    """Promise 3: in on_finish it is over, so the receipt is false."""
    receipts = []
    agent = agent_with(hook(on_finish=lambda _: receipts.append(agent.cancel())))
    assert agent.run("Add.").stop_reason == "end_turn"
    assert not receipts[0]
    check_usable(agent)


@pytest.mark.parametrize("wish", [Retry(), Skip("all is well")])
@pytest.mark.parametrize("isolation", [None, "thread"])
def test_a_cancelled_tool_is_not_called_again(isolation, wish):
    """Promises 5 and 6: nor is anything put in place of what has become of it."""
    gate, calls = Gate(), []

    @tool(isolation=isolation)
    def block(ctx: ToolContext) -> None:
        """Wait for a cancel."""
        calls.append(1)
        gate.stop_here(token=ctx.token)

    watcher = hook(after_tool=lambda _: wish)
    agent = agent_with(watcher, script=[say(call("block"))], tools=[block])
    with meanwhile(lambda: (gate.wait_reached(), agent.cancel())):
        result = agent.run("Block.")
    assert outcomes(result) == ["interrupted"]
    assert "all is well" not in told(agent)
    assert len(calls) == 1


# -- bad hooks -------------------------------------------------------------------------


@pytest.mark.parametrize("hooks", [None, 42, [object()], [None], ["x"], [42], "x"])
def test_what_is_no_hook(hooks):
    """It is refused when the agent is made."""
    with pytest.raises(ConfigurationError, match="hook"):
        Agent(model(), hooks=hooks)


def test_hooks_from_a_generator():
    """They are all used."""
    seen = []
    made = (hook(on_finish=seen.append) for _ in range(3))
    Agent(model(), hooks=made).run("x")
    assert len(seen) == 3
