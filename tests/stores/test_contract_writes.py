"""Every back end: adding runs, claiming them, and the writes of a worker."""

import pytest
from support.stored_runs import (
    CANCELLED,
    DONE,
    TAIL,
    batch,
    cancel,
    dead,
    delta,
    lease,
    new_run,
    park,
    running,
    texts_of,
    waiting,
)
from support.threads import until

from syncagent.exceptions import NoSuchRun
from syncagent.stores.records import StoredEnd

# -- adding ------------------------------------------------------------------------


def test_a_run_is_as_it_was_added(backend):
    """Everything that was given is there again, and the run is queued."""
    assert backend.add(new_run(), None) == "added"
    run = backend.read("public-a")
    assert (run.run_id, run.owner, run.agent) == ("run-a", "anna", "billing")
    assert (run.state, run.attempt, run.labels) == ("queued", 0, {"queue": "agents"})
    assert run.prompt.content[0].text == "Charge all three."
    assert run.is_live
    assert run.created_at > 1e9
    assert backend.read("public-b") is None


def test_an_id_is_added_once(backend):
    """The second call with one id is told so, also if the owner has no more room."""
    assert backend.add(new_run(), 1) == "added"
    assert backend.add(new_run(), 1) == "known"


def test_an_owner_has_room_for_so_many(backend):
    """Runs that have ended, and those of others, do not count."""
    assert backend.add(new_run("a"), 1) == "added"
    assert backend.add(new_run("b"), 1) == "no room"
    assert backend.add(new_run("c", owner="bert"), 1) == "added"
    backend.cancel("public-a", cancel())
    assert backend.add(new_run("b"), 1) == "added"


def test_a_conversation_has_one_live_run(backend):
    """A second one is refused, and told whether the first waits for answers."""
    waiting(backend, "a", conversation="chat")
    running(backend, "b", conversation="other")
    assert backend.add(new_run("c", conversation="chat"), None) == "waiting"
    assert backend.add(new_run("d", conversation="other"), None) == "busy"
    assert backend.add(new_run("e", conversation="chat", owner="bert"), 5) == "added"
    backend.cancel("public-a", cancel())
    assert backend.add(new_run("c", conversation="chat"), None) == "added"


# -- claiming ----------------------------------------------------------------------


def test_a_claim_has_everything_that_a_worker_needs(backend):
    """A run that waited comes with its state, its messages, answers and time."""
    waiting(backend)
    backend.answer("public-a", {"q1": b'{"text":"yes"}'}, "anna", "n")
    claim = backend.claim("public-a", "w1", "second")
    assert (claim.attempt, claim.run.state) == (2, "running")
    assert (claim.tail, claim.seconds_left) == (TAIL, 7.5)
    assert texts_of(claim.messages) == ["hello"]
    assert claim.answers["q1"].value == "yes"


def test_a_claim_of_nothing(backend):
    """A run that never was cannot be claimed, cancelled or answered."""
    for operation in (
        lambda: backend.claim("public-a", "w1", "n"),
        lambda: backend.cancel("public-a", cancel()),
        lambda: backend.answer("public-a", {}, "", "n"),
    ):
        with pytest.raises(NoSuchRun, match=r"'public-a'\.\.\."):
            operation()


def test_a_run_is_claimed_once(backend):
    """A living worker keeps it; one that waits or has ended is not claimed."""
    running(backend)
    assert backend.claim("public-a", "w2", "other") is None
    park(backend, "public-a", "q1")
    assert backend.claim("public-a", "w2", "other") is None
    backend.cancel("public-a", cancel())
    assert backend.claim("public-a", "w2", "other") is None


def test_the_run_of_a_dead_worker_is_claimed(backend):
    """The next attempt begins when the lease of 0.1 s is over; that is a crash."""
    running(backend, seconds=0.1)
    claim = until(lambda: backend.claim("public-a", "w2", "other"))
    assert claim.attempt == 2
    assert backend.read("public-a").crashes == 1


def test_a_claim_of_a_cancelled_run_ends_it(backend):
    """Its canceller was told that it ends so, and its worker died before."""
    id = running(backend)
    backend.cancel(id, cancel("wrong customer", mode="after_turn"))
    backend.leave("w1")
    assert backend.claim(id, "w2", "other") is None
    run = backend.read(id)
    assert (run.state, run.result.cancellation.reason) == (
        "cancelled",
        "wrong customer",
    )


