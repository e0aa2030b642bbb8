"""Cancels at the very moment at which something else is decided."""

import gc
import threading
import weakref

import pytest
from support.threads import together
from support.two_rounds import AGAIN, LAST, make_agent, words

from syncagent import Agent, CancelPolicy, CancelToken, ToolContext, tool
from syncagent._context import _cleanups
from syncagent.cancel import RunClaim, RunSlot
from syncagent.hooks import Retry
from syncagent.testing import Gate, ScriptedModel, call, complaints, say


@tool(requires_approval=True)
def dangerous() -> str:
    """Do something."""
    return "done"


class Once:
    """Does something once, right after a method of a class has returned."""

    def __init__(self, owner, name, act):
        self._real, self._act, self._owner, self._name = (
            getattr(owner, name),
            act,
            owner,
            name,
        )

    def __enter__(self):
        once = self
        lock = threading.Lock()

        def method(*args, **kwargs):
            result = once._real(*args, **kwargs)
            if lock.acquire(blocking=False):
                once._act()
            return result

        setattr(self._owner, self._name, method)

    def __exit__(self, *error):
        setattr(self._owner, self._name, self._real)


def test_right_after_a_pause_was_decided():
    """Promise 3: no run is live any more, so the pause is let go."""
    agent = Agent(ScriptedModel([say(call("dangerous")), LAST]), tools=[dangerous])
    with Once(RunClaim, "finish", lambda: agent.cancel()):
        agent.run("Do it.")
    assert agent.interrupts == ()
    assert agent.run(AGAIN).stop_reason == "end_turn"


def test_for_later_right_after_the_end():
    """Promise 3: it misses, and says so."""
    agent, receipts = Agent(ScriptedModel([LAST])), []

    def act():
        receipts.append(agent.cancel(mode="after_turn"))

    with Once(RunClaim, "finish", act):
        assert agent.run("Do it.").stop_reason == "end_turn"
    assert not receipts[0]


def test_while_somebody_resumes():
    """Promise 3: a pause that becomes a run at this moment is hit as a run."""
    gate, results = Gate(), []

    @tool(requires_approval=True)
    def wait(ctx: ToolContext) -> str:
        """Wait for the end."""
        gate.stop_here(token=ctx.token)
        return "never"

    agent = Agent(ScriptedModel([say(call("wait")), LAST]), tools=[wait])
    [asked] = agent.run("Do it.").interrupts
    other = threading.Thread(
        target=lambda: results.append(agent.resume({asked.id: True}))
    )

    def act():
        other.start()
        gate.wait_reached()

    with Once(RunSlot, "cancel", act):
        assert agent.cancel("at this very moment")
    other.join(20)
    assert results[0].cancelled


def test_after_tools_while_somebody_is_asked():
    """Promise 6: no tool runs, so it is over; a late yes starts nothing."""
    gate = Gate()
    agent = Agent(
        ScriptedModel([say(call("dangerous")), LAST]),
        tools=[dangerous],
        approve=lambda request: gate.stop_here() or True,
    )
    results = []

    def act():
        gate.wait_reached()
        assert agent.cancel(mode="after_tools").wait(10)
        gate.open()

    together(lambda: results.append(agent.run("Do it.")), act)
    assert [each.outcome for each in results[0].tool_outcomes] == ["not_started"]


@pytest.mark.parametrize("mode", ["after_turn", "after_tools", "now"])
def test_a_hook_that_wants_more_after_a_cancel(mode):
    """Promise 6: whatever the mode, it does not get it."""

    class Insatiable:
        def after_model(self, event):
            agent.cancel(mode=mode)
            return Retry()

    model = ScriptedModel(lambda messages: LAST)
    agent = Agent(model, hooks=[Insatiable()])
    assert agent.run("Do it.").cancelled
    assert len(model.requests) == 1


def test_a_tool_is_not_made_again_after_a_cancel_for_later():
    """Promise 6: the same for tools."""
    ran = []

    class Insatiable:
        def after_tool(self, event):
            agent.cancel(mode="after_turn")
            return Retry()

    @tool
    def count() -> int:
        """Count."""
        ran.append(1)
        return len(ran)

    agent = Agent(
        ScriptedModel([say(call("count")), LAST]), tools=[count], hooks=[Insatiable()]
    )
    assert agent.run("Do it.").cancelled
    assert len(ran) == 1


def test_only_one_is_first():
    """Promise 3: of those that come for later, and one that comes now."""
    gate, receipts = Gate(), []
    agent = Agent(ScriptedModel([gate, LAST]))

    def act():
        gate.wait_reached()
        receipts.append(agent.cancel("one", mode="after_turn"))
        receipts.append(agent.cancel("two"))

    together(lambda: agent.run("Do it."), act)
    assert [receipt.first for receipt in receipts] == [False, True]
    assert {str(receipt.reason) for receipt in receipts} == {"two"}


