"""A tool asks with a form: answers are checked where they are given."""

import pickle
import threading

import pytest
from support.contents import json_of
from support.questions import asking, check_usable, outcomes, said_to_model, the_one
from support.threads import LONG, until

from syncagent import Agent, Approval, CancelToken, ToolContext, tool
from syncagent.exceptions import (
    Cancelled,
    ConfigurationError,
    Declined,
    InterruptOver,
    InterruptPending,
    StateInvalid,
    ToolError,
)
from syncagent.interrupts import TIMED_OUT, AwaitingInput, Question
from syncagent.messages import ToolMessage
from syncagent.stores import RunStore
from syncagent.testing import Gate, ScriptedModel, call, cancel_everywhere, say

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "seats": {"type": "integer", "minimum": 1, "default": 2},
    },
    "required": ["name"],
}
ANN = {"name": "Ann", "seats": 2}
BOOK = say(call("book"))


@tool
def book(ctx: ToolContext) -> str:
    """Book a table."""
    try:
        answer = ctx.ask("Which table?", form=FORM)
    except Declined:
        return "declined"
    except ToolError as error:
        return f"no answer: {error}"
    assert type(answer) is dict
    return f"{answer['name']} {answer['seats']}"


def booked(result, agent):
    """Return what the tool has made of the answer."""
    assert outcomes(result) == ["done"]
    return said_to_model(agent.messages)[-1]


# -- every way to answer ---------------------------------------------------------------

ANSWERS = [
    ({"name": "Ann"}, "Ann 2"),
    ({"name": "Ann", "seats": 3}, "Ann 3"),
    ('{"name": "Ann", "seats": 4}', "Ann 4"),
    (False, "declined"),
    (Approval(False, reason="not today"), "declined"),
    (None, "no answer: the user did not answer"),
    (TIMED_OUT, "no answer: the user did not answer"),
]
WRONG = [
    ({"name": "A"}, "'name' must have at least 2 characters"),
    ({"name": "Ann", "seats": 0}, "'seats' must be at least 1"),
    ({}, "'name' is missing"),
    ("Ann", "must be JSON"),
    (True, "needs text or credentials, not True"),
    (["Ann"], "must be a dict"),
]


@pytest.mark.parametrize(("answer", "said"), ANSWERS)
def test_a_handler_answers(answer, said):
    """It gets the question with its form, and the tool a dict that fits it."""
    asked = []
    agent = asking(
        BOOK, tools=[book], ask=lambda question: asked.append(question) or answer
    )
    assert booked(agent.run("Go."), agent) == said
    (question,) = asked
    assert (question, question.form) == ("Which table?", FORM)
    assert isinstance(question, str)


def test_a_wrong_answer_of_a_handler_never_reaches_the_tool():
    """The tool learns that there is no answer that fits."""
    agent = asking(BOOK, tools=[book], ask=lambda question: {"name": 3})
    assert booked(agent.run("Go."), agent) == (
        "no answer: the answer does not fit the form: 'name' must be a text"
    )


@pytest.mark.parametrize(("answer", "said"), ANSWERS)
def test_a_paused_run_is_resumed(answer, said):
    """The tool is called again, and gets the answer."""
    agent = asking(BOOK, tools=[book])
    result = agent.run("Go.")
    question = the_one(agent)
    assert (question.form, result.interrupts) == (FORM, (question,))
    assert booked(agent.resume({question.id: answer}), agent) == said


@pytest.mark.parametrize(("answer", "problem"), WRONG)
def test_a_wrong_answer_leaves_a_paused_run_as_it_is(answer, problem):
    """resume() refuses it before anything is lost."""
    agent = asking(BOOK, tools=[book])
    agent.run("Go.")
    question = the_one(agent)
    with pytest.raises(ConfigurationError) as error:
        agent.resume({question.id: answer})
    assert problem in str(error.value)
    assert booked(agent.resume({question.id: ANN}), agent) == "Ann 2"


