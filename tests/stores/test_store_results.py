"""The results of stored runs, and sub-agents that ask while their run goes on."""

import pytest

from syncagent import Agent, ConfigurationError, tool
from syncagent.events import InterruptRaised, TurnFinished
from syncagent.exceptions import InterruptPending, NoSuchRun, RunFailed
from syncagent.interrupts import Approval
from syncagent.messages import AssistantMessage
from syncagent.stores import CancelRecord, RunStore
from syncagent.testing import Gate, ScriptedModel, call, say

LONG = 30.0


def scripted(*script):
    """Return a model that continues where the messages are."""
    return ScriptedModel(
        lambda said: script[sum(isinstance(each, AssistantMessage) for each in said)]
    )


@tool(requires_approval=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def make_agent(run):
    inner = Agent(
        scripted(say(call("pay", {"amount": 5})), "inner done"),
        tools=[pay],
        name="inner",
    )
    outer = scripted(say(call("inner", {"prompt": "Pay."})), "outer done")
    return Agent(outer, tools=[inner])


@pytest.fixture
def store(url):
    with RunStore(url, make_agent) as store:
        yield store


def asked(store):
    """Return the id of a run whose sub-agent waits, and its question."""
    id = store.submit("Go.")
    with store.events(id) as events:
        raised = next(event for event in events if isinstance(event, InterruptRaised))
    return id, raised.interrupts[0]


@pytest.mark.parametrize("allow", [True, False])
def test_a_sub_agent_waits_in_place(store, url, allow):
    """Its question can be answered from any process as soon as it can be seen."""
    id, question = asked(store)
    assert store.get(id).state == "running"
    assert store.get(id).interrupts == (question,)
    with RunStore(url) as observer:
        assert observer.answer(id, {question.id: allow}) == {question.id: "taken"}
        assert observer.answer(id, {question.id: not allow}) == {question.id: "over"}
    assert store.result(id, LONG).text == "outer done"
    assert store.get(id).attempt == 1


def test_a_cancel_ends_the_wait(store):
    """A run whose sub-agent waits ends at once, and its question with it."""
    id, question = asked(store)
    receipt = store.cancel(id, "enough")
    assert receipt
    assert receipt.wait(LONG)
    assert store.result(id, LONG).cancellation.reason == "enough"
    assert store.get(id).interrupts == ()
    assert store.answer(id, {question.id: True}) == {question.id: "over"}


def test_its_arguments_cannot_be_changed(store):
    """No process but the worker knows the tool; nothing is taken."""
    id, question = asked(store)
    with pytest.raises(ConfigurationError, match="of sub-agents cannot"):
        store.answer(id, {question.id: Approval(True, {"amount": 6})})
    assert store.answer(id, {question.id: True}) == {question.id: "taken"}
    assert store.result(id, LONG).text == "outer done"


def test_the_result_of_a_run(url):
    """result() waits for the end, in any process."""
    with RunStore(url, lambda run: Agent(scripted("Hello."))) as store:
        id = store.submit("Go.", conversation="chat")
        result = store.result(id, LONG)
        assert result.text == "Hello."
        assert [type(each).__name__ for each in result.messages] == [
            "UserMessage",
            "AssistantMessage",
        ]
        assert store.result(id) == result
        with RunStore(url) as observer:
            assert observer.result(id) == result
        with pytest.raises(NoSuchRun):
            store.result("unknown")


def test_a_run_without_a_result(url):
    """It fails, waits for answers, or takes too long: each is another error."""
    gate = Gate()
    models = {
        "fails": lambda: ScriptedModel([ValueError("out of ink")]),
        "waits": lambda: scripted(say(call("pay", {"amount": 1})), "ok"),
        "hangs": lambda: ScriptedModel([gate, "ok"]),
    }

    def make(run):
        return Agent(models[run.agent](), tools=[pay])

    with RunStore(url, make) as store:
        with pytest.raises(RunFailed, match="ValueError: out of ink"):
            store.result(store.submit("Go.", agent="fails"), LONG)
        with pytest.raises(InterruptPending):
            store.result(store.submit("Go.", agent="waits"), LONG)
        id = store.submit("Go.", agent="hangs")
        with pytest.raises(TimeoutError):
            store.result(id, 0.05)
        store.cancel(id)
        assert store.result(id, LONG).cancelled


def test_a_cancel_at_the_very_end_counts(tmp_path):
    """The result is cancelled, in the phase ``end``, and has the whole text."""

    class AtTheEnd:
        def on_event(self, event):
            if isinstance(event, TurnFinished):
                # In the store only: no hint goes to the process that sends it.
                store.backend.cancel(id, CancelRecord("too much", nonce="n"))

    def make(run):
        return Agent(scripted("All of it."), hooks=[AtTheEnd()])

    with RunStore(f"sqlite:///{tmp_path}/runs.db", make, lambda run: None) as store:
        id = store.submit("Go.")
        result = store.work(id)
        assert (result.text, result.cancellation.phase) == ("All of it.", "end")
        assert result.cancellation.reason == "too much"
        assert store.get(id).state == "cancelled"
        assert store.result(id, LONG) == result
