"""The inbox of open questions, and the record of who answered what."""

import pytest
from support.store_work import by_hand
from support.threads import LONG, until

from syncagent import Agent, ToolContext, tool
from syncagent.exceptions import ConfigurationError
from syncagent.interrupts import Approval, ApprovalRequest, AwaitingInput
from syncagent.stores import RunStore
from syncagent.stores.inbox import NO_APPROVER
from syncagent.testing import ScriptedModel, call, say


@tool(requires_approval=True)
def refund(amount: int) -> str:
    """Refund a customer."""
    return f"refunded {amount}"


@tool
def ask_name(ctx: ToolContext) -> str:
    """Ask for a name."""
    return ctx.ask("Which name?")


def agent_that(*calls, **settings):
    """Return a function that makes agents which call these tools, and are done."""

    def script(messages):
        return say(*calls) if len(messages) == 1 else "done"

    return lambda run: Agent(
        ScriptedModel(script), tools=[refund, ask_name], **settings
    )


SMALL = call("refund", {"amount": 5}, "small")
LARGE = call("refund", {"amount": 500}, "large")
NAME = call("ask_name", {}, "name")


def by_amount(run, question):
    """Give large refunds to the finance department."""
    if isinstance(question, ApprovalRequest) and question.arguments["amount"] > 100:
        return "finance"
    return None


def begin(store, **settings):
    """Submit a run, and work on it until it waits; return its id."""
    id = store.submit("Do it.", **settings)
    store.work(id)
    return id


def of(entries):
    return [(entry.approver, entry.question.tool) for entry in entries]


def test_each_sees_what_waits_for_them(url):
    """Any process lists the questions of all owners, and of each approver."""
    make = agent_that(SMALL, LARGE)
    with by_hand(url, make, approver_of=by_amount) as store, by_hand(url) as desk:
        first = begin(store, owner="anna", agent="billing")
        begin(store, owner="ben")
        assert len(desk.inbox()) == 4
        assert of(desk.inbox("anna")) == [("anna", "refund")]
        assert of(desk.inbox("finance")) == [("finance", "refund")] * 2
        assert len(desk.inbox("finance", "ben")) == 3
        assert of(desk.inbox("finance", owner="anna")) == [("finance", "refund")]
        assert desk.inbox("fin", 'x"', "%", "_") == []
        assert len(desk.inbox(limit=1)) == 1
        entry = desk.inbox("finance")[0]
        assert (entry.run.id, entry.run.agent) == (first, "billing")
        assert entry.question.arguments == {"amount": 500}
        assert entry.run.created_at <= entry.run.asked_at


def test_an_answered_question_leaves_the_inbox(url):
    """Also while the run still waits for another answer."""
    with by_hand(url, agent_that(SMALL, LARGE, NAME)) as store:
        id = begin(store, owner="anna")
        small, large = store.inbox("anna")
        store.answer(id, {small.question.id: True}, by="anna")
        assert [e.question for e in store.inbox("anna")] == [large.question]
        store.answer(id, {large.question.id: False}, by="anna")
        assert store.inbox() == []
        store.work(id)
        (entry,) = store.inbox()
        assert isinstance(entry.question, AwaitingInput)
        store.answer(id, {entry.question.id: "Rome"}, by="ben")
        assert store.work(id).text == "done"
        second, _, first = store.audit()
        assert (first.kind, first.by, first.answer.value.allow) == (
            *("approved", "anna"),
            True,
        )
        assert (second.kind, second.by, second.answer.text) == (
            *("answered", "ben"),
            "Rome",
        )
        assert first.asked_at <= first.given_at <= second.given_at


def test_no_expired_and_withdrawn_are_told_apart(url):
    """The record says which it was, and who did it."""
    make = agent_that(SMALL, answer_timeout=0.05)
    with by_hand(url, make) as store, by_hand(url, agent_that(SMALL)) as patient:
        late = begin(store, owner="late")
        (entry,) = store.inbox()
        assert entry.run.expires_at > entry.run.asked_at
        until(
            lambda: store.backend.recover(9, 5) and store.get(late).state != "waiting"
        )
        denied, cancelled = begin(patient, owner="no"), begin(patient, owner="gone")
        (entry,) = patient.inbox("no")
        assert entry.run.expires_at is None
        no = Approval(False, reason="too much")
        patient.answer(denied, {entry.question.id: no}, by="ben")
        patient.cancel(cancelled, "never mind", by="cid")
        assert store.inbox() == []
        found = {entry.owner: entry for entry in store.audit()}
        assert {owner: (e.kind, e.by) for owner, e in found.items()} == {
            "late": ("expired", ""),
            "no": ("denied", "ben"),
            "gone": ("withdrawn", "cid"),
        }
        assert found["no"].answer.approval.reason == "too much"
        (outcome,) = store.work(late).tool_outcomes
        assert (outcome.outcome, outcome.timed_out) == ("not_started", True)