@pytest.mark.parametrize("isolation", [None, "thread"])
def test_a_handle_is_answered(isolation):
    """A wrong answer is refused and the question stays open; the next one counts."""
    made = tool(name="book", isolation=isolation)(book.function)
    agent = asking(BOOK, BOOK, tools=[made])
    with agent.start("Go.") as handle:
        until(lambda: handle.interrupts)
        question = the_one(handle)
        for answer, problem in WRONG:
            with pytest.raises(ConfigurationError) as error:
                handle.answer(question.id, answer)
            assert problem in str(error.value)
        assert handle.interrupts == (question,)
        question.submit({"name": "Ann"})
        until(lambda: handle.interrupts and the_one(handle).id != question.id)
        the_one(handle).decline()
        result = handle.result(LONG)
    assert outcomes(result) == ["done", "done"]
    assert said_to_model(agent.messages) == ["Ann 2", "declined"]


def test_a_driver_is_answered():
    """next() returns the question with its form."""
    agent = asking(BOOK, tools=[book])
    with agent.drive("Go.") as driver:
        question = driver.next()
        assert isinstance(question, AwaitingInput)
        with pytest.raises(ConfigurationError, match="'name' is missing"):
            question.submit({})
        driver.answer(question.id, {"name": "Ann"})
        until(lambda: type(driver.next()).__name__ == "Finished")
    assert said_to_model(agent.messages) == ["Ann 2"]


def ask_in_process(ctx: ToolContext) -> str:
    """Ask from a process that can import this."""
    try:
        return str(ctx.ask("Which table?", form=FORM)["name"])
    except Declined:
        return "declined"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "said", "has_handler"),
    [(ANN, "Ann", False), (False, "declined", True)],
)
def test_a_worker_process_asks(answer, said, has_handler):
    """The form goes to the parent, and the dict, or the no, comes back."""
    made = tool(name="book", isolation="process")(ask_in_process)
    handler = {"ask": lambda question: answer} if has_handler else {}
    agent = asking(BOOK, tools=[made], **handler)
    result = agent.run("Go.")
    if not has_handler:
        result = agent.resume({the_one(agent).id: answer})
    assert booked(result, agent) == said


def test_a_bad_form_is_an_error_of_the_tool():
    """The model is told, and no one is asked."""

    @tool(name="book")
    def bad(ctx: ToolContext) -> str:
        """Ask with nonsense."""
        return str(ctx.ask("Which?", form={"type": "object", "properties": {"x": {}}}))

    agent = asking(BOOK, tools=[bad])
    assert outcomes(agent.run("Go.")) == ["failed"]
    assert "the form cannot be used: the field 'x'" in said_to_model(agent.messages)[0]


def test_without_a_form_nothing_is_different():
    """A plain question takes text only, a no is no answer, and its form is None."""

    @tool(name="book")
    def plain(ctx: ToolContext) -> str:
        """Ask for text."""
        try:
            return ctx.ask("Which?")
        except Declined:
            return "declined"

    asked = []
    agent = asking(BOOK, tools=[plain], ask=lambda q: asked.append(q) or False)
    assert outcomes(agent.run("Go.")) == ["failed"]
    assert asked[0].form is None
    agent = asking(BOOK, tools=[plain])
    agent.run("Go.")
    assert the_one(agent).form is None
    with pytest.raises(ConfigurationError, match="needs a string; got a dict"):
        agent.resume({the_one(agent).id: {"name": "Ann"}})
    assert outcomes(agent.resume({the_one(agent).id: False})) == ["failed"]


def test_questions_are_texts():
    """A Question survives pickling, with its form."""
    question = pickle.loads(pickle.dumps(Question("Which?", FORM)))
    assert (question, question.form, question.upper()) == ("Which?", FORM, "WHICH?")


# -- saved, stored ---------------------------------------------------------------------


