"""A run is delivered to many workers, and gets many answers and cancels: one counts."""

import threading
from functools import partial

import pytest
from support.store_work import (
    adder,
    check_done,
    effects,
    finish_all,
    make_agent,
    pipe,
    processes,
    start,
    submit,
)
from support.threads import LONG, together, until

from syncagent.stores import RunStore


def work_again_and_again(url, ids, said):
    """Work on runs that others work on, too; tell how many were done here."""
    done = 0
    with RunStore(url, make_agent, lease=10.0) as store:
        for id in ids:
            done += store.work(id) is not None
    said.send(done)


def in_processes(count, function, *args):
    """Run a function in many processes; return what each of them said."""
    with processes() as started:
        ends = []
        for _ in range(count):
            reading, writing = pipe()
            started.append(start(function, *args, writing))
            writing.close()
            ends.append(reading)
        said = []
        for reading in ends:
            assert reading.poll(2 * LONG), "a process did not end"
            said.append(reading.recv())
            reading.close()
    return said


@pytest.mark.slow
def test_delivered_to_six_workers(url, tmp_path):
    """Each run is done by one of them, and each effect happens once."""
    with adder(url) as elsewhere:
        ids = [submit(elsewhere, "plain", tmp_path) for _ in range(15)]
    assert sum(in_processes(6, work_again_and_again, url, ids)) == len(ids)
    with RunStore(url, make_agent) as store:
        for id in ids:
            run = check_done(store, id)
            assert (run.attempt, len(effects(run))) == (1, 2)
    assert sum(in_processes(2, work_again_and_again, url, ids)) == 0


def test_delivered_while_it_waits(url, tmp_path):
    """A run that waits for an answer is left alone."""
    with RunStore(url, make_agent) as store, adder(url) as elsewhere:
        id = submit(elsewhere, "approved", tmp_path)
        assert store.work(id).interrupts
        assert store.work(id) is None
        assert store.get(id).attempt == 1
        finish_all(store, [id])
        assert store.work(id) is None
        assert check_done(store, id).attempt == 2


def test_worked_on_where_it_is_submitted(url, tmp_path, caplog):
    """An engine in such a mode is warned about, once; carrying a run is not."""
    sent = []
    with RunStore(url, make_agent, lambda run: sent.append(run.id)) as store:
        submit(store, "plain", tmp_path)
        assert store.work(*sent)
        assert caplog.records == []
    with RunStore(url, make_agent, lambda run: store.work(run.id)) as store:
        for _ in range(2):
            assert not store.get(submit(store, "plain", tmp_path)).is_live
    (record,) = caplog.records
    assert "the engine works on runs where they are submitted" in record.getMessage()


def answer_all(url, ids, answer, said):
    """Answer every question; return the answers that counted, by run."""
    counted = {}
    with RunStore(url, enqueue=lambda run: enqueued.append(run.id)) as store:
        enqueued = []
        for id in ids:
            questions = store.get(id).interrupts
            statuses = store.answer(id, {each.id: answer for each in questions})
            counted[id] = [status == "taken" for status in statuses.values()]
    said.send((answer, counted, enqueued))


@pytest.mark.slow
def test_four_processes_answer_at_once(url, tmp_path):
    """The first answer counts, and one caller hands the run to a worker."""
    with adder(url) as elsewhere, RunStore(url, make_agent) as store:
        ids = [submit(elsewhere, "approved", tmp_path) for _ in range(12)]
        for id in ids:
            store.work(id)
        with processes() as started:
            ends = []
            for number in range(4):
                reading, writing = pipe()
                args = (url, ids, number % 2 == 0, writing)
                started.append(start(answer_all, *args))
                writing.close()
                ends.append(reading)
            said = [reading.recv() for reading in ends]
            for reading in ends:
                reading.close()
        for id in ids:
            counted = [answer for answer, taken, _ in said if any(taken.get(id, ()))]
            assert len(counted) == 1
            assert sum(enqueued.count(id) for _, _, enqueued in said) == 1
            store.work(id)
            run = store.get(id)
            outcome = run.result.tool_outcomes[0].outcome
            assert outcome == ("done" if counted[0] else "denied")
            assert run.attempt == 2


@pytest.mark.parametrize("is_here", [True, False])
def test_cancelled_between_the_claim_and_the_first_step(url, is_here, tmp_path):
    """A cancel that comes while a worker claims the run ends it at once."""
    claimed, cancelled = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, backend):
            self._backend = backend

        def __getattr__(self, name):
            return getattr(self._backend, name)

        def claim(self, *args):
            claim = self._backend.claim(*args)
            claimed.set()
            assert cancelled.wait(LONG)
            return claim

    store = RunStore(url, make_agent, lease=60.0)
    store.backend = Slow(store.backend)
    with store, RunStore(url) as other:
        other.open()
        store.open()
        id = submit(store, "plain", tmp_path)
        assert claimed.wait(LONG)
        receipt = (store if is_here else other).cancel(id, "too early")
        assert receipt.first
        if not is_here:  # its hint arrives before the claim has returned
            until(lambda: store.open().cancel_count > 1)
        cancelled.set()
        assert receipt.wait(LONG)
        run = store.get(id)
    assert run.state == "cancelled"
    assert run.result.turns == 0
    assert run.result.cancellation.reason == "too early"


def test_cancelled_by_threads_of_its_own_process(url, tmp_path):
    """Of many cancels here, with many reasons, one is first, and its reason counts."""
    with RunStore(url, make_agent) as store:
        for _ in range(20):
            check_one_is_first(store, submit(store, "plain", tmp_path))


def check_one_is_first(store, id):
    receipts = []

    def cancel(number):
        receipts.append(store.cancel(id, f"reason {number}"))

    together(*(partial(cancel, number) for number in range(4)))
    until(lambda: not store.get(id).is_live)
    run = store.get(id)
    first = [receipt for receipt in receipts if receipt.first]
    assert len(first) == (run.state == "cancelled")
    for receipt in first:
        assert receipt.reason == run.cancel.reason


def test_delivered_to_a_process_that_ends(url, tmp_path):
    """Its closed store has another process hand the run out again, at once."""
    delivered = []
    engine = RunStore(url, enqueue=lambda run: delivered.append(run.id))
    sweeper = RunStore(url, make_agent, lambda run: delivered.append(run.id))
    with engine, sweeper:
        sweeper.open()
        id = submit(engine, "plain", tmp_path)
        ending = RunStore(url, make_agent)
        ending.close()
        assert ending.work(id) is None
        until(lambda: delivered == [id, id])
        sweeper.work(id)
        check_done(sweeper, id)
