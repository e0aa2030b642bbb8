"""Somebody is asked before a tool runs: yes, no, not now, and a cancel in between."""

import logging

import msgspec
import pytest
from support.agents import SUM, add, check_usable, model, outcomes, told
from support.threads import meanwhile, together

from syncagent import (
    Agent,
    Approval,
    ConfigurationError,
    Limits,
    ToolContext,
    abandoned,
    tool,
)
from syncagent.exceptions import InterruptPending
from syncagent.testing import Gate, call, complaints, say

careful = tool(name="add", requires_approval=True)(add)
KEY = "sesame-open-4711"


def the_id(agent):
    """Return what the one answer goes by that an agent waits for."""
    [asked] = agent.interrupts
    return asked.id


def asking(approve=None, script=(SUM,), tools=(careful,), **settings):
    return Agent(model(*script), tools=tools, approve=approve, **settings)


def paused(**settings):
    """Return an agent that waits for an approval."""
    agent = asking(**settings)
    agent.run("Add.")
    return agent


# -- with a handler --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "outcome", "words"),
    [
        (True, "done", "value=3"),
        (False, "denied", "Denied."),
        (Approval(True), "done", "value=3"),
        (Approval(True, {"a": 20, "b": 3}), "done", "value=23"),
        (Approval(False), "denied", "Denied."),
        (Approval(False, {"a": 1, "b": 1}, "not on Sundays"), "denied", "on Sundays"),
    ],
)
def test_what_a_handler_may_answer(answer, outcome, words):
    """Yes, no, yes but differently, no because; the model is told."""
    seen = []
    agent = asking(lambda request: seen.append(request) or answer)
    result = agent.run("Add.")
    assert (outcomes(result), result.stop_reason) == ([outcome], "end_turn")
    assert words in told(agent)
    assert (seen[0].call_id, seen[0].tool) == ("call_add", "add")
    assert seen[0].arguments == {"a": 1, "b": 2}
    check_usable(agent)


@pytest.mark.parametrize("answer", [None, "yes", "no", 1, 0, [], object()])
def test_what_a_handler_may_not_answer(answer):
    """It is neither yes nor no: nothing runs, and it is an error."""
    agent = asking(lambda request: answer)
    with pytest.raises(ConfigurationError, match="True, False or Approval"):
        agent.run("Add.")
    assert "not started" in told(agent)
    check_usable(agent)


@pytest.mark.parametrize("allow", ["no", "false", 0, 1, None])
def test_an_approval_is_true_or_false(allow):
    """What only looks like a no is not taken for a yes."""
    with pytest.raises(ConfigurationError, match="allow"):
        Approval(allow)


@pytest.mark.parametrize("changed", [{"a": "x", "b": 1}, {}, {"a": 1}, "no"])
def test_changed_arguments_that_do_not_fit(changed):
    """The approver's mistake is no mistake of the model: it is raised."""
    agent = asking(lambda request: Approval(True, changed))
    with pytest.raises(ConfigurationError, match="the approval changed the arguments"):
        agent.run("Add.")
    assert "not started" in told(agent)
    check_usable(agent)


