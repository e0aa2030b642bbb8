"""A worker of Celery warns about settings that harm runs."""

import pytest

from syncagent.integrations.celery import _Shutdown
from syncagent.integrations.celery_settings import complaints
from syncagent.stores import RunStore

pytestmark = pytest.mark.engines

GOOD = {"worker_prefetch_multiplier": 1, "worker_disable_prefetch": True}


def complaints_of(pool="prefork", url="redis://localhost", settings=None, **task):
    """Return the complaints about an app with settings and one task."""
    celery = pytest.importorskip("celery")
    app = celery.Celery("shop", broker=url, set_as_current=False)
    app.conf.update(GOOD)
    app.conf.update(settings or {})

    @app.task(name="shop.work", shared=False, **{"ignore_result": True, **task})
    def work(run_id):
        task.work(run_id)

    @app.task(name="shop.mail", shared=False, acks_late=True, time_limit=3)
    def mail(address):
        """Do something that has nothing to do with runs."""

    return list(complaints(app, pool))


@pytest.mark.parametrize("pool", ["prefork", "thread", "solo"])
def test_the_recipe_is_fine(pool):
    """Nothing is said about the settings of the recipe, nor about other tasks."""
    assert complaints_of(pool) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"worker_prefetch_multiplier": 4}, "set it to 1"),
        ({"worker_disable_prefetch": False}, "set it to True"),
        ({"task_acks_late": True}, "more than 3600 seconds"),
        ({"task_time_limit": 60}, "60 seconds: its process is killed"),
        ({"task_soft_time_limit": 50}, "50 seconds: it fails the run"),
    ],
)
def test_settings_of_the_app(settings, words):
    """Each one is named, with its effect and the setting to use instead."""
    (complaint,) = complaints_of(settings=settings)
    assert words in complaint
    assert next(iter(settings)).removeprefix("task_").split("_")[0] in complaint


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"acks_late": True}, "set acks_late=False"),
        ({"time_limit": 60}, "use submit(timeout=)"),
        ({"soft_time_limit": 60}, "use submit(timeout=)"),
        ({"autoretry_for": (OSError,)}, "remove it"),
    ],
)
def test_settings_of_the_task(task, words):
    """The task is named, too."""
    (complaint,) = complaints_of(**task)
    assert complaint.startswith("shop.work ")
    assert words in complaint


def test_results_that_are_stored():
    """The result of a run is in its row."""
    settings = {"result_backend": "redis://localhost"}
    (complaint,) = complaints_of(settings=settings, ignore_result=False)
    assert "set ignore_result=True" in complaint


def test_time_limits_of_threads():
    """Celery does not enforce them on threads, so they do no harm."""
    assert complaints_of("thread", time_limit=60, soft_time_limit=50) == []


def test_a_worker_that_cannot_open_the_store(caplog, tmp_path):
    """It says why in one line, and still waits for its end."""
    pytest.importorskip("celery")
    store = RunStore(f"sqlite:///{tmp_path}/runs.db")
    store.close()
    shutdown = _Shutdown(None, store, 0)
    shutdown.prepare()
    shutdown.begin()
    shutdown._open_and_close()
    for end in shutdown._ends:
        end.close()
    (record,) = caplog.records
    assert "the store is closed" in record.getMessage()


def test_greenlets():
    """A tool that computes stops all runs of the worker."""
    (complaint,) = complaints_of("gevent")
    assert "use -P threads" in complaint


def test_rabbitmq_cannot_disable_prefetching():
    """The setting is not asked for where it has no effect."""
    settings = {"worker_disable_prefetch": False}
    assert complaints_of(url="amqp://localhost", settings=settings) == []