def test_a_stream_that_is_driven_by_another_thread():
    """Promise 3: the run's thread is the one that drives it."""
    gate, ended = Gate(), []

    @tool
    def wait(ctx: ToolContext) -> str:
        """Wait for the end."""
        gate.stop_here(token=ctx.token)
        return "never"

    agent = Agent(ScriptedModel([say(call("wait")), LAST]), tools=[wait])
    stream = agent.stream("Do it.")
    other = threading.Thread(target=lambda: list(stream))
    other.start()
    gate.wait_reached()
    ended.append(agent.cancel().wait(20))  # on the thread that made it
    other.join(20)
    assert ended == [True]
    assert not agent.is_running


def test_rollback_of_a_run_that_was_resumed():
    """Promise 4: it goes back to before the prompt, and leaves no open call."""
    policy = CancelPolicy(partial_text="rollback")
    agent = Agent(
        ScriptedModel([say(call("dangerous")), Gate(), LAST, LAST]),
        tools=[dangerous],
        cancel_policy=policy,
    )
    [asked] = agent.run("Do it.").interrupts
    result = agent.resume({asked.id: True}, timeout=0.01)
    assert result.cancelled
    assert agent.messages == ()
    assert agent.run(AGAIN).text == LAST


def test_an_empty_answer():
    """Promise 4: what says nothing is not kept."""
    agent = Agent(ScriptedModel([say(""), LAST]))
    result = agent.run("Do it.")
    assert (result.stop_reason, result.text) == ("end_turn", "")
    assert complaints(agent.messages) == {}
    assert [words(message) for message in agent.messages] == [["Do it."]]


@pytest.fixture
def no_cleanups():
    """Call nothing after tool calls, whatever tests of frameworks have registered.

    Django looks for a connection with a context manager that raises. On Python 3.10
    contextlib leaves a cycle behind that, and the frames in it hold the tool's.
    """
    kept = dict(_cleanups)
    _cleanups.clear()
    yield
    _cleanups.update(kept)


@pytest.mark.usefixtures("no_cleanups")
def test_nothing_waits_for_the_collector():
    """Promise 7: runs, and what hangs on somebody's token, are gone at once."""
    token, seen = CancelToken(), []

    class Watch:
        def before_model(self, event):
            seen.append(weakref.ref(agent._conversation.run))

    gc.disable()
    try:
        agent = make_agent(hooks=[Watch()], parallel_tools=2, ask=input)
        for _ in range(5):
            agent.run("Do it.", cancel=token)
        assert [ref for ref in seen if ref() is not None] == []
        assert len(token._current().links) <= 1
    finally:
        gc.enable()


def test_what_was_looked_at_for_an_approval_is_let_go():
    """Promise 7: a callback of the question does not fire while the tool runs."""
    fired = []

    def needs(arguments, ctx):
        ctx.on_cancel(lambda: fired.append(1))
        return False

    @tool(requires_approval=needs)
    def stop() -> str:
        """Cancel the run."""
        agent.cancel().wait(0)
        return "x"

    agent = Agent(ScriptedModel([say(call("stop")), LAST]), tools=[stop])
    assert agent.run("Do it.").cancelled
    assert fired == []


def test_closing_and_beginning_at_once():
    """Promise 3: one of the two is first; nothing strange comes out."""
    for _ in range(200):
        agent = Agent(ScriptedModel([LAST]))
        stream = agent.stream("Do it.")
        together(lambda stream=stream: list(stream), stream.close)
        assert not agent.is_running
        assert stream.result.stop_reason in ("end_turn", "cancelled")


def test_an_exception_that_is_held_does_not_hold_the_agent():
    """Promise 8: the agent is free inside of the ``except`` block."""

    class Interrupting:
        def before_model(self, event):
            raise KeyboardInterrupt

    agent = Agent(ScriptedModel([LAST]), hooks=[Interrupting()])
    with pytest.raises(KeyboardInterrupt) as held:
        agent.run("Do it.")
    assert held.value.__traceback__ is not None  # with all frames of the run
    assert not agent.is_running


def test_a_generator_exit_of_somebody_elses():
    """It is no closed stream: it goes up, and no call is left open."""

    class Leaving:
        def before_tool(self, event):
            raise GeneratorExit

    agent = make_agent(hooks=[Leaving()])
    with pytest.raises(GeneratorExit):
        agent.run("Do it.")
    assert complaints(agent.messages) == {}
    assert not agent.is_running


@pytest.mark.parametrize("isolation", [None, "thread"])
def test_a_tool_does_not_wait_for_the_end_of_its_own_run(isolation):
    """Promise 1: wherever it runs, that would be for ever."""
    waited = []

    @tool(isolation=isolation)
    def stop() -> str:
        """Cancel the run, and wait for that."""
        waited.append(agent.cancel().wait())
        return "x"

    agent = Agent(ScriptedModel([say(call("stop")), LAST]), tools=[stop])
    assert agent.run("Do it.").cancelled
    assert waited == [False]
