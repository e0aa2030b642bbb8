"""Answers that come late, or not at all; and credentials, which nobody else sees."""

import logging
import pickle

import msgspec
import pytest
from support.questions import (
    DO,
    KEY,
    OPEN,
    WONDER,
    asking,
    check_usable,
    doing,
    meanwhile,
    outcomes,
    said_to_model,
    the_one,
)
from support.threads import LONG, until

from syncagent import Agent, Approval, ConfigurationError, tool
from syncagent.events import InterruptRaised
from syncagent.exceptions import InterruptOver
from syncagent.testing import FakeClock, Gate, call, say
from syncagent.tools.context import ToolContext

#: Seconds after which those have not answered who never will.
SHORT = 0.02
HANDLERS = {"approve": DO, "authenticate": OPEN, "ask": WONDER}
#: What the model is told if nobody has answered in time.
WORDS = {
    "approve": "Not started: no approval came in time. It was not denied.",
    "authenticate": "Not started: no login to door in time. It was not denied.",
    "ask": "the user did not answer",
}


def first_raised(handle):
    """Return the first interrupt of a handle, also if it is over already."""
    with handle.subscribe() as events:
        raised = (each for each in events if isinstance(each, InterruptRaised))
        return next(raised).interrupts[0]


def check_late(result, kind):
    """See that a call was not started, or has failed, and was denied by nobody."""
    [outcome] = result.tool_outcomes
    if kind == "ask":  # the tool was running, and is told
        assert (outcome.outcome, outcome.timed_out) == ("failed", False)
    else:
        assert (outcome.outcome, outcome.timed_out) == ("not_started", True)
    assert outcome.error == WORDS[kind]
    assert said_to_model(result.messages) == [WORDS[kind]]
    assert result.stop_reason == "end_turn"


# -- in time, or not -------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [SHORT, 0])
@pytest.mark.parametrize("kind", HANDLERS)
def test_a_handler_that_takes_too_long(kind, seconds):
    """The run goes on without it, and what it says later starts nothing."""
    gate = Gate()

    def handler(question):
        gate.stop_here()
        return True if kind == "approve" else KEY

    agent = asking(HANDLERS[kind], answer_timeout=seconds, **{kind: handler})
    result = agent.run("Do it.")
    gate.open()
    check_late(result, kind)
    check_usable(agent)
    assert said_to_model(agent.messages) == [WORDS[kind]]


@pytest.mark.parametrize("kind", HANDLERS)
def test_a_handler_that_raises_timeout_error(kind):
    """It has a clock of its own, and nobody has answered by that."""

    def handler(question):
        raise TimeoutError("they went home")

    agent = asking(HANDLERS[kind], **{kind: handler})
    check_late(agent.run("Do it."), kind)
    check_usable(agent)


@pytest.mark.parametrize("kind", HANDLERS)
def test_a_handle_that_nobody_answers(kind):
    """The same, where questions lie until somebody comes; and too late is too late."""
    agent = asking(HANDLERS[kind], answer_timeout=SHORT)
    with agent.start("Do it.") as handle:
        asked = first_raised(handle)
        check_late(handle.result(LONG), kind)
        assert not handle.answer(asked.id, False)
        assert not handle.answer(asked.call_id, False)
        with pytest.raises(InterruptOver):
            asked.deny() if kind != "ask" else asked.submit("late")
    check_usable(agent)


@pytest.mark.parametrize(
    ("kind", "answer"), [("approve", False), ("authenticate", None)]
)
def test_a_denial_is_something_else(kind, answer):
    """In the outcome, in the words and in the result."""
    result = asking(HANDLERS[kind], **{kind: lambda question: answer}).run("Do it.")
    [outcome] = result.tool_outcomes
    assert (outcome.outcome, outcome.timed_out) == ("denied", False)
    assert said_to_model(result.messages)[0].startswith("Denied")


@pytest.mark.parametrize("kind", HANDLERS)
def test_an_answer_in_time(kind):
    """A timeout that has not passed changes nothing."""
    answer = True if kind == "approve" else KEY
    agent = asking(HANDLERS[kind], answer_timeout=60, **{kind: lambda asked: answer})
    assert outcomes(agent.run("Do it.")) == ["done"]


