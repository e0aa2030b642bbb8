"""A handle's thread, its begin and its end, and who may wait for it."""

import contextvars
import logging
import sys
import threading
from functools import partial

import pytest
from support.agents import SUM, add, check_usable, model
from support.contents import json_of
from support.handles import queued, silent_stream, words_of
from support.threads import LONG, meanwhile, together, until

from syncagent import (
    Agent,
    AgentBusy,
    CancelToken,
    ConfigurationError,
    Handle,
    ToolContext,
    tool,
)
from syncagent.testing import Gate, ScriptedModel, call, complaints, say

WHO = contextvars.ContextVar("who", default="nobody")


def own_threads():
    return [each for each in threading.enumerate() if "syncagent-run" in each.name]


# -- its thread --------------------------------------------------------------------


def test_one_daemon_thread_for_all_of_its_runs():
    """A thread of its own, named by its id, from its begin to its end."""
    seen = []

    @tool
    def where() -> str:
        """Tell where it runs."""
        seen.append(threading.current_thread())
        return "here"

    agent = Agent(model(say(call("where")), "ok", say(call("where"))), tools=[where])
    handle = agent.start("One.", keep_alive=True)
    assert handle.result(LONG).run_id == handle.run_id
    handle.send_input("Two.")
    handle.result(LONG)
    (thread,) = own_threads()
    assert seen == [thread, thread]
    assert thread.daemon
    assert thread.name == f"syncagent-run-{handle.run_id[:8]}"
    handle.close()
    thread.join(LONG)
    assert own_threads() == []


def test_it_has_the_context_variables_of_whoever_started_it():
    """A copy: what the run sets is not seen outside, and the other way round."""
    seen = []

    @tool
    def look() -> str:
        """Look at the variable, and change it."""
        seen.append(WHO.get())
        WHO.set("the run")
        return "seen"

    token = WHO.set("the starter")
    try:
        gate = Gate()
        agent = Agent(model(gate, say(call("look"))), tools=[look])
        handle = agent.start("Do it.")
        WHO.set("somebody else")
        gate.open()
        handle.result(LONG)
        assert seen == ["the starter"]
        assert WHO.get() == "somebody else"
    finally:
        WHO.reset(token)


class HeldUp:
    """Holds up the threads of handles before their first step, in the block."""

    def __init__(self):
        self.gate = Gate()

    def _stop(self, frame, event, arg):
        # At once, whatever thread it is: one that is about to end is not known to
        # current_thread() any more, which would make a dummy for it.
        sys.setprofile(None)
        if threading.current_thread().name.startswith("syncagent-run"):
            self.gate.stop_here()

    def __enter__(self):
        threading.setprofile(self._stop)
        return self.gate

    def __exit__(self, *_):
        threading.setprofile(None)
        self.gate.open()


def test_a_handle_whose_thread_is_slow_to_begin_is_busy_already():
    """Its state, its cancel and who waits for it: nothing depends on the first step."""
    with HeldUp() as gate:
        agent = Agent(model("one"))
        handle = agent.start("Do it.")
        gate.wait_reached()
        assert handle.state == "processing"
        assert not handle.wait(0)
        receipt = handle.cancel("at once")
        assert receipt.first
        assert not receipt.wait(0.01), "it did not wait for its end"
        gate.open()
        assert receipt.wait(LONG)
    assert handle.result(LONG).cancelled
    assert agent.model.requests == []
    check_usable(agent)


def test_whoever_has_started_a_handle_may_queue_a_run_behind_it():
    """It is not a part of that run, even if its thread has not begun."""
    agent = Agent(model("one", "two"))
    with HeldUp() as gate:
        handle = agent.start("One.")
        gate.wait_reached()
        with meanwhile(lambda: (until(lambda: agent._conversation.line), gate.open())):
            assert agent.run("Two.", on_busy="queue").text == "two"
    assert handle.result(LONG).text == "one"


def test_a_queued_handle_is_cancelled_before_its_thread_has_begun():
    """Promise 3: no cancel is lost, however early it comes."""
    with HeldUp() as gate:
        agent = Agent(model("one"))
        handle = agent.start("Do it.", on_busy="queue")
        gate.wait_reached()
        assert handle.cancel("at once").first
    assert handle.result(LONG).cancelled
    assert handle.done()
    assert agent.model.requests == []
    check_usable(agent)


