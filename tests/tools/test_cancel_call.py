"""A cancel of one call: it ends by its policy, and the rest of the run goes on."""

import gc
import signal
import sys
import threading
import time
import weakref

import pytest
from support.threads import together, until
from support.tools import (
    LAST,
    LONG,
    SOON,
    Background,
    Door,
    agent_for,
    check,
    cooperate,
    give_back,
    is_gone,
    model,
    outcomes,
    told,
)

from syncagent import Agent, ToolContext, abandoned, tool
from syncagent.events import InterruptRaised, StateChanged, ToolStarted
from syncagent.hooks import Retry
from syncagent.testing import Gate, ScriptedModel, call, say
from syncagent.tools.tool import Tool

THREADS = [("wait", None), ("wait", "thread"), ("abandon", None), ("abandon", "thread")]
KILLED = [("kill", None), ("kill", "process")]
WIDTHS = [1, 3]


#: The calls of the tool "sleep" in this test.
asleep = []


@pytest.fixture(autouse=True)
def nobody_sleeps():
    asleep.clear()


@pytest.fixture
def door(tmp_path):
    with Door(tmp_path) as door:
        yield door


@tool
def companion() -> str:
    """Be there, too."""
    return "here"


@tool(isolation="thread")
def sleep(ctx: ToolContext) -> str:
    """Sleep until told to stop."""
    asleep.append(ctx.call_id)
    ctx.sleep(LONG)
    return "slept"


def begin(door, job, how, width, **settings):
    """Have a stuck tool called together with another; return when it is stuck."""
    on_cancel, isolation = how
    made = Tool(job, name="job", on_cancel=on_cancel, isolation=isolation, **settings)
    calls = [call("job", door.arguments), call("companion")]
    agent = agent_for(made, companion, calls=calls, parallel_tools=width)
    background = Background(agent)
    background.process = door.wait_reached()
    return background


def end(background, outcome):
    """See that the call ended so, that the other is done, and that the run went on."""
    result = background.result()
    assert result.stop_reason == "end_turn"
    assert result.text == LAST
    assert [each.cancelled for each in result.tool_outcomes] == [True, False]
    assert background.finished() == {"call_job": outcome, "call_companion": "done"}
    check(background.agent, result, [outcome, "done"])
    return result


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("how", [*THREADS, *KILLED])
def test_a_call_that_cooperates_is_interrupted(door, how, width):
    """Promises 2, 5 and 9: at once; the model learns why; the rest goes on."""
    background = begin(door, cooperate, how, width, grace=LONG)
    began = time.monotonic()
    receipt = background.agent.cancel_call("call_job", "wrong file")
    assert receipt
    assert receipt.first
    assert receipt.reason == "wrong file"
    assert receipt.wait(SOON)
    assert receipt.outcome == "interrupted"
    result = end(background, "interrupted")
    assert time.monotonic() - began < SOON
    assert told(result)[0] == (
        "Interrupted: the user stopped this call while it ran; its effects are "
        "unknown. The reason: wrong file"
    )


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("how", [*THREADS, ("wait", "process")])
def test_a_tool_that_runs_to_its_end_is_done(door, how, width):
    """Promise 5: nobody says "interrupted" of what has happened."""
    background = begin(door, give_back, how, width, grace=LONG)
    receipt = background.agent.cancel_call("call_job")
    assert receipt
    assert receipt.outcome is None
    assert not receipt.wait(0.0)
    door.open()
    result = end(background, "done")
    assert told(result)[0] == "late"
    assert receipt.outcome == "done"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("isolation", [None, "thread", "process"])
def test_a_tool_that_ignores_it_is_abandoned(door, isolation, width):
    """Promise 7: it is left after its grace, listed, and struck out when it ends."""
    background = begin(door, give_back, ("abandon", isolation), width, grace=0.01)
    assert background.agent.cancel_call("call_job")
    result = end(background, "abandoned")
    assert "the user stopped this call" in told(result)[0]
    assert [each.call_id for each in abandoned()] == ["call_job"]
    door.open()
    until(lambda: not abandoned())


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("how", KILLED)
def test_a_tool_that_ignores_it_is_killed(door, how, width):
    """Promise 7: its process is gone."""
    background = begin(door, give_back, how, width)
    assert background.agent.cancel_call("call_job")
    end(background, "interrupted")
    assert is_gone(background.process)


