"""Questions over HTTP: who is asked, who may answer, and who did."""

import threading

import pytest
from support.threads import LONG
from support.web.kept_sites import (
    FRAMEWORKS,
    approver_of,
    kept_site,
    make_agent,
    owned,
    refund,
)
from support.web.servers import moments

from syncagent import Agent
from syncagent.exceptions import ConfigurationError
from syncagent.integrations.web.bodies import AnswerBody, StartRequest
from syncagent.integrations.web.errors import Refused
from syncagent.integrations.web.inbox import check_approvers
from syncagent.integrations.web.stored_runs import StoredRuns
from syncagent.integrations.web.views import Views
from syncagent.interrupts import Approval
from syncagent.stores import RunStore
from syncagent.testing import ScriptedModel, call, say


def questions(person):
    """Return what waits for a person."""
    status, said = person.get("inbox")
    assert status == 200, said
    return said["questions"]


def entries(person):
    status, said = person.get("audit")
    assert status == 200, said
    return said["entries"]


def test_the_owner_is_asked(site):
    """Without an approver the owner finds the question, and answers it."""
    anna, bert = site.person("anna"), site.person("bert")
    id, question = anna.ask("refund 5", conversation="c")
    (item,) = questions(anna)
    assert (item["run"], item["question"]["id"]) == (id, question)
    assert (item["owner"], item["approver"], item["is_own"]) == ("anna", "anna", True)
    assert (item["title"], item["conversation"]) == ("refund 5", "c")
    assert item["question"]["arguments"] == {"amount": 5}
    assert item["asked_at"] > 0
    assert questions(bert) == []
    assert bert.answer(id, question, allow=True)[0] == 404
    assert anna.answer(id, question, allow=True) == (
        *(200,),
        {"answers": {question: "taken"}},
    )
    assert questions(anna) == []
    assert anna.wait(id)["text"] == "done"


def test_four_eyes(site):
    """A question for another person is not the owner's to answer, by any of its names.

    The person who is asked sees the question, and nothing else of the run.
    """
    anna, fin, bert = (site.person(name) for name in ("anna", "fin", "bert"))
    anna.run("A secret", conversation="c")
    id, question = anna.ask("refund 500", conversation="c")
    view = anna.get(f"runs/{id}")[1]
    assert view["approvers"] == {question: "finance"}
    for name in (question, view["interrupts"][0]["call_id"]):
        status, said = anna.answer(id, name, allow=True)
        assert (status, said["error"]["code"]) == (403, "not_your_question")
        assert bert.answer(id, name, allow=True)[0] == 404
    assert questions(anna) == questions(bert) == []
    (item,) = questions(fin)
    assert (item["owner"], item["approver"], item["is_own"]) == (
        *("anna", "finance"),
        False,
    )
    assert (item["title"], item["conversation"]) == ("A secret", "")
    assert item["question"]["tool"] == "refund"
    for path in (f"runs/{id}", f"runs/{id}/events", "conversations/c"):
        assert fin.get(path)[0] == 404
    assert fin.post(f"runs/{id}/cancel", {})[0] == 404
    assert fin.answer(item["run"], question, allow=True)[0] == 200
    assert anna.wait(id)["text"] == "done"
    (entry,) = site.store.audit()
    assert (entry.by, entry.approver, entry.kind) == ("fin", "finance", "approved")


def test_any_member_of_a_group(site):
    """The first answer of a group counts; a later one comes too late."""
    anna, fin, boss = (site.person(name) for name in ("anna", "fin", "boss"))
    id, question = anna.ask("refund 500")
    assert len(questions(fin)) == len(questions(boss)) == 1
    assert boss.answer(id, question, allow=False, reason="No budget.")[0] == 200
    assert questions(fin) == questions(boss) == []
    assert fin.answer(id, question, allow=True)[0] in (404, 409)
    anna.wait(id)
    assert [(e["by"], e["kind"], e["text"]) for e in entries(fin)] == [
        ("boss", "denied", "No budget.")
    ]


