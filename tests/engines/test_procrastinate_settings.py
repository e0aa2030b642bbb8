"""A worker of Procrastinate warns about settings that harm runs."""

from types import SimpleNamespace

import pytest

procrastinate = pytest.importorskip("procrastinate")
from syncagent.integrations.procrastinate import complaints  # noqa: E402

pytestmark = pytest.mark.engines


def complaints_of(name="work", *, task=None, **job):
    """Return the complaints about a job of a run, or of another task."""
    app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector())

    @app.task(name="work", queue="agents", **(task or {}))
    def work(run_id):
        task.work(run_id)

    @app.task(name="mail", lock="mail", queueing_lock="mail")
    def mail(run_id):
        """Do something that has nothing to do with runs."""

    deferrer = app.tasks[name].configure(**job)
    job = deferrer.job.evolve(task_kwargs={"run_id": "an id"})
    return list(complaints(SimpleNamespace(app=app, job=job)))


def test_the_recipe_is_fine():
    """Nothing is said about the settings of the recipe, nor about other tasks."""
    assert complaints_of() == []
    assert complaints_of(task={"retry": 3}) == []  # more deliveries are harmless
    assert complaints_of("mail") == []


@pytest.mark.parametrize("where", ["task", "job"])
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lock": "all"}, "no run with this lock begins any more"),
        ({"lock": "an id"}, "no run with this lock begins any more"),
        ({"queueing_lock": "all"}, "others are refused"),
    ],
)
def test_locks(where, settings, words):
    """A lock of the task counts, and so does one that a job alone has."""
    given = {"task": settings} if where == "task" else settings
    (complaint,) = complaints_of(**given)
    assert complaint.startswith("work has the ")
    assert words in complaint


def test_a_queueing_lock_for_each_run():
    """It only drops second deliveries, as the store does itself."""
    assert complaints_of(queueing_lock="an id") == []


def test_a_task_that_is_gone():
    """An old job may have a task that the worker does not know."""
    app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector())
    job = SimpleNamespace(task_name="gone", lock="x", queueing_lock=None)
    assert list(complaints(SimpleNamespace(app=app, job=job))) == []
