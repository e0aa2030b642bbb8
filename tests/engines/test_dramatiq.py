"""Dramatiq and stored runs: time limits, shutdowns, fetching, and its warnings."""

import signal

import pytest
from dramatiq_engine import DramatiqEngine
from steps import (
    begin,
    check_done,
    check_released_while_a_model_hangs,
    check_resumed,
    finished,
    on,
)
from support.threads import until

pytestmark = pytest.mark.engines

DRAMATIQ = DramatiqEngine("dramatiq_wrong")


@on(DRAMATIQ)
def test_a_time_limit(crew):
    """It cuts the tool off, and another worker resumes the run."""
    crew.have(2)
    run, _ = begin(crew, send={"time_limit": 500, "max_retries": 3, "min_backoff": 1})
    check_resumed(crew, run)


@on(DRAMATIQ)
def test_notified_of_a_shutdown(crew):
    """It cuts the tool off, without grace; another worker resumes the run."""
    crew.have(2)
    run, pid = begin(crew, send={"notify_shutdown": True})
    worker = crew.worker_of(pid)
    worker.signal(signal.SIGTERM)
    check_resumed(crew, run, crashes=(0, 1))  # it may have been released before
    worker.wait(10)


@on(DRAMATIQ)
def test_sigterm_while_a_model_hangs(crew):
    """After the grace period the worker releases its run, and ends."""
    check_released_while_a_model_hangs(crew)


@on(DRAMATIQ)
@pytest.mark.parametrize("fetched", [4, 8])
def test_fetching(crew, fetched):
    """A run waits in a busy worker that fetches more than it has threads for."""
    crew.have(0)
    busy = crew.start(dramatiq_queue_prefetch=str(fetched))
    held = [begin(crew, "held", "hold-0")[0] for _ in range(4)]
    assert ("set it to 4" in busy.text) == (fetched > 4)
    id = crew.submit("quick")
    if fetched > 4:
        until(lambda: crew.redis.is_empty("dramatiq:default"))
    crew.have(2)
    if fetched > 4:
        assert crew.store.get(id).state == "queued"
        crew.store.backend.deliver_now(id)  # as if 30 seconds had passed
    assert crew.store.result(id, 20).text == "All done."
    for run in held:
        crew.let_go(run)
        assert finished(crew, run).attempt == 1


@on(DRAMATIQ)
def test_a_retry(crew):
    """It is one more delivery, and there is nothing to do."""
    crew.have(1)
    run, _ = begin(crew, send={"max_retries": 3, "min_backoff": 1})
    crew.let_go(run)
    check_done(crew, run)
