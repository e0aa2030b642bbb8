"""Celery and stored runs: revokes, time limits, redeliveries, greenlets."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from celery_engine import CeleryEngine
from steps import (
    begin,
    check_done,
    check_released_while_a_model_hangs,
    check_resumed,
    finished,
    on,
    outcomes,
)
from support.threads import LONG, until

from syncagent.exceptions import RunFailed

pytestmark = pytest.mark.engines

VISIBILITY = 1
#: Celery with settings that no recipe has: runs take longer than Redis waits for them.
THREADS = CeleryEngine(
    "threads",
    "celery_wrong",
    app={
        "task_acks_late": True,
        "broker_transport_options": {"visibility_timeout": VISIBILITY},
    },
)
QUICK = {"connect": {"grace": 0.5}}
PREFORK = CeleryEngine("prefork", "celery_wrong", **QUICK)
GEVENT = CeleryEngine("gevent")
#: Terminates the task that works on a run, as an operator would do it.
_REVOKE = """
import sys
from celery_wrong import app
for tasks in app.control.inspect(timeout=2).active().values():
    for task in tasks:
        if task["args"] == [sys.argv[1]]:
            app.control.revoke(task["id"], terminate=True)
"""


def revoke(crew, run):
    subprocess.run(
        [sys.executable, "-c", _REVOKE, run.id],
        env={**os.environ, **crew.environment},
        check=True,
        timeout=LONG,
    )


@on(THREADS)
def test_longer_than_the_visibility_timeout(crew):
    """Redis delivers it again while it runs; the store turns that away."""
    (first,) = crew.have(1)
    first.wait_for("acks_late")
    run, _ = begin(crew)
    old_at = time.monotonic() + VISIBILITY
    until(lambda: time.monotonic() > old_at)
    _, second = crew.have(2)  # a worker that starts looks for old messages
    until(lambda: (first.text + second.text).count("] received") > 1)
    until(lambda: "succeeded" in first.text + second.text)
    assert crew.store.get(run.id).state == "running"
    crew.let_go(run)
    check_done(crew, run)


@on(THREADS)
def test_revoked_on_threads(crew):
    """Celery cannot do it: the run goes on."""
    (worker,) = crew.have(1)
    run, _ = begin(crew)
    revoke(crew, run)
    worker.wait_for("does not implement kill_job")
    crew.let_go(run)
    check_done(crew, run)


@on(PREFORK)
def test_revoked_on_prefork(crew):
    """The child dies, and the run goes on in another: a revoke does not end it."""
    crew.have(1)
    run, pid = begin(crew)
    revoke(crew, run)
    until(lambda: not os.path.exists(f"/proc/{pid}"))
    check_resumed(crew, run, crashes=(0, 1))


@on(PREFORK)
def test_a_child_is_killed(crew):
    """Another child of the same worker resumes the run."""
    (worker,) = crew.have(1)
    run, pid = begin(crew)
    os.kill(pid, signal.SIGKILL)
    check_resumed(crew, run)
    assert worker.is_alive


@on(PREFORK)
def test_a_time_limit(crew):
    """It kills the child: the tool is cut off, and the run goes on in another."""
    crew.have(1)
    run, _ = begin(crew, send={"time_limit": 1})
    check_resumed(crew, run)


@on(PREFORK)
def test_a_soft_time_limit(crew):
    """It raises in the middle of the run, which has failed."""
    crew.have(1)
    run, _ = begin(crew, send={"soft_time_limit": 1})
    with pytest.raises(RunFailed, match="SoftTimeLimitExceeded"):
        crew.store.result(run.id, LONG)


@on(PREFORK)
@pytest.mark.parametrize("is_disabled", [True, False])
def test_prefetching(crew, is_disabled):
    """A run waits in a busy worker although another is idle, unless that is off."""
    crew.have(0)
    settings = {"app": {"worker_disable_prefetch": is_disabled}, **QUICK}
    busy = crew.start(CELERY_SETTINGS=json.dumps(settings))
    held = [begin(crew, "held", "hold-0")[0] for _ in range(4)]
    assert ("set it to True" in busy.text) == (not is_disabled)
    id = crew.submit("quick")
    if not is_disabled:
        until(lambda: busy.text.count("] received") == 5)
    crew.have(2)
    if is_disabled:
        assert crew.store.result(id, LONG).text == "All done."
    else:
        assert crew.store.get(id).state == "queued"
    for run in held:
        crew.let_go(run)
        assert finished(crew, run).attempt == 1
    assert crew.store.result(id, LONG).text == "All done."
    assert crew.effects(crew.store.get(id)) == ["charge-0", "charge-1"]


@on(PREFORK)
def test_sigterm_while_a_model_hangs(crew):
    """After the grace period children release their runs, and the worker ends."""
    check_released_while_a_model_hangs(crew)


@on(PREFORK)
def test_reject_on_worker_lost(crew):
    """The message comes back before the lease is over, and is turned away."""
    crew.have(0)
    names = ("task_acks_late", "task_reject_on_worker_lost")
    settings = {"app": dict.fromkeys(names, True), **QUICK}
    worker = crew.start(CELERY_SETTINGS=json.dumps(settings))
    run, pid = begin(crew)
    os.kill(pid, signal.SIGKILL)
    until(lambda: worker.text.count("] received") == 2)
    check_resumed(crew, run)


@on(PREFORK)
def test_a_cold_shutdown(crew):
    """It kills the children, and another worker resumes their runs."""
    crew.have(2)
    run, pid = begin(crew)
    worker = crew.worker_of(pid)
    worker.signal(signal.SIGQUIT)
    worker.wait(LONG)
    check_resumed(crew, run)


@on(THREADS, GEVENT)
def test_a_tool_that_computes(crew):
    """Threads bear it; greenlets lose the run: no one renews the lease meanwhile."""
    crew.have(2)
    run, _ = begin(crew, "busy", "compute-0")
    run = finished(crew, run)
    is_green = crew.engine is GEVENT
    assert (run.state, run.attempt) == ("done", 2 if is_green else 1)
    assert outcomes(run) == ["interrupted" if is_green else "done"]
    assert crew.effects(run) == ["compute-0"]