def test_each_question_to_a_handler_has_its_own_time():
    """One that is late does not take it from the next."""
    gate = Gate()

    def approve(request):
        if request.call_id == "c1":
            gate.stop_here()
        return True

    agent = asking(doing("a", "b", "c"), approve=approve, answer_timeout=60)
    with FakeClock() as clock:
        with meanwhile(lambda: (gate.wait_reached(), clock.advance(100))):
            result = agent.run("Do it.")
    gate.open()
    assert outcomes(result) == ["done", "not_started", "done"]
    check_usable(agent)


def test_some_answers_at_a_desk_are_in_time():
    """Those count; the others are late, each for itself."""
    agent = asking(doing("a", "b", "c"), answer_timeout=60)
    with FakeClock() as clock, agent.start("Do it.") as handle:
        until(lambda: len(handle.interrupts) == 3)
        assert handle.answer("c1", True)
        until(lambda: clock.advance(100) or handle.done())
        result = handle.result(LONG)
    assert outcomes(result) == ["not_started", "done", "not_started"]
    check_usable(agent)


def test_the_run_s_own_deadline_is_no_answer_timeout():
    """Promise 2: it cancels the run, whatever time an answer would have had."""
    gate = Gate()
    agent = asking(DO, approve=lambda request: gate.stop_here(), answer_timeout=60)
    result = agent.run("Do it.", timeout=SHORT)
    gate.open()
    assert (result.stop_reason, result.cancellation.origin) == ("cancelled", "deadline")
    assert outcomes(result) == ["not_started"]
    check_usable(agent)


def test_a_handler_hears_that_its_time_is_over():
    """One with a second parameter can end by itself."""
    heard = []

    def approve(request, token):
        heard.append(token.wait(60))
        return True

    agent = asking(DO, approve=approve, answer_timeout=SHORT)
    check_late(agent.run("Do it."), "approve")
    assert heard == [True]


@pytest.mark.parametrize("wrong", [-1, "1", True, float("nan")])
def test_a_time_that_is_none(wrong):
    """It is refused when the agent is made."""
    with pytest.raises(ConfigurationError, match="answer_timeout"):
        asking(answer_timeout=wrong)


def test_a_person_can_time_out_as_well():
    """Whoever keeps the clock outside says so, in any of the three ways."""
    late = Approval(False, timed_out=True)
    agent = asking(DO)
    agent.run("Do it.")
    check_late(agent.resume({the_one(agent).id: late}), "approve")
    agent = asking(DO)
    with agent.drive("Do it.") as driver:
        driver.next().time_out()
        driver.next()
        check_late(driver.next().result, "approve")
    with pytest.raises(ConfigurationError, match="timed_out=True"):
        Approval(True, timed_out=True)


# -- credentials -----------------------------------------------------------------------


class Everything:
    """All that can be seen of runs: events, states, and logs of every level."""

    def __init__(self):
        self.seen = []

    def on_event(self, event):
        self.seen += [repr(event), msgspec.json.encode(event).decode()]

    def __enter__(self):
        self._handler = logging.Handler()
        self._handler.emit = lambda record: self.seen.append(
            record.getMessage() + repr(record.__dict__)
        )
        self._levels = {}
        for logger in (logging.getLogger(), logging.getLogger("syncagent")):
            self._levels[logger] = logger.level
            logger.setLevel(logging.DEBUG)
        logging.getLogger().addHandler(self._handler)
        return self

    def __exit__(self, *_):
        logging.getLogger().removeHandler(self._handler)
        for logger, level in self._levels.items():
            logger.setLevel(level)


def test_credentials_are_seen_by_the_tool_only():
    """Not in events, logs, transcripts, states, interrupts, results or reprs."""
    with Everything() as all_of_it:
        agents = [asking(OPEN, hooks=[all_of_it]) for _ in range(3)]
        agents.append(asking(OPEN, hooks=[all_of_it], authenticate=lambda asked: KEY))
        agents[0].run("Open.")
        results = [agents[0].resume({the_one(agents[0]).id: KEY})]
        with agents[1].drive("Open.", on_event=all_of_it.on_event) as driver:
            asked = driver.next()
            asked.provide(KEY)
            all_of_it.seen += [repr(asked), repr(driver), driver.snapshot().state]
            driver.next()
            all_of_it.seen.append(repr(driver.snapshot()))
            results.append(driver.next().result)
        with agents[2].start("Open.") as handle:
            [asked] = until(lambda: handle.interrupts)
            asked.provide(KEY)
            results.append(handle.result(LONG))
            all_of_it.seen += [repr(handle), repr(list(handle.subscribe()))]
        results.append(agents[3].run("Open."))
    for agent, result in zip(agents, results, strict=True):
        assert outcomes(result) == ["done"]
        assert said_to_model(agent.messages) == ["opened with 16 characters"]
        seen = [agent, agent.messages, agent.rules, agent.save(), result]
        all_of_it.seen += [repr(each) for each in seen]
        all_of_it.seen.append(pickle.dumps(asked).decode("latin-1"))
    assert not [text for text in all_of_it.seen if KEY in text]


