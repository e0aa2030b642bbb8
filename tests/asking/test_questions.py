"""A tool asks, nobody can answer now: it is called again with the answer."""

import pytest
from support.questions import (
    KEY,
    WONDER,
    asked_in_process,
    asking,
    check_usable,
    outcomes,
    said_to_model,
    the_one,
    wonder,
)

from syncagent import Approval, ConfigurationError, Limits, ToolContext, ToolError, tool
from syncagent.events import ToolFinished, ToolStarted
from syncagent.exceptions import InterruptOver
from syncagent.testing import call, complaints, say


def answer_all(agent, answers):
    """Go on with a run for as long as it asks; return what it was asked, in order."""
    asked = []
    while agent.is_paused:
        questions = [each.question for each in agent.interrupts]
        asked.append(questions)
        given = {each.id: answers(each.question) for each in agent.interrupts}
        result = agent.resume(given)
    return asked, result


def variants():
    """Return the same tool, wherever it may run."""
    again = wonder.function
    return [
        pytest.param(wonder, id="here"),
        pytest.param(tool(name="wonder", isolation="thread")(again), id="thread"),
        pytest.param(tool(name="wonder", on_cancel="abandon")(again), id="abandon"),
        pytest.param(
            tool(name="wonder", isolation="process")(asked_in_process), id="process"
        ),
        pytest.param(
            tool(name="wonder", on_cancel="kill")(asked_in_process), id="kill"
        ),
        pytest.param(tool(name="wonder", timeout=30)(again), id="timeout"),
    ]


@pytest.mark.parametrize("made", variants())
@pytest.mark.slow
def test_several_questions_of_one_tool(made):
    """Each is asked once, in order, wherever the tool runs; it is one call."""
    agent = asking(WONDER, tools=[made])
    result = agent.run("Go.")
    assert (result.stop_reason, outcomes(result)) == ("interrupt", ["interrupted"])
    assert (agent.state, the_one(agent).tool) == ("waiting_for_input", "wonder")
    assert the_one(agent).is_blocking
    asked, result = answer_all(agent, lambda question: question.upper())
    assert asked == [["What?"], ["Why?"]]
    assert said_to_model(agent.messages) == ["WHAT?, WHY?"]
    assert (outcomes(result), result.turns) == (["done"], 2)
    check_usable(agent)


@pytest.mark.parametrize("made", variants())
@pytest.mark.parametrize("passes", [0, 1])
@pytest.mark.slow
def test_a_cancel_while_a_question_is_open(made, passes):
    """Promise 5: it was running, and nobody knows what it has done by then."""
    agent = asking(WONDER, tools=[made])
    agent.run("Go.")
    for _ in range(passes):
        agent.resume({the_one(agent).id: "so"})
    asked = the_one(agent)
    assert not agent.cancel()
    assert (agent.state, agent.interrupts) == ("idle", ())
    assert "its effects are unknown" in said_to_model(agent.messages)[0]
    assert complaints(agent.messages) == {}
    with pytest.raises(ConfigurationError, match="does not wait"):
        agent.resume({asked.id: "late"})
    check_usable(agent)


def test_a_cancel_in_a_driver_while_a_question_is_open():
    """The result says the same, and the answer comes too late."""
    agent = asking(WONDER)
    with agent.drive("Go.") as driver:
        asked = driver.next()
        assert driver.cancel("enough")
        with pytest.raises(InterruptOver):
            asked.submit("late")
        result = driver.next().result
    assert (result.stop_reason, outcomes(result)) == ("cancelled", ["interrupted"])
    assert result.cancellation.phase == "input"
    check_usable(agent)


@pytest.mark.parametrize("width", [1, 4])
def test_a_round_in_which_some_ask(width):
    """The others finish first, all is asked at once, and only those run again."""
    calls = []

    @tool
    def plain(number: int) -> int:
        """Just return."""
        calls.append(number)
        return number

    @tool(isolation="thread")
    def unsure(number: int, ctx: ToolContext) -> str:
        """Ask about a number."""
        calls.append(number)
        return f"{number} {ctx.ask(f'Number {number}?')}"

    names = ["plain", "unsure", "plain", "unsure"]
    script = [call(name, {"number": n}, f"c{n}") for n, name in enumerate(names)]
    agent = asking(say(*script), tools=[plain, unsure], parallel_tools=width)
    result = agent.run("Go.")
    assert outcomes(result) == ["done", "interrupted"] * 2
    assert sorted(calls) == [0, 1, 2, 3]
    asked, result = answer_all(agent, lambda question: question[-2])
    assert asked == [["Number 1?", "Number 3?"]]
    assert sorted(calls) == [0, 1, 1, 2, 3, 3]
    assert outcomes(result) == ["done"] * 4
    assert sorted(said_to_model(agent.messages)) == ["0", "1 1", "2", "3 3"]


@pytest.mark.parametrize("face", ["resume", "drive"])
def test_a_tool_that_asks_something_else_the_second_time(face):
    """The old answer is for the old question; the new one is asked, as a new one."""
    passes = []

    @tool(name="wonder")
    def fickle(ctx: ToolContext) -> str:
        """Ask something else each time, twice."""
        passes.append(1)
        return ctx.ask(f"Question {min(len(passes), 3)}?")

    agent = asking(WONDER, tools=[fickle])
    ids = []
    if face == "resume":
        agent.run("Go.")
        while agent.is_paused:
            ids.append(the_one(agent).id)
            result = agent.resume({the_one(agent).id: the_one(agent).question})
    else:
        with agent.drive("Go.") as driver:
            old = []
            while (step := driver.next()).is_blocking:
                for each in old:
                    with pytest.raises(InterruptOver):
                        each.submit("an old handle")
                old.append(step)
                ids.append(step.id)
                step.submit(step.question)
            result = driver.next().result
    assert said_to_model(agent.messages) == ["Question 3?"]
    assert len(set(ids)) == len(ids) == 3
    assert outcomes(result) == ["done"]


