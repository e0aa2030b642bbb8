"""Handles that are ended at awkward moments, from awkward places."""

import os
import random
import signal
import threading
from contextlib import contextmanager, suppress

import pytest
from support.agents import SUM, add, check_usable, model
from support.handles import (
    approval,
    queued,
    silent_stream,
    switching_often,
    user_input,
    words_of,
)
from support.threads import LONG, together, until

from syncagent import Agent, ConfigurationError, ToolContext, tool
from syncagent.events import RunFinished
from syncagent.messages import ToolMessage
from syncagent.testing import Gate, ScriptedModel, call, complaints, say


@contextmanager
def on_signal(function):
    """Have *function* called in the handler of a signal that this process is sent."""
    before = signal.signal(signal.SIGUSR1, lambda *_: function())
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def send_signal_when(is_so):
    """Send it from another thread as soon as something is so."""

    def work():
        until(is_so)
        os.kill(os.getpid(), signal.SIGUSR1)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


# -- interrupts, twice and too late ------------------------------------------------


def test_a_second_interrupt_hits_the_same_run_and_never_the_next():
    """Promise 3: its receipt says that it was not the first, or hit nothing."""
    for _ in range(100):
        gate = Gate()
        agent = Agent(model(gate, "next"))
        handle = agent.start("One.", keep_alive=True)
        gate.wait_reached()
        first, second = handle.interrupt("first"), handle.interrupt("second")
        handle.send_input("Two.")
        assert first.first
        assert not second.first
        result = handle.result(LONG)
        assert (result.stop_reason, result.text) == ("end_turn", "next")
        handle.close()


def test_interrupts_without_end_are_exact():
    """Promise 3: each first receipt is one run that ended as cancelled."""
    agent = Agent(ScriptedModel(lambda messages: "a few words to be cut"))
    handle = agent.start(keep_alive=True, buffer=100_000)
    firsts = []

    def interrupt():
        for _ in range(300):
            receipt = handle.interrupt("mine")
            if receipt.first:
                firsts.append(receipt)
            assert receipt.wait(LONG)

    def talk():
        for number in range(150):
            handle.send_input(f"n{number}")
            handle.wait(LONG)

    with switching_often():
        together(interrupt, interrupt, talk)
    handle.close()
    ends = [e.result for e in handle.subscribe() if isinstance(e, RunFinished)]
    cancelled = [each for each in ends if each.cancelled]
    assert len(cancelled) == len(firsts)
    assert len({each.run_id for each in ends}) == len(ends)
    assert [words_of(agent).count(f"n{n}") for n in range(150)] == [1] * 150
    check_usable(agent)


def test_an_interrupt_of_an_idle_handle_is_nothing():
    """No run, no receipt, and the next run does not hear of it; twice, too."""
    agent = Agent(model("one", "two"))
    with agent.start() as handle:
        for words in ("one", "two"):
            assert not handle.interrupt()
            assert not handle.interrupt(force=True)
            assert not handle.cancel()
            handle.send_input("Say it.")
            assert handle.result(LONG).text == words
            assert handle.state == "idle"


def test_a_cancel_after_an_interrupt_ends_the_handle():
    """Also before the run has ended; and an interrupt later does not save it."""
    for ends in (("interrupt", "cancel"), ("cancel", "interrupt")):
        scene = approval(None)
        for end in ends:
            assert getattr(scene.handle, end)()
        assert scene.handle.ended.wait(LONG)
        assert scene.handle.cancelled()
        scene.check_end()


def test_an_interrupt_after_the_last_tool_of_a_round_is_not_swallowed():
    """The model is not asked again, although no call is left to be told of it."""
    box = []

    @tool
    def last() -> str:
        """Be the last one."""
        box[0].interrupt("now")
        return "done"

    agent = Agent(model(SUM, say(call("last"))), tools=[add, last])
    with agent.start() as handle:
        box.append(handle)
        handle.send_input("Do it.")
        result = handle.result(LONG)
        assert (result.stop_reason, result.turns) == ("cancelled", 2)
        assert isinstance(result.messages[-1], ToolMessage)
        assert len(agent.model.requests) == 2
        assert handle.state == "idle"
    check_usable(agent)


def test_a_shutdown_is_told_as_one_however_fast_the_run_is():
    """The run may end before shutdown() has returned; nothing else is said then."""
    with switching_often():
        for _ in range(300):
            scene = silent_stream(None)
            scene.handle.send_input("more")
            assert scene.handle.shutdown().first
            assert scene.handle.ended.wait(LONG)
            assert scene.handle.result().stop_reason == "shutdown"
            assert words_of(scene.agent) == ["Do it."]
            (unsaid,) = scene.handle.pending_inputs
            assert unsaid.content[0].text == "more"


