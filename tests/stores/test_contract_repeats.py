"""Every back end: an operation is safe to repeat when its reply was lost."""

from contextlib import closing

import pytest
from support import postgres
from support.cut_proxy import CutProxy
from support.stored_runs import (
    CANCELLED,
    DONE,
    YES,
    batch,
    cancel,
    change,
    dead,
    delta,
    lease,
    new_run,
    park,
    persist,
    running,
    waiting,
)
from support.threads import until

from syncagent.exceptions import StoreUnavailable
from syncagent.messages import user_message

TABLES = {
    "run": "id, state, attempt, crashes, worker, nonce, cancel, cancel_mode, "
    "cancel_at IS NULL, tail, begun, messages, questions, seconds_left, events, "
    "deliveries, answer_by IS NULL, result, error, ended_at IS NULL",
    "message": "conversation_key, n, body",
    "event": "run_id, n, count, body",
    "answer": "run_id, interrupt, body, given_by",
    "worker": "id",
    "conversation": "key, id, owner, title, labels, version, tail, messages",
    "audit": "run_id, owner, approver, question, kind, answer, given_by",
}
#: Counts the sessions of the test; that of a connection that was cut may end late.
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'cut'"


def late(backend):
    waiting(backend, answer_seconds=-1.0)


def old(backend):
    backend.finish(running(backend), 1, DONE, delta(0, "x"), batch(1, "{}"))


def chat(backend):
    id = running(backend, conversation="chat")
    backend.finish(id, 1, DONE, delta(0, "x"), None)


#: How the store is before, the operation, and the parts of its reply that are the same
#: if it is repeated; None if the reply names what was found, and it is found once.
OPERATIONS = {
    "add": (
        lambda store: None,
        lambda store: store.add(new_run(conversation="chat"), 5) in ("added", "known"),
        "all",
    ),
    "claim": (
        lambda store: (store.add(new_run(), None), store.beat(lease())),
        lambda store: store.claim("public-a", "w1", "n1")[1:],
        "all",
    ),
    "claim of a dead worker's": (
        lambda store: (dead(store), store.beat(lease())),
        lambda store: store.claim("public-a", "w1", "n2")[1:],
        "all",
    ),
    "beat": (lambda store: None, lambda store: store.beat(lease()), None),
    "gate": (
        running,
        lambda store: store.checkpoint(
            "public-a", 1, delta(0, "x", "y"), begun=["c1"], is_gate=True
        ),
        "all",
    ),
    "tail": (running, lambda store: store.checkpoint("public-a", 1, delta()), "all"),
    "park": (
        running,
        lambda store: park(store, "public-a", "q1", events=batch(1, "{}")),
        "all",
    ),
    "release": (
        running,
        lambda store: store.release("public-a", 1, is_urgent=True),
        "all",
    ),
    "finish": (
        running,
        lambda store: store.finish("public-a", 1, DONE, delta(0, "x"), batch(1, "{}")),
        "all",
    ),
    "finish as cancelled": (
        running,
        lambda store: store.finish("public-a", 1, CANCELLED, delta(0, "x"), None),
        "all",
    ),
    "append": (running, lambda store: store.append([batch(1, "a", "b")]), "all"),
    "cancel of a running one": (
        running,
        lambda store: store.cancel("public-a", cancel()),
        "all",
    ),
    "cancel of a queued one": (
        lambda store: store.add(new_run(), None),
        lambda store: store.cancel("public-a", cancel())[:4],
        "all",
    ),
    "cancel of a waiting one": (
        waiting,
        lambda store: store.cancel("public-a", cancel())[:4],
        "all",
    ),
    "cancel of a dead worker's": (
        dead,
        lambda store: store.cancel("public-a", cancel())[:4],
        "all",
    ),
    "answer": (
        waiting,
        lambda store: store.answer("public-a", {"q1": YES}, "anna", "n"),
        "all",
    ),
    "recover": (dead, lambda store: store.recover(9, 5), None),
    "recover to give up": (dead, lambda store: store.recover(9, 1), None),
    "recover a late one": (late, lambda store: store.recover(9, 5), None),
    "prune": (old, lambda store: store.prune(-1.0, -1.0, 9), None),
    "forget": (old, lambda store: store.forget("anna"), None),
    "change of a conversation": (
        chat,
        lambda store: store.change(change(version=1, messages=(user_message("b"),))),
        "all",
    ),
    "change of its title": (
        chat,
        lambda store: store.change(change(version=1, title="Rome", labels="{}")),
        "all",
    ),
    "fork": (
        chat,
        lambda store: store.fork(change().key, None, change("copy", nonce="f")),
        "all",
    ),
    "forget_conversation": (
        chat,
        lambda store: store.forget_conversation(change().key, "anna"),
        None,
    ),
    "prune of a conversation": (
        lambda store: (chat(store), store.prune(-1.0, -1.0, 9)),
        lambda store: store.prune(-1.0, -1.0, 9, conversations_seconds=-1.0),
        None,
    ),
    "follow": (running, lambda store: store.follow(["run-a"]), "all"),
    "leave": (running, lambda store: store.leave("w1"), "all"),
}


