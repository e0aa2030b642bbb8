"""Workers come and go: with other code, in a deploy, and with clocks that are wrong."""

import os
import signal
import threading
import time

import msgspec
import pytest
from support.store_work import (
    Watched,
    adder,
    by_hand,
    check_done,
    drive,
    effects,
    finish_all,
    interrupted,
    log_of,
    make_agent,
    pipe,
    processes,
    start,
    submit,
)
from support.threads import LONG, until

from syncagent import Agent, ToolContext, tool
from syncagent.messages import ToolMessage
from syncagent.stores import RunStore
from syncagent.testing import ScriptedModel, call, say

#: Longer than any test waits: no process may count as dead.
LONG_LEASE = 300.0


def slow_agent(run, started=None, gate=None, *, idempotent=False):
    """Return an agent whose first tool works until it is told to end."""

    @tool(idempotent=idempotent)
    def work(ctx: ToolContext) -> str:
        """Work for a while."""
        if started is not None:
            started.set()
        if gate is not None:
            gate.wait(LONG)
            ctx.checkpoint()
        return "worked"

    def respond(messages):
        turn = sum(isinstance(message, ToolMessage) for message in messages)
        return "All done." if turn > 1 else say(call("work", "{}", f"work_{turn}"))

    return Agent(ScriptedModel(respond), tools=[work])


def test_a_run_without_its_tool_is_given_back(url, tmp_path):
    """A worker of another version leaves a run to those that have its tools."""

    def without_tools(run):
        return Agent(ScriptedModel("Never said."))

    with adder(url) as elsewhere, RunStore(url, make_agent) as new:
        id = submit(elsewhere, "approved", tmp_path)
        new.work(id)
        questions = new.get(id).interrupts
        elsewhere.answer(id, {each.id: True for each in questions})
        with RunStore(url, without_tools) as old:
            assert old.work(id) is None
            run = old.get(id)
            assert (run.state, run.crashes) == ("queued", 0)
        drive(new, id)
        assert check_done(new, id).attempt == 3


def make_newer(store, id):
    """Make the state of a run that of a newer version."""
    tail = msgspec.json.decode(store.backend.tail(id))
    tail["version"] = 999
    store.backend.single(
        "UPDATE syncagent_run SET tail = ? WHERE id = ?",
        *(msgspec.json.encode(tail).decode(), id),
    )


def test_a_newer_state_is_given_back_and_can_be_cancelled(url, tmp_path):
    """A worker of an older version leaves a run alone, and still cancels it."""
    with adder(url) as elsewhere, RunStore(url, make_agent) as store:
        id = submit(elsewhere, "approved", tmp_path)
        store.work(id)
        make_newer(store, id)
        questions = store.get(id).interrupts
        elsewhere.answer(id, {each.id: True for each in questions})
        assert store.work(id) is None
        assert store.get(id).state == "queued"
        assert store.cancel(id, "not needed").first
        run = store.get(id)
        assert (run.state, run.cancel.reason) == ("cancelled", "not needed")


@pytest.mark.slow
@pytest.mark.parametrize("grace", [0.0, 5.0])
def test_closed_in_the_middle_of_a_run(url, grace):
    """Another process goes on at once: nothing is cancelled, nothing has crashed."""
    started, gate = threading.Event(), threading.Event()
    leaving = RunStore(url, lambda run: slow_agent(run, started, gate), lease=60.0)
    with RunStore(url, slow_agent, lease=LONG_LEASE) as staying:
        staying.open()
        id = leaving.submit("Go.")
        assert started.wait(LONG)
        closing = threading.Thread(target=leaving.close, args=(grace,))
        closing.start()
        if grace:
            until(lambda: leaving._is_closed)
            gate.set()
        else:
            threading.Timer(0.2, gate.set).start()
        closing.join(LONG)
        assert not closing.is_alive()
        began = time.monotonic()
        until(lambda: not staying.get(id).is_live)
        assert time.monotonic() - began < 5, "it waited for a beat"
        run = staying.get(id)
        assert (run.state, run.attempt, run.crashes) == ("done", 2, 0)
        assert run.result.text == "All done."
        assert interrupted(run) == (0 if grace else 1)
        events = log_of(staying, run)
        names = [type(event).__name__ for event in events]
        assert names.count("RunFinished") == 1
        assert names.count("Resumed") == 1
        # A result may be told twice, by both workers, and never in two ways.
        told = {(each.call_id, each.outcome) for each in events if is_result(each)}
        assert len(told) == 2


def is_result(event):
    return type(event).__name__ == "ToolFinished"


def test_cancelled_by_a_user_while_its_worker_shuts_down(url):
    """A cancel counts, also if the worker gives the run back at that moment."""
    started, gate = threading.Event(), threading.Event()
    store = RunStore(url, lambda run: slow_agent(run, started, gate), lease=60.0)
    with RunStore(url) as other:
        id = store.submit("Go.")
        assert started.wait(LONG)
        receipt = other.cancel(id, "by the user")
        threading.Timer(0.05, gate.set).start()
        store.close(0.0)
        assert receipt.first
        run = other.get(id)
        assert (run.state, run.cancel.reason) == ("cancelled", "by the user")


