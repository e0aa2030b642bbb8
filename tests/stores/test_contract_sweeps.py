"""Every back end: runs whose workers died, runs that no one wants, and old ones."""

import pytest
from support.stored_runs import (
    DONE,
    YES,
    batch,
    cancel,
    dead,
    delta,
    lease,
    new_run,
    running,
    texts_of,
    waiting,
)
from support.threads import until


def age(backend, seconds, **columns):
    """Let time pass for some columns of all runs."""
    for column in columns or ("due_at",):
        backend.single(f"UPDATE syncagent_run SET {column} = {column} - ?", seconds)


# -- crashes -----------------------------------------------------------------------


def test_the_run_of_a_dead_worker_is_handed_out_once(backend, connected):
    """One sweep of one process gets it, when the lease of 0.1 s is over."""
    id = running(backend, seconds=0.1)
    assert 0 < backend.recover(10, 5).next_look <= 0.1
    assert until(lambda: backend.recover(10, 5).ids) == [id]
    assert connected().recover(10, 5) == ([], None, {})
    run = backend.read(id)
    assert (run.state, run.crashes, run.attempt) == ("queued", 1, 1)


def test_a_run_that_kills_its_workers_has_failed(backend):
    """After five crashes it is given up, and its followers are told."""
    backend.add(new_run(), None)
    for attempt in range(1, 6):
        backend.beat(lease())
        assert backend.claim("public-a", "w1", f"n{attempt}").attempt == attempt
        backend.leave("w1")
        assert bool(backend.recover(10, 5).ids) == (attempt < 5)
    run = backend.read("public-a")
    assert (run.state, run.crashes, run.events) == ("failed", 5, 1)
    assert "gave up after 5 attempts" in run.error.message
    assert b"gave up" in backend.events("run-a", 0)[0][1]


def test_a_cancelled_run_of_a_dead_worker_is_not_resumed(backend):
    """The sweep ends it."""
    id = running(backend)
    backend.cancel(id, cancel())
    backend.leave("w1")
    assert backend.recover(10, 5).ids == []
    assert backend.read(id).state == "cancelled"


def test_a_queued_run_is_handed_out_again(backend):
    """If no one began it within 30 seconds, then 60, and so on."""
    backend.add(new_run(), None)
    assert backend.recover(10, 5).ids == []
    for seconds in (30, 60, 120):
        age(backend, seconds - 1)
        assert backend.recover(10, 5).ids == []
        age(backend, 1)
        assert backend.recover(10, 5).ids == ["public-a"]
    age(backend, 30)
    backend.deliver_now("public-a")
    assert backend.recover(10, 5).ids == ["public-a"]


def test_no_more_runs_are_handed_out_than_wanted(backend):
    """The oldest come first; the others are left for the next sweep."""
    for name in "abc":
        backend.add(new_run(name), None)
    age(backend, 30)
    assert backend.recover(0, 5).ids == []
    assert backend.recover(2, 5).ids == ["public-a", "public-b"]
    assert backend.recover(2, 5).ids == ["public-c"]


def test_the_next_look_is_when_a_lease_ends(backend):
    """Only leases of workers with runs count."""
    backend.beat(lease("idle", 5.0))
    assert backend.recover(10, 5).next_look is None
    running(backend, seconds=20.0)
    assert 15 < backend.recover(10, 5).next_look <= 20


def test_a_worker_learns_which_runs_it_has(backend):
    """Also those whose claim it never heard of, because the reply was lost."""
    running(backend, "a")
    running(backend, "b")
    waiting(backend, "c")
    running(backend, "d", worker="w2")
    held = {"run-a": ("public-a", 1), "run-b": ("public-b", 1)}
    assert backend.recover(9, 5, "w1").held == held


# -- questions and followers -------------------------------------------------------


def test_a_question_is_answered_when_its_time_is_over(backend):
    """After 0.05 s the run continues, with the answer "timed out"."""
    id = waiting(backend, "a", "q1", "q2", answer_seconds=0.05)
    backend.answer(id, {"q1": YES}, "anna", "n")
    assert until(lambda: backend.recover(10, 5).ids) == [id]
    answers = backend.claim(id, "w1", "n2").answers
    assert (answers["q1"].value.allow, answers["q2"].value.timed_out) == (True, True)
    assert backend.answer(id, {"q2": YES}, "", "").statuses == {"q2": "over"}


