"""background() while somebody is asked: nobody else says yes for them."""

import pytest
from support.background import (
    DIALECTS,
    FACES,
    Caller,
    Replies,
    check_finished,
    check_released,
    connections,
    model_on,
    said_after,
)
from support.threads import LONG, until

from syncagent import Agent, ToolContext, abandoned, tool
from syncagent.events import InterruptRaised
from syncagent.interrupts import ApprovalRequest, AuthRequest, AwaitingInput
from syncagent.testing import FakeServer, Gate, ScriptedModel, call, complaints, say

LAST = "All is done."


class Ledger:
    """Tools that must be asked for, and how often they ran."""

    def __init__(self):
        self.ran = []

        @tool(requires_approval=True)
        def pay(amount: int) -> str:
            """Pay."""
            self.ran.append(amount)
            return f"paid {amount}"

        @tool(requires_auth="bank")
        def look(ctx: ToolContext) -> str:
            """Look at the account."""
            self.ran.append(ctx.credentials)
            return "seen"

        @tool
        def ask(ctx: ToolContext) -> str:
            """Ask the user."""
            answer = ctx.ask("How much?")
            self.ran.append(answer)
            return answer

        @tool(name="ask", isolation="thread")
        def ask_elsewhere(ctx: ToolContext) -> str:
            """Ask the user, on a thread."""
            return ask.function(ctx)

        self.pay, self.look, self.ask, self.ask_elsewhere = (
            *(pay, look),
            *(ask, ask_elsewhere),
        )


class Person:
    """A handler that answers when its gate is opened."""

    def __init__(self, answer):
        self.gate = Gate()
        self.asked = []
        self._answer = answer

    def __call__(self, question):
        self.asked.append(question)
        self.gate.stop_here()
        return self._answer


PAY = say("Now.", call("pay", {"amount": 7}, "c1"))
PAY_TWICE = say(
    "Now.", call("pay", {"amount": 7}, "c1"), call("pay", {"amount": 8}, "c2")
)


def outcomes(result):
    return [each.outcome for each in result.tool_outcomes]


# -- with a handler --------------------------------------------------------------------


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("answer", [True, False])
def test_an_approval_that_is_open(answer, dialect, face):
    """It stays open, is asked once, and counts as the person has answered it."""
    ledger, person = Ledger(), Person(answer)
    with FakeServer(Replies(PAY, say(LAST))) as server:
        model = model_on(server, dialect)
        agent = Agent(model, tools=[ledger.pay], approve=person)
        caller = Caller(agent, face)
        person.gate.wait_reached()
        assert agent.background()
        result = caller.result()
        handle = check_released(result, agent)
        assert (outcomes(result), ledger.ran) == ([], [])
        until(lambda: handle.state == "waiting_for_approval")
        assert agent.state == "waiting_for_approval"
        person.gate.open()
        final = check_finished(handle, agent, LAST)
        assert (len(server.requests), connections(server)) == (3, 1)
    assert outcomes(final) == ["done" if answer else "denied"]
    assert ledger.ran == ([7] if answer else [])
    assert len(person.asked) == 1


@pytest.mark.parametrize("face", FACES)
def test_two_approvals_one_after_the_other(face):
    """What was answered in the foreground is not asked again."""
    ledger, gate, asked = Ledger(), Gate(), []

    def approve(request):
        asked.append(request.call_id)
        if request.call_id == "c2":
            gate.stop_here()
        return True

    agent = Agent(
        ScriptedModel([PAY_TWICE, LAST, "ok"]), tools=[ledger.pay], approve=approve
    )
    caller = Caller(agent, face)
    gate.wait_reached()
    assert agent.background()
    handle = check_released(caller.result(), agent)
    gate.open()
    check_finished(handle, agent, LAST)
    assert asked == ["c1", "c2"]
    assert ledger.ran == [7, 8]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("how", ["cancel", "shutdown"])
