"""The engines, each with its servers; a test asks for ``crew``, and gets each one."""

import pytest
import redis_server
from celery_engine import CeleryEngine
from dbos_engine import DBOSEngine
from django_engine import DjangoHueyEngine, DjangoTasksEngine
from dramatiq_engine import DramatiqEngine
from engine import Crew
from huey_engine import HueyEngine
from procrastinate_engine import ProcrastinateEngine
from rq_engine import RQEngine
from support import postgres
from support.postgres import cluster

from syncagent.stores import RunStore

__all__ = ["cluster"]

#: Every engine that the conformance tests run on.
ENGINES = [
    CeleryEngine("threads"),
    CeleryEngine("prefork"),
    CeleryEngine("gevent"),
    DramatiqEngine(),
    HueyEngine("thread"),
    RQEngine(),
    ProcrastinateEngine(),
    DjangoTasksEngine(),
    DjangoHueyEngine(),
    DBOSEngine(),
]


def pytest_collection_modifyitems(items):
    """Keep the tests of an engine in one process of pytest: they share workers."""
    for item in items:
        engine = getattr(item, "callspec", None) and item.callspec.params.get(
            "any_crew"
        )
        if engine is not None:
            item.add_marker(pytest.mark.xdist_group(f"{engine!r} {item.path.name}"))


@pytest.fixture
def nothing_left():
    """Replace the fixture for all tests: servers and workers outlive a test here."""


@pytest.fixture(scope="session")
def redis():
    """Yield a Redis; None if there cannot be one."""
    if redis_server.SERVER is None:
        yield None
        return
    redis = redis_server.Redis()
    try:
        yield redis
    finally:
        redis.close()


def make_crew(engine, request):
    """Return the crew of an engine, or skip the test with the reason."""
    if engine.missing:
        pytest.skip(f"not installed: {', '.join(engine.missing)}")
    redis = None
    if engine.needs_redis:
        redis = request.getfixturevalue("redis")
        if redis is None:
            pytest.skip("Redis is not installed")
        redis.flush()
    url = ""
    if engine.database == "postgresql":
        if postgres.MISSING:
            pytest.skip(postgres.MISSING)
        url = request.getfixturevalue("cluster").new_schema()
    return Crew(engine, url, redis)


@pytest.fixture(scope="module", params=ENGINES, ids=repr)
def any_crew(request):
    """Yield the crew of each engine in turn, for all tests of a module."""
    crew = make_crew(request.param, request)
    try:
        yield crew
    finally:
        crew.close()


@pytest.fixture
def crew(any_crew):
    """Yield the crew of each engine in turn, and a look at its store."""
    with RunStore(any_crew.url) as store:
        any_crew.store = store
        yield any_crew