# -- who waits for it --------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"on_cancel": "abandon"}])
def test_a_run_cannot_wait_for_itself(settings):
    """AgentBusy on its own thread, and on that of a tool; others may be asked."""
    box, raised = [], []

    @tool(**settings)
    def wait() -> str:
        """Wait for the run that calls it."""
        for function in (box[0].result, box[0].wait):
            try:
                function()
            except AgentBusy as error:
                raised.append(str(error))
        box[0].close()  # asks for it, and does not wait
        return f"{box[0].done()} {box[0].state}"

    agent = Agent(model(say(call("wait"))), tools=[wait])
    handle = agent.start()
    box.append(handle)
    handle.send_input("Do it.")
    assert handle.ended.wait(LONG)
    assert ["wait for itself" in each for each in raised] == [True, True]
    assert handle.result().stop_reason == "shutdown"
    assert "False executing_tool" in json_of(agent.messages)


def test_a_result_in_time_or_not_at_all():
    """TimeoutError, and the run is not touched; wait() just says no."""
    scene = silent_stream(None)
    with pytest.raises(TimeoutError, match="still busy"):
        scene.handle.result(0.01)
    assert not scene.handle.wait(0)
    scene.let_go()
    assert scene.handle.result(LONG).text == "late"
    assert scene.handle.wait(0)
    scene.check_end()


def test_many_wait_for_the_same_result():
    """All get the same object."""
    scene, results = silent_stream(None), []
    handle = scene.handle
    with meanwhile(lambda: (until(lambda: waiting(handle) == 10), scene.let_go())):
        together(*[lambda: results.append(handle.result(LONG))] * 10)
    assert len({id(each) for each in results}) == 1
    scene.check_end()


def waiting(handle):
    return len(handle.thread.rested.bells)


def test_a_result_of_nothing():
    """There is none before something was said; nor after it was shut down unused."""
    handle = Agent(model()).start()
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="there was no prompt"):
            handle.result(LONG)
        handle.close()
    assert (handle.done(), handle.cancelled(), handle.state) == (True, False, "done")


def test_an_error_is_raised_to_everybody_and_told_in_the_state():
    """As often as asked for; queued input still goes on, and then it has a result."""
    gate = Gate()
    agent = Agent(model(gate, ValueError("no"), "better"))
    handle = agent.start("One.")
    gate.wait_reached()
    events = handle.subscribe()
    handle.send_input("Two.")
    gate.open()
    assert handle.result(LONG).text == "better"
    states = [event.state for event in events if hasattr(event, "state")]
    assert states == ["processing", "failed", "processing", "done"]
    assert words_of(agent) == ["One.", "Two."]
    check_usable(agent)


def test_a_kept_handle_survives_an_error():
    """It says so until something else is said to it."""
    agent = Agent(model(ValueError("no"), "better"))
    with agent.start("One.", keep_alive=True) as handle:
        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                handle.result(LONG)
        assert (handle.state, handle.state.message) == ("failed", "ValueError('no')")
        assert not handle.done()
        handle.send_input("Two.")
        assert handle.result(LONG).text == "better"
        assert handle.state == "idle"
    assert complaints(agent.messages) == {}


# -- its end -----------------------------------------------------------------------


def test_done_callbacks_are_called_once_in_order_and_come_what_may(caplog):
    """On its own thread; at once if it is over; one that raises is logged."""
    scene, called = silent_stream(None), []
    handle = scene.handle

    def note(name):
        return lambda given: called.append((name, given, threading.current_thread()))

    handle.add_done_callback(note("one"))
    handle.add_done_callback(lambda given: 1 / 0)
    handle.add_done_callback(note("two"))
    with caplog.at_level(logging.ERROR, "syncagent.handle"):
        scene.let_go()
        until(lambda: len(called) == 2)
    assert "ZeroDivisionError" in caplog.text
    handle.add_done_callback(note("late"))
    assert [name for name, *_ in called] == ["one", "two", "late"]
    assert {given for _, given, _ in called} == {handle}
    assert [thread.name[:13] for *_, thread in called[:2]] == ["syncagent-run"] * 2
    assert called[2][2] is threading.current_thread()
    scene.check_end()