def test_an_approval_that_is_cancelled_then(how, face):
    """Promise 6: a yes that comes after that starts nothing."""
    ledger, person = Ledger(), Person(True)
    agent = Agent(ScriptedModel([PAY, "ok", "ok"]), tools=[ledger.pay], approve=person)
    caller = Caller(agent, face)
    person.gate.wait_reached()
    agent.background()
    handle = check_released(caller.result(), agent)
    getattr(handle, how)()
    assert outcomes(handle.result(LONG)) == ["not_started"]
    assert len(abandoned()) == 1  # a person does not stop, and that is not hidden
    person.gate.open()
    until(lambda: not abandoned())
    assert ledger.ran == []
    assert complaints(agent.messages) == {}
    assert agent.run("Go on.").text == "ok"


@pytest.mark.parametrize("face", FACES)
def test_a_handler_that_fails_then(face):
    """What it raises comes out of the handle."""
    ledger, gate = Ledger(), Gate()

    def approve(request):
        gate.stop_here()
        raise LookupError("nobody there")

    agent = Agent(ScriptedModel([PAY, "ok"]), tools=[ledger.pay], approve=approve)
    caller = Caller(agent, face)
    gate.wait_reached()
    agent.background()
    handle = check_released(caller.result(), agent)
    gate.open()
    with pytest.raises(LookupError, match="nobody there"):
        handle.result(LONG)
    until(handle.done)
    assert complaints(agent.messages) == {}


@pytest.mark.parametrize("face", FACES)
def test_credentials_that_are_waited_for(face):
    """They are asked for once, and get to the tool."""
    ledger, person = Ledger(), Person("sesame")
    script = [say("Look.", call("look")), LAST, "ok"]
    agent = Agent(ScriptedModel(script), tools=[ledger.look], authenticate=person)
    caller = Caller(agent, face)
    person.gate.wait_reached()
    agent.background()
    handle = check_released(caller.result(), agent)
    until(lambda: handle.state == "waiting_for_auth")
    person.gate.open()
    check_finished(handle, agent, LAST)
    assert (ledger.ran, len(person.asked)) == (["sesame"], 1)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", ["ask", "ask_elsewhere"])
def test_a_question_of_a_tool(name, face):
    """The tool waits on for the handler's answer, and is not called again."""
    ledger, person, later = Ledger(), Person("seven"), Gate()
    script = [say("Ask.", call("ask")), later, LAST, "ok"]
    agent = Agent(ScriptedModel(script), tools=[getattr(ledger, name)], ask=person)
    caller = Caller(agent, face)
    person.gate.wait_reached()
    until(lambda: agent.state == "waiting_for_input")
    assert agent.background()
    if name == "ask" and face != "backgroundable":  # it is on the caller's thread
        person.gate.open()
    handle = check_released(caller.result(), agent)
    person.gate.open()
    later.open()
    final = check_finished(handle, agent, LAST)
    assert (outcomes(final), ledger.ran) == (["done"], ["seven"])
    assert person.asked == ["How much?"]


# -- without one, once somebody can be asked at the handle -----------------------------


class Attended:
    """A run without handlers, in the background before it asks anything."""

    def __init__(self, face, calls, *tools):
        gate = Gate()

        def wait() -> str:
            """Wait."""
            gate.stop_here()
            return "waited"

        first = say("Wait.", call("wait", {}, "w1"))
        self.agent = Agent(
            ScriptedModel([first, say("Ask.", *calls), LAST, *["ok"] * 5]),
            tools=[tool(isolation="thread")(wait), *tools],
        )
        caller = Caller(self.agent, face)
        gate.wait_reached()
        assert self.agent.background()
        self.handle = check_released(caller.result(), self.agent)
        gate.open()

    def wait_for(self, *kinds):
        """Wait until it asks these, and return them."""
        until(lambda: len(self.handle.interrupts) == len(kinds))
        asked = self.handle.interrupts
        assert tuple(map(type, asked)) == kinds
        raised = next(event for event in self.handle.subscribe() if is_raised(event))
        assert [each.id for each in raised.interrupts] == [each.id for each in asked]
        return asked


def is_raised(event):
    return isinstance(event, InterruptRaised)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("how", ["answer", "directly"])