def test_the_same_question_twice():
    """Two questions with the same words have an answer each."""

    @tool(name="wonder")
    def insistent(ctx: ToolContext) -> str:
        """Ask the same until it likes the answer."""
        while (answer := ctx.ask("Yes?")) != "yes":
            pass
        return answer

    given = iter(["no", "no", "yes"])
    agent = asking(WONDER, tools=[insistent])
    agent.run("Go.")
    asked, _ = answer_all(agent, lambda question: next(given))
    assert asked == [["Yes?"]] * 3
    assert said_to_model(agent.messages) == ["yes"]


@pytest.mark.parametrize("refusal", [None, False, Approval(False)])
def test_nobody_answers(refusal):
    """The tool is told, may go on without, and is not asked the same again."""

    @tool(name="wonder")
    def modest(ctx: ToolContext) -> str:
        """Do without an answer."""
        try:
            return ctx.ask("What?")
        except ToolError as error:
            return f"{error}; {ctx.ask('Why?')}"

    agent = asking(WONDER, tools=[modest])
    agent.run("Go.")
    agent.resume({the_one(agent).id: refusal})
    assert the_one(agent).question == "Why?"
    agent.resume({the_one(agent).id: ""})
    assert said_to_model(agent.messages) == ["the user did not answer; "]


@pytest.mark.parametrize("wrong", [True, 5, ["words"], Approval(True)])
def test_an_answer_that_is_no_words(wrong):
    """It is refused, and the question stays open."""
    agent = asking(WONDER)
    agent.run("Go.")
    before = agent.interrupts
    with pytest.raises(ConfigurationError):
        agent.resume({the_one(agent).id: wrong})
    assert agent.interrupts == before
    asked, _ = answer_all(agent, lambda question: "so")
    assert asked == [["What?"], ["Why?"]]


def test_a_handler_that_has_no_answer():
    """None is no answer, and not the word None; other words are taken as such."""
    for answer, words in (
        (None, "the user did not answer"),
        (False, "the user did not"),
        (5, "5, 5"),
    ):
        agent = asking(WONDER, ask=lambda question, answer=answer: answer)
        agent.run("Go.")
        assert said_to_model(agent.messages)[0].startswith(words)


def test_all_three_kinds_for_one_call():
    """First whether, then with what, then the rest; each once."""
    made = tool(name="wonder", requires_approval=True, requires_auth="door")(
        wonder.function
    )
    agent = asking(WONDER, tools=[made])
    kinds = []
    agent.run("Go.")
    while agent.is_paused:
        kind = type(the_one(agent)).__name__
        kinds.append(kind)
        answer = {"ApprovalRequest": True, "AuthRequest": KEY}.get(kind, "so")
        result = agent.resume({the_one(agent).id: answer})
    assert kinds == ["ApprovalRequest", "AuthRequest"] + ["AwaitingInput"] * 2
    assert outcomes(result) == ["done"]
    assert said_to_model(agent.messages) == ["so, so"]


def test_a_call_counts_once():
    """For the limit, for hooks, and for those who are told that it has ended."""
    seen = []

    class Look:
        def before_tool(self, event):
            seen.append("before")

        def after_tool(self, event):
            seen.append(event.outcome.outcome)

        def on_event(self, event):
            if isinstance(event, (ToolStarted, ToolFinished)):
                seen.append(type(event).__name__)

    agent = asking(WONDER, hooks=[Look()], limits=Limits(tool_calls=1))
    agent.run("Go.")
    _, result = answer_all(agent, lambda question: "so")
    assert (result.stop_reason, outcomes(result)) == ("end_turn", ["done"])
    started = ["ToolStarted"] * 3  # it is called again for each answer
    assert seen == ["before", *started, "done", "ToolFinished"]


def test_except_exception_does_not_swallow_a_question():
    """A tool that catches everything usual still asks."""

    @tool(name="wonder")
    def careless(ctx: ToolContext) -> str:
        """Catch what it can."""
        try:
            return ctx.ask("What?")
        except Exception:
            return "swallowed"

    agent = asking(WONDER, tools=[careless])
    agent.run("Go.")
    answer_all(agent, lambda question: "so")
    assert said_to_model(agent.messages) == ["so"]


def test_a_tool_that_breaks_after_its_question():
    """What it raises when it is called again is its result."""

    @tool(name="wonder")
    def brittle(ctx: ToolContext) -> int:
        """Divide by what it is told."""
        return 1 // int(ctx.ask("By what?"))

    agent = asking(WONDER, tools=[brittle])
    agent.run("Go.")
    _, result = answer_all(agent, lambda question: "0")
    assert outcomes(result) == ["failed"]
    check_usable(agent)


@pytest.mark.parametrize("question", ["", "  ", None, 5])
def test_a_question_without_words(question):
    """The tool is told; nobody is bothered."""

    @tool(name="wonder")
    def dumb(ctx: ToolContext) -> str:
        """Ask nothing."""
        return ctx.ask(question)

    result = asking(WONDER, tools=[dumb]).run("Go.")
    assert (result.stop_reason, outcomes(result)) == ("end_turn", ["failed"])
