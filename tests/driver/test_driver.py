"""A driver gives out what is asked, one at a time, and takes answers in any order."""

import msgspec
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
    the_one,
    wonder,
)
from support.threads import together

from syncagent import (
    AfterToolResult,
    Agent,
    Approval,
    ApprovalRequest,
    AuthRequest,
    AwaitingInput,
    ConfigurationError,
    tool,
)
from syncagent.driver import Finished
from syncagent.exceptions import InterruptOver, InterruptPending
from syncagent.testing import call, say


def kinds(driver, answers):
    """Go on to the end of a run; return what came, and the result."""
    seen = []
    while not isinstance(step := driver.next(), Finished):
        seen.append(step)
        answer = answers.get(type(step))
        if answer is not None:
            driver.answer(step.id, answer)
    return seen, step.result


ANSWERS = {ApprovalRequest: True, AuthRequest: KEY, AwaitingInput: "so"}


def test_the_four_kinds():
    """Each says what it is about, and whether the run waits for it."""
    made = tool(name="wonder", requires_approval=True, requires_auth="door")(
        wonder.function
    )
    driver = asking(WONDER, tools=[made]).drive("Go.")
    seen, result = kinds(driver, ANSWERS)
    assert [(type(each), each.is_blocking) for each in seen] == [
        (ApprovalRequest, True),
        (AuthRequest, True),
        (AwaitingInput, True),
        (AwaitingInput, True),
        (AfterToolResult, False),
    ]
    assert {each.call_id for each in seen[:-1]} == {"call_wonder"}
    assert {each.tool for each in seen[:-1]} == {"wonder"}
    assert seen[-1].turn == 1
    assert [each.outcome for each in seen[-1].outcomes] == outcomes(result) == ["done"]
    last = driver.next()
    assert (type(last), last.is_blocking, last.call_id) == (AwaitingInput, False, "")
    assert len({each.id for each in [*seen, last]}) == 6


def test_interrupts_are_values():
    """They go to JSON and back, and are equal then; only those at hand are answered."""
    made = tool(name="wonder", requires_approval=True, requires_auth="door")(
        wonder.function
    )
    seen, _ = kinds(asking(WONDER, tools=[made]).drive("Go."), ANSWERS)
    for each in seen:
        text = msgspec.json.encode(each)
        again = msgspec.json.decode(text, type=type(each))
        assert again == each
        answer = getattr(again, "approve", None) or getattr(again, "submit", None)
        with pytest.raises(ConfigurationError, match="not connected to a run"):
            answer("so") if answer else again.provide(KEY)


# -- answering -------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["012", "210", "102"])
@pytest.mark.parametrize("by", ["id", "call_id", "handle"])
def test_any_order(order, by):
    """All that is open is there from the first on; each answer is for its own call."""
    agent = asking(doing("a", "b", "c"))
    driver = agent.drive("Go.")
    assert driver.next() == driver.interrupts[0]
    pending = driver.interrupts
    assert [each.call_id for each in pending] == ["c0", "c1", "c2"]
    for number in map(int, order):
        answer = Approval(number != 1, reason=f"no {number}")
        if by == "handle":
            each = pending[number]
            each.approve() if answer.allow else each.deny(answer.reason)
        else:
            driver.answer(getattr(pending[number], by), answer)
    assert driver.interrupts == ()
    assert isinstance(driver.next(), AfterToolResult)
    assert said_to_model(agent.messages) == ["did a", "Denied: no 1", "did c"]


def test_one_at_a_time():
    """next() gives the next open one, and skips what was answered meanwhile."""
    agent = asking(doing("a", "b", "c"))
    driver = agent.drive("Go.")
    first = driver.next()
    driver.answer("c1", False)
    first.approve({"what": "z"})
    last = driver.next()
    assert last.call_id == "c2"
    last.deny("enough", remember="arguments")
    assert isinstance(driver.next(), AfterToolResult)
    assert said_to_model(agent.messages) == ["did z", "Denied.", "Denied: enough"]
    assert [rule.arguments for rule in agent.rules] == [{"what": "c"}]


