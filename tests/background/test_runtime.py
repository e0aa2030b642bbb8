"""Many handles, found by their ids, and ended together."""

import gc
import signal
import weakref

import pytest
from support.agents import check_usable, model
from support.handles import approval, queued, silent_stream, switching_often
from support.threads import LONG, meanwhile, together, until

from syncagent import Agent, ConfigurationError, Runtime, ToolContext, abandoned, tool
from syncagent.background import runtime
from syncagent.background.runtime import ShutdownReport
from syncagent.exceptions import WrongThread
from syncagent.testing import Gate, ScriptedModel, call, complaints, say


@pytest.fixture
def crew():
    """Return a runtime that is shut down at the end."""
    with Runtime(drain=0) as made:
        yield made


def held():
    """Return an agent whose model waits at a gate, and the gate."""
    gate = Gate()
    return Agent(model(gate, "late")), gate


# -- finding them ------------------------------------------------------------------


def test_a_handle_is_found_until_it_is_done(crew):
    """By its id and in the list, oldest first; a finished one leaves by itself."""
    gates, handles = [], []
    for _ in range(3):
        agent, gate = held()
        gates.append(gate)
        handles.append(crew.start(agent, "Do it."))
    assert crew.list() == handles
    assert [crew.get(each.run_id) for each in handles] == handles
    assert crew.get("nobody") is None
    gates[1].open()
    handles[1].result(LONG)
    until(handles[1].done)
    assert crew.list() == [handles[0], handles[2]]
    assert crew.get(handles[1].run_id) is None
    until(lambda: len(crew._handles) == 2)
    assert "2 runs" in repr(crew)


def test_one_that_was_started_elsewhere_is_taken_in(crew):
    """Also if it is done already: then it has left already."""
    scene = silent_stream(None)
    assert crew.add(scene.handle) is scene.handle
    assert crew.list() == [scene.handle]
    scene.let_go()
    scene.handle.result(LONG)
    until(scene.handle.done)
    crew.add(scene.handle)
    until(lambda: not crew._handles)
    scene.check_end()


def test_a_handle_that_is_done_is_freed_at_once(crew):
    """Without the garbage collector, however late it was added."""
    gc.disable()
    try:
        handle = Agent(ScriptedModel(["Done."])).start("Do it.")
        assert handle.join(LONG)
        crew.add(handle)
        assert crew.list() == []
        ref = weakref.ref(handle)
        del handle
        assert ref() is None
    finally:
        gc.enable()


def test_settings_go_to_the_handle(crew):
    """What start() of an agent takes, that of a runtime does too."""
    agent = Agent(model("one", "two"))
    handle = crew.start(agent, keep_alive=True, buffer=3)
    handle.send_input("Do it.")
    assert handle.result(LONG).text == "one"
    assert crew.list() == [handle], "an idle one is not done"
    with pytest.raises(TypeError):
        crew.start(agent, "Do it.", unknown=1)


def test_a_run_that_goes_on_in_another_handle_is_not_lost(crew):
    """Who leaves takes only itself off the list."""
    first, second = silent_stream(None), silent_stream(None)
    crew.add(first.handle)
    crew._handles[first.handle.run_id] = second.handle
    first.handle.close()
    until(lambda: not first.agent.is_running)
    assert crew.list() == [second.handle]
    second.handle.close()


# -- ending them -------------------------------------------------------------------


def test_one_is_cancelled_by_its_id(crew):
    """Promise 9: and no other; for one that is not there the receipt is false."""
    handles = [crew.start(held()[0], "Do it.") for _ in range(3)]
    receipt = crew.cancel(handles[1].run_id, "this one")
    assert receipt.first
    assert handles[1].result(LONG).cancellation.reason == "this one"
    assert not crew.cancel(handles[1].run_id)
    assert not crew.cancel("nobody")
    assert not any(handles[number].done() for number in (0, 2))


@pytest.mark.parametrize("make", [silent_stream, approval, queued])
def test_all_are_cancelled_wherever_they_wait(make, crew, tmp_path):
    """Promise 2: also one that waits for its turn."""
    scene = make(tmp_path)
    crew.add(scene.handle)
    idle = crew.start(Agent(model()))
    receipts = crew.cancel_all("all", "shutdown")
    assert [bool(each) for each in receipts] == [True, False]
    assert scene.handle.ended.wait(LONG)
    cancellation = scene.handle.result().cancellation
    assert (cancellation.reason, cancellation.origin) == ("all", "shutdown")
    assert not idle.done()
    scene.check_end()


def family(started):
    """Return an agent whose tool runs another, and has a third in the background."""
    sub, gate = held()
    other, far = held()

    @tool
    def spread(ctx: ToolContext) -> str:
        """Have others do it."""
        started.append(other.start("Find it."))
        return ctx.agent(sub, "Look for it.").text

    agent = Agent(model(say(call("spread"))), tools=[spread])
    return agent, sub, gate, far


def test_sub_agents_end_with_their_run_and_what_tools_have_started_does_not(crew):
    """Foreground cancels do not touch background runs."""
    started = []
    agent, sub, gate, far = family(started)
    handle = crew.start(agent, "Do it.")
    gate.wait_reached()
    far.wait_reached()
    assert crew.cancel(handle.run_id, "enough")
    assert handle.result(LONG).cancelled
    assert not sub.is_running
    assert complaints(sub.messages) == {}
    assert not started[0].done()
    far.open()
    assert started[0].result(LONG).text == "late"
    check_usable(agent)


