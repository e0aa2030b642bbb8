"""One run at a time: a second one is refused, waits its turn, or takes the place."""

import gc
import pickle
import threading

import pytest
from support.agents import SUM, add, check_usable, model
from support.threads import LONG, meanwhile, together

from syncagent import Agent, AgentBusy, CancelToken, ConfigurationError, tool
from syncagent.events import TextDelta
from syncagent.messages import UserMessage
from syncagent.testing import Gate, ScriptedModel, call, complaints, say


class Busy:
    """An agent whose run stands at a gate, on a thread of its own."""

    def __init__(self, **settings):
        self.gate = Gate()
        self.agent = Agent(model(self.gate, "first"), **settings)
        self.result = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        self.result = self.agent.run("First.")

    def __enter__(self):
        self.thread.start()
        self.gate.wait_reached()
        return self

    def __exit__(self, *exception):
        self.gate.open()
        self.thread.join(LONG)
        assert not self.thread.is_alive()

    def wait_for_line(self, number):
        """Block until so many wait their turn."""
        pause = threading.Event()
        for _ in range(int(LONG * 1000)):
            if len(self.agent._conversation.line) == number:
                return
            pause.wait(0.001)
        raise TimeoutError(
            f"{len(self.agent._conversation.line)} of {number} stand in line"
        )


def prompts(agent):
    return [m.content[0].text for m in agent.messages if isinstance(m, UserMessage)]


def test_a_second_run_is_refused_at_once():
    """AgentBusy, whichever way it begins; the live run is not touched."""
    with Busy() as busy:
        before = busy.agent.messages
        for begin in (busy.agent.run, busy.agent.stream):
            with pytest.raises(AgentBusy, match="live run"):
                begin("Second.")
        with pytest.raises(AgentBusy):
            busy.agent.fork()
        assert busy.agent.messages == before
    assert busy.result.text == "first"
    check_usable(busy.agent)


def test_the_error_names_the_thread_at_work():
    """Another thread is in the middle of a step."""
    with Busy() as busy, pytest.raises(AgentBusy, match="at work on it") as caught:
        busy.agent.run("Second.")
    assert (caught.value.cause, caught.value.thread) == ("thread", busy.thread.name)
    assert caught.value.thread in str(caught.value)
    assert caught.value.run_id == busy.result.run_id
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.cause, again.run_id) == ("thread", busy.result.run_id)


@pytest.mark.parametrize("on_busy", ["raise", "queue"])
@pytest.mark.parametrize("steps", [0, 1])
def test_an_unread_stream_is_named(on_busy, steps):
    """Nobody will ever read it: waiting would be for ever."""
    agent = Agent(ScriptedModel(["one", "two"]))
    stream = agent.stream("First.")
    for _ in range(steps):
        next(stream)
    with pytest.raises(AgentBusy, match="close it") as caught:
        agent.run("Second.", on_busy=on_busy)
    assert caught.value.cause == "unread"
    assert caught.value.run_id == stream.run_id
    stream.close()
    assert agent.run("Second.", on_busy=on_busy).stop_reason == "end_turn"


def test_an_unread_stream_of_another_thread_is_named():
    """That thread goes on with something else."""
    agent = Agent(ScriptedModel(["one", "two"]))
    streams = []
    thread = threading.Thread(target=lambda: streams.append(agent.stream("First.")))
    thread.start()
    thread.join(LONG)
    with pytest.raises(AgentBusy, match="not read to its end") as caught:
        agent.run("Second.")
    assert caught.value.cause == "unread"
    streams[0].close()


def test_a_handle_is_named():
    """Its thread is busy with the run."""
    gate = Gate()
    agent = Agent(ScriptedModel([gate, "one"]))
    with agent.start("First."):
        gate.wait_reached()
        with pytest.raises(AgentBusy, match="wait for its handle") as caught:
            agent.run("Second.")
        assert caught.value.cause == "background"
        gate.open()


