"""Huey and stored runs: processes, Redis, timeouts, revokes."""

import signal

import pytest
from huey_engine import HueyEngine
from shop import LEAVING, SLOW
from steps import begin, check_done, check_released, check_resumed, on
from support.threads import LONG

from syncagent.exceptions import RunFailed

pytestmark = pytest.mark.engines

THREADS = HueyEngine("thread", "huey_wrong")
PROCESSES = HueyEngine("process", "huey_wrong")
REDIS = HueyEngine("thread", "huey_wrong", needs_redis=True)


@on(PROCESSES)
def test_sigterm_to_processes(crew):
    """Huey raises in the middle of a tool: it is cut off, and others resume the run."""
    crew.have(2)
    run, pid = begin(crew)
    worker = crew.worker_of(pid)
    worker.signal(signal.SIGTERM)
    check_resumed(crew, run)
    worker.wait(10)


@on(REDIS)
def test_sigterm_with_redis(crew):
    """A consumer that ends may still get the run that it has released; others retry."""
    crew.have(1)
    run, pid = begin(crew)
    crew.have(2)
    worker = crew.worker_of(pid)
    worker.signal(signal.SIGTERM)
    crew.pid_at(run, LEAVING)
    crew.let_go(run)
    check_released(crew, run)
    worker.wait(10)


@on(REDIS)
def test_killed_with_redis(crew):
    """Another consumer resumes the run when the lease is over."""
    crew.have(2)
    run, pid = begin(crew)
    crew.worker_of(pid).kill()
    check_resumed(crew, run)


@on(THREADS, PROCESSES)
def test_a_timeout(crew):
    """Threads ignore it; in a process it fails the run."""
    crew.have(1)
    run, _ = begin(crew, send={"timeout": 1})
    if crew.engine is PROCESSES:
        with pytest.raises(RunFailed, match="TaskTimeout"):
            crew.store.result(run.id, LONG)
        assert crew.effects(run) == SLOW[:2]
    else:
        crew.let_go(run)
        check_done(crew, run)


@on(THREADS)
def test_revoked(crew):
    """Huey drops the task; the store hands the run out again: that is no cancel."""
    crew.have(0)
    id = crew.submit("quick", is_revoked=True)
    (worker,) = crew.have(1)
    worker.wait_for("was revoked, not executing")
    assert crew.store.get(id).state == "queued"
    assert crew.store.cancel(id).wait(0)
    assert crew.store.get(id).attempt == 0


@on(THREADS)
def test_sigint_waits_for_the_run(crew):
    """Huey's graceful shutdown waits until its runs end, and takes no more."""
    crew.have(1)
    run, pid = begin(crew)
    worker = crew.worker_of(pid)
    worker.signal(signal.SIGINT)
    worker.wait_for("Shutting down gracefully")
    crew.let_go(run)
    check_done(crew, run)
    worker.wait(10)