def test_the_next_run_continues_the_conversation(backend):
    """It gets the messages and the last tail; one that never began is passed over."""
    id = running(backend, "a", conversation="chat")
    tail = b'{"format":"syncagent.agent","version":1,"claims":1}'
    backend.finish(id, 1, DONE, delta(0, "one", "two", tail=tail), None)
    backend.add(new_run("b", conversation="chat"), None)
    backend.cancel("public-b", cancel())
    backend.add(new_run("c", conversation="chat"), None)
    claim = backend.claim("public-c", "w1", "n")
    assert (claim.tail, claim.last_tail) == (b"", tail)
    assert texts_of(claim.messages) == ["one", "two"]


def test_a_beat_tells_whether_the_lease_had_ended(backend):
    """It is known while it lasts; later it is begun again."""
    assert not backend.beat(lease(seconds=0.05))
    assert until(lambda: not backend.beat(lease(seconds=0.0)))
    backend.beat(lease())
    assert backend.beat(lease())
    backend.leave("w1")
    assert not backend.beat(lease())


def test_a_process_learns_of_cancels(backend):
    """Only of those of its own live runs."""
    running(backend, "a")
    running(backend, "b")
    running(backend, "c", worker="w2")
    assert backend.cancels("w1") == {}
    backend.cancel("public-b", cancel())
    backend.cancel("public-c", cancel())
    assert backend.cancels("w1") == {"run-b": cancel()}
    assert backend.cancels("w2") == {"run-c": cancel()}


# -- the writes of a worker --------------------------------------------------------


def test_messages_are_replaced_from_the_first_one(backend):
    """A delta keeps the messages before it, and drops those after."""
    id = running(backend)
    backend.checkpoint(id, 1, delta(0, "a", "b", "c"))
    backend.checkpoint(id, 1, delta(1, "d"))
    assert texts_of(backend.messages(id)) == ["a", "d"]
    backend.checkpoint(id, 1, delta(1))
    assert texts_of(backend.messages(id)) == ["a"]
    backend.leave("w1")
    assert texts_of(backend.claim(id, "w2", "n").messages) == ["a"]
    backend.checkpoint(id, 2, delta(1, "e", "f"))
    assert texts_of(backend.messages(id)) == ["a", "e", "f"]


def test_a_checkpoint_stores_the_tail(backend):
    """It needs no messages, and keeps the time that is left."""
    id = running(backend, seconds_left=60.0)
    assert backend.checkpoint(id, 1, delta(tail=b"{}"), seconds_left=3.5).is_stored
    assert backend.tail(id) == b"{}"
    backend.leave("w1")
    assert backend.claim(id, "w2", "n").seconds_left == 3.5
    assert backend.tail("public-b") == b""


def test_a_checkpoint_that_was_delayed_is_refused(backend):
    """A later one of the same attempt counts; the next attempt counts anew."""
    id = running(backend)
    assert backend.checkpoint(id, 1, delta(0, "a", "b"), step=2).is_stored
    assert not backend.checkpoint(id, 1, delta(0, "a"), step=1).is_stored
    assert backend.checkpoint(id, 1, delta(0, "a", "b"), step=2).is_stored
    assert texts_of(backend.messages(id)) == ["a", "b"]
    backend.leave("w1")
    backend.claim(id, "w2", "n")
    assert backend.checkpoint(id, 2, delta(2, "c"), step=1).is_stored


@pytest.mark.parametrize("mode", ["now", "after_turn"])
@pytest.mark.parametrize("part", [None, delta(), delta(0, "hello")])
def test_a_gate_refuses_a_cancelled_run(backend, mode, part):
    """Nothing begins after a cancel; a deferred one is only told."""
    id = running(backend)
    assert backend.checkpoint(id, 1, part, is_gate=True) == (True, None)
    backend.cancel(id, cancel(mode=mode))
    verdict = backend.checkpoint(id, 1, part, begun=["c1"], is_gate=True)
    assert verdict == (mode != "now", cancel(mode=mode))
    assert not verdict.is_lost
    assert backend.checkpoint(id, 1, part) == (True, cancel(mode=mode))


def test_a_worker_that_lost_its_run_cannot_write(backend):
    """Every write of an earlier attempt is refused, and changes nothing."""
    id = dead(backend)
    backend.beat(lease("w2"))
    assert backend.claim(id, "w2", "n").attempt == 2
    for verdict in (
        backend.checkpoint(id, 1, None),
        backend.checkpoint(id, 1, delta(), is_gate=True),
        backend.checkpoint(id, 1, delta(0, "stale")),
        park(backend, id, "q1"),
        backend.finish(id, 1, DONE, delta(0, "stale"), batch(1, "{}")),
        backend.finish(id, 1, CANCELLED, None, None),
    ):
        assert verdict.is_lost
    assert not backend.release(id, 1, is_urgent=True)
    assert backend.append([batch(1, "{}")]) == ["run-a"]
    assert backend.read(id).state == "running"
    assert backend.messages(id) == backend.events("run-a", 0) == []


