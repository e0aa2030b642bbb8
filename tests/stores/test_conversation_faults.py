"""Conversations and questions under faults: races, deletions, retention, odd input."""

import math
import threading
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import msgspec
import pytest
from support.store_work import by_hand
from support.stored_runs import (
    CANCELLED,
    DONE,
    YES,
    cancel,
    delta,
    new_run,
    park,
    question,
    running,
    waiting,
)
from support.threads import LONG

from syncagent import Agent, ToolContext, tool
from syncagent.messages import AssistantMessage, Image, Text, UserMessage
from syncagent.stores import RunStore
from syncagent.stores.records import ConversationChange, conversation_key
from syncagent.stores.schema import VERSION
from syncagent.testing import ScriptedModel, call, complaints, say

KEY = conversation_key("anna", "chat", "")
HI = AssistantMessage((Text("Hi."),))


@tool(requires_approval=True)
def launch() -> str:
    """Launch it."""
    return "It is up."


def make_agent(run):
    asks = run.labels.get("asks")

    def respond(messages):
        if asks and isinstance(messages[-1], UserMessage):
            return say("I launch it.", call("launch", {}, f"c{len(messages)}"))
        return f"I see {len(messages)} messages."

    return Agent(ScriptedModel(respond), tools=[launch])


@pytest.fixture
def store(url):
    """Yield a store that works on a run only if it is told to."""
    with by_hand(url, make_agent) as store:
        yield store


@pytest.fixture
def opened(postgres_url):
    """Yield a function that opens PostgreSQL, where writers meet; SQLite has one."""
    from syncagent.stores.postgres import PostgreSQL

    stores = []

    def again():
        stores.append(PostgreSQL(postgres_url))
        return stores[-1]

    again().migrate()
    yield again
    for each in stores:
        each.close()


def change(nonce="n1", *texts, version=None, **fields):
    """Return a change of a conversation."""
    messages = tuple(map(UserMessage.of, texts))
    names = {"key": KEY, "id": "chat", "owner": "anna"}
    return ConversationChange(
        **names, nonce=nonce, version=version, messages=messages, **fields
    )


def ended(backend, name, *texts, conversation="chat"):
    """Add a run of a conversation that has ended, with messages."""
    id = running(backend, name, conversation=conversation)
    assert backend.finish(id, 1, DONE, delta(0, *texts), None).is_stored
    return id


# -- the inbox -----------------------------------------------------------------------


def test_questions_for_others_take_no_room_in_an_inbox(backend):
    """A limit counts the questions of an approver, not those of the approver's runs."""
    for n in range(5):
        id = running(backend, f"other-{n}", conversation=f"c{n}")
        park(backend, id, "q1", approvers={"q1": "finance"})
    mine = waiting(backend, "mine")
    assert [entry.run.id for entry in backend.inbox(["anna"], None, 2)] == [mine]
    assert len(backend.inbox(["finance"], None, 3)) == 3
    assert len(backend.inbox([], None, 100)) == 6


def asked(backend, *ids, **more):
    """Store the questions that sub-agents of a run wait for."""
    body = msgspec.json.encode([question(id) for id in ids])
    assert backend.ask("public-a", 1, body, **more)


@pytest.mark.parametrize(
    ("ending", "kind"), [(DONE, "expired"), (CANCELLED, "withdrawn")]
)
def test_unanswered_questions_of_sub_agents_are_recorded(backend, ending, kind):
    """One that the run went on without has expired; a cancel withdraws it."""
    id = running(backend)
    asked(backend, "q1", "q2", approvers={"q1": "finance", "q2": "finance"})
    backend.answer(id, {"q1": YES}, "ben", "n")
    asked(backend, "q2", approvers={"q2": "finance"})
    assert [entry.kind for entry in backend.audit((), None, None, 10)] == ["approved"]
    if ending is CANCELLED:
        backend.cancel(id, cancel())
        assert backend.inbox([], None, 10) == []  # although the worker has not ended it
    assert backend.finish(id, 1, ending, None, None).is_stored
    assert backend.finish(id, 1, ending, None, None).is_stored  # the reply was lost
    last, _ = backend.audit((), None, None, 10)
    assert (last.question.id, last.kind, last.approver) == ("q2", kind, "finance")
    assert last.by == ("anna" if ending is CANCELLED else "")


