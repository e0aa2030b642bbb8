"""Runs of one conversation follow each other, in any process."""

import pytest
from support.store_work import by_hand, processes, start
from support.threads import LONG

from syncagent import Agent, tool
from syncagent.exceptions import AgentBusy, InterruptPending
from syncagent.interrupts import Approval
from syncagent.messages import ToolMessage, UserMessage
from syncagent.stores import RunStore
from syncagent.testing import ScriptedModel, call, complaints, say


def make_agent(run):
    """Return an agent that deletes if it is told to, and else repeats the prompts."""

    @tool(requires_approval=True)
    def delete(name: str) -> str:
        """Delete a file."""
        return f"{name} is gone"

    def respond(messages):
        prompts = [m.content[0].text for m in messages if isinstance(m, UserMessage)]
        if prompts[-1].startswith("delete") and not isinstance(
            messages[-1], ToolMessage
        ):
            return say(call("delete", {"name": "it"}, f"delete_{len(messages)}"))
        return " | ".join(prompts)

    return Agent(ScriptedModel(respond), tools=[delete])


def work_elsewhere(url, id):
    """Work on a run in a process of its own."""
    with by_hand(url, make_agent) as store:
        store.work(id)


def in_process(url, id):
    with processes() as started:
        started.append(start(work_elsewhere, url, id))
        started[0].join(LONG)
        assert started[0].exitcode == 0


def said_after(store, prompt, conversation="c"):
    """Do a run of a conversation; return what the model says."""
    id = store.submit(prompt, conversation=conversation)
    store.work(id)
    run = store.get(id)
    assert run.state == "done"
    assert complaints(run.result.messages) == {}
    return run.result.text


@pytest.mark.slow
def test_a_run_continues_the_last_one_of_another_process(url):
    """The second run has the messages of the first, wherever each of them ran."""
    with by_hand(url, make_agent) as store:
        first = store.submit("one", conversation="c")
        in_process(url, first)
        second = store.submit("two", conversation="c")
        in_process(url, second)
        assert store.get(second).result.text == "one | two"
        assert len(store.get(first).result.messages) == 2
        assert said_after(store, "three") == "one | two | three"
        assert said_after(store, "other", conversation="d") == "other"


def test_a_run_that_never_began_leaves_the_conversation_as_it_was(url):
    """Cancelled while it was queued, or without an agent: nothing is forgotten."""

    def no_agent(run):
        raise ValueError("no agent today")

    with by_hand(url, make_agent) as store, by_hand(url, no_agent) as broken:
        assert said_after(store, "one") == "one"
        store.cancel(store.submit("never", conversation="c"))
        assert said_after(store, "two") == "one | two"
        id = broken.submit("never", conversation="c")
        broken.work(id)
        run = broken.get(id)
        assert (run.state, run.error.type) == ("failed", "ValueError")
        assert run.error.message == "no agent today"
        assert said_after(store, "three") == "one | two | three"


def test_after_a_run_that_was_cancelled_while_it_waited(url):
    """The model is told that the call was not made."""
    with by_hand(url, make_agent) as store:
        id = store.submit("delete", conversation="c")
        assert store.work(id).interrupts
        assert store.cancel(id).first
        run = store.get(id)
        outcomes = [each.outcome for each in run.result.tool_outcomes]
        assert (run.state, outcomes) == ("cancelled", ["not_started"])
        assert "delete | " in said_after(store, "two")
        results = [m for m in messages_of(store) if isinstance(m, ToolMessage)]
        assert len(results) == 1


def messages_of(store):
    return store.get(store.list()[0].id).result.messages


def test_after_a_run_whose_worker_died(url):
    """The next run continues from the last checkpoint of the cancelled one."""
    with by_hand(url, make_agent) as store:
        id = store.submit("delete", conversation="c")
        store.work(id)
        (question,) = store.get(id).interrupts
        store.answer(id, {question.id: True})
        assert store.backend.claim(id, "dead", "nonce") is not None
        assert store.cancel(id).first
        assert store.get(id).state == "cancelled"
        assert "delete | " in said_after(store, "two")


def test_rules_that_an_approval_made_are_kept(url):
    """An answer that is to be remembered counts for the next run as well."""
    with by_hand(url, make_agent) as store:
        id = store.submit("delete", conversation="c")
        store.work(id)
        (question,) = store.get(id).interrupts
        store.answer(id, {question.id: Approval(True, remember="tool")})
        store.work(id)
        assert store.get(id).state == "done"
        assert said_after(store, "delete again") == "delete | delete again"


def test_one_live_run_of_a_conversation(url):
    """A second one is refused by every process until the first has ended."""
    with by_hand(url, make_agent) as store, RunStore(url, make_agent) as other:
        id = store.submit("delete", conversation="c")
        with pytest.raises(AgentBusy, match="has a live run"):
            other.submit("too early", conversation="c")
        store.work(id)
        with pytest.raises(InterruptPending):
            other.submit("too early", conversation="c")
        other.submit("of another owner", conversation="c", owner="anna")
        store.cancel(id)
        assert "two" in said_after(store, "two")


def test_submitted_twice_with_one_id(url):
    """The same id again is the same run."""
    with by_hand(url, make_agent) as store:
        assert store.submit("one", id="x" * 20) == store.submit("two", id="x" * 20)
        assert store.get("x" * 20).prompt.content[0].text == "one"
        assert len(store.list()) == 1