def test_a_run_waits_without_a_worker(backend):
    """Its questions, events and messages are stored with it."""
    id = running(backend)
    assert park(backend, id, "q1", "q2", events=batch(1, "{}", "{}")).is_stored
    run = backend.read(id)
    assert (run.state, run.worker, run.events) == ("waiting", "", 2)
    assert [each.id for each in run.interrupts] == ["q1", "q2"]
    assert len(backend.events("run-a", 0)) == 2


def test_a_cancelled_run_does_not_wait(backend):
    """Even a deferred cancel keeps it from waiting for answers."""
    id = running(backend)
    backend.cancel(id, cancel(mode="after_tools"))
    assert park(backend, id, "q1") == (False, cancel(mode="after_tools"))
    assert backend.read(id).state == "running"


def test_a_released_run_is_queued(backend):
    """Another worker gets it at once if that is urgent; it is no crash."""
    id = running(backend)
    assert backend.release(id, 1, is_urgent=True)
    assert backend.recover(10, 5).ids == [id]
    run = backend.read(id)
    assert (run.state, run.crashes) == ("queued", 0)
    assert backend.claim(id, "w1", "n").attempt == 2
    assert backend.release(id, 2, is_urgent=False)
    assert backend.recover(10, 5).ids == []


def test_a_cancelled_run_ends_when_it_is_released(backend):
    """It is not resumed to be cancelled somewhere else."""
    id = running(backend)
    backend.cancel(id, cancel())
    assert backend.release(id, 1, is_urgent=True)
    assert backend.read(id).state == "cancelled"
    assert backend.recover(10, 5).ids == []


@pytest.mark.parametrize("state", ["done", "failed", "limit"])
def test_a_run_ends(backend, state):
    """Its end is stored as a whole: result, error, messages, events."""
    id = running(backend)
    result = b'{"text":"fine","stop_reason":"end_turn","run_id":"run-a","messages":[]}'
    ending = StoredEnd(state, result, b'{"type":"OSError","message":"no"}')
    assert backend.finish(id, 1, ending, delta(0, "x"), batch(1, "{}")) == (True, None)
    run = backend.read(id)
    assert (run.state, run.is_live, run.worker) == (state, False, "")
    assert (run.result.text, run.error.message) == ("fine", "no")
    assert run.cancel is None
    assert len(backend.messages(id)) == len(backend.events("run-a", 0)) == 1


def test_a_cancel_beats_the_end(backend):
    """A run that was cancelled ends as cancelled, or not at all."""
    id = running(backend)
    backend.cancel(id, cancel(mode="after_turn"))
    verdict = backend.finish(id, 1, DONE, None, None)
    assert verdict == (False, cancel(mode="after_turn"))
    assert backend.read(id).is_live
    assert backend.finish(id, 1, CANCELLED, None, None).is_stored
    run = backend.read(id)
    assert (run.state, run.cancel.reason) == ("cancelled", "enough")


def test_a_worker_cancels_its_own_run(backend):
    """The cancel that it tells is stored, unless there was one before."""
    for name, reason in (("a", "mine"), ("b", "enough")):
        id = running(backend, name)
        if reason == "enough":
            backend.cancel(id, cancel())
        ending = StoredEnd("cancelled", cancel=cancel("mine", nonce="c2"))
        assert backend.finish(id, 1, ending, None, None).is_stored
        assert backend.read(id).cancel.reason == reason


# -- looking -----------------------------------------------------------------------


def test_events_are_read_from_the_middle(backend):
    """A reader gets exactly those after its number, over all batches."""
    id = running(backend)
    for part in (batch(1, "a", "b", "c"), batch(4, "d"), batch(5, "e", "f")):
        assert backend.append([part]) == []
    lines = [b"a", b"b", b"c", b"d", b"e", b"f"]
    for after in range(8):
        expected = list(enumerate(lines[after:], after + 1))
        assert backend.events("run-a", after) == expected
    assert backend.read(id).events == 6


def test_runs_are_found(backend):
    """By owner, live or not, the newest first, and no more than wanted."""
    for name, owner in (("a", "anna"), ("b", "bert"), ("c", "anna")):
        backend.add(new_run(name, owner=owner), None)
    backend.cancel("public-a", cancel())

    def found(*query):
        return [run.run_id for run in backend.find(*query)]

    assert found(None, None, 9) == ["run-c", "run-b", "run-a"]
    assert found("anna", None, 9) == ["run-c", "run-a"]
    assert found("anna", True, 9) == ["run-c"]
    assert found(None, False, 9) == ["run-a"]
    assert found(None, None, 1) == ["run-c"]


def test_a_worker_is_named(backend):
    """By its host and process id."""
    running(backend)
    assert backend.read("public-a").worker == "host:4711"