def test_approvals_at_the_handle(how, face):
    """Nothing runs until somebody answers, in whatever order; then each once."""
    ledger = Ledger()
    calls = PAY_TWICE.message.tool_calls
    away = Attended(face, calls, ledger.pay)
    first, second = away.wait_for(ApprovalRequest, ApprovalRequest)
    assert away.handle.state == "waiting_for_approval"
    assert ledger.ran == []
    if how == "answer":
        assert away.handle.answer(second.id, False)
        assert away.handle.answer("c1", True)
        assert not away.handle.answer(first.id, True)
    else:
        second.deny("no")
        first.approve()
    final = check_finished(away.handle, away.agent, LAST)
    assert outcomes(final) == ["done", "done", "denied"]
    assert ledger.ran == [7]


@pytest.mark.parametrize("face", FACES)
def test_credentials_at_the_handle(face):
    """Whoever has the handle provides them."""
    ledger = Ledger()
    away = Attended(face, [call("look")], ledger.look)
    [asked] = away.wait_for(AuthRequest)
    asked.provide("sesame")
    check_finished(away.handle, away.agent, LAST)
    assert ledger.ran == ["sesame"]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", ["ask", "ask_elsewhere"])
def test_a_question_at_the_handle(name, face):
    """The tool waits in place for whoever has the handle."""
    ledger = Ledger()
    away = Attended(face, [call("ask")], getattr(ledger, name))
    [asked] = away.wait_for(AwaitingInput)
    assert asked.question == "How much?"
    assert away.handle.answer(asked.id, "nine")
    check_finished(away.handle, away.agent, LAST)
    assert ledger.ran == ["nine"]


@pytest.mark.parametrize("face", FACES)
def test_nobody_attends_before_that(face):
    """Without a handler and in the foreground, the run ends until it is answered."""
    ledger = Ledger()
    agent = Agent(ScriptedModel([PAY, LAST]), tools=[ledger.pay])
    result = Caller(agent, face).result()
    assert result.stop_reason == "interrupt"
    assert not agent.background()
    [asked] = agent.interrupts
    assert agent.resume({asked.id: True}).text == LAST
    assert ledger.ran == [7]


def test_what_is_asked_at_the_very_moment():
    """Who follows the handle hears of what was asked just before, and can answer."""
    ledger = Ledger()
    agent = Agent(ScriptedModel([PAY, LAST, "ok"]), tools=[ledger.pay])
    with agent.stream("Do it.") as stream:
        for event in stream:
            if is_raised(event):
                assert agent.background()
    handle = check_released(stream.result, agent)
    raised = next(event for event in handle.subscribe() if is_raised(event))
    raised.interrupts[0].approve()
    check_finished(handle, agent, LAST)
    assert ledger.ran == [7]
    assert sum(map(is_raised, said_after(handle))) == 1


@pytest.mark.parametrize("face", FACES)
def test_a_tool_that_began_before_somebody_could_be_asked(face):
    """It is called again with the answer, as it was begun without anybody."""
    gate, began = Gate(), []

    @tool(isolation="thread")
    def curious(ctx: ToolContext) -> str:
        """Ask the user."""
        began.append(ctx.idempotency_key)
        gate.stop_here()
        return ctx.ask("How much?")

    script = [say("Ask.", call("curious")), LAST, "ok"]
    agent = Agent(ScriptedModel(script), tools=[curious])
    caller = Caller(agent, face)
    gate.wait_reached()
    assert agent.background()
    handle = check_released(caller.result(), agent)
    gate.open()
    until(lambda: handle.interrupts)
    assert handle.state == "waiting_for_input"
    assert handle.answer(handle.interrupts[0].id, "nine")
    final = check_finished(handle, agent, LAST)
    assert outcomes(final) == ["done"]
    assert len(began) == 2
    assert len(set(began)) == 1


def test_a_question_that_is_answered_at_another_handle():
    """A run that waits for an answer and goes on with start() asks it once."""
    ledger = Ledger()
    script = [say("Ask.", call("ask")), LAST, "ok"]
    agent = Agent(ScriptedModel(script), tools=[ledger.ask])
    assert agent.run("Do it.").stop_reason == "interrupt"
    handle = agent.start()
    until(lambda: handle.interrupts)
    assert handle.answer(handle.interrupts[0].id, "nine")
    assert handle.result(LONG).text == LAST
    assert ledger.ran == ["nine"]
