"""Traps that others fell into, each of them turned into a test."""

import gc
import threading

import pytest
from support.threads import together
from support.two_rounds import AGAIN, LAST, make_agent, on_server, words

from syncagent import Agent, CancelToken, ToolContext, tool
from syncagent.hooks import Retry
from syncagent.models import OpenAIChat
from syncagent.testing import (
    Comment,
    FakeServer,
    Gate,
    ScriptedModel,
    Send,
    Stall,
    call,
    complaints,
    say,
)
from syncagent.transport import close_idle


@pytest.fixture(autouse=True)
def nothing_idle():
    """No connection outlives its test."""
    yield
    close_idle()


@pytest.mark.parametrize(
    "acts",
    [[Stall()], [Comment(times=50), Stall()], [Send(2), Comment(times=50), Stall()]],
    ids=["silence", "keep-alives", "keep-alives in the middle"],
)
def test_a_cancel_needs_no_event_to_be_seen(acts):
    """Promise 2: neither silence nor keep-alives hide it."""
    with FakeServer([say("x" * 50, acts=acts), LAST]) as server:
        agent, results = Agent(on_server(OpenAIChat, server)), []

        def cancel():
            with server._changed:
                assert server._changed.wait_for(lambda: server.requests, 10)
            assert agent.cancel()

        together(lambda: results.append(agent.run("Do it.")), cancel)
        assert results[0].cancelled
        assert agent.run(AGAIN).text == LAST


def test_a_cancel_at_the_very_beginning_is_not_lost():
    """Promise 3: nothing is reset when a run begins."""
    agent = Agent(ScriptedModel([LAST, LAST]))
    stream = agent.stream("Do it.")  # claimed, and nothing else has happened
    assert agent.is_running
    assert agent.cancel("before anything")
    with stream:
        list(stream)
    assert stream.result.cancelled
    assert stream.result.turns == 0


def test_one_event_stops_all_runs_that_were_given_it_and_stays_set():
    """Promise 3: no run clears what another one waits for."""
    gates = [Gate() for _ in range(5)]
    event, results = threading.Event(), []

    def run(gate):
        agent = Agent(ScriptedModel([gate, LAST]))
        results.append(agent.run("Do it.", cancel=event))

    def stop():
        for gate in gates:
            gate.wait_reached()
        event.set()

    together(*[lambda gate=gate: run(gate) for gate in gates], stop)
    assert all(result.cancelled for result in results)
    assert event.is_set()


def test_two_runs_with_one_token_end_with_it():
    """A token that is brought along is nobody's own: it serves any number of runs."""
    token = CancelToken()
    agent = Agent(ScriptedModel([LAST, "never"]))
    assert agent.run("Do it.", cancel=token).stop_reason == "end_turn"
    assert not token.cancelled
    token.cancel("enough")
    result = agent.run(AGAIN, cancel=token)
    assert (result.cancellation.reason, result.turns) == ("enough", 0)


def test_a_cancelled_tool_is_not_tried_again():
    """A retry that looks for errors must not find one in a cancel."""
    ran = []

    class Persistent:
        def after_tool(self, event):
            return Retry() if event.result.is_error else None

    @tool
    def wait(ctx: ToolContext) -> str:
        """Wait until somebody cancels."""
        ran.append(ctx.call_id)
        agent.cancel("enough")
        ctx.sleep(10)
        return "never"

    agent = Agent(
        ScriptedModel([say(call("wait")), LAST]), tools=[wait], hooks=[Persistent()]
    )
    result = agent.run("Do it.")
    assert (len(ran), result.cancelled) == (1, True)
    assert result.tool_outcomes[0].outcome == "interrupted"


def test_except_exception_does_not_swallow_the_end():
    """A tool that catches everything it knows of ends with the run all the same."""

    @tool
    def stubborn(ctx: ToolContext) -> str:
        """Try again and again."""
        agent.cancel("enough")
        for _ in range(1000):
            try:
                ctx.sleep(10)
            except Exception:
                pass
        return "never"

    agent = Agent(ScriptedModel([say(call("stubborn")), LAST]), tools=[stubborn])
    result = agent.run("Do it.")
    assert result.tool_outcomes[0].outcome == "interrupted"