def test_force_leaves_a_thread_at_once(door):
    """Promise 7: also one whose policy is to wait; a later cancel may force."""
    background = begin(door, give_back, ("wait", "thread"), 1)
    first = background.agent.cancel_call("call_job")
    assert not first.wait(0.0)
    second = background.agent.cancel_call("call_job", force=True)
    assert second
    assert not second.first
    end(background, "abandoned")
    door.open()
    until(lambda: not abandoned())


def test_force_kills_a_process_that_would_be_waited_for(door):
    """Promise 7: as a cancel of the run with force does."""
    background = begin(door, give_back, ("wait", "process"), 1)
    assert background.agent.cancel_call("call_job", force=True)
    end(background, "interrupted")
    assert is_gone(background.process)


def test_one_of_ten():
    """Promise 9: nine go on, and are not even woken."""
    gates = [Gate() for _ in range(10)]

    @tool
    def job(number: int, ctx: ToolContext) -> str:
        """Stand there."""
        gates[number].stop_here(token=ctx.token)
        return f"did {number}"

    calls = [call("job", {"number": n}, call_id=f"c{n}") for n in range(10)]
    agent = agent_for(job, calls=calls, parallel_tools=10)
    background = Background(agent)
    for gate in gates:
        gate.wait_reached()
    receipt = agent.cancel_call("c4")
    assert receipt.wait(SOON)
    assert background.finished() == {"c4": "interrupted"}
    assert not agent.cancel_call("c4"), "it has ended"
    for gate in gates:
        gate.open()
    result = background.result()
    assert outcomes(result) == ["done"] * 4 + ["interrupted"] + ["done"] * 5
    assert [each.call_id for each in result.tool_outcomes if each.cancelled] == ["c4"]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_call_that_waits_for_its_turn_never_starts(width):
    """Promise 6: its tool is not called, and there is no ToolStarted."""
    gate, begun = Gate(), []

    @tool(parallel=False, isolation="thread")
    def job(number: int) -> str:
        """Note that it began."""
        begun.append(number)
        gate.stop_here()
        return "did"

    calls = [call("job", {"number": n}, call_id=f"c{n}") for n in range(3)]
    agent = agent_for(job, calls=calls, parallel_tools=width)
    background = Background(agent)
    gate.wait_reached()
    receipt = agent.cancel_call("c1")
    assert receipt
    assert receipt.wait(SOON), "it need not wait for its turn"
    gate.open()
    result = background.result()
    assert outcomes(result) == ["done", "not_started", "done"]
    assert begun == [0, 2]
    started = [each for each in background.events if isinstance(each, ToolStarted)]
    assert [each.call_id for each in started] == ["c0", "c2"]
    stopped = "Interrupted: the user stopped this call before it started."
    assert told(result)[1] == stopped
    check(agent, result, ["done", "not_started", "done"])


def test_nothing_to_cancel():
    """Promise 3: an idle agent, an id of no call, another run, an ended call."""
    agent = agent_for(sleep, companion)
    assert not agent.cancel_call("call_sleep")
    assert agent.cancel_call("call_sleep").wait()
    background = Background(agent)
    until(lambda: asleep)
    assert not agent.cancel_call("call_other")
    assert not agent.cancel_call("call_sleep", run_id="another")
    assert agent.cancel_call("call_sleep", run_id=background.run_id)
    assert outcomes(background.result()) == ["interrupted", "done"]
    assert not agent.cancel_call("call_sleep")


@pytest.mark.parametrize("wrong", [None, 3, (), [], ("a", 1)])
def test_a_wrong_id(wrong):
    """It fails loudly, whether or not a run is live."""
    with pytest.raises(TypeError):
        agent_for(companion).cancel_call(wrong)


def test_an_id_that_the_model_repeats():
    """Promise 9: the key of the call names one call for ever."""
    keys, gates = [], [Gate(), Gate()]

    @tool(isolation="thread")
    def job(ctx: ToolContext) -> str:
        """Stand there."""
        keys.append(ctx.idempotency_key)
        gates[len(keys) - 1].stop_here(token=ctx.token)
        return "did"

    script = [say(call("job", call_id="c")), say(call("job", call_id="c")), "ok"]
    agent = Agent(ScriptedModel(script), tools=[job])
    background = Background(agent)
    gates[0].wait_reached()
    gates[0].open()
    gates[1].wait_reached()
    assert not agent.cancel_call(keys[0]), "that one has ended"
    assert agent.cancel_call(keys[1])
    assert outcomes(background.result()) == ["done", "interrupted"]


