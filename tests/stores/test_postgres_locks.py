"""PostgreSQL: which rows an operation locks, in which order, and what it sees then."""

import pytest
from support import postgres
from support.stored_runs import (
    DONE,
    batch,
    cancel,
    dead,
    delta,
    lease,
    new_run,
    running,
)
from support.threads import meanwhile, until

from syncagent.stores.rows import delete_runs

pytestmark = pytest.mark.skipif(bool(postgres.MISSING), reason=postgres.MISSING)

BLOCKED = "SELECT 1 FROM pg_locks WHERE NOT granted"
FREE = "SELECT id FROM syncagent_run ORDER BY id FOR UPDATE SKIP LOCKED"


@pytest.fixture
def stores(postgres_url):
    """Yield three processes that share a store."""
    from syncagent.stores.postgres import PostgreSQL

    stores = [PostgreSQL(postgres_url) for _ in range(3)]
    stores[0].migrate()
    yield stores
    for store in stores:
        store.close()


def ended(store, name, **settings):
    """Add a run that has ended; return its id."""
    id = running(store, name, **settings)
    store.finish(id, 1, DONE, delta(0, "one", "two"), None)
    return id


def unlock(do):
    """End a transaction before the threads that wait for it are joined."""
    do.rows("COMMIT")
    do.rows("BEGIN")


def test_pruning_waits_for_no_one(stores):
    """A run that a transaction has locked is left for the next time."""
    first, second, _ = stores
    id = ended(first, "a")
    ended(first, "b")
    with first.transaction() as do:
        first.lock_run(do, id)
        assert second.prune(-1.0, -1.0, 9) == 1
    assert second.prune(-1.0, -1.0, 9) == 1


def test_forgetting_locks_in_the_order_of_all(stores):
    """Live runs come first, by their run ids, as append() and claim() lock them."""
    first, second, third = stores
    ended(first, "0")
    for name in "123":
        running(first, name)
    with first.transaction() as do:
        first.lock_run(do, "public-2")
        with meanwhile(lambda: second.forget("anna")):
            until(lambda: do.rows(BLOCKED))
            free = third.single(FREE)
            unlock(do)
    assert free == [("public-0",), ("public-3",)]


def test_a_run_is_not_added_while_its_owner_is_forgotten(stores):
    """Nothing of the owner is there when forget() returns, however it is added."""
    first, second, _ = stores
    for max_live in (None, 5):
        with first.transaction() as do:
            first.lock_owner(do, "anna")
            with meanwhile(lambda n=max_live: second.add(new_run(), n)):
                until(lambda: do.rows(BLOCKED))
                assert do.rows("SELECT 1 FROM syncagent_run") == []
                unlock(do)
        first.forget("anna")


def test_runs_without_a_limit_are_added_side_by_side(stores):
    """One slow process does not keep the others from adding runs of the same owner."""
    first, second, _ = stores
    with first.transaction() as do:
        first.lock_owner(do, "anna", is_shared=True)
        assert second.add(new_run(), None) == "added"


def test_a_claim_waits_for_the_pruning_of_its_conversation(stores):
    """It gets all messages or none, never the second half."""
    first, second, _ = stores
    id = ended(first, "a", conversation="chat")
    first.add(new_run("b", conversation="chat"), None)
    claims = []
    with first.transaction() as do:
        first.lock_run(do, id)
        with meanwhile(lambda: claims.append(second.claim("public-b", "w1", "n"))):
            until(lambda: do.rows(BLOCKED))
            key = new_run("b", conversation="chat").key
            delete_runs(do, [(id, "run-a", key)])
            do.rows("DELETE FROM syncagent_message")
            unlock(do)
    assert (claims[0].messages, claims[0].last_tail) == ([], b"")


@pytest.mark.parametrize("operation", ["cancel", "claim", "recover"])
def test_a_lease_that_is_renewed_during_a_wait_counts(stores, operation):
    """An operation that waited for a run looks at the lease only then."""
    first, second, third = stores
    id = dead(first)
    replies = []

    def work():
        if operation == "cancel":
            replies.append(second.cancel(id, cancel()).has_ended)
        elif operation == "claim":
            replies.append(second.claim(id, "w2", "n") is not None)
        else:
            replies.append(bool(second.recover(9, 5).ids))

    with first.transaction() as do:
        first.lock_run(do, id)
        with meanwhile(work):
            until(lambda: do.rows(BLOCKED))
            third.beat(lease("dead-a"))
            unlock(do)
    assert replies == [False]
    assert first.read(id).state == "running"


def test_a_write_that_waited_is_refused_if_the_run_was_cancelled(stores):
    """The condition is looked at again after the wait."""
    first, second, _ = stores
    id = running(first)
    replies = []
    with first.transaction() as do:
        do.rows(
            "UPDATE syncagent_run SET cancel = ?, cancel_mode = 'now', "
            "cancel_at = {now} WHERE id = ?",
            *('{"reason":"enough"}', id),
        )
        with meanwhile(
            lambda: replies.append(
                second.finish(id, 1, DONE, delta(0, "x"), batch(1, "{}"))
            )
        ):
            until(lambda: do.rows(BLOCKED))
            unlock(do)
    assert not replies[0].is_stored
    assert replies[0].cancel.reason == "enough"
    assert second.messages(id) == second.events("run-a", 0) == []


def test_an_index_finds_old_runs(stores):
    """The time of the statement is compared with the index, and not row by row."""
    first = stores[0]
    with first.transaction() as do:
        do.rows("SET LOCAL enable_seqscan = off")
        plan = do.rows(
            "EXPLAIN SELECT 1 FROM syncagent_run r WHERE r.ended_at < {now} - ?", 5.0
        )
    assert "Index Cond" in str(plan)