def contents(backend):
    """Return all rows, without times."""
    return {
        table: sorted(backend.single(f"SELECT {columns} FROM syncagent_{table}"))
        for table, columns in TABLES.items()
    }


def begin_again(backend):
    for table in TABLES:
        backend.single(f"DELETE FROM syncagent_{table}")


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_can_be_repeated(backend, connected, name):
    """The second time, from another process, changes nothing and replies the same."""
    prepare, operation, replies = OPERATIONS[name]
    prepare(backend)
    reply = operation(backend)
    before = contents(backend)
    repeated = operation(connected())
    assert contents(backend) == before
    assert replies is None or repeated == reply


@pytest.mark.slow
@pytest.mark.parametrize(
    "is_before",
    [
        pytest.param(True, id="before", marks=pytest.mark.stress),
        pytest.param(False, id="after"),
    ],
)
@pytest.mark.parametrize(
    "name",
    [
        name if number % 4 == 0 else pytest.param(name, marks=pytest.mark.stress)
        for number, name in enumerate(OPERATIONS)
    ],
)
def test_a_connection_is_cut_at_every_message(cluster, postgres_url, name, is_before):
    """Before it arrives, and after its reply is sent: the end is the same.

    The commit is one of the messages.
    """
    from syncagent.stores.postgres import PostgreSQL

    prepare, operation, replies = OPERATIONS[name]
    url = f"{postgres_url}&application_name=cut"
    with (
        CutProxy(cluster.folder) as proxy,
        closing(PostgreSQL(url.replace(cluster.folder, proxy.folder))) as backend,
    ):
        backend.migrate()
        prepare(backend)
        reply, end = operation(backend), contents(backend)
        cuts = 0
        while True:
            until(lambda: cluster.execute(SESSIONS) <= [(1,)])
            begin_again(backend)
            prepare(backend)
            proxy.cut_at(cuts + 1, is_before=is_before)
            try:
                operation(backend)
            except StoreUnavailable:
                pass
            if not proxy.let_pass():
                break  # it has no more messages
            repeated = persist(lambda: operation(backend))
            if replies is None:
                # The session that was cut may still have locks, which a sweep skips.
                until(lambda: (operation(backend), contents(backend) == end)[1])
            assert contents(backend) == end, f"message {cuts + 1}"
            assert replies is None or repeated == reply
            cuts += 1
        assert cuts


def test_events_that_grew_are_stored_once(backend):
    """The reply to the first batch was lost; the second has the same, and more."""
    id = running(backend)
    assert backend.append([batch(1, "a", "b")]) == []
    assert backend.append([batch(1, "a", "b", "c")]) == []
    assert backend.append([batch(1, "a", "b")]) == []
    assert [line for _, line in backend.events("run-a", 0)] == [b"a", b"b", b"c"]
    backend.finish(id, 1, DONE, None, batch(3, "c", "d"))
    lines = [line for _, line in backend.events("run-a", 2)]
    assert lines[-2:] == [b"c", b"d"]


def test_a_gap_in_the_events_is_refused(backend):
    """Numbers have no holes, also after a mistake of a worker."""
    running(backend)
    assert backend.append([batch(2, "b")]) == ["run-a"]
    assert backend.events("run-a", 0) == []


def test_a_park_is_repeated_after_the_answer(backend):
    """Someone was faster than the reply: the run is queued, and not lost."""
    id = waiting(backend)
    backend.answer(id, {"q1": YES}, "", "n")
    assert park(backend, id, "q1").is_stored
    assert backend.read(id).state == "queued"


def test_a_cancel_is_repeated_after_the_end(backend):
    """The canceller whose reply was lost is told that it was the first."""
    id = running(backend)
    backend.cancel(id, cancel())
    backend.finish(id, 1, CANCELLED, None, None)
    reply = backend.cancel(id, cancel())
    assert (reply.is_live, reply.is_first, reply.has_ended) == (True, True, True)


def test_a_skip_says_why():
    """Without PostgreSQL the reason is a sentence; with it there is none."""
    assert postgres.MISSING == "" or postgres.MISSING.endswith("not installed")
