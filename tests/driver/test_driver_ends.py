"""However a driven run ends, the driver says so, and can be used again."""

import gc
import threading

import pytest
from support.questions import (
    DO,
    KEY,
    OPEN,
    WONDER,
    asking,
    check_usable,
    do,
    doing,
    outcomes,
    said_to_model,
)
from support.threads import together

from syncagent import (
    AfterToolResult,
    AgentBusy,
    AwaitingInput,
    CancelToken,
    ConfigurationError,
    Limits,
    OutputInvalid,
    ToolContext,
    tool,
)
from syncagent.driver import Finished
from syncagent.events import InterruptRaised, RunFinished, TextDelta, ToolFinished
from syncagent.exceptions import InterruptOver, InterruptPending
from syncagent.testing import Gate, call, complaints, say

free = tool(name="do")(do.function)
#: Where a driver may stand still: a script, tools, and how many steps lead there.
POINTS = {
    "approval": (DO, [do], 0),
    "auth": (OPEN, None, 0),
    "question": (WONDER, None, 0),
    "after tools": (DO, [free], 0),
    "second approval": (doing("a", "b"), [do], 1),
}


def at(point):
    """Return a driver that stands at this point, its agent, and what it gave out."""
    script, tools, steps = POINTS[point]
    agent = asking(script, **({} if tools is None else {"tools": tools}))
    driver = agent.drive("Go.")
    for _ in range(steps):
        driver.next().approve()
    return agent, driver, driver.next()


def use(step):
    """Answer an interrupt, whatever it is."""
    if hasattr(step, "approve"):
        step.approve()
    elif hasattr(step, "provide"):
        step.provide(KEY)
    else:
        step.submit("so")


# -- cancelled -------------------------------------------------------------------------


@pytest.mark.parametrize("face", ["driver", "agent", "event", "closed"])
@pytest.mark.parametrize("point", POINTS)
def test_a_cancel_at_every_point(point, face):
    """Promises 2 to 8: Finished says so, nothing more starts, and it goes on."""
    agent, driver, step = at(point)
    if face == "event":
        agent.cancel_signal.set()
    elif face == "closed":
        driver.close()
    else:
        assert (driver if face == "driver" else agent).cancel("enough")
    assert driver.interrupts == ()
    with pytest.raises(InterruptOver):
        use(step)
    if face == "closed":
        assert not agent.is_running
    else:
        finished = driver.next()
        assert isinstance(finished, Finished)
        result = finished.result
        assert (result.stop_reason, result.cancelled) == ("cancelled", True)
        if face != "event":
            assert result.cancellation.reason == "enough"
        ends = {"question": ["interrupted"], "after tools": ["done"]}
        started = ["not_started"] * (2 if point == "second approval" else 1)
        assert outcomes(result) == ends.get(point, started)
    assert complaints(agent.messages) == {}
    with pytest.raises(InterruptOver):
        use(step)
    assert isinstance(driver.next(), AwaitingInput)
    assert not driver.cancel()
    driver.send_input("And now?")
    assert driver.next().result.text == "ok"
    check_usable(agent)


@pytest.mark.parametrize("mode", ["after_tools", "after_turn"])
def test_a_later_cancel_while_somebody_is_asked(mode):
    """After the tools is now, as none runs; after the turn the answer is waited for."""
    agent, driver, asked = at("approval")
    assert driver.cancel("later", mode=mode)
    if mode == "after_turn":
        with pytest.raises(InterruptPending):
            driver.next()
        asked.approve()
    result = driver.next().result
    assert (result.stop_reason, result.cancellation.reason) == ("cancelled", "later")
    assert outcomes(result) == ["done" if mode == "after_turn" else "not_started"]
    assert isinstance(driver.next(), AwaitingInput)
    check_usable(agent)