@pytest.mark.parametrize("isolation", [None, "thread"])
def test_a_tool_may_use_a_fork(isolation):
    """It has the conversation before the run, and its own run is no part of it."""
    seen = []

    @tool(isolation=isolation)
    def think() -> str:
        """Ask the agent that asks."""
        with pytest.raises(AgentBusy, match=r"agent\.fork") as caught:
            agent.run("again")
        assert caught.value.cause == "inside"
        other = agent.fork()
        other.run("Aside.")
        seen.append(prompts(other))
        return "thought"

    model = ScriptedModel(["Hello.", say(call("think")), "aside", "last"])
    agent = Agent(model, tools=[think])
    agent.run("Hi.")
    assert agent.run("Do it.").text == "last"
    assert seen == [["Hi.", "Aside."]]
    assert prompts(agent) == ["Hi.", "Do it."]


def test_a_queue_keeps_its_order():
    """Twenty threads have their turns in the order in which they came."""
    with Busy(on_busy="queue") as busy:
        threads = []
        for number in range(20):
            thread = threading.Thread(target=busy.agent.run, args=(f"n{number}",))
            thread.start()
            threads.append(thread)
            busy.wait_for_line(number + 1)
        busy.gate.open()
        for thread in threads:
            thread.join(LONG)
    assert prompts(busy.agent) == ["First.", *(f"n{number}" for number in range(20))]
    assert complaints(busy.agent.messages) == {}
    assert not busy.agent._conversation.line


def test_a_queue_that_is_not_in_order_loses_nobody():
    """Threads that come all at once all have their turn."""
    agent = Agent(ScriptedModel(lambda messages: "ok"), on_busy="queue")
    results = []
    together(*[lambda: results.append(agent.run("x").text)] * 30)
    assert results == ["ok"] * 30
    assert complaints(agent.messages) == {}


def set_later(event):
    return lambda busy: (busy.wait_for_line(1), event.set())


def ends_of_a_wait():
    """Return how a wait can end: what is given to the run, and what ends it then."""
    token, event = CancelToken(), threading.Event()
    before = threading.Event()
    before.set()
    return {
        "timeout": ({"timeout": 0.05}, lambda busy: None, "deadline"),
        "token": (
            {"cancel": token},
            lambda busy: (busy.wait_for_line(1), token.cancel("enough")),
            "user",
        ),
        "event": ({"cancel": event}, set_later(event), "user"),
        "set before": ({"cancel": before}, lambda busy: None, "user"),
    }


@pytest.mark.parametrize("name", ends_of_a_wait())
def test_a_wait_in_the_queue_ends_at_once(name):
    """Promise 2: it says where it was, and the conversation is as if it never came."""
    how, act, origin = ends_of_a_wait()[name]
    with Busy() as busy:
        before = busy.agent.messages
        with meanwhile(lambda: act(busy)):
            result = busy.agent.run("Second.", on_busy="queue", **how)
        assert (result.stop_reason, result.cancellation.phase) == ("cancelled", "queue")
        assert result.cancellation.origin == origin
        assert (result.turns, result.text) == (0, "")
        assert busy.agent.messages == before
        assert busy.agent.is_running
        assert not busy.agent._conversation.line
    assert busy.result.text == "first"
    check_usable(busy.agent)


def test_a_wait_that_ended_lets_go_of_the_event():
    """Promise 7: an event that lives long collects nothing."""
    event = threading.Event()
    with Busy() as busy:
        result = busy.agent.run("x", on_busy="queue", timeout=0.01, cancel=event)
        assert result.cancelled
    assert not event._cond._waiters


def test_an_event_is_let_go_of_when_the_run_ends():
    """Promise 7: however it ends."""
    event = threading.Event()
    agent = Agent(model("one", ValueError("no")), on_busy="queue")
    agent.run("x", cancel=event)
    with pytest.raises(ValueError, match="no"):
        agent.run("x", cancel=event)
    agent.stream("x", cancel=event).close()
    with Busy() as busy, pytest.raises(AgentBusy):
        busy.agent.run("x", cancel=event)
    assert not event._cond._waiters


