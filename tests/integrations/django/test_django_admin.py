"""The admin shows the store, and stops runs, in SQLite and PostgreSQL."""

import pytest
from admin_users import (
    ANSWERS,
    CONVERSATIONS,
    MIDDLEWARE,
    QUESTIONS,
    RUNS,
    anna,  # noqa: F401
    client_of,
    in_state,
    prepare_users,
    row,
    rows_of,
    said,
    store,  # noqa: F401
    store_of,
    text_of,
    user,
    viewer,
)
from django.contrib.admin.models import LogEntry
from django.db import connections
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from site_of_tests import SYNCAGENT
from support.postgres import MISSING

from syncagent.exceptions import ConfigurationError
from syncagent.integrations.django.conf import get_store
from syncagent.integrations.django.databases import _READER
from syncagent.integrations.django.models import ConversationEntry, RunEntry
from syncagent.stores import RunStore

# ruff: noqa: F811

pytestmark = pytest.mark.slow

HOSTILE = "<script>alert(1)</script>"


# -- runs --------------------------------------------------------------------------


def test_the_index(store, anna):
    """The front page of the admin links to the four tables."""
    page = text_of(anna.get("/admin/"))
    for address in (RUNS, CONVERSATIONS, QUESTIONS, ANSWERS):
        assert f'href="{address}"' in page


def test_the_list_of_runs(store, anna):
    """Live runs are shown first; others by state, or by a search."""
    done = in_state(store, store.submit("hello", owner="bob"), "done")
    live = in_state(store, store.submit("work hard", owner="eve"), "running")
    page = text_of(anna.get(RUNS))
    assert "work hard" in page
    assert "eve" in page
    assert live.worker in page
    assert "hello" not in page
    page = text_of(anna.get(f"{RUNS}?state=ended"))
    assert "hello" in page
    assert "work hard" not in page
    for state, names in (("all", 2), ("done", 1), ("failed", 0), ("running", 1)):
        page = text_of(anna.get(f"{RUNS}?state={state}"))
        assert rows_of(page) == names, state
    for sought in (done.run_id, "bob"):
        page = text_of(anna.get(RUNS, {"q": sought}))
        assert rows_of(page) == 1
        assert row(done) in page
    assert rows_of(text_of(anna.get(RUNS, {"q": done.id}))) == 0


def test_the_page_of_a_run(store, anna):
    """It shows the result, the messages and the events, and no form to change it."""
    run = in_state(store, store.submit("hello", owner="bob"), "done")
    page = text_of(anna.get(row(run)))
    assert "I have done: hello" in page
    assert "run_finished 1" in page
    assert "bob" in page
    assert 'name="_save"' not in page
    assert ">Stop<" not in page
    assert anna.post(row(run), {"owner": "eve"}).status_code == 403


@pytest.mark.parametrize("table", [RUNS, CONVERSATIONS, ANSWERS])
@pytest.mark.parametrize("id", ["other", "null%00"])
def test_the_page_of_something_unknown(store, anna, table, id):
    """The admin says so, as it does for any other model."""
    response = anna.get(f"{table}{id}/change/")
    assert (response.status_code, response["Location"]) == (302, "/admin/")
    if table == RUNS:
        assert anna.post(f"{table}{id}/stop/").status_code == 403


def test_the_public_id_is_in_no_address(store, anna):
    """Access logs have addresses: they name runs by their ids in logs."""
    run = in_state(store, store.submit("launch it"), "waiting")
    for address in (RUNS, QUESTIONS):
        assert run.id not in text_of(anna.get(address))
    page = text_of(anna.get(row(run)))
    assert page.count(run.id) == 1  # as text


def test_stop_ends_a_run_of_another_thread(store, anna):
    """The action says how many were live; the store records the user."""
    live = in_state(store, store.submit("work hard"), "running")
    ended = in_state(store, store.submit("hello"), "done")
    form = {"action": "stop_selected", "_selected_action": [live.run_id, ended.run_id]}
    response = anna.post(f"{RUNS}?state=all", form, follow=True)
    assert said(response) == ["1 live run was stopped; 1 had ended already."]
    run = in_state(store, live.id, "cancelled")
    assert (run.cancel.by, run.cancel.origin) == ("anna", "remote")
    assert store.get(ended.id).state == "done"
    (entry,) = LogEntry.objects.filter(user__username="anna")
    assert entry.object_id == live.run_id
    response = anna.post(RUNS, form, follow=True)  # the filter shows live ones only
    assert "0 live runs were stopped" in said(response)[0]