def test_a_hook_cannot_repeat_a_stopped_call():
    """Promise 6: the user wants it to stop, not to begin again."""

    class Again:
        def after_tool(self, event):
            return Retry()

    agent = agent_for(sleep, hooks=[Again()])
    background = Background(agent)
    until(lambda: asleep)
    assert agent.cancel_call("call_sleep")
    assert outcomes(background.result()) == ["interrupted"]


def test_a_tool_stops_another_call():
    """ctx.cancel_call() reaches the calls of its own round."""

    @tool
    def boss(ctx: ToolContext) -> str:
        """Stop the other one."""
        until(lambda: asleep)
        receipt = ctx.cancel_call("call_sleep", "not needed")
        assert not receipt.wait(), "a part of the run cannot wait"
        return f"stopped: {bool(receipt)}"

    result = agent_for(sleep, boss, parallel_tools=2).run("Do it.")
    assert told(result) == [
        "Interrupted: another tool stopped this call while it ran; its effects are "
        "unknown. The reason: not needed",
        "stopped: True",
    ]


def test_a_tool_stops_itself_on_the_thread_of_the_run():
    """Nothing hangs, and the run goes on."""

    @tool
    def quitter(ctx: ToolContext) -> str:
        """Stop."""
        assert ctx.cancel_call(ctx.call_id)
        ctx.checkpoint()
        raise AssertionError

    result = agent_for(quitter, companion).run("Do it.")
    assert outcomes(result) == ["interrupted", "done"]


def test_on_a_stream_s_own_thread():
    """The consumer of a stream stops a call between two events, and cannot wait."""
    agent = agent_for(sleep, companion, parallel_tools=2)
    receipts = []
    with agent.stream("Do it.") as stream:
        for event in stream:
            if isinstance(event, ToolStarted) and event.name == "companion":
                until(lambda: asleep)
                receipts.append(agent.cancel_call("call_sleep"))
                assert not receipts[0].wait()
    assert receipts[0].outcome == "interrupted"
    assert outcomes(stream.result) == ["interrupted", "done"]


@pytest.mark.parametrize("isolation", [None, "thread"])
def test_between_the_announcement_and_the_call(isolation):
    """Promise 6: a call that is announced, and stopped before it is made, is not."""
    begun = []

    @tool(isolation=isolation)
    def job() -> str:
        """Note that it began."""
        begun.append(1)
        return "did"

    agent = agent_for(job)
    with agent.stream("Do it.") as stream:
        for event in stream:
            if isinstance(event, ToolStarted):
                assert agent.cancel_call("call_job")
    assert outcomes(stream.result) == ["not_started"]
    assert not begun


# -- questions -------------------------------------------------------------------------


@tool(isolation="thread")
def inquire(ctx: ToolContext) -> str:
    """Ask the user."""
    return ctx.ask("how?")


def test_a_question_is_withdrawn():
    """A call that waits for an answer ends, and nobody can answer it any more."""
    with agent_for(inquire, companion).start("Do it.") as handle:
        until(lambda: handle.interrupts)
        assert handle.cancel_call("call_inquire")
        result = handle.result(LONG)
        assert not handle.interrupts
    assert outcomes(result) == ["interrupted", "done"]


def test_a_handler_is_left():
    """The same with an ask= handler, which has not answered yet."""
    gate = Gate()

    def ask(question, token):
        gate.stop_here(token=token)

    agent = agent_for(inquire, companion, ask=ask)
    background = Background(agent)
    gate.wait_reached()
    assert agent.cancel_call("call_inquire")
    assert outcomes(background.result()) == ["interrupted", "done"]
    gate.open()


def test_a_call_that_asked_does_not_pause_the_run():
    """Of two calls one asks, and is stopped while the other still runs."""
    gate = Gate()

    @tool(isolation="thread")
    def slow() -> str:
        """Take its time."""
        gate.stop_here()
        return "did"

    agent = agent_for(inquire, slow, parallel_tools=2)
    background = Background(agent)
    gate.wait_reached()
    until(lambda: len(agent._conversation.run.services._executor._running) == 1)
    receipt = agent.cancel_call("call_inquire")
    assert receipt
    gate.open()
    result = background.result()
    assert result.stop_reason == "end_turn"
    assert outcomes(result) == ["interrupted", "done"]
    assert receipt.outcome == "interrupted"
    assert not [each for each in background.events if isinstance(each, InterruptRaised)]


