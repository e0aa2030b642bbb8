"""Modes in which an engine works on a run where it is submitted: the store says so."""

import logging

import pytest
from shop import make_agent

from syncagent.stores import RunStore

pytestmark = pytest.mark.engines

STORES = []


def work(run_id):
    """Work on a run; RQ finds its functions by name."""
    STORES[-1].work(run_id)


def with_celery(request):
    celery = pytest.importorskip("celery")
    app = celery.Celery("shop", broker="memory://", set_as_current=False)
    app.conf.task_always_eager = True
    return app.task(work, shared=False).delay


def with_huey(request):
    queue = pytest.importorskip("huey").MemoryHuey(immediate=True)
    return queue.task()(work)


def with_rq(request):
    rq = pytest.importorskip("rq")
    server = request.getfixturevalue("redis")
    if server is None:
        pytest.skip("Redis is not installed")
    from redis import Redis

    connection = Redis.from_url(server.url)
    request.addfinalizer(connection.close)
    queue = rq.Queue("runs", connection=connection, is_async=False)
    return lambda id: queue.enqueue(work, id, job_timeout=-1)


@pytest.mark.parametrize("engine", [with_celery, with_huey, with_rq])
def test_it_is_said_once(engine, request, tmp_path, caplog):
    """submit() returns when the run has ended; the warning names the settings."""
    send = engine(request)
    caplog.set_level(logging.WARNING, "syncagent.store")
    url = f"sqlite:///{tmp_path}/runs.db"
    with RunStore(url, make_agent, lambda run: send(run.id)) as store:
        STORES.append(store)
        labels = {"kind": "quick", "effects": str(tmp_path / "ledger")}
        ids = [store.submit("Go.", labels=labels) for _ in range(2)]
        assert {store.get(id).state for id in ids} == {"done"}
    (record,) = [each for each in caplog.records if each.name == "syncagent.store"]
    assert "Celery: task_always_eager, Huey: immediate" in record.getMessage()