def test_a_cancel_after_the_answer_and_before_next():
    """Promise 6: a yes that a cancel overtakes starts nothing."""
    agent, driver, asked = at("approval")
    asked.approve()
    driver.cancel()
    assert outcomes(driver.next().result) == ["not_started"]
    assert "did it" not in said_to_model(agent.messages)


def test_a_cancel_while_next_is_at_work():
    """Promise 2: it comes back with the result."""
    gate = Gate()

    @tool(name="do")
    def stuck(what: str, ctx: ToolContext) -> None:
        """Wait for the end of the run."""
        gate.open()
        gate.stop_here()
        ctx.sleep(60)

    agent = asking(DO, tools=[stuck])
    driver = agent.drive("Go.")
    steps = []
    together(
        lambda: steps.append(driver.next()),
        lambda: (gate.wait_reached(), driver.cancel("enough")),
    )
    assert outcomes(steps[0].result) in (["interrupted"], ["not_started"])
    check_usable(agent)


def test_what_cancels_before_it_begins():
    """A token of the caller's that is set ends the run before any request is made."""
    token = CancelToken()
    token.cancel("no")
    agent = asking("never")
    driver = agent.drive("Go.", cancel=token)
    assert driver.next().result.cancelled
    assert (agent.model.requests, len(agent.messages)) == ([], 1)
    driver.send_input("Go on.")  # the token is for the first run
    assert driver.next().result.text == "never"


def test_a_timeout_is_for_the_first_run():
    """It ends what waits for an answer, and no later run."""
    agent = asking(DO, DO)
    driver = agent.drive("Go.", timeout=0.02)
    first = driver.next()
    if not isinstance(first, Finished):  # on a slow machine it has passed already
        agent.cancel_signal.wait(20)
        first = driver.next()
    assert first.result.cancellation.origin == "deadline"
    driver.send_input("Again.")
    driver.next()
    assert agent.is_running
    driver.close()


# -- dropped, closed, busy -------------------------------------------------------------


@pytest.mark.parametrize("point", POINTS)
def test_a_driver_that_is_dropped(point):
    """Promise 8: its run has ended, without a collector, and the agent is free."""
    agent, driver, step = at(point)
    gc.disable()
    try:
        del driver
        assert not agent.is_running
    finally:
        gc.enable()
    with pytest.raises(InterruptOver):
        use(step)
    check_usable(agent)


@pytest.mark.parametrize("point", POINTS)
def test_a_with_block_ends_the_run(point):
    """Also if an error goes through it."""
    agent, driver, _ = at(point)
    with pytest.raises(ZeroDivisionError), driver:
        raise ZeroDivisionError
    assert not agent.is_running
    driver.close()
    check_usable(agent)


def test_a_busy_agent():
    """It is driven: nobody else runs it, and save() is for the driver to do."""
    agent, driver, _ = at("approval")
    for begin in (agent.run, agent.stream, agent.start):
        with pytest.raises(AgentBusy):
            begin("Me too.")
    with pytest.raises(AgentBusy):
        agent.fork()
    driver.close()


def test_snapshot_while_next_is_at_work():
    """Half a step is nothing to be saved: another thread is told."""
    gate = Gate()
    agent = asking(gate, "ok")
    driver = agent.drive("Go.")

    def look():
        gate.wait_reached()
        with pytest.raises(AgentBusy):
            driver.snapshot()
        gate.open()

    together(look, lambda: driver.next())
    assert driver.snapshot().run_id == ""
    check_usable(agent)


def test_a_run_may_be_pulled_by_several_threads_in_turn():
    """Each next() is on the thread that calls it; so are the tools."""
    threads = []

    @tool(name="do", requires_approval=True)
    def where(what: str) -> None:
        """Note the thread."""
        threads.append(threading.current_thread())

    agent = asking(DO, DO, tools=[where])
    driver = agent.drive("Go.")
    callers = []

    def step():
        callers.append(threading.current_thread())
        found = driver.next()
        if not found.is_blocking:
            return
        found.approve()

    for _ in range(4):
        together(step)
    assert threads == [callers[1], callers[3]]
    assert isinstance(driver.next(), Finished)