def test_all_ends_at_once():
    """Promise 1: whichever is first, it is over, once, and the agent is free."""
    with switching_often():
        for number in range(100):
            make = (silent_stream, approval, user_input)[number % 3]
            scene, receipts = make(None), []
            handle = scene.handle
            ends = [
                handle.cancel,
                handle.interrupt,
                handle.shutdown,
                scene.agent.cancel,
            ]
            together(*[lambda e=e, r=receipts: r.append(e("all")) for e in ends])
            assert sum(receipt.first for receipt in receipts) == 1
            assert handle.ended.wait(LONG)
            assert handle.result().stop_reason in ("cancelled", "shutdown")
            assert complaints(scene.agent.messages) == {}


# -- from a signal handler ---------------------------------------------------------

ENDS = {
    "cancel": lambda scene: scene.handle.cancel("signal"),
    "interrupt": lambda scene: scene.handle.interrupt("signal"),
    "shutdown": lambda scene: scene.handle.shutdown("signal"),
    "agent": lambda scene: scene.agent.cancel("signal"),
}


def result(scene):
    return scene.handle.result(LONG)


def wait(scene):
    return scene.handle.wait(LONG)


def follow(scene):
    for event in scene.handle.subscribe():
        if isinstance(event, RunFinished):
            return event
    return None


def wait_for_end(scene):
    return scene.handle.ended.wait(LONG)


def moments():
    """Return who is ended, who waits for it, and by what, where that makes sense."""
    for make in (silent_stream, approval, queued):
        for waiter in (result, wait, follow, wait_for_end):
            for end in ENDS:
                # One waits for the end of the handle; the agent's run is another one.
                lasts = waiter is wait_for_end and end == "interrupt"
                if not lasts and not (make is queued and end == "agent"):
                    name = f"{make.__name__}-{waiter.__name__}-{end}"
                    yield pytest.param(make, waiter, end, id=name)


@pytest.mark.parametrize(("make", "waiter", "end"), list(moments()))
def test_it_is_ended_in_a_signal_handler_on_the_thread_that_waits(
    make, waiter, end, tmp_path
):
    """Promise 1: nothing there needs a lock that the waiting thread might hold."""
    scene, receipts = make(tmp_path), []
    with on_signal(lambda: receipts.append(ENDS[end](scene))):
        thread = send_signal_when(lambda: True)
        waiter(scene)
        thread.join(LONG)
        until(lambda: receipts)
    assert scene.handle.result(LONG).cancellation.reason == "signal"
    scene.check_end()


@pytest.mark.parametrize("make", [approval, user_input])
def test_it_is_answered_in_a_signal_handler_on_the_thread_that_waits(make):
    """Answering, and saying more, is as safe as ending."""
    scene = make(None)

    def answer():
        scene.handle.send_input("more")
        scene.let_go()

    with on_signal(answer):
        send_signal_when(lambda: waits(scene.handle)).join(0)
        assert scene.handle.result(LONG).stop_reason == "end_turn"
    assert words_of(scene.agent) == ["Do it.", "more"]
    scene.check_end()


def waits(handle):
    return len(handle.thread.rested.bells) > 0


@pytest.mark.slow
def test_a_storm_of_signals_on_the_thread_that_does_everything():
    """Handlers that end and answer come between any two steps of the main thread."""
    live, chance = [], random.Random(1)

    def disturb():
        for handle in live:
            kind = chance.randrange(4)
            if kind == 0:
                handle.interrupt("storm")
            elif kind == 1:
                handle.cancel("storm", mode="after_turn")
            elif kind == 2 and not handle.done():
                list(handle.subscribe(replay=False, cancel=over))
            else:
                for asked in handle.interrupts:
                    handle.answer(asked.id, True)

    over = threading.Event()
    over.set()
    before = signal.signal(signal.SIGALRM, lambda *_: disturb())
    signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
    try:
        for _ in range(150):
            agent = Agent(ScriptedModel(risky_reply), tools=[add_if_allowed])
            with agent.start("Do it.", keep_alive=True) as handle:
                live[:] = [handle]
                # A handler may have cancelled the run, and so ended the handle.
                with suppress(ConfigurationError):
                    handle.send_input("More.")
                for event in handle.subscribe():
                    if isinstance(event, RunFinished) or handle.interrupts:
                        break
                handle.interrupt("mine")
                assert handle.wait(LONG)
            assert handle.done()
            assert complaints(agent.messages) == {}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@tool(requires_approval=True)
def add_if_allowed(a: int, b: int, ctx: ToolContext) -> int:
    """Add two numbers."""
    ctx.sleep(0.0005)
    return a + b


def risky_reply(messages):
    if isinstance(messages[-1], ToolMessage):
        return "ok"
    return say("Wait.", call("add_if_allowed", {"a": 1, "b": 2}))