def test_a_question_of_a_sub_agent_that_expires_is_recorded(backend):
    """The run goes on, and asks another one; only once, and with the one asked."""
    running(backend)
    asked(backend, "q1", approvers={"q1": "finance"})
    for _ in "12":
        asked(backend, "q2")
    (entry,) = backend.audit((), None, None, 10)
    assert (entry.question.id, entry.kind) == ("q1", "expired")
    assert entry.approver == "finance"


def test_an_expired_question_of_a_sub_agent_leaves_the_inbox(url):
    """At once, while the run works on, and not when it ends."""
    at_work, go_on = threading.Event(), threading.Event()

    def ask_in_vain(messages):
        return "In vain." if len(messages) > 1 else say(call("launch"))

    @tool
    def delegate(ctx: ToolContext) -> str:
        """Have another agent do it."""
        model = ScriptedModel(ask_in_vain)
        inner = Agent(model, tools=[launch], answer_timeout=0.01)
        return ctx.agent(inner, "Launch it.").text

    def respond(messages):
        if len(messages) == 1:
            return say(call("delegate"))
        at_work.set()
        assert go_on.wait(LONG)
        return "Done."

    def make_agent(run):
        return Agent(ScriptedModel(respond), tools=[delegate])

    with RunStore(url, make_agent) as store:
        id = store.submit("Go.", owner="anna")
        try:
            assert at_work.wait(LONG)
            assert store.inbox() == []
            assert [entry.kind for entry in store.audit()] == ["expired"]
        finally:
            go_on.set()
        assert store.result(id, LONG).text == "Done."


# -- deletion and retention ----------------------------------------------------------


def test_a_deleted_conversation_leaves_the_record_of_its_answers(backend):
    """An owner who deletes a chat does not delete who approved what."""
    id = waiting(backend, conversation="chat")
    backend.answer(id, {"q1": YES}, "anna", "n")
    assert backend.forget_conversation(KEY, "anna")
    assert [e.conversation for e in backend.audit((), "anna", None, 10)] == ["chat"]
    backend.forget("anna")
    assert backend.audit((), "anna", None, 10) == []


@pytest.mark.slow
def test_a_prune_spares_a_conversation_whose_run_was_just_added(opened):
    """Even with a retention of nothing: a live run keeps the messages it needs."""
    backend, other, stop = opened(), opened(), threading.Event()

    def prune():
        while not stop.is_set():
            other.prune(0.0, math.inf, 100, conversations_seconds=0.0)

    pruning = threading.Thread(target=prune)
    pruning.start()
    try:
        for n in range(60):
            # The texts are there as a whole, or not at all.
            backend.change(change(f"c{n}", "one", "two"))
            id = running(backend, f"r{n}", conversation="chat")
            total = len(backend.conversation_messages(KEY))
            assert backend.conversation(KEY) is not None
            claim = backend.claim(id, "w1", f"n-r{n}")
            assert len(claim.messages) == total
            backend.finish(id, 1, DONE, delta(total, "three"), None)
            backend.forget_conversation(KEY, "anna")
    finally:
        stop.set()
        pruning.join(LONG)


def test_a_conversation_that_began_with_labels_gets_a_title(store):
    """The first prompt is its title, unless it was given one."""
    labelled = store.conversation("labelled", owner="anna")
    labelled.change(labels={"pinned": True})
    store.work(labelled.submit("Hello."))
    titled = store.conversation("titled", owner="anna")
    titled.change(title="Mine")
    store.work(titled.submit("Hello."))
    assert labelled.refresh().title == "Hello."
    assert titled.refresh().title == "Mine"


# -- races ---------------------------------------------------------------------------


