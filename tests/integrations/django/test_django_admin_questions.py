"""The inbox of the admin: who may answer, and what becomes of the run."""

import pytest
from admin_users import (
    ANSWERS,
    QUESTIONS,
    anna,  # noqa: F401
    client_of,
    in_state,
    make_agent,
    prepare_users,
    said,
    store,  # noqa: F401
    store_of,
    text_of,
    user,
    viewer,
)
from django.contrib.admin.models import LogEntry
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from syncagent.stores import RunStore

# ruff: noqa: F811

pytestmark = pytest.mark.slow


def answer(client, run, decision, text="", *, run_id=None, **more):
    """Press a button for the only question of a run; return the page after it."""
    (question,) = run.interrupts
    form = {"run": run_id or run.run_id, "question": question.id, "decision": decision}
    return client.post(
        f"{QUESTIONS}answer/", {**form, "text": text, **more}, follow=True
    )


def test_approve_resumes_the_run(store, anna):
    """The tool is called, and the record names the user."""
    run = in_state(store, store.submit("launch it", owner="bob"), "waiting")
    page = text_of(anna.get(QUESTIONS))
    assert "launch" in page
    assert "&lt;i&gt;moon" in page
    assert said(answer(anna, run, "approve")) == ["The answer was taken."]
    ended = in_state(store, run.id, "done")
    assert "launched to the <i>moon</i>" in str(ended.result.messages)
    (entry,) = store.audit()
    assert (entry.kind, entry.by) == ("approved", "anna")
    assert LogEntry.objects.filter(object_id=run.run_id).exists()
    assert "There are no open questions" in text_of(anna.get(QUESTIONS))
    assert said(answer(anna, run, "approve")) == ["The question is closed already."]


def test_deny_with_a_reason(store, anna):
    """The model gets the reason; the record of answers shows it."""
    run = in_state(store, store.submit("launch it"), "waiting")
    assert said(answer(anna, run, "deny", "<b>too far</b>"))
    ended = in_state(store, run.id, "done")
    assert "too far" in str(ended.result.messages)
    page = text_of(anna.get(ANSWERS))
    assert "denied" in page
    assert "launch" in page
    (entry,) = store.audit()
    page = text_of(anna.get(f"{ANSWERS}{entry.id}/change/"))
    assert "&lt;b&gt;too far" in page
    assert "<b>too far" not in page
    for kind, is_shown in (("denied", True), ("expired", False)):
        page = text_of(anna.get(f"{ANSWERS}?kind={kind}"))
        assert (entry.run_id in page) is is_shown


def test_the_question_of_a_tool(store, anna):
    """It takes text, and no approval."""
    run = in_state(store, store.submit("ask me"), "waiting")
    page = text_of(anna.get(QUESTIONS))
    assert "Where &lt;b&gt;to" in page
    assert 'value="approve"' not in page
    assert "does not fit" in said(answer(anna, run, "approve"))[0]
    assert "does not fit" in said(answer(anna, run, "answer", "  "))[0]
    assert store.get(run.id).state == "waiting"
    answer(anna, run, "answer", "to the moon")
    ended = in_state(store, run.id, "done")
    assert "to the moon" in str(ended.result.messages)


def test_nothing_but_the_buttons_counts(store, anna):
    """A form without a decision, or about another question, answers nothing."""
    run = in_state(store, store.submit("launch it"), "waiting")
    assert "does not fit" in said(answer(anna, run, "maybe"))[0]
    assert "closed" in said(answer(anna, run, "approve", question="other"))[0]
    for other in ("other", "null\0"):
        assert "closed" in said(answer(anna, run, "approve", run_id=other))[0]
    assert anna.get(f"{QUESTIONS}answer/").status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = anna.cookies
    assert answer(strict, run, "approve").status_code == 403
    assert store.get(run.id).state == "waiting"


def test_enter_in_the_reason_does_not_approve(store, anna):
    """A browser presses the first button of the form."""
    in_state(store, store.submit("launch it"), "waiting")
    page = text_of(anna.get(QUESTIONS))
    assert page.index('value="deny"') < page.index('value="approve"')


def test_answers_need_a_permission(store):
    """A user who may see questions has no buttons."""
    run = in_state(store, store.submit("launch it"), "waiting")
    bob = client_of(viewer("bob"))
    assert 'value="approve"' not in text_of(bob.get(QUESTIONS))
    assert answer(bob, run, "approve").status_code == 403
    assert client_of(user("max")).get(QUESTIONS).status_code == 403
    assert store.get(run.id).state == "waiting"
    eve = client_of(user("eve", "answer_question"))
    assert 'value="approve"' in text_of(eve.get(QUESTIONS))
    assert said(answer(eve, run, "approve")) == ["The answer was taken."]
    assert in_state(store, run.id, "done")


# -- four eyes ---------------------------------------------------------------------


@pytest.fixture
def asking(tmp_path):
    """A store whose questions are for a group, or the person that a label names."""
    prepare_users()
    store = RunStore(
        f"sqlite:///{tmp_path}/runs.db",
        make_agent,
        approver_of=lambda run, question: run.labels["who"],
    )
    with store_of(store) as opened:
        yield opened


@pytest.mark.parametrize(
    ("who", "permitted"),
    [("finance", "eve"), ("max", "max"), ("user:{max}", "max"), ("other", "anna")],
)
def test_only_the_approver_answers(asking, who, permitted):
    """It is a group, a user's name, or a user as owner; superusers always may."""
    users = {
        "bob": user("bob", "answer_question"),
        "eve": user("eve", "answer_question", group="finance"),
        "max": user("max", "answer_question"),
        "anna": user("anna", is_superuser=True),
    }
    who = who.format(max=users["max"].pk)
    id = asking.submit("launch it", owner="bob", labels={"who": who})
    run = in_state(asking, id, "waiting")
    for name in users.keys() - {permitted, "anna"}:
        client = client_of(users[name])
        assert 'value="approve"' not in text_of(client.get(QUESTIONS))
        assert answer(client, run, "approve").status_code == 403, name
    client = client_of(users[permitted])
    page = text_of(client.get(f"{QUESTIONS}?mine=1"))
    assert (run.run_id in page) is (permitted != "anna")
    assert 'value="approve"' in text_of(client.get(QUESTIONS))
    assert said(answer(client, run, "approve", mine="1")) == ["The answer was taken."]
    in_state(asking, id, "done")
    assert asking.audit()[0].by == permitted


def test_the_groups_are_asked_once(asking):
    """The number of queries does not grow with the number of questions."""
    eve = client_of(user("eve", "answer_question", group="finance"))

    def count():
        with CaptureQueriesContext(connections["default"]) as queries:
            assert 'value="approve"' in text_of(eve.get(QUESTIONS))
        return len(queries)

    labels = {"who": "finance"}
    in_state(asking, asking.submit("launch it", labels=labels), "waiting")
    before = count()
    for id in [asking.submit("launch it", labels=labels) for _ in range(5)]:
        in_state(asking, id, "waiting")
    assert count() == before