def test_an_open_form_is_saved():
    """The form, earlier answers and a no survive a trip through a saved state."""

    @tool(name="book")
    def twice(ctx: ToolContext) -> str:
        """Ask three times."""
        first = ctx.ask("First?", form=FORM)
        try:
            ctx.ask("Second?", form=FORM)
        except Declined:
            return f"{first['name']}, {ctx.ask('Third?')}"
        return "never"

    agent = asking(BOOK, tools=[twice])
    agent.run("Go.")
    result = None
    for answer in (ANN, False, "a text"):
        agent = Agent.load(agent.save(), agent.model, tools=[twice])
        result = agent.resume({the_one(agent).id: answer})
    assert booked(result, agent) == "Ann, a text"


def test_a_changed_form_in_a_state_is_refused():
    """A state whose question and call do not agree was changed."""
    agent = asking(BOOK, tools=[book])
    agent.run("Go.")
    state = agent.save().replace('"minLength":2', '"minLength":1', 1)
    with pytest.raises(StateInvalid, match="is about no open call"):
        Agent.load(state, agent.model, tools=[book])


def test_a_form_that_has_changed_is_asked_again():
    """An earlier answer that does not fit the form of today is not used."""
    agent = asking(BOOK, tools=[book])
    agent.run("Go.")
    other = {**FORM, "required": ["name", "day"]}
    other["properties"] = {**FORM["properties"], "day": {"type": "string"}}

    @tool(name="book")
    def changed(ctx: ToolContext) -> str:
        """Ask for more."""
        return str(ctx.ask("Which table?", form=other)["day"])

    loaded = Agent.load(agent.save(), agent.model, tools=[changed])
    loaded.resume({the_one(loaded).id: ANN})
    question = the_one(loaded)
    assert question.form == other
    result = loaded.resume({question.id: {**ANN, "day": "Monday"}})
    assert booked(result, loaded) == "Monday"


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'runs.db'}"


def until_last(messages):
    return "ok" if isinstance(messages[-1], ToolMessage) else BOOK


def make_agent(run):
    return Agent(ScriptedModel(until_last), tools=[book])


@pytest.mark.parametrize(
    ("answer", "said", "kind"),
    [(ANN, "Ann 2", "answered"), (False, "declined", "denied")],
)
def test_a_store_keeps_the_form_and_the_answer(url, answer, said, kind):
    """Another process sees the form, and is refused a wrong answer to it."""
    with RunStore(url, make_agent) as store:
        id = store.submit("Go.")
        with pytest.raises(InterruptPending):
            store.result(id, LONG)
        with RunStore(url) as observer:
            (question,) = observer.get(id).interrupts
            assert question.form == FORM
            assert observer.inbox()[0].question == question
            with pytest.raises(ConfigurationError, match="'name' is missing"):
                observer.answer(id, {question.id: {}})
            assert observer.answer(id, {question.id: answer}) == {question.id: "taken"}
        result = store.result(id, LONG)
        assert outcomes(result) == ["done"]
        assert said in json_of(result.messages)
        (entry,) = store.audit()
        assert (entry.kind, entry.answer.values) == (kind, answer or None)
        assert entry.answer.shown == ('{"name":"Ann","seats":2}' if answer else "")


# -- withdrawn by a token --------------------------------------------------------------


def withdrawing(gate, seen):
    @tool(name="book")
    def withdraw(ctx: ToolContext) -> str:
        """Ask, and change its mind."""
        token = ctx.token.child()
        seen.append(token)
        try:
            ctx.ask("Which?", form=FORM, token=token)
        except Cancelled as cancelled:
            gate.stop_here(token=ctx.token)
            seen.append("past the gate")
            return f"withdrawn: {cancelled.reason}"
        return "answered"

    return withdraw


def test_a_token_withdraws_the_question_in_a_handle():
    """It is closed everywhere at once, and the run goes on."""
    gate, tokens = Gate(), []
    agent = asking(BOOK, tools=[withdrawing(gate, tokens)])
    with agent.start("Go.") as handle:
        until(lambda: handle.interrupts)
        question = the_one(handle)
        tokens[0].cancel("not needed")
        assert handle.interrupts == ()
        with pytest.raises(InterruptOver):
            question.submit(ANN)
        gate.wait_reached(LONG)
        assert handle.state != "waiting_for_input"
        gate.open()
        result = handle.result(LONG)
    assert booked(result, agent) == "withdrawn: not needed"