@pytest.mark.slow
def test_changes_and_prunes_do_not_wait_for_each_other(opened):
    """Two prunes and two callers who append, all at once: no one is turned away."""
    errors = []

    def keep(operation):
        def repeat():
            store = opened()
            try:
                for n in range(40):
                    operation(store, n)
            except Exception as error:
                errors.append(error)

        return threading.Thread(target=repeat)

    def append(name):
        def operate(store, n):
            ended(store, f"{name}-{n}", "one", conversation=name)
            key = conversation_key("anna", name, "")
            fields = {"key": key, "id": name, "owner": "anna", "nonce": f"{name}{n}"}
            more = (UserMessage.of("more"),)
            assert store.change(ConversationChange(**fields, messages=more)) == "done"

        return operate

    threads = [keep(append("chat")), keep(append("talk"))]
    threads += [keep(lambda store, _: store.prune(0.0, 0.0, 10)) for _ in "12"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert errors == []


@pytest.mark.slow
def test_the_end_of_a_run_is_not_overlooked_by_an_append(opened):
    """An append that meets the end of a run is refused, or has its messages."""
    backend, other = opened(), opened()
    for n in range(30):
        id = running(backend, f"r{n}", conversation="chat")
        before = len(backend.conversation_messages(KEY))
        appending = threading.Thread(
            target=lambda n=n: other.change(change(f"a{n}", "b"))
        )
        appending.start()
        backend.finish(id, 1, DONE, delta(before, f"end {n}"), None)
        appending.join(LONG)
        bodies = [m.body.decode() for m in backend.conversation_messages(KEY)]
        assert sum(f'"end {n}"' in body for body in bodies) == 1


def test_a_run_that_ends_while_another_is_added_makes_it_busy(opened, monkeypatch):
    """The index refuses the second run, and then the first one is not there to see."""
    backend, other = opened(), opened()
    id = running(backend, "r1", conversation="chat")
    original = backend.transaction

    @contextmanager
    def transaction():
        with original() as do:
            yield SimpleNamespace(rows=partial(then_end, do.rows))

    def then_end(rows, sql, *params):
        found = rows(sql, *params)
        if "INSERT INTO syncagent_run " in sql:
            assert found == []
            assert other.finish(id, 1, DONE, delta(0, "one"), None).is_stored
        return found

    monkeypatch.setattr(backend, "transaction", transaction)
    second = new_run("r2", conversation="chat")
    assert backend.add(second, None) == "busy"
    monkeypatch.undo()
    assert backend.add(second, None) == "added"


def test_a_repeated_change_is_recognised_after_others(backend):
    """Its reply was lost, and other callers came before it was repeated."""
    assert backend.change(change("n1", "one")) == "done"
    original = change("n2", "two", version=1)
    assert backend.change(original) == "done"
    for n in range(3, 12):
        assert backend.change(change(f"n{n}", title=f"Title {n}")) == "done"
    assert backend.change(original) == "done"
    (message,) = backend.conversation_messages(KEY)
    assert message.body.count(b"two") == 1
    assert backend.conversation(KEY).version == 11
    assert backend.change(change("other", "two", version=1)) == "changed"


@pytest.mark.parametrize("before", ["run", "append"])
def test_a_clock_that_is_set_back_loses_no_message(store, before):
    """The server's clock was an hour ahead; what comes after it still comes after."""
    chat = store.conversation("chat", owner="anna")
    if before == "run":
        store.work(chat.submit("One."))
    else:
        chat.append("One.", HI)
    with store.backend.transaction() as do:
        do.rows("UPDATE syncagent_run SET ended_at = ended_at + 3600")
        do.rows("UPDATE syncagent_conversation SET head_at = head_at + 3600")
    store.work(chat.refresh().submit("Two."))
    chat.refresh().append("Three.", HI)
    cancelled = chat.refresh().submit("Never begun.")
    assert store.cancel(cancelled)
    store.work(chat.refresh().submit("Four."))
    prompts = [m for m in chat.messages() if isinstance(m, UserMessage)]
    texts = [message.content[0].text for message in prompts]
    assert texts == ["One.", "Two.", "Three.", "Four."]


# -- after a cancel ------------------------------------------------------------------


def cancelled_while_asking(store):
    """Return a conversation whose last run was cancelled in an approval."""
    chat = store.conversation("chat", owner="anna")
    chat.append("One", HI)
    id = chat.submit("Launch it.", labels={"asks": True})
    store.work(id)
    assert store.get(id).state == "waiting"
    store.cancel(id, by="anna")
    return chat.refresh()


@pytest.mark.parametrize("keeps_runs", [True, False])
@pytest.mark.parametrize("then", ["append", "submit", "fork"])
def test_a_conversation_goes_on_after_a_cancelled_approval(store, then, keeps_runs):
    """Its messages stay valid, whatever comes next, and whether its runs are kept."""
    chat = cancelled_while_asking(store)
    if not keeps_runs:
        store.backend.prune(0.0, 0.0, 100)
        assert store.list() == []
    before = len(chat.messages())
    assert complaints(chat.messages()) == {}
    if then == "append":
        chat.append("More")
    elif then == "fork":
        chat = chat.fork("other")
    assert complaints(chat.messages()) == {}
    assert store.work(chat.submit("Go on.")).text.startswith("I see")
    assert complaints(chat.messages()) == {}
    assert len(chat.messages()) > before


def test_a_fork_at_any_place_is_valid(store):
    """In the middle of a tool round, too; it can be continued."""
    chat = cancelled_while_asking(store)
    for at in range(len(chat.messages()) + 2):
        fork = chat.fork(at=at)
        assert complaints(fork.messages()) == {}
        assert store.work(fork.submit("Go on.")).text.startswith("I see")
        assert complaints(fork.messages()) == {}
        assert len(fork.messages()) >= at if at < 3 else True


# -- odd input -----------------------------------------------------------------------


def test_pictures_and_null_characters_are_kept(store):
    """A null character in a prompt is no reason to lose it; a title cannot have one."""
    chat = store.conversation("chat", owner="anna")
    chat.append(UserMessage((Image(b"\0\xff" * 100), Text("a\0b"))), HI)
    assert chat.title == "a b"
    store.work(chat.submit(["c\0d", Image(b"\1")]))
    first, _, second, _ = chat.messages()
    assert first.content == (Image(b"\0\xff" * 100), Text("a\0b"))
    assert second.content == (Text("c\0d"), Image(b"\1"))
    chat.refresh().change(labels={"null\0": "x" * 1_000_000})
    assert len(store.conversation("chat", owner="anna").labels["null\0"]) == 1_000_000


# -- another version -----------------------------------------------------------------


def test_a_store_of_the_first_version_is_migrated(backend, connected):
    """Its conversations can be listed and continued, its questions answered."""
    ended(backend, "one", "hello", "hi")
    ended(backend, "two", "hello", "hi", "again")
    asking = waiting(backend, "three", conversation="asks")
    with backend.transaction() as do:
        for statement in (
            "DROP TABLE syncagent_conversation",
            "DROP TABLE syncagent_audit",
            "ALTER TABLE syncagent_run DROP COLUMN approvers",
            "ALTER TABLE syncagent_run DROP COLUMN asked_at",
            "UPDATE syncagent_schema SET version = 100",
        ):
            do.rows(statement)
    backend.close()
    migrated = connected()
    assert migrated.migrate()[1] == VERSION
    found = {each.id: each for each in migrated.conversations("anna", 10)}
    assert {id: each.version for id, each in found.items()} == {"chat": 2, "asks": 1}
    assert found["asks"].live_run == asking
    assert len(migrated.conversation_messages(KEY)) == 3
    assert migrated.change(change("n1", "more", version=2)) == "done"
    assert b"more" in migrated.conversation_messages(KEY)[-1].body
    (entry,) = migrated.inbox(["anna"], None, 10)
    assert (entry.run.id, entry.run.asked_at) == (asking, None)
    assert migrated.answer(asking, {"q1": YES}, "anna", "n").is_ready
    (recorded,) = migrated.audit((), "anna", None, 10)
    assert (recorded.kind, recorded.asked_at) == ("approved", None)