def test_keyboard_interrupt_is_not_swallowed():
    """It is nobody's tool error: it goes up, and the agent can be used again."""

    @tool
    def interrupted() -> str:
        """Be interrupted."""
        raise KeyboardInterrupt

    agent = Agent(ScriptedModel([say(call("interrupted")), LAST]), tools=[interrupted])
    with pytest.raises(KeyboardInterrupt):
        agent.run("Do it.")
    assert complaints(agent.messages) == {}
    assert agent.run(AGAIN).text == LAST


def test_callbacks_may_do_anything_to_the_token():
    """No lock is held while they run."""
    seen = []
    gate = Gate()
    agent = Agent(ScriptedModel([gate, LAST]))

    def callback():
        seen.append((agent.cancel("again").first, agent.is_running in (True, False)))

    def cancel():
        gate.wait_reached()
        agent._conversation.slot.live.token.on_cancel(callback)
        agent.cancel("once").wait(10)

    together(lambda: agent.run("Do it."), cancel)
    for _ in range(1000):
        if seen:
            break
        threading.Event().wait(0.01)
    assert seen[0][0] is False


@pytest.mark.parametrize("stop_at", range(0, 40, 2))
def test_a_stream_may_be_closed_after_any_event(stop_at):
    """Nothing is yielded while a generator is being closed."""
    agent = make_agent()
    stream = agent.stream("Do it.")
    for number, _ in enumerate(stream):
        if number == stop_at:
            break
    stream.close()
    assert not agent.is_running
    assert complaints(agent.messages) == {}
    assert agent.run(AGAIN).text == LAST


def test_a_stream_that_is_dropped_frees_the_agent():
    """Who forgets to close it holds nothing up."""
    agent = make_agent()
    for _ in agent.stream("Do it."):
        break
    gc.collect()
    assert not agent.is_running
    assert complaints(agent.messages) == {}
    assert agent.run(AGAIN).text == LAST


def test_timeouts_work_in_any_thread():
    """No signal is needed for them, which only the main thread would get."""
    results = []
    agent = Agent(ScriptedModel([Gate(), LAST]))
    together(lambda: results.append(agent.run("Do it.", timeout=0.01)))
    assert results[0].cancellation.origin == "deadline"


def test_connections_come_back_after_an_answer_and_never_after_a_cancel():
    """Promise 9: what was cut is not used again, what was not is."""
    cut = say("x" * 200, acts=[Send(3), Stall()])
    with FakeServer([LAST, LAST, cut, LAST]) as server:
        agent = Agent(on_server(OpenAIChat, server))
        agent.run("one")
        agent.run("two")
        assert len(server._open) == 2  # the one that listens, and one connection
        with agent.stream("three") as stream:
            for event in stream:
                if getattr(event, "text", ""):
                    break
        server.wait_for_hang_up()
        assert agent.run("four").text == LAST


def test_a_run_that_is_cancelled_before_it_begins_leaves_no_answer_without_a_question():
    """Promise 4: there is a user message, or nothing."""
    token = CancelToken()
    token.cancel()
    agent = Agent(ScriptedModel([LAST]))
    agent.run("Do it.", cancel=token)
    assert [words(message) for message in agent.messages] == [["Do it."]]


def test_the_conversation_never_lags_behind_the_events():
    """What an event says has happened is in the transcript when it is heard."""
    agent = make_agent()
    with agent.stream("Do it.") as stream:
        for event in stream:
            if type(event).__name__ == "TurnFinished":
                assert agent.messages[-1] == event.message
    assert agent.messages == stream.result.messages


@pytest.mark.parametrize("origin", ["shutdown", "disconnect", "user"])
def test_who_cancelled_is_told(origin):
    """Promise 5: a shutdown is not taken for the user's wish."""
    gate, results = Gate(), []
    agent = Agent(ScriptedModel([gate, LAST]))
    together(
        lambda: results.append(agent.run("Do it.")),
        lambda: (gate.wait_reached(), agent.cancel("why", origin)),
    )
    assert results[0].cancellation.origin == origin