def test_a_call_that_waits_for_an_approval_is_not_reached():
    """A false receipt: it is in no round yet; a "no" is the way to stop it."""

    @tool(requires_approval=True)
    def risky() -> str:
        """Do it."""
        return "did"

    with agent_for(risky).start("Do it.") as handle:
        [question] = until(lambda: handle.interrupts)
        assert not handle.cancel_call("call_risky")
        question.deny()
        assert outcomes(handle.result(LONG)) == ["denied"]


# -- sub-agents ------------------------------------------------------------------------


def nested(inner_tool):
    """Return an agent with an agent with an agent that calls *inner_tool*."""
    inner = Agent(
        model(call(inner_tool.name, call_id="c")), tools=[inner_tool], name="inner"
    )
    middle = Agent(
        model(call("inner", {"prompt": "go"}, call_id="c")), tools=[inner], name="mid"
    )
    calls = [call("mid", {"prompt": "go"}, call_id="c"), call("companion")]
    return agent_for(middle, companion, calls=calls)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("isolation", [None, "thread"])
def test_a_sub_agent_three_deep(depth, isolation):
    """Promises 2 and 9: it ends with all below it, and what is above goes on."""
    gate, seen = Gate(), []

    @tool(isolation=isolation)
    def job(ctx: ToolContext) -> str:
        """Stand there."""
        ctx.on_cancel(lambda: seen.append(1))
        gate.stop_here(token=ctx.token)
        return "did"

    agent = nested(job)
    background = Background(agent)
    gate.wait_reached()
    assert not agent.cancel_call(("c",) * 4)
    assert not agent.cancel_call(("call_companion", "c"))
    receipt = agent.cancel_call(("c",) * depth, "enough")
    assert receipt.wait(SOON)
    result = background.result()
    assert receipt.outcome == "interrupted"
    assert result.stop_reason == "end_turn"
    assert outcomes(result) == ["interrupted" if depth == 1 else "done", "done"]
    assert seen, "the innermost tool was told in every case"


def test_a_sub_agent_on_a_busy_agent_is_no_one_else_s():
    """Promise 9: an agent whose turn has not come is not reached through its run."""
    gate = Gate()

    @tool(isolation="thread")
    def job(ctx: ToolContext) -> str:
        """Stand there."""
        gate.stop_here(token=ctx.token)
        return "did"

    shared = Agent(model(call("job", call_id="c")), tools=[job], on_busy="queue")

    @tool
    def outer(ctx: ToolContext) -> str:
        """Ask the shared agent."""
        return ctx.agent(shared, "go").text

    other = Background(shared)
    gate.wait_reached()
    agent = agent_for(outer)
    background = Background(agent)
    until(lambda: agent.state == "waiting_for_agent")
    assert not agent.cancel_call(("call_outer", "c"))
    assert agent.cancel_call("call_outer")
    assert outcomes(background.result()) == ["interrupted"]
    gate.open()
    assert outcomes(other.result()) == ["done"]


# -- handles ---------------------------------------------------------------------------


def test_a_handle_reaches_only_its_own_run():
    """Promise 9: one that waits for its turn does not stop the calls of the other."""
    agent = agent_for(sleep, on_busy="queue")
    first = agent.start("Do it.")
    until(lambda: asleep)
    second = agent.start("And that.")
    assert not second.cancel_call("call_sleep")
    assert first.cancel_call("call_sleep")
    assert outcomes(first.result(LONG)) == ["interrupted"]
    until(lambda: len(asleep) == 2)
    assert second.cancel_call("call_sleep")
    assert outcomes(second.result(LONG)) == ["interrupted"]
    assert not second.cancel_call("call_sleep")


def test_the_state_afterwards():
    """Promise 8: a run whose sub-agent was stopped is not "waiting_for_agent"."""
    inner = Agent(model(call("sleep")), tools=[sleep], name="inner")
    agent = agent_for(inner, calls=[call("inner", {"prompt": "go"})])
    with agent.start("Do it.") as handle:
        until(lambda: handle.state == "waiting_for_agent")
        subscription = handle.subscribe()
        assert handle.cancel_call("call_inner")
        handle.result(LONG)
        handle.shutdown()
        states = [each.state for each in subscription if type(each) is StateChanged]
    assert states[states.index("waiting_for_agent") + 1] == "executing_tool"