def test_an_approver_has_no_other_rights(site):
    """Who is asked one question of a run can answer no other, and learns of none."""
    anna, fin = site.person("anna"), site.person("fin")
    small, asked = anna.ask("refund 5")
    large, other = anna.ask("refund 500")
    for run, question in ((small, asked), (large, "nothing"), (small, other)):
        status, said = fin.answer(run, question, allow=True)
        assert (status, said["error"]["code"]) == (404, "not_found")
    both = {"answers": {other: {"allow": True}, "x": {"allow": True}}}
    assert fin.post(f"runs/{large}/answers", both)[0] == 404
    assert fin.post(f"runs/{large}/answers", {"answers": {}})[0] == 404
    assert len(questions(fin)) == len(questions(anna)) == 1


def test_a_group_with_the_name_of_an_owner(site):
    """A group is not taken for the owner of the same name."""
    finance, fin = site.person("finance"), site.person("fin")
    id, question = finance.ask("refund 5")
    assert questions(fin) == []
    assert fin.answer(id, question, allow=True)[0] == 404
    assert len(questions(finance)) == 1
    assert finance.answer(id, question, allow=True)[0] == 200
    finance.wait(id)
    assert entries(fin) == []


def test_no_way_around(site):
    """Neither other arguments nor "don't ask again" give an owner a larger refund."""
    anna = site.person("anna")
    id, question = anna.ask("refund 5")
    (shown,) = anna.get(f"runs/{id}")[1]["interrupts"]
    assert not shown["may_change_arguments"]
    assert not shown["may_remember"]
    for answer, code in (
        ({"arguments": {"amount": 500}}, "arguments_fixed"),
        ({"arguments_text": '{"amount": "500"}'}, "arguments_fixed"),
        ({"remember": "tool"}, "asked_each_time"),
        ({"remember": True}, "asked_each_time"),
    ):
        status, said = anna.answer(id, question, allow=True, **answer)
        assert (status, said["error"]["code"]) == (403, code)
    assert anna.answer(id, question, allow=True, remember="arguments")[0] == 200
    anna.wait(id)


def test_answers_ahead_of_the_question(tmp_path):
    """An owner cannot answer a question before it is given to another person."""
    store = RunStore(f"sqlite:///{tmp_path}/r.db", make_agent, approver_of=approver_of)
    with StoredRuns(store, owned) as runs:
        run = runs.submit(StartRequest("refund 500"), owner="anna")
        asked = next(iter(filter(None, (store.inbox() for _ in moments()))))[0].question
        # As if it had been read before the run asked.
        said = runs.answer(
            run, {asked.id: AnswerBody(allow=True)}, by="anna", approvers={"anna"}
        )
        assert said.answers == {asked.id: "refused"}
        assert store.answer(run.id, {asked.id: True}, approvers=["finance"]) == {
            asked.id: "taken"
        }


def test_a_sub_agent_asks(tmp_path):
    """The question of a sub-agent is given away, too, while its run goes on."""

    def make(run):
        helper = Agent(
            ScriptedModel([say(call("refund", {"amount": 500})), "helped"]),
            tools=[refund],
            name="helper",
        )
        script = [say(call("helper", {"prompt": "Help."})), "done"]
        return Agent(ScriptedModel(script), tools=[helper.as_tool()])

    store = RunStore(f"sqlite:///{tmp_path}/r.db", make, approver_of=approver_of)
    with StoredRuns(store, owned) as runs:
        id = runs.submit(StartRequest("Go."), owner="anna").id
        (item,) = next(
            filter(
                None, (runs.inbox.list("fin", "fin", ["finance"]) for _ in moments())
            )
        )
        view = runs.get(id, "anna").view()
        assert (view.state, view.approvers) == (
            *("running",),
            {item.question.id: "finance"},
        )
        answers = {item.question.id: AnswerBody(allow=True)}
        with pytest.raises(Refused, match="Another person"):
            runs.inbox.find(id, "anna", answers, ["anna"])
        run, allowed = runs.inbox.find(id, "fin", answers, ["finance"])
        assert runs.answer(run, answers, by="fin", approvers=allowed).answers == {
            item.question.id: "taken"
        }
        assert store.result(id, LONG).text == "done"