def test_the_stop_button(store, anna):
    """The page of a live run has one, which leads back to the page."""
    live = in_state(store, store.submit("work hard"), "running")
    assert 'value="Stop"' in text_of(anna.get(row(live)))
    address = row(live).replace("/change/", "/stop/")
    assert anna.get(address).status_code == 405
    response = anna.post(address, follow=True)
    assert said(response) == ["The run was stopped."]
    assert "anna" in text_of(response)
    in_state(store, live.id, "cancelled")
    assert said(anna.post(address, follow=True)) == ["The run had ended already."]
    missing = f"{RUNS}no-such-run/stop/"
    assert anna.post(missing).status_code == 403


def test_stop_needs_a_permission(store):
    """A user who may see runs neither has the action nor the button."""
    live = in_state(store, store.submit("work hard"), "running")
    bob = client_of(viewer("bob"))
    assert "stop_selected" not in text_of(bob.get(RUNS))
    assert 'value="Stop"' not in text_of(bob.get(row(live)))
    bob.post(RUNS, {"action": "stop_selected", "_selected_action": [live.run_id]})
    assert bob.post(row(live).replace("/change/", "/stop/")).status_code == 403
    assert store.get(live.id).state == "running"
    eve = client_of(viewer("eve", "stop_run"))
    assert 'value="Stop"' in text_of(eve.get(row(live)))
    only = client_of(user("max", "stop_run"))
    assert only.get(RUNS).status_code == 403
    assert only.post(row(live).replace("/change/", "/stop/")).status_code == 403
    assert eve.post(row(live).replace("/change/", "/stop/")).status_code == 302
    assert in_state(store, live.id, "cancelled").cancel.by == "eve"


def test_hostile_text_is_escaped(store, anna):
    """Prompts, owners, labels and titles are shown as text."""
    id = store.submit(
        f"work {HOSTILE}",
        owner=HOSTILE,
        agent=HOSTILE,
        conversation=HOSTILE,
        labels={"x": HOSTILE},
    )
    live = in_state(store, id, "running")
    waiting = in_state(store, store.submit("launch it", owner=HOSTILE), "waiting")
    (conversation,) = ConversationEntry.objects.all()
    addresses = (
        *(RUNS, row(live), row(waiting), QUESTIONS, CONVERSATIONS),
        f"{CONVERSATIONS}{conversation.key}/change/",
        f"{CONVERSATIONS}{conversation.key}/delete/",
    )
    for address in addresses:
        page = text_of(anna.get(address))
        assert HOSTILE not in page, address
        assert "&lt;script&gt;alert(1)" in page, address
    assert "the <i>moon</i>" not in text_of(anna.get(QUESTIONS))


def test_a_worker_that_left(store, anna):
    """A run that names a worker which is gone is shown all the same."""
    live = in_state(store, store.submit("work hard"), "running")
    store.backend.single("DELETE FROM syncagent_worker")
    assert "work hard" in text_of(anna.get(RUNS))
    assert "work hard" in text_of(anna.get(row(live)))


def test_pages_make_few_queries(store, anna):
    """Their number does not grow with the number of rows."""

    def count(address):
        alias = RunEntry.objects.all().db
        with CaptureQueriesContext(connections[alias]) as queries:
            text_of(anna.get(address))
        return len(queries)

    with RunStore(store._url, enqueue=lambda run: None) as other:
        other.submit("work 0", owner="bob", conversation="c0")
        before = {address: count(address) for address in (RUNS, CONVERSATIONS)}
        for n in range(1, 20):
            other.submit(f"work {n}", owner="bob", conversation=f"c{n}")
    assert {address: count(address) for address in before} == before


# -- conversations -----------------------------------------------------------------


def test_conversations(store, anna):
    """They are shown with their messages, and a link to the live run."""
    in_state(store, store.submit("hello", owner="bob", conversation="c"), "done")
    id = store.submit("work hard", owner="bob", conversation="c")
    live = in_state(store, id, "running")
    page = text_of(anna.get(CONVERSATIONS))
    assert row(live) in page
    assert "hello" in page
    (entry,) = ConversationEntry.objects.all()
    page = text_of(anna.get(f"{CONVERSATIONS}{entry.key}/change/"))
    assert "I have done: hello" in page
    assert 'name="_save"' not in page


