"""The engines of the tests, with their servers, workers and a ledger of moments."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "engines"))

import redis_server
from celery_engine import CeleryEngine
from django_engine import DjangoTasksEngine
from dramatiq_engine import DramatiqEngine
from engine import Crew, Engine, until
from huey_engine import HueyEngine
from procrastinate_engine import ProcrastinateEngine
from rq_engine import RQEngine
from support import postgres

__all__ = ["ENGINES", "LedgerCrew", "Servers", "Threads", "until"]

ENGINES = [
    CeleryEngine("threads"),
    CeleryEngine("prefork"),
    DramatiqEngine(),
    HueyEngine("thread"),
    RQEngine(),
    ProcrastinateEngine(),
    DjangoTasksEngine(),
]


class Threads(Engine):  # type: ignore[misc]
    """No engine: threads of the process that submits."""

    recipe = "threads_recipe"

    def __init__(self, database: str) -> None:
        self.name = f"threads, {database}"
        self.database = database


class LedgerCrew(Crew):  # type: ignore[misc]
    """The processes of an engine, which note when they get a run."""

    def __init__(self, engine: Any, url: str, redis: Any) -> None:
        super().__init__(engine, url, redis)
        site = str(Path(__file__).parent / "engines_site")
        self.ledger = self.folder / "moments"
        self.environment["BENCHMARK_LEDGER"] = str(self.ledger)
        # Processes that wait for a broker do not need a short lease here.
        self.environment["STORE_LEASE"] = "15"
        self.environment["PYTHONPATH"] += os.pathsep + site

    def moment(self, what: str, id: str, number: int = 1) -> float:
        """Wait until something has happened to a run so often; return when."""

        def found() -> float | None:
            lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
            moments = [
                float(at)
                for kind, of, at in map(str.split, lines)
                if (kind, of) == (what, id)
            ]
            return moments[number - 1] if len(moments) >= number else None

        return float(until(found))


class Servers:
    """Starts the crews of engines, each with the servers that it needs."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._redis: Any = None
        self._cluster: Any = None

    def missing(self, engine: Any) -> str:
        """Return why an engine cannot be measured here; empty if it can."""
        if engine.missing:
            return f"not installed: {', '.join(engine.missing)}"
        if engine.needs_redis and redis_server.SERVER is None:
            return "Redis is not installed"
        return str(postgres.MISSING) if engine.database == "postgresql" else ""

    @contextmanager
    def crew(self, engine: Any) -> Iterator[LedgerCrew]:
        """Give the processes of an engine; no worker has begun."""
        redis, url = None, ""
        if engine.needs_redis:
            self._redis = self._redis or self._closed(redis_server.Redis())
            self._redis.flush()
            redis = self._redis
        if engine.database == "postgresql":
            # Four workers with four processes each have four connections each.
            self._cluster = self._cluster or self._closed(
                postgres.Cluster(max_connections=200)
            )
            url = self._cluster.new_schema()
        crew = LedgerCrew(engine, url, redis)
        try:
            yield crew
        finally:
            crew.close()

    def _closed(self, server: Any) -> Any:
        self._stack.callback(server.close)
        return server
