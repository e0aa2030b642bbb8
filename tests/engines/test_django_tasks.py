"""django.tasks and stored runs: transactions, reloads, tasks of dead workers."""

import os
import signal
import subprocess
import sys

import pytest
from django_engine import MANAGE, DjangoTasksEngine
from engine import Process
from shop import SLOW
from steps import begin
from support.threads import LONG, until

pytestmark = [
    pytest.mark.engines,
    pytest.mark.parametrize("any_crew", [DjangoTasksEngine()], indirect=True, ids=repr),
]

_NAMES = """
from django.db import transaction
from django_tasks_db.models import DBTaskResult
from syncagent.integrations.django.conf import get_runs
store = get_runs().store
labels = {"kind": "quick", "effects": "%s"}
"""
#: A view that fails after it has submitted a run.
_ROLLED_BACK = """
with transaction.atomic():
    print(store.submit("Go.", labels=labels))
    transaction.set_rollback(True)
"""
#: The same, as the documentation says.
_ON_COMMIT = """
with transaction.atomic():
    transaction.on_commit(lambda: print(store.submit("Go.", labels=labels)))
    transaction.set_rollback({})
"""
_COUNT = """
statuses = DBTaskResult.objects.values_list("status", flat=True)
print(*sorted(statuses))
"""


def operate(crew, code):
    """Run code in the site; return its output."""
    code = _NAMES % (crew.folder / "site.ledger") + code
    return subprocess.run(
        [sys.executable, MANAGE, "shell", "--no-imports", "--verbosity=0", "-c", code],
        env={**os.environ, **crew.environment},
        check=True,
        timeout=LONG,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.strip()


def test_a_run_of_a_transaction_that_is_rolled_back(crew):
    """The store has the run, because it has connections of its own; its task is lost.

    So the run begins when it is handed out again.
    """
    crew.have(0)
    id = operate(crew, _ROLLED_BACK)
    assert crew.store.get(id).state == "queued"
    assert operate(crew, _COUNT) == ""
    crew.have(1)
    crew.client.do("deliver", id, 1)  # as after 30 seconds
    assert crew.store.result(id, 20).text == "All done."


@pytest.mark.parametrize("is_rolled_back", [True, False])
def test_a_run_that_is_submitted_on_commit(crew, is_rolled_back):
    """It exists if and only if the transaction is committed."""
    crew.have(1)
    id = operate(crew, _ON_COMMIT.format(is_rolled_back))
    assert (id == "") == is_rolled_back
    if id:
        assert crew.store.result(id, 20).text == "All done."


def test_the_task_of_a_dead_worker_stays(crew):
    """django-tasks-db never looks at it again; the store hands out the run."""
    crew.have(2)
    run, pid = begin(crew)
    crew.worker_of(pid).kill()
    crew.let_go(run)
    crew.store.result(run.id, 20)
    run = crew.store.get(run.id)
    assert (run.state, run.attempt, crew.effects(run)) == ("done", 2, SLOW)
    assert "RUNNING" in until(lambda: operate(crew, _COUNT))


def test_a_worker_that_reloads_its_code(crew):
    """It has its task on another thread; SIGTERM releases the run, too."""
    crew.have(0)
    worker = Process(
        [*crew.engine.command, "--reload"],
        crew.environment,
        crew.folder / "reloads.log",
    )
    try:
        run, pid = begin(crew)
        os.kill(pid, signal.SIGTERM)
        worker.wait(10)
    finally:
        worker.kill()
    until(lambda: crew.store.get(run.id).state == "queued")
    crew.have(1)
    crew.store.result(run.id, 20)
    run = crew.store.get(run.id)
    assert (run.state, run.attempt, run.crashes) == ("done", 2, 0)
    assert crew.effects(run) == SLOW


def test_an_idle_worker_ends_at_once(crew):
    """It has no task, but the store open."""
    (worker,) = crew.have(1)
    crew.store.result(crew.submit("quick"), 20)
    worker.signal(signal.SIGTERM)
    assert worker.wait(10) == 0


#: A site without TASKS has this backend.
_IMMEDIATE = """
import logging, sys
from django.test import override_settings
logging.basicConfig(stream=sys.stdout, format="%(name)s %(message)s")
backend = "django.tasks.backends.immediate.ImmediateBackend"
with override_settings(TASKS={"default": {"BACKEND": backend, "QUEUES": ["agents"]}}):
    for _ in range(2):
        print(store.get(store.submit("Go.", labels=labels)).state)
"""


def test_tasks_that_are_worked_on_at_once(crew):
    """submit() works on the run itself, with Django's default; this is said once."""
    crew.have(0)
    lines = operate(crew, _IMMEDIATE).splitlines()
    assert [each for each in lines if each == "done"] == ["done"] * 2
    (warning,) = [each for each in lines if each.startswith("syncagent.store ")]
    assert "Django: ImmediateBackend" in warning
