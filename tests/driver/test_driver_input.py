"""What is said to a driver is heard in order, at the next point, and never lost."""

import pytest
from support.questions import (
    DO,
    OPEN,
    WONDER,
    asking,
    check_usable,
    do,
    model,
    outcomes,
)
from support.threads import together

from syncagent import (
    AfterToolResult,
    Agent,
    AgentBusy,
    AwaitingInput,
    CancelPolicy,
    ConfigurationError,
    Image,
    tool,
)
from syncagent.driver import Finished
from syncagent.exceptions import InterruptOver
from syncagent.messages import Text, UserMessage
from syncagent.testing import Gate, call, complaints, say

free = tool(name="do")(do.function)
PICTURE = Image(data=b"\x89PNG")


def heard(agent):
    """Return all that the user has said, in order."""
    return [
        block.text if isinstance(block, Text) else block
        for message in agent.messages
        if isinstance(message, UserMessage)
        for block in message.content
    ]


def finish(driver):
    """Go on to the end of a run, without an answer to anything."""
    while not isinstance(step := driver.next(), Finished):
        pass
    return step.result


# -- when it is heard ------------------------------------------------------------------


def test_before_the_first_next():
    """The prompt is first, what follows is heard when it can be."""
    agent = asking(DO, tools=[free])
    driver = agent.drive("one")
    for words in ("two", "three"):
        driver.send_input(words)
    assert isinstance(driver.next(), AfterToolResult)
    assert heard(agent) == ["one"]
    finish(driver)
    assert heard(agent) == ["one", "two", "three"]
    assert isinstance(driver.next(), AwaitingInput)


def test_without_a_prompt():
    """It begins with what was said, all of it at once."""
    agent = asking()
    driver = agent.drive()
    driver.send_input("one")
    driver.send_input([PICTURE, "two"])
    assert finish(driver).turns == 1
    assert heard(agent) == ["one", PICTURE, "two"]


@pytest.mark.parametrize("script", [DO, OPEN, WONDER], ids=["do", "open", "wonder"])
def test_while_something_is_open(script):
    """It is no answer: the question stays, and the words are heard after the tools."""
    agent = asking(script)
    driver = agent.drive("one")
    asked = driver.next()
    driver.send_input("two")
    assert driver.interrupts == (asked,)
    for _ in range(2 if script is WONDER else 1):
        driver.answer(asked.call_id, True if script is DO else "so")
        step = driver.next()
    assert isinstance(step, AfterToolResult)
    driver.send_input("three")
    finish(driver)
    assert heard(agent) == ["one", "two", "three"]


def test_after_tools_both_ways_are_in_order():
    """The interrupt's own submit() is input like any other."""
    agent = asking(DO, tools=[free])
    driver = agent.drive("one")
    pause = driver.next()
    pause.submit("two")
    driver.send_input("three")
    finish(driver)
    assert heard(agent) == ["one", "two", "three"]
    assert [type(m).__name__ for m in agent.messages[2:4]] == [
        "ToolMessage",
        "UserMessage",
    ]
    assert complaints(agent.messages) == {}


def test_when_the_run_ends_without_tools():
    """It is said in a run of its own, after the result of the one before."""
    agent = asking("first", "second")
    driver = agent.drive("one")
    driver.send_input("two")
    assert [finish(driver).text, finish(driver).text] == ["first", "second"]
    assert heard(agent) == ["one", "two"]
    assert isinstance(driver.next(), AwaitingInput)


def test_from_other_threads_at_any_time():
    """Each thread's words are heard in its order, and all of them."""
    rounds = [say(call("do", {"what": "it"}, f"c{n}")) for n in range(9)]
    agent = asking(*rounds, tools=[free])
    driver = agent.drive("begin")
    ended = []

    def pull():
        while True:
            is_all = bool(ended)  # before it looks
            if isinstance(driver.next(), AwaitingInput) and is_all:
                return

    def talk(who):
        for number in range(20):
            driver.send_input(f"{who} {number}")

    def talk_all():
        together(*[lambda who=who: talk(who) for who in range(4)])
        ended.append(True)

    together(pull, talk_all)
    found = [words.split() for words in heard(agent) if words != "begin"]
    for who in range(4):
        mine = [int(number) for name, number in found if name == str(who)]
        assert mine == list(range(20))
    assert complaints(agent.messages) == {}


def test_the_agent_is_busy():
    """Nothing is begun, nothing is lost, and it is begun when the agent is free."""
    agent = asking(DO)
    other, driver = agent.drive("other"), agent.drive("one")
    other.next()
    driver.send_input("two")
    for _ in range(3):
        with pytest.raises(AgentBusy):
            driver.next()
    other.close()
    finish(driver), finish(driver)
    assert heard(agent) == ["other", "one", "two"]
    idle = agent.drive()
    idle.send_input("three")
    idle.send_input("four")
    with agent.stream("between"):
        with pytest.raises(AgentBusy):
            idle.next()
        idle.send_input("five")
    finish(idle), finish(idle)
    assert heard(agent)[-4:] == ["between", "three", "four", "five"]