def test_only_the_answer_that_counts_is_recorded(url):
    """Two people answer at once, and again: one entry."""
    with by_hand(url, agent_that(SMALL)) as store:
        id = begin(store)
        (entry,) = store.inbox()
        assert store.answer(id, {entry.question.id: True}, by="anna")
        store.answer(id, {entry.question.id: False}, by="ben")
        (only,) = store.audit(run_id=entry.run.run_id)
        assert (only.by, only.kind, only.question) == (
            "anna",
            "approved",
            entry.question,
        )


def test_the_record_outlives_the_run(url):
    """It is deleted when it is old, or with its owner."""
    with by_hand(url, agent_that(SMALL)) as store:
        for owner in ("anna", "ben"):
            id = begin(store, owner=owner)
            (entry,) = store.inbox(owner)
            store.answer(id, {entry.question.id: True})
            store.work(id)
        store.backend.prune(-1.0, -1.0, 9)
        assert store.list() == []
        assert len(store.audit()) == 2
        store.forget("anna")
        assert [entry.owner for entry in store.audit()] == ["ben"]
        assert store.backend.prune(1e9, 1e9, 9, audit_seconds=-1.0) == 1
        assert store.audit() == []


def test_a_broken_approver_of_leaves_a_question_to_operators(url, caplog):
    """The owner must not approve what another person has to; and nothing is lost."""

    def broken(run, question):
        raise ValueError("who knows?")

    with by_hand(url, agent_that(SMALL), approver_of=broken) as store:
        begin(store, owner="anna")
        assert store.inbox("anna") == []
        assert of(store.inbox()) == [(NO_APPROVER, "refund")]
    assert "who knows?" in caplog.text
    with by_hand(url, agent_that(SMALL), approver_of=lambda *_: 7) as store:
        begin(store, owner="ben")
        assert store.inbox("ben") == []


def test_questions_of_sub_agents_are_in_the_inbox(url):
    """They wait in the process of the run, and are answered from another."""

    def make(run):
        helper = Agent(
            ScriptedModel([say(LARGE), "helped"]),
            tools=[refund],
            name="helper",
        )
        script = [say(call("helper", {"prompt": "Help."}, "h")), "done"]
        return Agent(ScriptedModel(script), tools=[helper.as_tool()])

    with RunStore(url, make, approver_of=by_amount) as store, by_hand(url) as desk:
        id = store.submit("Do it.", owner="anna")
        (entry,) = until(lambda: desk.inbox("finance"))
        assert entry.run.state == "running"
        desk.answer(id, {entry.question.id: True}, by="fin")
        assert store.result(id, LONG).text == "done"
        assert [(e.by, e.approver) for e in desk.audit()] == [("fin", "finance")]


@pytest.mark.parametrize("arguments", [{}, {"amount": "all"}])
def test_changed_arguments_are_checked_before_they_are_taken(url, arguments):
    """Those that do not fit are refused, and the question stays open."""
    with by_hand(url, agent_that(SMALL)) as store, RunStore(url) as desk:
        id = begin(store, owner="anna")
        (entry,) = store.inbox("anna")
        answers = {entry.question.id: Approval(True, arguments)}
        with pytest.raises(ConfigurationError, match="do not fit"):
            store.answer(id, answers)
        with pytest.raises(ConfigurationError, match="needs make_agent="):
            desk.answer(id, answers)
        assert of(desk.inbox("anna")) == [("anna", "refund")]


def test_wrong_arguments(url):
    with pytest.raises(ConfigurationError, match="approver_of"):
        RunStore(url, approver_of=7)
    with by_hand(url) as store:
        for wrong in (lambda: store.inbox(7), lambda: store.inbox(limit=0)):
            with pytest.raises(ConfigurationError):
                wrong()
        with pytest.raises(ConfigurationError):
            store.audit(limit=0)


def test_only_those_who_are_asked(url):
    """Answers count only for the people and groups that the caller speaks for."""
    make = agent_that(SMALL, LARGE)
    with by_hand(url, make, approver_of=by_amount) as store:
        id = begin(store, owner="anna")
        small, large = (entry.question.id for entry in store.inbox())
        both = {small: True, large: True}
        assert store.answer(id, both, approvers=["ben"]) == {
            small: "refused",
            large: "refused",
        }
        assert store.answer(id, both, by="anna", approvers={"anna"}) == {
            small: "taken",
            large: "refused",
        }
        assert store.answer(id, both, by="fin", approvers={"finance"}) == {
            small: "over",
            large: "taken",
        }
        assert store.work(id).text == "done"
        assert [entry.by for entry in store.audit("finance")] == ["fin"]
        both_of_them = store.audit("anna", "finance")
        assert sorted(entry.by for entry in both_of_them) == ["anna", "fin"]
        assert store.audit("finance", owner="ben") == []