@pytest.mark.parametrize("through", ["runtime", "handle", "agent"])
def test_what_tools_have_started_ends_too_if_that_is_asked_for(through, crew):
    """background="cancel" goes all the way down, whoever is asked."""
    started = []
    agent, sub, gate, far = family(started)
    handle = crew.start(agent, "Do it.")
    gate.wait_reached()
    far.wait_reached()
    if through == "runtime":
        assert crew.cancel(handle.run_id, "enough", background="cancel")
    else:
        target = handle if through == "handle" else agent
        assert target.cancel("enough", background="cancel")
    assert handle.result(LONG).cancelled
    cancellation = started[0].result(LONG).cancellation
    assert (cancellation.reason, cancellation.origin) == ("enough", "parent")
    assert started[0].ended.wait(LONG)
    assert not sub.is_running


@pytest.mark.parametrize("child", ["kept alive", "never used", "in line"])
def test_handles_that_tools_have_started_end_with_their_run(child, crew):
    """Also one that would wait for input, or still waits for its turn."""
    gate, started, busy = Gate(), [], Agent(ScriptedModel([Gate(), "never"]))

    @tool
    def begin(ctx: ToolContext) -> str:
        """Start something, and wait."""
        if child == "in line":
            started.append(busy.start("Later.", on_busy="queue"))
        elif child == "never used":
            started.append(Agent(model()).start())
        else:
            started.append(Agent(model()).start("Now.", keep_alive=True))
            started[0].result(LONG)
        gate.stop_here(token=ctx.token)
        return "begun"

    held = busy.start("Hold it.")
    handle = crew.start(Agent(model(say(call("begin"))), tools=[begin]), "Do it.")
    gate.wait_reached()
    assert not started[0].done()
    assert crew.cancel(handle.run_id, "enough", background="cancel")
    assert handle.result(LONG).cancelled
    assert started[0].join(LONG)
    held.close()


# -- all of it ---------------------------------------------------------------------


def stubborn(gate):
    """Return an agent with a tool that does not stop."""

    @tool
    def work() -> str:
        """Never stop when it should."""
        gate.stop_here(LONG)
        return "worked"

    return Agent(model(say(call("work"))), tools=[work])


@pytest.mark.slow
def test_a_shutdown_tells_what_became_of_each():
    """Who came to its end, who was told to end, and who has not done so."""
    crew, gate = Runtime(), Gate()
    idle = crew.start(Agent(model()))
    quick, slow = Gate(), held()[0]
    drained = crew.start(Agent(model(quick, "late")), "Do it.")
    cancelled = crew.start(slow, "Do it.")
    running = crew.start(stubborn(gate), "Do it.")
    gate.wait_reached()
    quick.wait_reached()
    quick.open()
    drained.result(LONG)
    report = crew.shutdown(0.01, grace=1.0)
    ended = (idle.run_id,)
    assert report.drained in (ended, (*ended, drained.run_id))
    assert report.cancelled == (cancelled.run_id,)
    assert report.running == (running.run_id,)
    assert cancelled.result().stop_reason == "shutdown"
    gate.open()
    assert running.result(LONG).stop_reason == "shutdown"
    assert not abandoned()
    assert crew.list() == []
    assert crew.shutdown(0) == ShutdownReport()


def test_a_shutdown_waits_for_what_comes_to_its_end():
    """Without a limit it takes as long as that takes, with what was queued."""
    crew = Runtime()
    agent, gate = held()
    handle = crew.start(agent, "Do it.")
    gate.wait_reached()
    handle.send_input("More.")
    with meanwhile(lambda: (until(lambda: crew._is_closed), gate.open())):
        report = crew.shutdown(None)
    assert report == ShutdownReport(drained=(handle.run_id,))
    assert handle.result().text == "ok"
    assert agent.model.requests[-1][-1].content[0].text == "More."


def test_nothing_begins_after_a_shutdown():
    """It is refused; also one that was begun at the very moment is ended."""
    crew = Runtime()
    crew.close()
    agent = Agent(model())
    with pytest.raises(ConfigurationError, match="shut down"):
        crew.start(agent, "Do it.")
    assert agent.messages == ()
    scene = silent_stream(None)
    with pytest.raises(ConfigurationError, match="shut down"):
        crew.add(scene.handle)
    assert scene.handle.ended.wait(LONG)
    assert scene.handle.result().stop_reason == "shutdown"
    scene.check_end()


def test_what_is_started_while_it_is_shut_down_is_ended_or_refused():
    """Promise 7: no handle slips through between the two."""
    with switching_often():
        for _ in range(60):
            crew, handles = Runtime(), []

            def start(crew=crew, handles=handles):
                try:
                    for _ in range(30):
                        handles.append(crew.start(held()[0], "Do it."))
                except ConfigurationError:
                    pass

            together(start, lambda crew=crew: crew.shutdown(0, grace=LONG))
            assert all(handle.ended.wait(LONG) for handle in handles)
            until(lambda crew=crew: not crew._handles)


def test_a_block_shuts_it_down_also_if_it_raises():
    """What is still running then has as long as drain says."""
    with pytest.raises(KeyError), Runtime(drain=0) as crew:
        handle = crew.start(held()[0], "Do it.")
        raise KeyError("mine")
    assert handle.done()
    assert handle.result().stop_reason == "shutdown"


def test_a_runtime_that_nobody_has_is_gone():
    """Promise 7: nothing remembers it, unless it has runs that are live."""
    before = len(runtime._runtimes)
    refs = [weakref.ref(Runtime()) for _ in range(20)]
    gc.collect()
    assert [ref() for ref in refs] == [None] * 20
    assert len(runtime._runtimes) == before


def test_signals_are_heard_on_the_main_thread_only():
    """Said at once, and the handler is as before."""
    before = signal.getsignal(signal.SIGTERM)

    def use():
        with Runtime() as crew, pytest.raises(WrongThread), crew.drain_on_sigterm():
            pass

    together(use)
    with Runtime() as crew, crew.drain_on_sigterm() as same:
        assert same is crew
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