@pytest.mark.parametrize("wrong", ["", "  ", None, 5, [], ["", " "], "\ud800"])
def test_words_that_are_none(wrong):
    """They are refused wherever they are said, and what is open stays so."""
    driver = asking(DO, tools=[free]).drive()
    for expected in (AwaitingInput, AfterToolResult):
        step = driver.next()
        assert isinstance(step, expected)
        for submit in (driver.send_input, step.submit):
            with pytest.raises(ConfigurationError, match="prompt"):
                submit(wrong)
        assert driver.interrupts == (step,)
        step.submit("Go.")


# -- AfterToolResult and AwaitingInput -------------------------------------------------


def test_after_every_round():
    """Also after one of which nothing ran, with the outcomes of that round."""
    script = [
        say(call("do", {"what": "a"}, "c1"), call("nope", {}, "c2")),
        say(call("nope", {}, "c3")),
    ]
    driver = asking(*script, tools=[free]).drive("Go.")
    seen = [driver.next(), driver.next()]
    assert [each.turn for each in seen] == [1, 2]
    assert [[o.call_id for o in each.outcomes] for each in seen] == [
        ["c1", "c2"],
        ["c3"],
    ]
    assert [o.outcome for each in seen for o in each.outcomes] == [
        "done",
        "failed",
        "failed",
    ]
    assert isinstance(driver.next(), Finished)


def test_after_tools_is_used_once_and_in_time():
    """A second submit() is an error, and so is the first after the run went on."""
    agent = asking(DO, DO, tools=[free])
    driver = agent.drive("one")
    first = driver.next()
    first.submit("two")
    with pytest.raises(InterruptOver):
        first.submit("again")
    second = driver.next()
    with pytest.raises(InterruptOver):
        first.submit("late")
    driver.next()
    for each in (first, second):
        with pytest.raises(InterruptOver):
            each.submit("too late")
    assert heard(agent) == ["one", "two"]


def test_awaiting_input_again_and_again():
    """It is the same until it is used; then there is a run, and another one."""
    agent = asking()
    driver = agent.drive()
    asked = driver.next()
    assert driver.next() is driver.next() is asked
    assert driver.interrupts == (asked,)
    asked.submit("one")
    assert driver.interrupts == ()
    with pytest.raises(InterruptOver):
        asked.submit("again")
    finish(driver)
    other = driver.next()
    assert other.id != asked.id
    driver.send_input("two")  # past it: it is over when the run begins
    finish(driver)
    with pytest.raises(InterruptOver):
        other.submit("late")
    driver.answer(driver.next().id, "three")
    finish(driver)
    assert heard(agent) == ["one", "two", "three"]


# -- a cancel loses none of it ---------------------------------------------------------


@pytest.mark.parametrize("mode", ["now", "after_tools", "after_turn"])
@pytest.mark.parametrize("keeps", ["keep", "rollback"])
@pytest.mark.parametrize("way", ["interrupt", "driver"])
def test_a_cancel_after_tools(mode, keeps, way):
    """What was said and not heard is said in the next run, whatever is rolled back."""
    policy = CancelPolicy(partial_text=keeps)
    agent = asking(DO, tools=[free], cancel_policy=policy)
    driver = agent.drive("one")
    pause = driver.next()
    (pause.submit if way == "interrupt" else driver.send_input)("two")
    assert driver.cancel("enough", mode=mode)
    result = driver.next().result
    assert (result.stop_reason, outcomes(result)) == ("cancelled", ["done"])
    assert finish(driver).stop_reason == "end_turn"
    assert heard(agent) == (["two"] if keeps == "rollback" else ["one", "two"])
    check_usable(agent)


def test_a_cancel_while_the_model_answers():
    """What was said meanwhile is said next."""
    gate = Gate()
    agent = Agent(model(gate, "never said"))
    driver = agent.drive("one")
    driver.send_input("two")

    def cancel():
        gate.wait_reached()
        driver.send_input("three")
        assert driver.cancel()

    results = []
    together(cancel, lambda: results.append(driver.next()))
    assert results[0].result.cancelled
    finish(driver)
    assert heard(agent) == ["one", "two", "three"]


def test_an_error_of_the_model():
    """next() raises it, what was said is said next, and the driver goes on."""
    agent = asking(ValueError("no model today"), "well", OSError("again"))
    driver = agent.drive("one")
    driver.send_input("two")
    with pytest.raises(ValueError, match="no model today"):
        driver.next()
    assert driver.interrupts == ()
    assert finish(driver).text == "well"
    driver.next().submit("three")
    with pytest.raises(OSError, match="again"):
        driver.next()
    assert isinstance(driver.next(), AwaitingInput)
    assert heard(agent) == ["one", "two", "three"]
    check_usable(agent)


def test_closing_keeps_what_was_not_heard():
    """A driver that was closed can be used again, and says it then."""
    agent = asking(DO)
    driver = agent.drive("one")
    driver.next()
    driver.send_input("two")
    driver.close()
    assert not agent.is_running
    assert [block.content[0].text for block in driver.snapshot().pending_input] == [
        "two"
    ]
    finish(driver)
    assert heard(agent) == ["one", "two"]
