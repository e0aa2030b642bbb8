"""Every back end: a cancel finds a run in whatever state it is; the first counts."""

import msgspec
import pytest
from support.stored_runs import (
    CANCELLED,
    DONE,
    NO,
    YES,
    batch,
    cancel,
    dead,
    delta,
    new_run,
    running,
    texts_of,
    waiting,
)
from support.threads import until

from syncagent.stores.records import StoredEnd


def test_a_queued_run_ends_at_once(backend):
    """No worker is needed for that: the cancel itself stores the end."""
    backend.add(new_run(), None)
    reply = backend.cancel("public-a", cancel())
    assert reply == (True, True, cancel(), "run-a", "queued", (), True)
    run = backend.read("public-a")
    assert (run.state, run.result.stop_reason) == ("cancelled", "cancelled")
    assert run.result.cancellation.reason == "enough"


def test_a_waiting_run_ends_at_once(backend):
    """With the text, the events and the messages that it had."""
    id = waiting(backend)
    assert backend.cancel(id, cancel()).has_ended
    run = backend.read(id)
    assert (run.state, run.interrupts, run.cancel) == ("cancelled", (), cancel())
    assert texts_of(backend.messages(id)) == ["hello"]
    (_, last), (number, _) = backend.events("run-a", 0)
    assert b"run_finished" in last
    assert run.events == number == 2


def test_a_running_run_is_ended_by_its_worker(backend):
    """The cancel is stored; it names the calls that were recorded as begun."""
    id = running(backend)
    backend.checkpoint(id, 1, delta(), begun=["call-1", "call-2"])
    reply = backend.cancel(id, cancel())
    assert (reply.is_live, reply.is_first, reply.has_ended) == (True, True, False)
    assert (reply.state, reply.begun) == ("running", ("call-1", "call-2"))
    assert backend.read(id).is_live
    assert backend.cancels("w1") == {"run-a": cancel()}


@pytest.mark.parametrize("has_worker", [True, False])
def test_a_cancel_that_is_repeated_after_the_end_names_the_same_calls(
    backend, has_worker
):
    """Its first reply may be lost, or its own process may have been faster."""
    id = running(backend, seconds=60 if has_worker else 0.1)
    backend.checkpoint(id, 1, delta(), begun=["call-1"])
    if has_worker:
        backend.finish(id, 1, StoredEnd("cancelled", cancel=cancel()), delta(), None)
    else:
        until(lambda: backend.recover(0, 5).next_look is None)
        assert backend.cancel(id, cancel()).begun == ("call-1",)
    assert backend.cancel(id, cancel()).begun == ("call-1",)
    assert backend.cancel(id, cancel(nonce="another")).begun == ()


def test_the_run_of_a_dead_worker_ends_at_once(backend):
    """As soon as its lease of 0.1 s is over, the cancel itself ends it."""
    id = running(backend, seconds=0.1)
    until(lambda: backend.recover(0, 5).next_look is None)
    reply = backend.cancel(id, cancel())
    assert (reply.state, reply.has_ended) == ("running", True)
    assert backend.read(id).state == "cancelled"
    assert backend.finish(id, 1, DONE, None, None).is_lost


def test_a_run_that_has_ended_stays_as_it_is(backend):
    """The receipt says that it had ended."""
    id = running(backend)
    backend.finish(id, 1, DONE, None, batch(1, "{}"))
    reply = backend.cancel(id, cancel())
    assert (reply.is_live, reply.is_first, reply.state) == (False, False, "done")
    run = backend.read(id)
    assert (run.state, run.cancel, run.events) == ("done", None, 1)


def test_the_first_cancel_counts(backend):
    """A second one is told about the first."""
    id = running(backend)
    backend.cancel(id, cancel())
    reply = backend.cancel(id, cancel("too late", nonce="c2"))
    assert (reply.is_live, reply.is_first) == (True, False)
    assert reply.cancel == cancel()
    assert backend.finish(id, 1, CANCELLED, None, None).is_stored
    reply = backend.cancel(id, cancel("too late", nonce="c2"))
    assert (reply.is_live, reply.is_first, reply.cancel) == (False, False, cancel())


def test_a_stronger_cancel_counts_too(backend):
    """The run stops earlier, for the first reason; a weaker one changes nothing."""
    id = running(backend)
    backend.cancel(id, cancel(mode="after_turn"))
    assert backend.checkpoint(id, 1, None, is_gate=True).is_stored
    backend.cancel(id, cancel("at once", nonce="c2"))
    backend.cancel(id, cancel("later", mode="after_tools", nonce="c3"))
    verdict = backend.checkpoint(id, 1, None, is_gate=True)
    assert verdict == (False, cancel(mode="now"))


def test_cancels_without_a_nonce_are_not_taken_for_one(backend):
    """Of two, one is the first."""
    id = running(backend)
    assert backend.cancel(id, cancel(nonce="")).is_first
    assert not backend.cancel(id, cancel("other", nonce="")).is_first


@pytest.mark.parametrize("tail", [b"{", b'{"format":"syncagent.agent","version":99}'])
def test_a_state_that_cannot_be_read_does_not_keep_a_run_alive(backend, tail):
    """A newer worker may have stored it before it died."""
    id = dead(backend)
    backend.checkpoint(id, 1, delta(0, "x", tail=tail))
    assert backend.cancel(id, cancel()).has_ended
    assert backend.read(id).result.stop_reason == "cancelled"


# -- answers -----------------------------------------------------------------------


def test_the_first_answer_counts(backend):
    """The second is over; the run is queued, and one caller hands it out."""
    id = waiting(backend)
    assert backend.answer(id, {"q1": YES}, "anna", "n1") == ({"q1": "taken"}, True)
    assert backend.answer(id, {"q1": NO}, "bert", "n2") == ({"q1": "over"}, False)
    assert backend.read(id).state == "queued"
    assert backend.claim(id, "w1", "n").answers["q1"].value.allow


def test_a_run_waits_for_all_answers(backend):
    """It is ready after the last one; others are refused."""
    id = waiting(backend, "a", "q1", "q2")
    assert backend.answer(id, {"q2": YES}, "", "n1") == ({"q2": "taken"}, False)
    assert backend.answer(id, {"q3": YES}, "", "n2") == ({"q3": "refused"}, False)
    assert backend.read(id).state == "waiting"
    both = backend.answer(id, {"q1": NO, "q2": NO}, "", "n3")
    assert both == ({"q1": "taken", "q2": "over"}, True)


def test_answers_to_runs_that_do_not_wait(backend):
    """A run that works asks nothing; one that has ended is over."""
    id = running(backend)
    assert backend.answer(id, {"q1": YES}, "", "n") == ({"q1": "refused"}, False)
    backend.finish(id, 1, DONE, None, None)
    assert backend.answer(id, {"q1": YES}, "", "n") == ({"q1": "over"}, False)


def test_answers_of_an_earlier_question_are_not_used_again(backend):
    """The second question of a run has a new id, and no answer yet."""
    id = waiting(backend)
    backend.answer(id, {"q1": YES}, "", "n1")
    backend.claim(id, "w1", "n")
    questions = msgspec.json.encode(())
    backend.park(
        *(id, 2, delta(1), questions, None), seconds_left=None, answer_seconds=None
    )
    assert backend.read(id).interrupts == ()
    assert backend.answer(id, {"q1": YES}, "", "n2").statuses == {"q1": "over"}