# -- what else it is given -------------------------------------------------------------


def test_on_event_sees_all_runs():
    """Each event once, in order; interrupts in there can be answered, too."""
    seen = []
    agent = asking(DO, "first", "second")

    def look(event):
        seen.append(event)
        if isinstance(event, InterruptRaised):
            for each in event.interrupts:
                if each.is_blocking:
                    each.approve()

    driver = agent.drive("Go.", on_event=look)
    while not isinstance(driver.next(), AwaitingInput):
        pass
    driver.send_input("More.")
    assert isinstance(driver.next(), Finished)
    assert said_to_model(agent.messages) == ["did it"]
    words = "".join(each.text for each in seen if isinstance(each, TextDelta))
    assert words == "firstsecond"
    assert sum(isinstance(each, ToolFinished) for each in seen) == 1
    assert isinstance(seen[-1], RunFinished)


def test_on_event_that_raises():
    """Its error comes out of next(), the run is over, and the driver goes on."""
    agent = asking(DO)

    def look(event):
        if isinstance(event, InterruptRaised):
            raise ZeroDivisionError

    driver = agent.drive("Go.", on_event=look)
    with pytest.raises(ZeroDivisionError):
        driver.next()
    assert not agent.is_running
    assert isinstance(driver.next(), AwaitingInput)
    check_usable(agent)


def test_limits():
    """A driven run has those of its agent, and a pause is no way around them."""
    rounds = [say(call("do", {"what": str(n)}, f"c{n}")) for n in range(9)]
    agent = asking(*rounds, tools=[do], limits=Limits(tool_calls=2, turns=8))
    driver = agent.drive("Go.")
    seen = []
    while not isinstance(step := driver.next(), Finished):
        seen.append(type(step).__name__)
        if step.is_blocking:
            step.approve()
    assert (step.result.stop_reason, step.result.limit) == ("limit", "tool_calls")
    assert outcomes(step.result) == ["done", "done", "not_started"]
    assert seen == ["ApprovalRequest", "AfterToolResult"] * 2 + ["AfterToolResult"]


def test_output():
    """The first run's answer is of the type, whatever was asked in between."""
    agent = asking(DO, '{"value": 4}', "4")
    driver = agent.drive("Go.", output=int)
    driver.next().approve()
    assert isinstance(driver.next(), AfterToolResult)
    assert driver.next().result.output == 4
    driver.send_input("And now?")
    assert driver.next().result.output is None
    agent = asking(*["nothing of the kind"] * 9)
    driver = agent.drive("Go.", output=int)
    with pytest.raises(OutputInvalid):
        driver.next()
    assert isinstance(driver.next(), AwaitingInput)


def test_output_of_a_paused_run():
    """It belongs to the begin of the run; the pause is still there after that error."""
    agent = asking(DO, '{"value": 4}')
    agent.run("Go.", output=int)
    driver = agent.drive(output=int)
    with pytest.raises(ConfigurationError, match="output="):
        driver.next()
    driver = agent.drive()
    driver.next().approve()
    driver.next()
    assert driver.next().result.output == 4


def test_a_snapshot_tells_how_far_it_is():
    """The run, the conversation, what is open, what is unheard, and what was used."""
    agent, driver, asked = at("approval")
    driver.send_input("two")
    shot = driver.snapshot()
    assert (shot.interrupts, shot.messages) == ((asked,), agent.messages)
    assert asked.id.split(":")[1] == shot.run_id
    assert [message.content[0].text for message in shot.pending_input] == ["two"]
    assert shot.usage == agent.usage
    assert shot.usage.input_tokens == 10
    asked.approve()
    assert driver.snapshot().interrupts == ()
    assert "1 open" in repr(at("auth")[1])