def test_a_token_withdraws_the_question_from_a_handler():
    """A handler that takes a token is told; another is left behind."""
    gate, tokens, told = Gate(), [], []
    gate.open()

    def handler(question, token):
        tokens[0].cancel("not needed")
        told.append(token.wait(LONG))

    agent = asking(BOOK, tools=[withdrawing(gate, tokens)], ask=handler)
    assert booked(agent.run("Go."), agent) == "withdrawn: not needed"
    assert told == [True]
    check_usable(agent)


def test_a_cancel_of_the_run_is_the_run_s():
    """The tool that waits under a token of its own ends with its run."""
    gate, tokens = Gate(), []
    agent = asking(BOOK, tools=[withdrawing(gate, tokens)])
    with agent.start("Go.") as handle:
        until(lambda: handle.interrupts)
        handle.cancel("enough")
        result = handle.result(LONG)
    assert result.cancelled
    assert result.cancellation.phase == "input"


def test_a_token_that_is_no_child_works_as_well():
    """The wait ends with the first of the two."""

    @tool(name="book")
    def ask(ctx: ToolContext) -> str:
        """Ask under a token that is cancelled already."""
        token = CancelToken()
        token.cancel("before")
        try:
            return str(ctx.ask("Which?", form=FORM, token=token))
        except Cancelled as cancelled:
            return cancelled.reason

    agent = asking(BOOK, tools=[ask], ask=lambda question: ANN)
    assert booked(agent.run("Go."), agent) == "before"


def test_a_store_closes_a_withdrawn_question_of_a_sub_agent(url):
    """The inbox loses it while the tool still runs."""
    gate, tokens = Gate(), []
    inner = Agent(
        ScriptedModel([BOOK, "inner ok"]),
        tools=[withdrawing(gate, tokens)],
        name="inner",
    )
    outer = Agent(
        ScriptedModel([say(call("inner", {"prompt": "Go."})), "ok"]), tools=[inner]
    )
    with RunStore(url, lambda run: outer) as store:
        id = store.submit("Go.")
        until(lambda: store.get(id).interrupts)
        tokens[0].cancel("not needed")
        gate.wait_reached(LONG)
        until(lambda: not store.get(id).interrupts)
        assert len(tokens) == 1  # the tool is still at the gate
        gate.open()
        assert outcomes(store.result(id, LONG)) == ["done"]


# -- other threads ---------------------------------------------------------------------


@pytest.mark.parametrize("way", ["handler", "handle"])
def test_another_thread_of_the_tool_asks(way):
    """Its question reaches handlers and handles while the tool's own thread waits."""

    @tool(name="book")
    def ask(ctx: ToolContext) -> str:
        """Ask on another thread."""
        answers = []
        helper = threading.Thread(
            target=lambda: answers.append(ctx.ask("Which?", form=FORM))
        )
        helper.start()
        helper.join(LONG)
        return str(answers[0]["name"])

    if way == "handler":
        agent = asking(BOOK, tools=[ask], ask=lambda question: ANN)
        assert booked(agent.run("Go."), agent) == "Ann"
        return
    agent = asking(BOOK, tools=[ask])
    with agent.start("Go.") as handle:
        until(lambda: handle.interrupts)
        handle.answer(the_one(handle).id, ANN)
        assert booked(handle.result(LONG), agent) == "Ann"


# -- cancels ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("way", ["inside", "thread", "meanwhile"])
@pytest.mark.parametrize("has_handler", [True, False])
def test_a_sweep_through_a_form(way, has_handler):
    """Promises 3 to 8 hold at every point of a run that asks with a form."""

    def run(agent, prompt):
        result = agent.run(prompt)
        while result.interrupts:
            result = agent.resume({result.interrupts[0].id: ANN})
        return result

    def make():
        handler = {"ask": lambda question: ANN} if has_handler else {}
        return Agent(ScriptedModel(until_last), tools=[book], **handler)

    swept = cancel_everywhere(make, "Go.", way=way, run=run)
    assert "input" in swept.phases or not has_handler