def test_a_cancel_hits_the_live_run_only():
    """Promises 3 and 9: whoever waits has a turn all the same."""
    results = []
    with Busy(on_busy="queue") as busy:

        def second():
            results.append(busy.agent.run("Second."))

        with meanwhile(second):
            busy.wait_for_line(1)
            assert busy.agent.cancel("only that one").first
    assert busy.result.cancellation.reason == "only that one"
    # The answer that stood behind the gate is still to be said.
    assert (results[0].text, results[0].stop_reason) == ("first", "end_turn")
    check_usable(busy.agent)


def test_interrupt_takes_the_place_of_the_live_run():
    """The live run returns as cancelled; the new one runs, on its own thread."""
    with Busy() as busy:
        result = busy.agent.run("Second.", on_busy="interrupt")
        assert (result.text, result.stop_reason) == ("first", "end_turn")
    assert busy.result.cancelled
    assert "takes its place" in busy.result.cancellation.reason
    assert prompts(busy.agent) == ["First.", "Second."]
    check_usable(busy.agent)


def test_many_that_interrupt():
    """Each of them ends in one of the two ways, and one at least comes through."""
    agent = Agent(ScriptedModel(lambda messages: "ok"), on_busy="interrupt")
    results = []
    together(*[lambda: results.append(agent.run("x"))] * 10)
    assert len(results) == 10
    assert {r.stop_reason for r in results} <= {"end_turn", "cancelled"}
    assert any(result.stop_reason == "end_turn" for result in results)
    check_usable(agent)


@pytest.mark.parametrize("on_busy", ["raise", "queue", "interrupt"])
@pytest.mark.parametrize("has_company", [False, True])
def test_a_tool_that_runs_its_own_agent_does_not_deadlock(on_busy, has_company):
    """It is refused at once, also if somebody stands in line before it."""
    errors, others = [], []

    def again() -> str:
        """Run the agent that runs this."""
        if has_company:
            other = threading.Thread(target=lambda: agent.run("x", on_busy="queue"))
            other.start()
            others.append(other)
            busy.wait_for_line(1)
        with pytest.raises(AgentBusy) as caught:
            agent.run("Inner.", on_busy=on_busy, timeout=5)
        errors.append(caught.value)
        return "refused"

    busy = Busy(tools=[again])
    agent = busy.agent
    agent.model._script[:2] = [say(call("again"))]
    assert agent.run("Outer.").text == "ok"
    assert errors
    for other in others:
        other.join(LONG)
    check_usable(agent)


# -- streams ---------------------------------------------------------------------------


def test_a_stream_that_is_dropped_frees_the_agent():
    """Promise 8: without close(), when it is collected."""
    agent = Agent(model("Hello there, you all"))
    for event in agent.stream("Hi."):
        if isinstance(event, TextDelta):
            break
    del event
    gc.collect()
    assert agent.messages[-1].is_cut
    check_usable(agent)


def test_a_stream_that_is_closed_before_it_begins():
    """Promise 3: cancelled, with origin closed, and no request was made."""
    agent = Agent(model())
    with agent.stream("Hi.") as stream:
        assert agent.is_running
    assert stream.result.cancellation.origin == "closed"
    assert agent.model.requests == []
    stream.close()
    check_usable(agent)


def test_a_stream_that_is_dropped_before_it_begins():
    """Promise 8: the agent is free when it is collected."""
    agent = Agent(model())
    agent.stream("Hi.")
    gc.collect()
    check_usable(agent)


def test_a_stream_that_is_left_open_keeps_the_agent():
    """Also on its own thread, where nobody could wait for it."""
    agent = Agent(model("one"))
    stream = agent.stream("Hi.")
    next(stream)
    for on_busy in ("raise", "queue", "interrupt"):
        with pytest.raises(AgentBusy):
            agent.run("x", on_busy=on_busy)
    stream.close()
    check_usable(agent)


def test_two_streams_on_one_thread():
    """Promise 9: of two agents, event by event; one is cancelled, the other ends."""
    one, two = (Agent(model(SUM, "done"), tools=[add]) for _ in range(2))
    first, second = one.stream("x"), two.stream("x")
    for _ in range(4):
        next(first), next(second)
    one.cancel()
    list(first), list(second)
    assert first.result.cancelled
    assert (second.result.text, second.result.stop_reason) == ("done", "end_turn")
    check_usable(one)
    check_usable(two)