def test_a_done_callback_may_ask_for_the_result():
    """It is over then: nothing waits for itself."""
    got = []
    handle = Agent(model("text")).start("Do it.")
    handle.add_done_callback(lambda handle: got.append(handle.result().text))
    until(lambda: got)
    assert got == ["text"]


def note(called, number, handle):
    called.append(number)


def test_callbacks_that_are_added_at_the_very_end_are_called_once():
    """Whichever thread is first calls them, and no other."""
    for _ in range(200):
        called = []
        handle = Agent(ScriptedModel(lambda messages: "ok")).start("Do it.")
        for number in range(20):
            handle.add_done_callback(partial(note, called, number))
        until(lambda called=called: len(called) == 20)
        assert sorted(called) == list(range(20))


def test_a_block_shuts_it_down_and_waits():
    """Promise 7: nothing is left, whatever leaves the block."""
    scene = silent_stream(None)
    with pytest.raises(KeyError), scene.handle as handle:
        assert isinstance(handle, Handle)
        raise KeyError("mine")
    assert handle.done()
    assert handle.result().stop_reason == "shutdown"
    scene.check_end()


def test_it_can_be_ended_again_and_again(tmp_path):
    """Promise 1: what is over is not touched, and says so."""
    scene = queued(tmp_path)
    handle = scene.handle
    assert handle.shutdown("first").first
    handle.close()
    for end in (handle.cancel, handle.interrupt, handle.shutdown):
        assert not end("later")
    assert handle.result().cancellation.reason == "first"
    assert "done" in repr(handle)
    scene.check_end()


@pytest.mark.parametrize("buffer", [0, -1, True, 1.5, None, "1"])
def test_a_buffer_of_no_size_is_refused(buffer):
    """At once: a handle that could say nothing would wait for ever."""
    agent = Agent(model())
    with pytest.raises(ConfigurationError, match="buffer"):
        agent.start("Do it.", buffer=buffer)
    check_usable(agent)


def test_a_busy_agent_refuses_a_handle_and_a_run_that_could_be_released():
    """AgentBusy, whichever way it begins; the live run is not touched."""
    scene = silent_stream(None)
    with pytest.raises(AgentBusy):
        scene.agent.start("Second.")
    with pytest.raises(AgentBusy):
        scene.agent.run("Second.", backgroundable=True)
    scene.let_go()
    assert scene.handle.result(LONG).text == "late"
    scene.check_end()


def test_a_token_of_ones_own_and_a_timeout_are_for_the_first_run():
    """What comes later has no deadline, and is not cancelled by it."""
    token, gate = CancelToken(), Gate()
    agent = Agent(model(gate, "never", SUM), tools=[add])
    handle = agent.start("One.", cancel=token, timeout=LONG, keep_alive=True)
    gate.wait_reached()
    token.cancel("mine")
    assert handle.result(LONG).cancellation.reason == "mine"
    handle.send_input("Two.")
    assert handle.result(LONG).stop_reason == "end_turn"
    handle.close()


def test_a_tool_that_waits_for_a_handle_of_another_agent():
    """A run may start others in the background, and wait for them."""
    other = Agent(model("found"))

    @tool
    def find(ctx: ToolContext) -> str:
        """Have another agent find it."""
        return other.start("Find it.").result(LONG).text

    agent = Agent(model(say(call("find"))), tools=[find])
    assert "found" in str(agent.start("Do it.").result(LONG).messages)


def test_a_handle_that_is_refused_takes_nothing_with_it():
    """What a saved agent has not heard yet is said once, and first."""
    driver = Agent(model()).drive()
    driver.send_input("More.")
    agent = Agent.load(driver.snapshot().state, model())
    with agent.stream("One.") as stream:
        with pytest.raises(AgentBusy):
            agent.start("Two.")
        list(stream)
    assert agent.start("Three.").result(LONG).stop_reason == "end_turn"
    assert words_of(agent) == ["More.", "One.", "Three."]
