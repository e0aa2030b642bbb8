"""RQ and stored runs: stopped jobs, timeouts, workers that do not fork, warnings."""

import os
import signal
import types

import pytest
from rq_engine import RQEngine
from shop import LEAVING, SLOW
from steps import begin, check_released, check_resumed, on
from support.threads import LONG, until

from syncagent.exceptions import RunFailed

pytestmark = pytest.mark.engines

FORKING = RQEngine("rq_wrong")
SIMPLE = RQEngine("rq_wrong", "SimpleRunWorker")


@on(FORKING)
def test_a_job_is_stopped(crew):
    """RQ kills the work horse, and the run goes on in another: that is no cancel."""
    from redis import Redis
    from rq.command import send_stop_job_command

    crew.have(1)
    run, pid = begin(crew)
    with Redis.from_url(crew.redis.url) as redis:
        send_stop_job_command(redis, run.id)
    until(lambda: not os.path.exists(f"/proc/{pid}"))
    check_resumed(crew, run)


@on(FORKING)
def test_a_work_horse_is_killed(crew):
    """Another worker resumes the run; the worker of the work horse takes others."""
    (worker,) = crew.have(1)
    run, pid = begin(crew)
    os.kill(pid, signal.SIGKILL)
    check_resumed(crew, run)
    assert worker.is_alive


@on(FORKING)
def test_a_timeout(crew):
    """It fails the run; the worker warns of it."""
    (worker,) = crew.have(1)
    run, _ = begin(crew, send={"job_timeout": 1})
    with pytest.raises(RunFailed, match="JobTimeoutException"):
        crew.store.result(run.id, LONG)
    assert crew.effects(run) == SLOW[:2]
    worker.wait_for("rq_wrong.work has a timeout of 1 seconds")


@on(SIMPLE)
def test_sigterm_to_workers_that_do_not_fork(crew):
    """The tool may finish; another worker resumes the run, and this one ends."""
    crew.have(2)
    run, pid = begin(crew)
    worker = crew.worker_of(pid)
    worker.signal(signal.SIGTERM)
    crew.pid_at(run, LEAVING)
    crew.let_go(run)
    check_released(crew, run)
    worker.wait(10)


def test_only_jobs_of_runs_are_complained_about():
    """Other jobs may have timeouts, and functions that cannot be imported."""
    pytest.importorskip("rq")
    from syncagent.integrations.rq import complaints

    def work(run_id):
        types.work(run_id)

    def job(function, timeout):
        return types.SimpleNamespace(func=function, func_name="f", timeout=timeout)

    assert len(list(complaints(job(work, 180)))) == 1
    assert list(complaints(job(work, -1))) == []
    assert list(complaints(job(print, 180))) == []
    assert list(complaints(types.SimpleNamespace(timeout=180))) == []