# -- races -----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_saved_run_knows_of_it():
    """The result of a run that is loaded and resumed says which call was stopped."""

    @tool
    def stop_it(ctx: ToolContext) -> str:
        """Stop this call."""
        ctx.cancel_call(ctx.call_id)
        ctx.raise_if_cancelled()
        return "not reached"

    tools = [stop_it]
    script = [say(call("stop_it")), ValueError("down")]
    first = Agent(ScriptedModel(script), tools=tools)
    with pytest.raises(ValueError, match="down"):
        first.run("Go.")
    loaded = Agent.load(first.save(), ScriptedModel(["Fine."]), tools=tools)
    result = loaded.resume()
    assert result.text == "Fine."
    assert [outcome.cancelled for outcome in result.tool_outcomes] == [True]


def test_against_the_natural_end():
    """Promise 3: 1000 times a true receipt if and only if the outcome says so."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    seen = set()
    try:
        for number in range(1000):
            started = threading.Event()

            @tool(isolation="thread" if number % 2 else None)
            def job(ctx: ToolContext) -> str:
                """End now."""
                started.set()  # noqa: B023
                ctx.wait(0.0001 * (number % 3))  # noqa: B023
                ctx.checkpoint()
                return "did"

            agent = agent_for(job)
            receipts = []

            def cancel():
                assert started.wait(LONG)  # noqa: B023
                receipts.append(agent.cancel_call("call_job"))  # noqa: B023

            results = []
            together(lambda: results.append(agent.run("Do it.")), cancel)  # noqa: B023
            [outcome], [receipt] = results[0].tool_outcomes, receipts
            assert outcome.cancelled == bool(receipt)
            assert receipt.outcome == (outcome.outcome if receipt else None)
            assert outcome.outcome in (
                ("interrupted", "done") if receipt else ("done",)
            )
            assert results[0].stop_reason == "end_turn"
            seen.add((bool(receipt), outcome.outcome))
    finally:
        sys.setswitchinterval(before)
    assert (True, "interrupted") in seen


@pytest.mark.slow
def test_together_with_a_cancel_of_the_run():
    """Promises 3 and 4: 200 times both receipts hold, in either order."""
    for _ in range(200):
        agent = agent_for(sleep, companion, parallel_tools=2)
        background = Background(agent)
        until(lambda: agent.state == "executing_tool")  # noqa: B023
        receipts = {}
        together(
            lambda: receipts.update(call=agent.cancel_call("call_sleep")),  # noqa: B023
            lambda: receipts.update(run=agent.cancel()),  # noqa: B023
        )
        result = background.result()
        assert result.cancelled == bool(receipts["run"])
        assert result.tool_outcomes[0].cancelled == bool(receipts["call"])
        assert result.tool_outcomes[0].outcome in ("interrupted", "not_started")
        assert not receipts["call"] or receipts["call"].outcome is not None


@pytest.mark.parametrize("isolation", [None, "thread"])
def test_from_a_signal_handler(isolation):
    """Promise 1: on the run's own thread, in the middle of its wait."""
    gate, receipts = Gate(), []

    @tool(isolation=isolation)
    def job(ctx: ToolContext) -> str:
        """Stand there."""
        gate.stop_here(token=ctx.token)
        return "did"

    agent = agent_for(job, companion)

    def handler(*_):
        receipts.append(agent.cancel_call("call_job"))

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        main = threading.main_thread().ident

        def send():
            gate.wait_reached()
            signal.pthread_kill(main, signal.SIGUSR1)

        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        result = agent.run("Do it.")
        thread.join(LONG)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert outcomes(result) == ["interrupted", "done"]
    assert [bool(each) for each in receipts] == [True]


def test_a_storm_of_cancels():
    """Promise 3: of 50 threads that stop the same call, one is the first."""
    agent = agent_for(sleep)
    background = Background(agent)
    until(lambda: asleep)
    receipts = []
    together(*[lambda: receipts.append(agent.cancel_call("call_sleep"))] * 50)
    assert outcomes(background.result()) == ["interrupted"]
    assert sum(each.first for each in receipts) == 1


def test_nothing_stays():
    """Promise 7: a receipt holds neither the run nor its agent."""
    agent = agent_for(sleep)
    background = Background(agent)
    until(lambda: asleep)
    receipt = agent.cancel_call("call_sleep")
    background.result()
    gone = weakref.ref(agent)
    del agent, background
    gc.collect()
    assert gone() is None
    assert receipt.wait(0.0)
    assert receipt.outcome == "interrupted"