def test_the_audit(site):
    """Each sees how questions of own runs ended, and those of the own groups."""
    anna, fin, bert = (site.person(name) for name in ("anna", "fin", "bert"))
    first, question = anna.ask("refund 500")
    assert fin.answer(first, question, allow=True)[0] == 200
    anna.wait(first)
    second, question = anna.ask("refund 5")
    assert anna.answer(second, question, allow=False)[0] == 200
    anna.wait(second)
    third, question = anna.ask("refund 700")
    assert anna.post(f"runs/{third}/cancel", {})[0] == 202
    anna.wait(third)
    fourth, question = anna.ask("refund 6")
    site.store.answer(fourth, {question: Approval(False, timed_out=True)})
    anna.wait(fourth)
    seen = [(e["kind"], e["by"], e["approver"]) for e in entries(anna)]
    assert seen == [
        ("expired", "", "anna"),
        ("withdrawn", "anna", "finance"),
        ("denied", "anna", "anna"),
        ("approved", "fin", "finance"),
    ]
    assert [e["kind"] for e in entries(fin)] == ["withdrawn", "approved"]
    assert entries(bert) == []
    last = entries(fin)[-1]
    assert (last["owner"], last["question"]["arguments"]) == ("anna", {"amount": 500})
    assert last["given_at"] >= last["asked_at"] > 0


def test_other_origins_cannot_answer(site):
    """The checks of other POSTs apply to the answers of approvers."""
    anna, fin = site.person("anna"), site.person("fin")
    id, question = anna.ask("refund 500")
    body = {"answers": {question: {"allow": True}}}
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "https://evil.example"},
    ):
        assert fin.post(f"runs/{id}/answers", body, **headers)[0] == 403
    headers = {"Content-Type": "text/plain"}
    assert fin.post(f"runs/{id}/answers", body, **headers)[0] == 415
    assert len(questions(fin)) == 1


def test_two_approvers_race(site):
    """Of two answers at the same moment one is taken, and that one is recorded."""
    anna = site.person("anna")
    for _ in range(5):
        id, question = anna.ask("refund 500")
        barrier = threading.Barrier(2)
        said = {}

        def answer(name, allow, id=id, question=question, barrier=barrier, said=said):
            barrier.wait(LONG)
            said[name] = site.person(name).answer(id, question, allow=allow)[0]

        people = [
            threading.Thread(target=answer, args=[name, name == "fin"])
            for name in ("fin", "boss")
        ]
        for person in people:
            person.start()
        for person in people:
            person.join(LONG)
        (winner,) = [name for name, status in said.items() if status == 200]
        anna.wait(id)
        newest = entries(anna)[0]
        kind = "approved" if winner == "fin" else "denied"
        assert (newest["by"], newest["kind"]) == (winner, kind)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_by_default_a_person_answers_for_itself(framework, tmp_path):
    """Without approvers_of the name of the approver is that of a person."""
    pytest.importorskip("flask" if framework == "wsgi" else framework)
    with kept_site(framework, tmp_path, has_approvers_of=False) as site:
        anna, finance, fin = (site.person(n) for n in ("anna", "finance", "fin"))
        id, question = anna.ask("refund 500")
        assert anna.answer(id, question, allow=True)[0] == 403
        assert fin.answer(id, question, allow=True)[0] == 404
        assert len(questions(finance)) == 1
        assert finance.answer(id, question, allow=True)[0] == 200
        anna.wait(id)


def test_what_approvers_of_returns():
    """A list of names, each once; a single string is a mistake."""
    assert check_approvers(["a", "", "b", "a"]) == ("a", "b")
    assert check_approvers(None) == ()
    for wrong in ("finance", b"x", 7, ["a", None]):
        with pytest.raises(ConfigurationError, match="list of strings"):
            check_approvers(wrong)


def test_approvers_of_is_a_function(tmp_path):
    """Anything else is found out when the views are made."""
    store = RunStore(f"sqlite:///{tmp_path}/runs.db", make_agent)
    with (
        StoredRuns(store, owned) as runs,
        pytest.raises(ConfigurationError, match="approvers_of must be a function"),
    ):
        Views(runs, approvers_of=["finance"])
