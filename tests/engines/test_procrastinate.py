"""Procrastinate and stored runs: threads, aborts, jobs of dead workers, defers."""

import asyncio  # noqa: TID251
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from procrastinate_engine import ProcrastinateEngine
from shop import SLOW
from steps import begin
from support.threads import LONG, until

procrastinate = pytest.importorskip("procrastinate")
from syncagent.integrations.procrastinate import connect  # noqa: E402

pytestmark = [
    pytest.mark.engines,
    pytest.mark.parametrize(
        "any_crew", [ProcrastinateEngine()], indirect=True, ids=repr
    ),
]

#: More than the threads of an event loop, which are four and one for each core.
MANY = (os.cpu_count() or 1) + 6
#: Asks Procrastinate to abort the job of a run.
_ABORT = """
import sys
from procrastinate_recipe import app
with app.open():
    (job,) = app.job_manager.list_jobs(status="doing", queue="agents")
    assert job.task_kwargs == {"run_id": sys.argv[1]}
    assert app.job_manager.cancel_job_by_id(job.id, abort=True)
"""
#: Has the jobs of dead workers done again, as Procrastinate's documentation shows it.
_RETRY_STALLED = """
import asyncio  # noqa: TID251
from procrastinate_recipe import app
async def retry():
    async with app.open_async():
        stalled = await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=0)
        for job in stalled:
            await app.job_manager.retry_job(job)
        print(len(list(stalled)))
asyncio.run(retry())
"""


def operate(crew, code, *args):
    """Run a program of an operator; return its output."""
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        env={**os.environ, **crew.environment},
        check=True,
        timeout=LONG,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def test_a_worker_has_a_thread_for_each_run(crew):
    """Runs do not wait for the few threads of the event loop."""
    crew.have(1)
    runs = [begin(crew, "held", "hold-0")[0] for _ in range(MANY)]
    for run in runs:
        crew.let_go(run)
    assert {crew.store.result(run.id, 20).text for run in runs} == {"All done."}


def test_an_abort_of_the_job_does_not_stop_the_run(crew):
    """Procrastinate asks the task to abort, which waits; the store's cancel counts."""
    (worker,) = crew.have(1)
    run, _ = begin(crew)
    operate(crew, _ABORT, run.id)
    crew.store.result(crew.submit("quick"), 20)
    assert crew.store.get(run.id).state == "running"
    assert crew.store.cancel(run.id).wait(5)
    assert worker.is_alive


def test_the_job_of_a_dead_worker_is_done_again(crew):
    """Procrastinate keeps it as "doing"; to retry it does no harm."""
    crew.have(2)
    run, pid = begin(crew)
    crew.worker_of(pid).kill()
    crew.let_go(run)
    crew.store.result(run.id, 20)
    assert operate(crew, _RETRY_STALLED).strip() == "1"
    crew.store.result(crew.submit("quick"), 20)
    until(lambda: operate(crew, _RETRY_STALLED).strip() == "0")
    run = crew.store.get(run.id)
    assert (run.state, run.attempt, crew.effects(run)) == ("done", 2, SLOW)


def test_defers_on_other_threads_do_not_hang(crew):
    """A store's own threads share the connections of the worker, through its loop."""
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=crew.url))

    @app.task(queue="nowhere", name="nothing")
    def nothing(number):
        raise AssertionError

    def defer():
        for number in range(20):
            nothing.defer(number=number)

    async def defer_async():
        for number in range(20):
            await nothing.defer_async(number=number)

    async def job():
        """Do nothing: the first job of a worker prepares it."""

    connect(app, crew.store)
    (prepared,) = app.worker_defaults["worker_middleware"]

    async def main():
        async with app.open_async():
            context = SimpleNamespace(app=app, job=SimpleNamespace(task_name="nothing"))
            await prepared(job, context, SimpleNamespace(concurrency=2, app=app))
            threads = [threading.Thread(target=defer, daemon=True) for _ in range(8)]
            for thread in threads:
                thread.start()
            await asyncio.gather(*(defer_async() for _ in range(8)))
            await asyncio.gather(
                *(asyncio.to_thread(thread.join, LONG) for thread in threads)
            )
            assert not any(thread.is_alive() for thread in threads)
            jobs = await app.job_manager.list_jobs_async(queue="nowhere")
            assert len(list(jobs)) == 2 * 8 * 20
            with pytest.raises(RuntimeError, match="same thread"):
                nothing.defer(number=0)  # the loop would wait for itself

    # Not on the main thread: there it would set handlers of signals.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, asyncio.wait_for(main(), LONG)).result()


def test_a_worker_for_one_run_at_a_time_is_warned_about(crew):
    """It says what the default of Procrastinate means for agents, and what to set."""
    crew.have(0)
    worker = crew.start(PROCRASTINATE_WORKER_CONCURRENCY="1")
    crew.store.result(crew.submit("quick"), 20)
    worker.wait_for("WARNING:syncagent.store:the worker of Procrastinate has")
    assert "--concurrency=20" in worker.text