@pytest.mark.parametrize("script", [DO, OPEN, WONDER], ids=["do", "open", "wonder"])
def test_next_on_an_open_interrupt(script):
    """agentkit gave the same again; here it is an error that names it, and no more."""
    agent = asking(script)
    driver = agent.drive("Go.")
    asked = driver.next()
    for _ in range(2):
        with pytest.raises(InterruptPending, match=asked.id):
            driver.next()
    assert driver.interrupts == (asked,)
    driver.answer(asked.id, ANSWERS[type(asked)])
    kinds(driver, ANSWERS)
    check_usable(agent)


def test_next_goes_on_when_only_something_new_is_open():
    """The pending ones that it has not given out yet are no error."""
    driver = asking(doing("a", "b")).drive("Go.")
    first = driver.next()
    with pytest.raises(InterruptPending, match=first.id):
        driver.next()
    first.approve()
    second = driver.next()
    assert second.call_id == "c1"
    with pytest.raises(InterruptPending, match=second.id):
        driver.next()


@pytest.mark.parametrize("script", [DO, OPEN, WONDER], ids=["do", "open", "wonder"])
def test_an_interrupt_is_used_once(script):
    """By whatever way it is answered again: at once, and after the run went on."""
    driver = asking(script).drive("Go.")
    asked = driver.next()
    answer = ANSWERS[type(asked)]
    driver.answer(asked.id, answer)
    for _ in range(2):
        for name in (asked.id, asked.call_id):
            with pytest.raises(InterruptOver):
                driver.answer(name, answer)
        with pytest.raises(InterruptOver):
            asked.submit("so") if script is WONDER else asked.deny()
        step = driver.next()
        if isinstance(step, AwaitingInput):  # its second question: not by this handle
            driver.answer(step.id, "so")
            driver.next()


def test_wrong_ids():
    """Nobody has asked that: the error says what is open, and nothing is lost."""
    driver = asking(DO).drive("Go.")
    asked = driver.next()
    for wrong in ("", "nope", "approval:", asked.id[:-1], asked.id + "x"):
        with pytest.raises(ConfigurationError, match=asked.id) as caught:
            driver.answer(wrong, True)
        assert not isinstance(caught.value, InterruptOver)
    assert driver.interrupts == (asked,)
    asked.approve()
    assert [each.outcome for each in driver.next().outcomes] == ["done"]


@pytest.mark.parametrize(
    ("script", "wrong"),
    [
        (
            DO,
            [
                None,
                "yes",
                1,
                0,
                "",
                {},
                Approval(True, {"what": 5}),
                Approval(True, {}),
            ],
        ),
        (OPEN, [True, Approval(True)]),
        (WONDER, [True, 5, ["a"], Approval(True)]),
    ],
    ids=["do", "open", "wonder"],
)
def test_wrong_answers_keep_it_open(script, wrong):
    """Strands 4470: no answer is silently taken for none, and the right one counts."""
    agent = asking(script)
    driver = agent.drive("Go.")
    asked = driver.next()
    for answer in wrong:
        with pytest.raises(ConfigurationError):
            driver.answer(asked.id, answer)
        assert driver.interrupts == (asked,)
        with pytest.raises(InterruptPending):
            driver.next()
    driver.answer(asked.id, ANSWERS[type(asked)])
    _, result = kinds(driver, ANSWERS)
    assert outcomes(result) == ["done"]


def test_answers_from_other_threads():
    """Any thread may answer; of fifty answers to one question one counts."""
    agent = asking(doing(*"abcde"))
    driver = agent.drive("Go.")
    driver.next()
    wins, over = [], []

    def answer(number):
        for asked in driver.interrupts or ():
            try:
                asked.approve({"what": str(number)})
                wins.append(asked.call_id)
            except InterruptOver:
                over.append(asked.call_id)

    together(*[lambda n=n: answer(n) for n in range(50)])
    assert sorted(wins) == ["c0", "c1", "c2", "c3", "c4"]
    assert isinstance(driver.next(), AfterToolResult)
    assert outcomes(driver.next().result) == ["done"] * 5


def test_two_threads_use_one_awaiting_input():
    """One of them has said it, the others are told."""
    agent = asking()
    driver = agent.drive()
    asked = driver.next()
    over = []

    def submit(number):
        try:
            asked.submit(f"from {number}")
        except InterruptOver:
            over.append(number)

    together(*[lambda n=n: submit(n) for n in range(20)])
    assert len(over) == 19
    assert isinstance(driver.next(), Finished)
    assert len(agent.messages[0].content) == 1