def test_a_handler_that_raises():
    """Its error goes up, nothing has run, and the agent goes on."""
    agent = asking(lambda request: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        agent.run("Add.")
    assert "not started" in told(agent)
    check_usable(agent)


def test_a_handler_that_has_no_more_answers():
    """next() on answers that are used up is an error, and no end of the run."""
    answers = iter([])
    agent = asking(lambda request: next(answers))
    with pytest.raises((StopIteration, RuntimeError)):
        agent.run("Add.")
    assert "not started" in told(agent)


def test_nobody_is_asked_about_calls_that_cannot_be_made():
    """Arguments are checked first; a person sees only what could really run."""
    asked = []
    wrong = say(call("add", {"a": "x"}, "c1"), call("nope", {}, "c2"))
    agent = asking(lambda request: asked.append(request) or True, script=[wrong])
    assert outcomes(agent.run("Add.")) == ["failed", "failed"]
    assert asked == []


ROUND = say(*(call("add", {"a": n, "b": 0}, f"c{n}") for n in range(4)))


def test_one_round_some_of_it_approved():
    """All are asked before the first runs; each has its own answer and result."""
    order = []

    @tool(name="add", requires_approval=True)
    def noted(a: int, b: int) -> int:
        """Add."""
        order.append(a)
        return a

    def approve(request):
        order.append(request.call_id)
        return request.arguments["a"] % 2 == 0

    agent = asking(approve, script=[ROUND], tools=[noted])
    assert outcomes(agent.run("Add.")) == ["done", "denied"] * 2
    assert order == ["c0", "c1", "c2", "c3", 0, 2]
    check_usable(agent)


def test_a_function_says_who_must_be_asked():
    """It is given the arguments and the context; others run without a question."""
    seen, asked = [], []

    def is_large(arguments, ctx):
        seen.append((arguments["a"], isinstance(ctx, ToolContext), ctx.call_id))
        return arguments["a"] > 1

    some = tool(name="add", requires_approval=is_large)(add)
    agent = asking(
        lambda request: asked.append(request.call_id) or False, [ROUND], [some]
    )
    assert outcomes(agent.run("Add.")) == ["done", "done", "denied", "denied"]
    assert seen == [(n, True, f"c{n}") for n in range(4)]
    assert asked == ["c2", "c3"]


def test_a_yes_after_a_cancel_starts_nothing():
    """Promises 2 and 6: the run ends while the person still thinks."""
    gate = Gate()
    ran = []

    @tool(requires_approval=True)
    def risky() -> None:
        """Do it."""
        ran.append(1)

    def approve(request):
        gate.stop_here()
        return True

    agent = asking(approve, [say(call("risky"))], [risky])
    with meanwhile(lambda: (gate.wait_reached(), agent.cancel("enough"))):
        result = agent.run("Go.")
    assert (result.cancellation.phase, outcomes(result)) == (
        "approval",
        ["not_started"],
    )
    assert [left.name for left in abandoned()] == ["approve"]
    gate.open()
    assert agent.messages[-1].is_cut
    check_usable(agent)
    assert ran == []


def test_a_yes_and_a_cancel_in_one_breath():
    """Promise 6: whoever cancels and then says yes has cancelled."""
    agent = asking(lambda request: bool(agent.cancel()))
    result = agent.run("Go.")
    assert (result.stop_reason, outcomes(result)) == ("cancelled", ["not_started"])
    check_usable(agent)


# -- without one: the run pauses -------------------------------------------------------


def test_a_run_that_nobody_can_answer_pauses():
    """It returns what is to be answered, and the agent says that it waits."""
    agent = asking()
    result = agent.run("Add.")
    assert (result.stop_reason, outcomes(result)) == ("interrupt", ["not_started"])
    assert [asked.id for asked in result.interrupts] == [the_id(agent)]
    assert result.interrupts == agent.interrupts
    assert (agent.state, agent.is_running) == ("waiting_for_approval", False)
    assert result.interrupts[0].is_blocking
    assert list(complaints(agent.messages)) == ["transcript"]  # the call is open


@pytest.mark.parametrize(
    ("answer", "words"),
    [(True, "value=3"), (False, "Denied."), (Approval(True, {"a": 5, "b": 5}), "10")],
)
def test_a_pause_goes_on_with_answers(answer, words):
    """It is the same run: one id, all turns, and the round has its results."""
    agent = paused()
    [asked] = agent.interrupts
    result = agent.resume({the_id(agent): answer})
    assert (result.text, result.stop_reason, result.turns) == ("ok", "end_turn", 2)
    assert words in told(agent)
    assert (agent.interrupts, agent.state) == ((), "idle")
    assert result.run_id in asked.id
    check_usable(agent)


@pytest.mark.parametrize("ids", [[], ["wrong"], ["call_add"]])
def test_answers_that_do_not_fit(ids):
    """Nothing happens, and the right ones can still be given."""
    agent = paused()
    with pytest.raises(ConfigurationError, match="waits for answers to"):
        agent.resume(dict.fromkeys(ids, True))
    assert agent.interrupts
    assert agent.resume({the_id(agent): True}).text == "ok"


def test_an_answer_that_is_none_costs_nothing():
    """It is refused, and the right one can still be given."""
    agent = paused()
    with pytest.raises(ConfigurationError, match="True, False or Approval"):
        agent.resume({the_id(agent): "yes"})
    assert agent.resume({the_id(agent): True}).text == "ok"


def test_a_call_is_made_once_however_often_it_is_resumed():
    """The second resume finds nothing to answer."""
    agent = paused()
    asked = the_id(agent)
    agent.resume({asked: True})
    with pytest.raises(ConfigurationError, match="does not wait"):
        agent.resume({asked: True})
    assert told(agent).count("value=3") == 1


def test_a_prompt_while_it_waits():
    """It is refused, with what to do, and changes nothing."""
    agent = paused()
    before = agent.messages
    for begin in (agent.run, agent.stream):
        with pytest.raises(InterruptPending, match=the_id(agent)):
            begin("Something else.")
    assert agent.messages == before
    assert not agent.is_running
    assert agent.resume({the_id(agent): True}).text == "ok"


def test_a_cancel_while_it_waits():
    """Promise 3: no run is live, so the receipt is false; the calls are let go."""
    agent = paused()
    asked = the_id(agent)
    assert not agent.cancel()
    assert (agent.interrupts, agent.state) == ((), "idle")
    assert complaints(agent.messages) == {}
    assert "not started" in told(agent)
    assert agent.messages[-1].is_cut
    with pytest.raises(ConfigurationError, match="does not wait"):
        agent.resume({asked: True})
    check_usable(agent)


def test_fifty_threads_cancel_while_it_waits():
    """Promise 1: the calls are let go once, and nothing is said twice."""
    agent = paused()
    together(*[agent.cancel] * 50)
    assert told(agent).count("not started") == 1
    assert sum(getattr(message, "is_cut", False) for message in agent.messages) == 1
    check_usable(agent)
    assert told(agent).count("not started") == 1


def test_a_run_that_is_resumed_can_be_cancelled_and_can_pause_again():
    """It is a run like any other."""
    again = say(call("add", {"a": 9, "b": 9}, "again"))
    agent = paused(script=[SUM, again])
    assert agent.resume({the_id(agent): True}).stop_reason == "interrupt"
    gate = Gate()
    agent.model._script.insert(0, gate)
    with meanwhile(lambda: (gate.wait_reached(), agent.cancel())):
        assert agent.resume({the_id(agent): True}).cancelled
    check_usable(agent)


def test_an_old_answer_is_for_nothing_new():
    """A later call with the same id is another question."""
    agent = paused(script=[SUM, "no", say(call("add", {"a": 900, "b": 1})), "end"])
    old = the_id(agent)
    agent.resume({old: False})
    assert agent.run("Add.").stop_reason == "interrupt"
    with pytest.raises(ConfigurationError, match="waits for answers"):
        agent.resume({old: True})
    assert "value=901" not in told(agent)


def test_arguments_that_do_not_fit_lose_nothing():
    """What somebody has mistyped can be typed again."""
    agent = paused()
    with pytest.raises(ConfigurationError, match="do not fit"):
        agent.resume({the_id(agent): Approval(True, {"a": "many"})})
    assert agent.resume({the_id(agent): True}).text == "ok"


def test_limits_go_on_when_a_run_is_resumed():
    """A pause is no way around them."""
    calls = [say(call("add", {"a": n, "b": 0}, f"c{n}")) for n in range(9)]
    agent = Agent(model(*calls), tools=[careful], limits=Limits(turns=2))
    result = agent.run("Add.")
    for _ in range(2):
        result = agent.resume({the_id(agent): True})
    assert (result.stop_reason, result.limit, result.turns) == ("limit", "turns", 2)


def test_an_answer_is_for_one_call():
    """Another call with the id of one that was approved is asked for anew."""
    other = say(call("add", {"a": 9, "b": 9}))
    agent = paused(script=[SUM, other])
    assert agent.resume({the_id(agent): True}).stop_reason == "interrupt"
    assert "value=18" not in told(agent)


# -- credentials -----------------------------------------------------------------------


@tool(requires_auth="bank")
def pay(amount: int, ctx: ToolContext) -> str:
    """Pay."""
    return f"paid {amount} with {len(ctx.credentials)} characters"


PAY = say(call("pay", {"amount": 5}))


def test_credentials_reach_the_tool_and_nothing_else():
    """Not the transcript, events, results, reprs or logs, whichever way they come."""
    records = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    logging.getLogger("syncagent").addHandler(handler)
    logging.getLogger("syncagent").setLevel(logging.DEBUG)
    try:
        given = asking(script=[PAY], tools=[pay], authenticate=lambda request: KEY)
        events = list(given.stream("Pay."))
        later = asking(script=[PAY], tools=[pay])
        seen = [later.run("Pay."), repr(later.interrupts), repr(later)]
        events.append(later.resume({later.interrupts[0].id: KEY}))
    finally:
        logging.getLogger("syncagent").removeHandler(handler)
        logging.getLogger("syncagent").setLevel(logging.NOTSET)
    assert "paid 5 with 16 characters" in told(given)
    assert "paid 5 with 16 characters" in told(later)
    everything = [*events, *seen, given, given.messages, later.messages, records]
    assert KEY not in repr(everything)
    assert KEY.encode() not in msgspec.json.encode([events, seen])


def test_an_agent_that_waits_for_credentials():
    """It says for whose."""
    agent = asking(script=[PAY], tools=[pay])
    [asked] = agent.run("Pay.").interrupts
    assert (asked.call_id, asked.provider, asked.tool) == ("call_pay", "bank", "pay")
    assert agent.state == "waiting_for_auth"
    agent.resume({asked.id: KEY})
    check_usable(agent)


@pytest.mark.parametrize("nothing", [None, False])
def test_no_credentials_are_a_no(nothing):
    """The tool does not run, and the model is told why."""
    agent = asking(script=[PAY], tools=[pay], authenticate=lambda request: nothing)
    assert outcomes(agent.run("Pay.")) == ["denied"]
    assert "no credentials for bank" in told(agent)
    check_usable(agent)


def test_credentials_are_asked_for_when_all_is_approved():
    """Nobody has to log in for what is denied anyway."""
    asked = []
    both = tool(name="pay", requires_approval=True, requires_auth="bank")(pay.function)
    calls = say(call("pay", {"amount": 1}, "c1"), call("pay", {"amount": 2}, "c2"))

    def approve(request):
        asked.append(f"{type(request).__name__} {request.call_id}")
        return request.call_id == "c2"

    def authenticate(request):
        asked.append(f"{type(request).__name__} {request.call_id}")
        return KEY

    agent = asking(approve, [calls], [both], authenticate=authenticate)
    assert outcomes(agent.run("Pay.")) == ["denied", "done"]
    assert asked == ["ApprovalRequest c1", "ApprovalRequest c2", "AuthRequest c2"]


def test_approved_now_and_credentials_later():
    """A handler for one, and a pause for the other; the tool runs once."""
    both = tool(name="pay", requires_approval=True, requires_auth="bank")(pay.function)
    agent = asking(lambda request: True, [PAY], [both])
    [asked] = agent.run("Pay.").interrupts
    assert asked.call_id == "call_pay"
    assert outcomes(agent.resume({asked.id: KEY})) == ["done"]