def serve(url, said):
    """Work on runs until SIGTERM, as a server does; then close the store."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    started = threading.Event()
    store = RunStore(url, lambda run: slow_agent(run, started, stopping), lease=60.0)
    said.send(store.submit("Go."))
    started.wait(LONG)
    said.send("started")
    stopping.wait(LONG)
    store.close(5.0)
    said.send("closed")


@pytest.mark.slow
def test_sigterm(url):
    """A process that is told to end gives its runs to others."""
    with RunStore(url, slow_agent, lease=LONG_LEASE) as store, processes() as started:
        store.open()
        reading, writing = pipe()
        started.append(start(serve, url, writing))
        writing.close()
        id = reading.recv()
        assert reading.recv() == "started"
        os.kill(started[0].pid, signal.SIGTERM)
        assert reading.recv() == "closed"
        reading.close()
        until(lambda: not store.get(id).is_live)
        run = store.get(id)
        assert (run.state, run.attempt, run.crashes) == ("done", 2, 0)
        assert interrupted(run) == 0


def with_clock(url, id, offset, step, said):
    """Work on a run with the system's clock off, and stepped while it works."""
    real, offsets = time.time, [offset]
    time.time = lambda: real() + offsets[0]

    def make(run):
        offsets[0] += step
        return make_agent(run)

    with by_hand(url, make, lease=10.0) as store:
        drive(store, id)
        said.send(store.get(id).created_at)


@pytest.mark.slow
@pytest.mark.parametrize(("offset", "step"), [(3600, 0), (-3600, 0), (0, 7200)])
def test_clocks_that_are_wrong(url, offset, step, tmp_path):
    """Clocks of workers are never compared: nothing changes."""
    with RunStore(url, make_agent, lease=10.0) as store, processes() as started:
        store.open()
        with adder(url) as elsewhere:
            id = submit(elsewhere, "approved", tmp_path)
        reading, writing = pipe()
        started.append(start(with_clock, url, id, offset, step, writing))
        writing.close()
        assert abs(reading.recv() - time.time()) < 60
        reading.close()
        started[0].join(LONG)
        run = check_done(store, id)
        assert (run.attempt, run.crashes) == (2, 0)


def test_a_worker_that_lost_its_run_writes_nothing_more(url, tmp_path):
    """Another one has it, and works on it: the first is told at its next write."""
    others = []

    def at(operation, when):
        if operation == "checkpoint" and when == "before" and not others:
            store.backend.single("DELETE FROM syncagent_worker")
            others.append(store.backend._backend.claim(id, "other", "nonce"))

    store = by_hand(url, make_agent, lease=60.0)
    store.backend = Watched(store.backend, at, ("checkpoint",))
    with store:
        id = submit(store, "plain", tmp_path)
        assert store.work(id).cancellation.origin == "lost"
        run = store.get(id)
        assert (run.state, run.attempt, others[0].attempt) == ("running", 2, 2)
        assert effects(run) == []
        assert store.backend.tail(id) == b""


def test_a_crash_counts_and_five_are_enough(url, tmp_path):
    """A run that kills its workers fails in the end, and says so."""
    with adder(url) as elsewhere, RunStore(url, make_agent, max_crashes=2) as store:
        id = submit(elsewhere, "plain", tmp_path)
        for number in range(2):
            worker = f"dead-{number}"
            assert store.backend.claim(id, worker, worker) is not None
            recovered = store.backend.recover(10, 2)
            assert recovered.ids == ([id] if number == 0 else [])
        run = store.get(id)
        assert (run.state, run.crashes) == ("failed", 2)
        assert "gave up after 2 attempts" in run.error.message


def test_runs_of_a_dead_worker_beyond_the_room(url, tmp_path):
    """A process takes over more runs than it has threads, without waiting for beats."""
    with adder(url) as elsewhere:
        ids = [submit(elsewhere, "plain", tmp_path) for _ in range(12)]
        for id in ids:
            elsewhere.call(lambda store, id=id: store.claim(id, "dead", "nonce"))
    with RunStore(url, make_agent, lease=LONG_LEASE, max_workers=2) as store:
        finish_all(store, ids)
        for id in ids:
            assert check_done(store, id).attempt == 2


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("grace", [0.0, 5.0])
def test_claimed_while_the_store_closes(url, tmp_path, when, grace):
    """The run goes to another process at once, and nothing has crashed."""
    leaving = by_hand(url, make_agent, lease=LONG_LEASE)
    closing = threading.Thread(target=leaving.close, args=(grace,))

    def at(operation, moment):
        if moment == when:
            worker = leaving._worker
            closing.start()
            until(lambda: worker.is_leaving)

    leaving.backend = Watched(leaving.backend, at, ("claim",))
    with RunStore(url, make_agent, lease=LONG_LEASE) as staying:
        staying.open()
        id = submit(leaving, "plain", tmp_path)
        leaving.open()
        began = time.monotonic()
        leaving.work(id)
        closing.join(LONG)
        assert not closing.is_alive()
        until(lambda: not staying.get(id).is_live)
        assert time.monotonic() - began < 10, "it waited for a lease"
        run = staying.get(id)
        assert (run.state, run.crashes) == ("done", 0)
        assert len(effects(run)) == 2