def test_handlers_answer_for_a_driver_too():
    """What they answer is not given out; what nobody answers is."""
    made = tool(name="wonder", requires_approval=True, requires_auth="door")(
        wonder.function
    )
    agent = asking(
        WONDER,
        tools=[made],
        approve=lambda request: True,
        ask=lambda question: "by handler",
    )
    seen, _ = kinds(agent.drive("Go."), ANSWERS)
    assert [type(each) for each in seen] == [AuthRequest, AfterToolResult]
    assert said_to_model(agent.messages) == ["by handler, by handler"]


def test_the_id_of_a_call_that_is_used_again():
    """Models do that; an answer by it is for the call that is open now."""
    agent = asking(DO, say(call("do", {"what": "more"})))
    driver = agent.drive("Go.")
    driver.next()
    driver.answer("call_do", True)
    assert isinstance(driver.next(), AfterToolResult)
    with pytest.raises(InterruptOver):
        driver.answer("call_do", True)
    driver.next()
    driver.answer("call_do", False)
    driver.next()
    assert outcomes(driver.next().result) == ["done", "denied"]


# -- a paused agent --------------------------------------------------------------------


def test_a_driver_goes_on_with_a_paused_run():
    """It is the same run; what was open is given out, and can be answered."""
    agent = asking(doing("a", "b"))
    before = agent.run("Go.")
    driver = agent.drive()
    assert driver.next().id == before.interrupts[0].id
    for asked in driver.interrupts:
        asked.approve()
    driver.next()
    result = driver.next().result
    assert (result.run_id, outcomes(result)) == (before.run_id, ["done"] * 2)
    check_usable(agent)


def test_a_prompt_for_a_paused_agent():
    """It is refused for as long as the agent waits, and not lost."""
    agent = asking(DO)
    agent.run("Go.")
    driver = agent.drive("Something else.")
    for _ in range(2):
        with pytest.raises(InterruptPending, match=the_one(agent).id):
            driver.next()
    agent.cancel()
    assert driver.next().result.stop_reason == "end_turn"
    assert agent.messages[-2].content[-1].text == "Something else."


@pytest.mark.parametrize("how", ["cancel", "resume", "another driver", "new pause"])
def test_a_pause_that_is_gone_when_the_driver_comes(how):
    """It was cancelled, or somebody else goes on with it: the driver awaits input."""
    agent = asking(DO, *(["ok", DO] if how == "new pause" else []))
    agent.run("Go.")
    driver, other = agent.drive(), agent.drive()
    if how == "cancel":
        agent.cancel()
    elif how == "another driver":
        other.next().approve()
    else:
        agent.resume({the_one(agent).id: True})
        if how == "new pause":
            assert agent.run("Again.").stop_reason == "interrupt"
    assert isinstance(driver.next(), AwaitingInput)
    assert driver.next() is driver.next()
    other.close()
    agent.cancel()
    driver.send_input("And now?")
    assert isinstance(driver.next(), Finished)


def test_an_agent_that_is_driven_does_not_wait_for_resume():
    """It has a live run: resume() and run() say so, and its state what it waits for."""
    agent = asking(DO)
    driver = agent.drive("Go.")
    asked = driver.next()
    assert (agent.is_running, agent.is_paused) == (True, False)
    assert (agent.state, agent.interrupts) == ("waiting_for_approval", ())
    with pytest.raises(ConfigurationError, match="does not wait"):
        agent.resume({asked.id: True})
    asked.approve()
    assert isinstance(driver.next(), AfterToolResult)


def test_a_driver_is_one_of_many():
    """Drivers of two agents with the same tools know nothing of each other."""
    first, second = (Agent(asking(DO).model, tools=[do]) for _ in range(2))
    drivers = [each.drive("Go.") for each in (first, second)]
    asked = [driver.next() for driver in drivers]
    with pytest.raises(ConfigurationError, match="no open question"):
        drivers[0].answer(asked[1].id, True)
    for each in asked:
        each.approve()
    for driver in drivers:
        driver.next()
        assert outcomes(driver.next().result) == ["done"]
