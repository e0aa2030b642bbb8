"""DBOS and stored runs: cancels of workflows, and steps that are run again."""

import os
import subprocess
import sys

import pytest
from dbos_engine import DBOSEngine
from shop import SLOW
from steps import begin, check_done, finished
from support.threads import LONG

ENGINES = [DBOSEngine()]
pytestmark = [
    pytest.mark.engines,
    pytest.mark.parametrize("any_crew", ENGINES, indirect=True, ids=repr),
]

#: Cancels the workflow of a run, and waits until DBOS says so.
_CANCEL = """
import sys
from dbos_recipe import client
(id,) = (
    each.workflow_id for each in client.list_workflows(status="PENDING")
    if each.input["args"] == (sys.argv[1],)
)
client.cancel_workflow(id)
print(client.retrieve_workflow(id).get_status().status)
"""


def test_a_cancel_of_the_workflow_does_not_stop_the_run(crew):
    """DBOS sets a status; the step goes on, and the store's cancel counts."""
    crew.have(1)
    run, _ = begin(crew)
    cancelled = subprocess.run(
        [sys.executable, "-c", _CANCEL, run.id],
        env={**os.environ, **crew.environment},
        check=True,
        timeout=LONG,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert cancelled.stdout.strip() == "CANCELLED"
    crew.let_go(run)
    check_done(crew, run)


def test_a_worker_that_starts_runs_the_steps_of_others_again(crew):
    """Workers without ids of their own have the same; the store turns that away."""
    crew.have(1)
    run, pid = begin(crew)
    crew.have(2)
    _, starter = crew.workers
    starter.wait_for("Recovering 1 workflow")
    crew.let_go(run)
    run = finished(crew, run)
    assert (run.attempt, crew.pid_at(run, "charge-2")) == (1, pid)
    assert crew.effects(run) == SLOW