def test_a_conversation_is_deleted_by_the_store(store, anna):
    """Its runs are deleted with it, and a live one ends."""
    store.submit("work hard", owner="bob", conversation="c")
    other = store.submit("work on", owner="bob", conversation="d")
    entry = ConversationEntry.objects.get(name="c")
    address = f"{CONVERSATIONS}{entry.key}/delete/"
    bob = client_of(viewer("bob"))
    assert bob.post(address, {"post": "yes"}).status_code == 403
    assert "with its messages and runs" in text_of(anna.get(address))
    assert anna.post(address, {"post": "yes"}).status_code == 302
    assert [run.id for run in store.list()] == [other]
    eve = client_of(viewer("eve", "delete_conversationentry"))
    form = {
        "action": "delete_selected",
        "_selected_action": [ConversationEntry.objects.get().key],
    }
    assert "with its messages" in text_of(eve.post(CONVERSATIONS, form))
    eve.post(CONVERSATIONS, {**form, "post": "yes"})
    assert not store.list()
    assert not ConversationEntry.objects.exists()


# -- the store ---------------------------------------------------------------------


def test_models_only_read(store):
    """Every way to write is refused, and dumpdata finds nothing."""
    in_state(store, store.submit("hello"), "done")
    run = RunEntry.objects.get()
    writes = (
        *(run.save, run.delete, RunEntry.objects.all().delete),
        lambda: RunEntry.objects.update(owner="eve"),
        lambda: RunEntry.objects.create(run_id="x"),
        lambda: RunEntry.objects.bulk_create([run]),
        lambda: RunEntry.objects.bulk_update([run], ["owner"]),
    )
    for write in writes:
        with pytest.raises(ConfigurationError, match="only read"):
            write()
    assert list(RunEntry.objects.using("default").iterator()) == []
    assert RunEntry.objects.using("default").count() == 0
    run.refresh_from_db()
    assert run.owner == ""


def test_the_connection_ends_with_the_request(tmp_path):
    """A file of SQLite is read by a connection that cannot write, and is not kept."""
    prepare_users()
    with store_of(f"sqlite:///{tmp_path}/a %20 b.db") as store:
        store.submit("work hard")
        anna = client_of(user("anna", is_superuser=True))
        with CaptureQueriesContext(connections[RunEntry.objects.all().db]):
            with pytest.raises(Exception, match="readonly"):
                connections[_READER].cursor().execute("DELETE FROM syncagent_run")
        assert "work hard" in text_of(anna.get(RUNS))
        assert not hasattr(connections._connections, _READER)
        assert _READER not in list(connections)


def test_without_a_store():
    """The admin has no tables of the app, and models say what is missing."""
    prepare_users()
    with override_settings(SYNCAGENT=SYNCAGENT, MIDDLEWARE=MIDDLEWARE):
        anna = client_of(user("anna", is_superuser=True))
        assert "syncagent" not in text_of(anna.get("/admin/"))
        for address in (RUNS, QUESTIONS, CONVERSATIONS, ANSWERS):
            assert anna.get(address).status_code == 403
        with pytest.raises(ConfigurationError, match="set SYNCAGENT"):
            RunEntry.objects.exists()
        with pytest.raises(ConfigurationError, match="set SYNCAGENT"):
            get_store()


def test_a_store_without_tables(cluster):
    """Each page says what to do, and only to those who may see it."""
    if MISSING:
        pytest.skip(MISSING)
    prepare_users()
    with store_of(cluster.new_schema()):
        anna = client_of(user("anna", is_superuser=True))
        for address in (RUNS, f"{RUNS}x/change/", QUESTIONS, ANSWERS):
            page = text_of(anna.get(address), 503)
            assert "syncagent store migrate" in page
        assert "syncagent store migrate" in text_of(anna.post(f"{RUNS}x/stop/"), 503)
        bob = client_of(user("bob"))
        assert bob.get(RUNS).status_code == 403


def test_a_store_that_is_given(tmp_path):
    """STORE may be a RunStore with settings of its own."""
    prepare_users()
    with store_of(RunStore(f"sqlite:///{tmp_path}/runs.db", enqueue=print)) as store:
        id = store.submit("hello", owner="bob")
        anna = client_of(user("anna", is_superuser=True))
        assert "hello" in text_of(anna.get(RUNS))
        run = store.get(id)
        form = {"action": "stop_selected", "_selected_action": [run.run_id]}
        anna.post(RUNS, form)
        assert store.get(id).state == "cancelled"  # no worker had it
