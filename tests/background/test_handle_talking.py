"""What is said to a handle while it is busy, and how it is answered."""

import pytest
from support.agents import SUM, add, check_usable, model, outcomes
from support.contents import json_of
from support.handles import (
    MORE,
    approval,
    auth,
    queued,
    risky,
    silent_stream,
    switching_often,
    user_input,
    words_of,
)
from support.threads import LONG, together, until

from syncagent import Agent, Approval, ConfigurationError, ToolContext, tool
from syncagent.exceptions import InterruptOver
from syncagent.messages import AssistantMessage, ToolMessage, UserMessage
from syncagent.testing import Gate, ScriptedModel, call, complaints, say


def three_risky(**settings):
    """Return an agent that asks for three calls at once, and what has run."""
    ran = []

    @tool(requires_approval=True)
    def touch(number: int) -> int:
        """Touch something."""
        ran.append(number)
        return number

    calls = [call("touch", {"number": n}, f"call_{n}") for n in range(3)]
    return Agent(model(say(*calls)), tools=[touch], **settings), ran


# -- answers -----------------------------------------------------------------------


@pytest.mark.parametrize("by", ["id", "call_id", "itself"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_a_round_is_answered_by_any_name_in_any_order(by, order):
    """Nothing runs before the last answer is in; each counts for its own call."""
    agent, ran = three_risky()
    handle = agent.start("Do it.")
    until(lambda: len(handle.interrupts) == 3)
    asked = handle.interrupts
    for number in order:
        assert ran == []
        allow = number != 1
        if by == "itself":
            (asked[number].approve if allow else asked[number].deny)()
        else:
            assert handle.answer(getattr(asked[number], by), allow, reason="not this")
    assert outcomes(handle.result(LONG)) == ["done", "denied", "done"]
    assert ran == [0, 2]
    check_usable(agent)


@pytest.mark.parametrize("end", ["cancel", "interrupt", "shutdown"])
@pytest.mark.parametrize("answered", [0, 1, 2])
def test_nothing_of_a_round_runs_that_was_not_answered_in_full(end, answered):
    """Promise 6: what was approved already starts no more than the rest."""
    agent, ran = three_risky()
    handle = agent.start("Do it.")
    until(lambda: len(handle.interrupts) == 3)
    asked = handle.interrupts
    for request in asked[:answered]:
        assert handle.answer(request.id, True)
    assert getattr(handle, end)("enough")
    assert not handle.answer(asked[2].id, True)
    assert not handle.answer(asked[2].call_id, True)
    result = handle.result(LONG)
    assert outcomes(result) == ["not_started"] * 3
    assert (ran, result.cancellation.phase) == ([], "approval")
    handle.close()
    check_usable(agent)
    assert ran == []


@pytest.mark.parametrize("make", [approval, auth, user_input])
@pytest.mark.parametrize("end", ["cancel", "interrupt", "shutdown"])
def test_an_answer_after_the_end_is_told_so(make, end, tmp_path):
    """False by either name, InterruptOver from the question; also when all is over."""
    scene = make(tmp_path)
    handle, (asked,) = scene.handle, scene.handle.interrupts
    assert getattr(handle, end)()
    for _ in range(2):
        assert not handle.answer(asked.id, scene.answer)
        assert not handle.answer(asked.call_id, scene.answer)
        with pytest.raises(InterruptOver):
            asked._answer(scene.answer)
        assert handle.wait(LONG)
    scene.check_end()


@pytest.mark.parametrize("make", [approval, auth, user_input])
def test_the_first_answer_counts(make, tmp_path):
    """The second is told that it does not, while the run goes on and afterwards."""
    scene = make(tmp_path)
    handle, (asked,) = scene.handle, scene.handle.interrupts
    assert handle.answer(asked.call_id, scene.answer)
    assert not handle.answer(asked.id, scene.answer)
    assert handle.result(LONG).stop_reason == "end_turn"
    assert not handle.answer(asked.call_id, scene.answer)
    assert outcomes(handle.result()) == ["done"]
    scene.check_end()


def test_one_of_many_answers_counts():
    """Threads that answer at once: exactly one is told that it has."""
    for _ in range(30):
        agent = Agent(model(say(call("risky"))), tools=[risky])
        handle = agent.start("Do it.")
        until(lambda handle=handle: handle.interrupts)
        (asked,), counted = handle.interrupts, []

        def answer(handle=handle, asked=asked, counted=counted):
            counted.append(handle.answer(asked.id, True))

        together(*[answer] * 5)
        assert sorted(counted) == [False] * 4 + [True]
        assert outcomes(handle.result(LONG)) == ["done"]


@pytest.mark.parametrize(
    ("make", "answer"),
    [(approval, "yes"), (approval, None), (auth, True), (user_input, True)],
)
def test_an_answer_that_makes_no_sense_changes_nothing(make, answer, tmp_path):
    """It is refused, and the question is still open for a better one."""
    scene = make(tmp_path)
    handle, (asked,) = scene.handle, scene.handle.interrupts
    with pytest.raises(ConfigurationError):
        handle.answer(asked.id, answer)
    with pytest.raises(ConfigurationError, match="no open question 'other'"):
        handle.answer("other", scene.answer)
    assert handle.interrupts == (asked,)
    scene.let_go()
    assert outcomes(handle.result(LONG)) == ["done"]
    scene.check_end()


def test_an_answer_may_change_arguments_and_be_remembered():
    """respond() can say all of an Approval; the next call is not asked about."""
    agent = Agent(model(SUM, SUM), tools=[tool(requires_approval=True)(add)])
    handle = agent.start("Do it.")
    until(lambda: handle.interrupts)
    (asked,) = handle.interrupts
    assert handle.answer(asked.id, True, "tool", arguments={"a": 20, "b": 2})
    told = [m for m in handle.result(LONG).messages if isinstance(m, ToolMessage)]
    assert ["22" in str(each) for each in told] == [True, False]
    agent.forget_rules()


def test_an_approval_object_is_an_answer_too():
    """Whatever approve= may return, respond() takes."""
    agent = Agent(model(say(call("risky"))), tools=[risky])
    handle = agent.start("Do it.")
    until(lambda: handle.interrupts)
    assert handle.answer("call_risky", Approval(False, reason="not today"))
    result = handle.result(LONG)
    assert outcomes(result) == ["denied"]
    assert "not today" in json_of(result.messages)


# -- saying more -------------------------------------------------------------------


def test_what_is_sent_during_a_tool_is_heard_after_its_round_in_order():
    """Steering: the model hears it with the results, in the same run, and all of it."""
    gate = Gate()

    @tool
    def work(ctx: ToolContext) -> str:
        """Work."""
        gate.stop_here(token=ctx.token)
        return "worked"

    agent = Agent(model(say(call("work"))), tools=[work])
    handle = agent.start("Do it.")
    gate.wait_reached()
    said = [f"n{number}" for number in range(5)]
    for words in said:
        handle.send_input(words)
    assert [each.content[0].text for each in handle.pending_inputs] == said
    gate.open()
    result = handle.result(LONG)
    assert handle.pending_inputs == ()
    assert result.turns == 2
    kinds = [type(message) for message in result.messages]
    asked = [UserMessage, AssistantMessage, ToolMessage, UserMessage]
    assert kinds == [*asked, AssistantMessage]
    assert words_of(agent) == ["Do it.", *said]
    heard = agent.model.requests[-1][-1]
    assert [block.text for block in heard.content] == said
    check_usable(agent)


def test_what_is_sent_during_an_answer_is_one_message_of_the_next_run():
    """What came meanwhile is joined, in order, as one prompt of a run of its own."""
    gate = Gate()
    agent = Agent(model(gate, "late"))
    handle = agent.start("Do it.")
    gate.wait_reached()
    for words in ("a", "b", "c"):
        handle.send_input(words)
    gate.open()
    result = handle.result(LONG)
    assert [block.text for block in result.new_messages[0].content] == ["a", "b", "c"]
    assert (len(agent.model.requests), handle.done()) == (2, True)


@pytest.mark.parametrize("make", [approval, user_input, silent_stream, queued])
def test_an_interrupt_swallows_no_input(make, tmp_path):
    """What was sent before is said next; what had not been said comes first."""
    scene = make(tmp_path)
    handle = scene.handle
    handle.send_input("a")
    handle.send_input("b")
    assert handle.interrupt()
    scene.let_go()
    assert handle.result(LONG).stop_reason == "end_turn"
    said = [each for each in words_of(scene.agent) if each != "First."]
    assert said == ["Do it.", "a", "b"]
    assert complaints(scene.agent.messages) == {}
    assert handle.done()
    scene.check_end()


@pytest.mark.parametrize("make", [approval, user_input, silent_stream, queued])
@pytest.mark.parametrize("end", ["cancel", "shutdown"])
def test_what_nobody_will_hear_can_still_be_read(make, end, tmp_path):
    """A handle that ends says no more, and keeps what it was sent."""
    scene = make(tmp_path)
    handle = scene.handle
    handle.send_input(MORE)
    assert getattr(handle, end)()
    assert handle.ended.wait(LONG)
    unheard = [each.content[0].text for each in handle.pending_inputs]
    assert unheard == (["Do it."] * (make is queued)) + [MORE]
    assert MORE not in words_of(scene.agent)
    scene.check_end()


def test_what_an_interrupt_kept_from_being_said_is_said_with_the_next_input(tmp_path):
    """A queued run that is interrupted loses its turn, and not its words."""
    scene = queued(tmp_path)
    handle = scene.handle
    assert handle.interrupt("wait")
    result = handle.result(LONG)
    assert (result.stop_reason, result.cancellation.phase) == ("cancelled", "queue")
    assert [each.content[0].text for each in handle.pending_inputs] == ["Do it."]
    scene.let_go()
    handle.send_input(MORE)
    handle.result(LONG)
    assert words_of(scene.agent) == ["First.", "Do it.", MORE]
    assert handle.pending_inputs == ()
    scene.check_end()


@pytest.mark.parametrize("bad", ["", "  ", None, 3, ["\ud800"]])
def test_nothing_cannot_be_sent(bad):
    """Refused at once, and the handle is as before."""
    with Agent(model()).start() as handle:
        with pytest.raises(ConfigurationError):
            handle.send_input(bad)
        assert (handle.state, handle.pending_inputs) == ("idle", ())


def send_until_refused(handle, number):
    """Say so many things; return how many were taken."""
    for each in range(number):
        try:
            handle.send_input(f"n{each}")
        except ConfigurationError:
            return each
    return number


@pytest.mark.slow
def test_input_at_the_very_end_of_a_run_is_heard_or_refused():
    """Never lost: more than a thousand times against the end of a one-shot handle."""
    heard = refused = 0
    with switching_often():
        for number in range(1500):
            agent = Agent(ScriptedModel(lambda messages: "ok"))
            handle = agent.start("Do it.")
            wanted = number % 9
            sent = send_until_refused(handle, wanted)
            assert handle.ended.wait(LONG)
            assert words_of(agent) == ["Do it.", *(f"n{each}" for each in range(sent))]
            assert handle.pending_inputs == ()
            heard += sent
            refused += wanted - sent
    assert heard
    assert refused


def test_input_of_many_threads_is_all_heard():
    """A handle that is kept alive hears everybody, each in its own order."""
    agent = Agent(ScriptedModel(lambda messages: "ok"))
    handle = agent.start(keep_alive=True)

    def talk(name):
        for number in range(50):
            handle.send_input(f"{name}:{number}")
            if number % 10 == 0:
                handle.interrupt()

    with switching_often():
        together(*[lambda name=name: talk(name) for name in "abcd"])
        handle.wait(LONG)
    said = words_of(agent)
    for name in "abcd":
        mine = [each for each in said if each.startswith(name)]
        assert mine == [f"{name}:{number}" for number in range(50)]
    assert complaints(agent.messages) == {}
    handle.close()


def test_input_from_a_tool_of_the_run_itself():
    """A tool may say something to the run that called it: heard after its round."""
    box = []

    @tool
    def remind() -> str:
        """Say something to oneself."""
        box[0].send_input(MORE)
        return "said"

    agent = Agent(model(say(call("remind"))), tools=[remind])
    handle = agent.start()
    box.append(handle)
    handle.send_input("Do it.")
    handle.result(LONG)
    assert words_of(agent) == ["Do it.", MORE]
    assert len(agent.model.requests) == 2
    handle.close()