@pytest.mark.parametrize("given", ["", 0, {}, [], {"token": KEY}, b"\x00", 0.0])
def test_any_credentials_will_do(given):
    """Also those that are false: they reach the tool, once, as they are."""
    seen = []

    @tool(requires_auth="door")
    def look(ctx: ToolContext) -> None:
        """Look."""
        seen.append(ctx.credentials)

    agent = Agent(asking(say(call("look"))).model, tools=[look])
    with agent.drive("Look.") as driver:
        driver.next().provide(given)
        driver.next()
    assert seen == [given]
    assert seen[0] is given


@pytest.mark.parametrize("how", ["none", "deny", "reason", "false"])
def test_no_credentials(how):
    """The tool does not run, and the model is told why; nobody is asked again."""
    agent = asking(OPEN)
    with agent.drive("Open.") as driver:
        asked = driver.next()
        if how == "none":
            asked.provide(None)
        elif how == "false":
            driver.answer(asked.id, False)
        else:
            asked.deny("not at night" if how == "reason" else "")
        assert [each.outcome for each in driver.next().outcomes] == ["denied"]
    said = "not at night" if how == "reason" else "there are no credentials for door"
    assert said_to_model(agent.messages) == [f"Denied: {said}"]


def test_a_yes_is_no_credentials():
    """It is refused, and the question stays open."""
    agent = asking(OPEN)
    agent.run("Open.")
    for wrong in (True, Approval(True)):
        with pytest.raises(ConfigurationError, match="needs text or credentials"):
            agent.resume({the_one(agent).id: wrong})
    assert outcomes(agent.resume({the_one(agent).id: KEY})) == ["done"]


def test_credentials_for_the_wrong_question():
    """The error says what is wrong, and does not show what was given."""
    made = tool(name="open_door", requires_approval=True)(lambda: None)
    for agent, wrong in (
        (asking(OPEN, tools=[made]), KEY),
        (asking(WONDER), {"key": KEY}),
    ):
        agent.run("Open.")
        for given in ({the_one(agent).id: wrong}, KEY):
            with pytest.raises(ConfigurationError) as caught:
                agent.resume(given)
            assert KEY not in str(caught.value)
        assert agent.is_paused


def open_in_process(ctx: ToolContext) -> list:
    """Return how many characters it has been given."""
    return [len(ctx.credentials), ctx.ask("Sure?"), len(ctx.credentials)]


@pytest.mark.slow
def test_credentials_of_a_tool_in_a_process():
    """They reach it there, and are the same when it is called again."""
    made = tool(isolation="process", requires_auth="door")(open_in_process)
    agent = asking(say(call("open_in_process")), tools=[made])
    agent.run("Open.")
    result = agent.resume({the_one(agent).id: KEY})
    assert result.interrupts[0].question == "Sure?"
    result = agent.resume({the_one(agent).id: "yes"})
    assert said_to_model(agent.messages) == ["[16, 'yes', 16]"]
    assert KEY not in repr(result) + agent.save()


def test_credentials_are_not_asked_for_again():
    """What was given for one call is for all later ones, until it is no good."""
    agent = asking(OPEN, say(call("open_door", {}, "again")))
    agent.run("Open.")
    assert outcomes(agent.resume({the_one(agent).id: KEY})) == ["done"] * 2
    assert said_to_model(agent.messages)[1] == "opened with 16 characters"


def test_nobody_answers_after_a_cancel():
    """Promise 6: a run that waits for credentials ends at once, and opens nothing."""
    gate = Gate()
    agent = asking(OPEN, authenticate=lambda asked: gate.stop_here() or KEY)
    with meanwhile(lambda: (gate.wait_reached(), agent.cancel())):
        result = agent.run("Open.")
    gate.open()
    assert (result.cancellation.phase, outcomes(result)) == ("auth", ["not_started"])
    check_usable(agent)
