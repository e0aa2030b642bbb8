"""Every engine carries runs to workers; what it does wrong does no harm."""

import signal

import pytest
from engine import LEASE
from shop import LEAVING, SLOW
from steps import begin, check_resumed, finished, outcomes
from support.threads import until

from syncagent.testing import FakeServer, Send, Stall, say

pytestmark = pytest.mark.engines


def test_runs_are_done(crew):
    """Each run is worked on once, by one of the workers."""
    crew.have(2)
    ids = [crew.submit("quick") for _ in range(5)]
    for id in ids:
        assert crew.store.result(id, 20).text == "All done."
        run = crew.store.get(id)
        assert (run.state, run.attempt) == ("done", 1)
        assert crew.effects(run) == ["charge-0", "charge-1"]


def test_cancelled_while_it_is_queued(crew):
    """No worker begins it, although the engine delivers it."""
    crew.have(0)
    id = crew.submit("quick")
    assert crew.store.cancel(id, "not needed").wait(0)
    crew.have(1)
    after = crew.submit("quick")
    crew.store.result(after, 20)
    run = crew.store.get(id)
    assert (run.state, run.attempt, run.cancel.reason) == ("cancelled", 0, "not needed")
    assert crew.effects(run) == []


def test_cancelled_while_a_tool_runs(crew):
    """It ends at once, no tool follows, and its worker takes other runs."""
    workers = crew.have(2)
    run, _ = begin(crew, "slow", "hold-1")
    receipt = crew.store.cancel(run.id, "enough")
    assert receipt
    assert receipt.wait(5)
    run = crew.store.get(run.id)
    assert (run.state, run.cancel.reason, run.attempt) == ("cancelled", "enough", 1)
    assert crew.effects(run) == ["charge-0", "hold-1"]
    ids = [crew.submit("quick") for _ in workers]
    assert [crew.store.result(id, 20).text for id in ids] == ["All done."] * 2


def test_cancelled_while_a_model_streams(crew):
    """It ends at once, and hangs up on the provider."""
    crew.have(1)
    with FakeServer([say("never said", acts=[Send(3), Stall()])]) as server:
        id = crew.submit("remote", server=server.base_url)
        until(lambda: server.requests)
        assert crew.store.cancel(id).wait(5)
        server.wait_for_hang_up()
    run = crew.store.get(id)
    assert (run.state, run.attempt) == ("cancelled", 1)


def test_cancelled_while_it_waits_for_an_approval(crew):
    """It ends at once, and a late delivery does not wake it."""
    crew.have(1)
    id = crew.submit("approved")
    run = until(lambda: waiting(crew, id))
    assert crew.store.cancel(id).wait(0)
    crew.client.do("deliver", id, 2)
    assert crew.store.answer(id, {run.interrupts[0].id: True})
    assert crew.store.result(crew.submit("quick"), 20).text == "All done."
    run = crew.store.get(id)
    assert (run.state, run.attempt) == ("cancelled", 1)
    assert crew.effects(run) == []


def waiting(crew, id):
    run = crew.store.get(id)
    return run if run.state == "waiting" else None


def test_cancelled_when_it_has_just_ended(crew):
    """The receipt is false, and nothing changes."""
    crew.have(1)
    id = crew.submit("quick")
    crew.store.result(id, 20)
    assert not crew.store.cancel(id)
    assert crew.store.get(id).state == "done"


def test_delivered_several_times(crew):
    """One worker has the run; all other deliveries are turned away."""
    crew.have(2)
    run, _ = begin(crew, "slow", "hold-1")
    crew.client.do("deliver", run.id, 6)
    # Deliveries are taken in order: when this one is done, most of them were seen.
    crew.store.result(crew.submit("quick"), 20)
    crew.let_go(run)
    run = finished(crew, run)
    crew.client.do("deliver", run.id, 3)
    crew.store.result(crew.submit("quick"), 20)
    run = crew.store.get(run.id)
    assert (run.state, run.attempt) == ("done", 1)
    assert crew.effects(run) == SLOW


@pytest.mark.parametrize("who", ["client", "observer"])
def test_an_answer_resumes_it_on_a_worker(crew, who):
    """A parked run has no worker; its answer may come from any process."""
    crew.have(2)
    id = crew.submit("approved")
    run = until(lambda: waiting(crew, id))
    assert crew.effects(run) == []
    if who == "client":
        assert list(crew.client.do("answer", id, True).values()) == ["taken"]
    else:  # it has no engine: a process that has one is told to hand the run out
        crew.store.answer(id, {run.interrupts[0].id: True})
    run = finished(crew, run)
    assert (run.state, run.attempt) == ("done", 2)
    assert crew.effects(run) == ["refund-0", "charge-1"]


def test_killed_in_the_middle_of_a_tool(crew):
    """Another worker resumes it: no tool is repeated, the cut one is interrupted."""
    crew.have(2)
    run, pid = begin(crew, "slow", "hold-1")
    crew.worker_of(pid).kill()
    check_resumed(crew, run)


def test_a_worker_that_was_idle_takes_over(crew):
    """It has had no task yet, and there is no web application to hand the run out."""
    crew.have(0)
    (first,) = crew.have(1)
    run, _ = begin(crew, "slow", "hold-1")
    crew.have(2)
    crew.client.kill()
    first.kill()
    run = finished(crew, run)
    assert (run.state, run.attempt, run.crashes) == ("done", 2, 1)
    assert crew.effects(run) == SLOW


def test_sigterm_in_the_middle_of_a_tool(crew):
    """The tool may finish; another worker resumes the run, and this one ends."""
    crew.have(2)
    run, pid = begin(crew, "slow", "hold-1")
    worker = crew.worker_of(pid)
    others = [begin(crew, "slow", "hold-1") for _ in range(crew.engine.runs_at_once)]
    worker.signal(signal.SIGTERM)
    crew.pid_at(run, LEAVING)
    for each, _ in [(run, pid), *others]:
        crew.let_go(each)
    run = finished(crew, run)
    worker.wait(10)
    assert (run.state, run.attempt, run.crashes) == ("done", 2, 0)
    assert outcomes(run) == ["done"] * 3
    assert crew.effects(run) == SLOW
    for each, _ in others:
        assert crew.effects(finished(crew, each)) == SLOW


def test_the_broker_is_away_when_a_run_is_submitted(crew):
    """The row is there: once the broker is back, a worker gets it."""
    if not crew.engine.has_broker:
        pytest.skip("its broker is the database of the store, or a file")
    crew.have(0)
    crew.client.do("answer", crew.submit("quick"), True)  # it is connected
    crew.redis.stop()
    try:
        id = crew.submit("quick")
        assert crew.store.get(id).state == "queued"
    finally:
        crew.redis.start()
    crew.have(1)
    crew.store.backend.deliver_now(id)  # as if 30 seconds had passed
    assert crew.store.result(id, 20).text == "All done."
    run = crew.store.get(id)
    assert (run.attempt, crew.effects(run)) == (1, ["charge-0", "charge-1"])


def test_nothing_is_left(crew):
    """At the end no run is live, and no worker counts as dead with one."""
    crew.have(1)
    until(lambda: not crew.store.list(live=True), 4 * LEASE + 10)