def test_a_stream_that_moves_to_another_thread():
    """It goes on there, and a cancel ends it there."""
    agent = Agent(model(SUM, "done"), tools=[add])
    stream = agent.stream("x")
    next(stream)
    with meanwhile(lambda: list(stream)):
        pass
    assert stream.result.text == "done"
    moved = agent.stream("y")
    next(moved)
    with meanwhile(lambda: (agent.cancel(), list(moved))):
        pass
    assert moved.result.cancelled
    check_usable(agent)


@pytest.mark.parametrize("how", ["close", "drop"])
def test_a_stream_ends_on_another_thread(how):
    """Whoever has it may close it."""
    agent = Agent(model(SUM, "done"), tools=[add])
    streams = [agent.stream("x")]
    next(streams[0])
    with meanwhile(lambda: streams.pop().close() if how == "close" else streams.pop()):
        pass
    gc.collect()
    agent.model._script[:] = ["ok"] * 3
    check_usable(agent)


def test_an_error_in_the_body_of_the_loop():
    """The with block ends the run; the error goes up."""
    agent = Agent(model("Hello there, you all"))
    with pytest.raises(KeyError), agent.stream("Hi.") as stream:
        for _ in stream:
            raise KeyError("mine")
    assert stream.result.cancellation.origin == "closed"
    check_usable(agent)


@pytest.mark.parametrize("on_busy", ["later", None, 1, ["queue"]])
def test_what_is_no_way_to_be_busy(on_busy):
    """It is refused, with the choices."""
    with pytest.raises(ConfigurationError, match="raise, queue, interrupt"):
        Agent(model(), on_busy=on_busy)


# -- between two runs ------------------------------------------------------------------

careful = tool(name="add", requires_approval=True)(add)


def paused():
    """Return an agent that waits for an approval."""
    agent = Agent(model(SUM), tools=[careful])
    agent.run("Add.")
    return agent


def test_a_fork_of_an_agent_that_waits():
    """It does not wait: its calls are answered as not made."""
    agent = paused()
    other = agent.fork()
    assert other.interrupts == ()
    assert complaints(other.messages) == {}
    assert other.run("Go on.").text == "ok"
    assert agent.resume({agent.interrupts[0].id: True}).text == "ok"


def test_ten_threads_resume():
    """An approved tool runs exactly once; nine are refused."""
    ran, refused, came = [], [], []
    gate = Gate()

    @tool(requires_approval=True)
    def risky() -> None:
        """Do it."""
        ran.append(1)
        gate.stop_here()

    agent = Agent(model(say(call("risky"))), tools=[risky])
    [asked] = [each.id for each in agent.run("Go.").interrupts]

    def resume():
        try:
            came.append(agent.resume({asked: True}))
        except (AgentBusy, ConfigurationError) as error:
            refused.append(error)
            if len(refused) == 9:
                gate.open()

    together(*[resume] * 10)
    assert (len(ran), len(came), len(refused)) == (1, 1, 9)
    check_usable(agent)


def test_cancels_and_answers_at_once():
    """Either the call is made or it is let go, and the agent goes on."""
    for _ in range(20):
        agent = paused()
        ends = []

        def resume(agent=agent, ends=ends):
            try:
                ids = [asked.id for asked in agent.interrupts]
                ends.append(agent.resume(dict.fromkeys(ids, True)).stop_reason)
            except ConfigurationError:
                ends.append("let go")

        together(resume, *[agent.cancel] * 3)
        assert ends[0] in ("end_turn", "cancelled", "let go")
        check_usable(agent)


def test_a_run_whose_stream_has_only_an_iterator_left():
    """Promise 3: it is live all the same."""
    agent, seen = Agent(ScriptedModel(["ok"])), []
    for _ in agent.stream("Do it."):
        gc.collect()
        seen.append(agent.is_running)
    assert seen[:2] == [True, True]
    assert not agent.is_running