def test_a_run_that_no_one_follows_is_cancelled(backend):
    """A follower keeps it alive; 0.1 s after the last one it is cancelled."""
    waiting(backend, "a", unfollowed=0.1)
    running(backend, "b", unfollowed=0.1)
    running(backend, "c")
    backend.follow(["run-a", "run-b", "run-c", "run-d"])
    assert backend.recover(10, 5).ids == []
    assert backend.read("public-a").is_live

    def are_cancelled():
        assert backend.recover(10, 5).ids == []
        return backend.read("public-a").cancel and backend.read("public-b").cancel

    assert until(are_cancelled).origin == "disconnect"
    assert backend.read("public-a").state == "cancelled"
    assert backend.read("public-b").state == "running"
    assert backend.read("public-c").cancel is None


# -- retention ---------------------------------------------------------------------


def test_old_events_go_first_and_then_the_run(backend):
    """Live runs stay, however old they are."""
    running(backend, "live")
    id = running(backend)
    backend.finish(id, 1, DONE, delta(0, "hello"), batch(1, "{}"))
    age(backend, 100, ended_at=1, created_at=1)
    assert backend.prune(200, 1000, 10) == 0
    assert backend.prune(50, 1000, 10) == 1
    assert backend.events("run-a", 0) == []
    assert texts_of(backend.messages(id)) == ["hello"]
    assert backend.prune(50, 1000, 10) == 0
    assert backend.prune(50, 90, 10) == 1
    assert backend.read(id) is None
    assert backend.single("SELECT count(*) FROM syncagent_message") == [(0,)]
    assert backend.read("public-live") is not None


def test_pruning_takes_a_bite_at_a_time(backend):
    """The oldest come first, and no more than the limit."""
    for name in "abc":
        backend.add(new_run(name), None)
        backend.cancel(f"public-{name}", cancel())
    age(backend, 100, ended_at=1)
    assert backend.prune(1e9, 50, 2) == 2
    assert [run.run_id for run in backend.find(None, None, 9)] == ["run-c"]
    assert backend.prune(1e9, 50, 2) == 1


def test_a_conversation_that_continues_is_kept(backend):
    """Its earlier runs are deleted when the last one is old, all together."""
    id = running(backend, "a", conversation="chat")
    backend.finish(id, 1, DONE, delta(0, "one"), None)
    age(backend, 100, ended_at=1)
    backend.add(new_run("b", conversation="chat"), None)
    assert backend.prune(1e9, 50, 9) == 0
    claim = backend.claim("public-b", "w1", "n")
    assert texts_of(claim.messages) == ["one"]
    backend.finish("public-b", 1, DONE, delta(1, "two"), None)
    assert backend.prune(1e9, 50, 9) == 1
    assert texts_of(backend.messages("public-b")) == ["one", "two"]


def test_an_owner_is_forgotten(backend):
    """Nothing of it is left in any table, live runs included; others stay."""
    waiting(backend, "a")
    backend.answer("public-a", {"q1": YES}, "", "n")
    id = running(backend, "b")
    backend.append([batch(1, "{}", name="b")])
    running(backend, "c", owner="bert")
    assert backend.forget("anna") == 2
    assert backend.forget("anna") == 0
    for table in ("event", "answer", "message"):
        assert backend.single(f"SELECT count(*) FROM syncagent_{table}") == [(0,)]
    assert backend.checkpoint(id, 1, delta(0, "x")).is_lost
    assert [run.run_id for run in backend.find(None, None, 9)] == ["run-c"]


def test_old_leases_are_deleted(backend):
    """A day after their end."""
    backend.beat(lease("old", -100_000.0))
    backend.beat(lease("new", -10.0))
    backend.prune(1.0, 1.0, 1)
    assert backend.single("SELECT id FROM syncagent_worker") == [("new",)]


@pytest.mark.parametrize("tail", [b"{"])
def test_one_damaged_run_does_not_stop_the_sweep(backend, tail):
    """The others are handed out."""
    backend.checkpoint(dead(backend, "a"), 1, delta(0, "x", tail=tail))
    backend.cancel("public-a", cancel())
    id = dead(backend, "b")
    assert backend.recover(10, 5).ids == [id]
