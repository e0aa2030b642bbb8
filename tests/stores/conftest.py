"""The back ends that every test of a contract runs with."""

import pytest
from support import commands, postgres
from support.postgres import cluster  # noqa: F401

from syncagent.stores.sqlite import SQLite


@pytest.fixture(scope="session", autouse=True)
def _ready():
    commands.ready()


@pytest.fixture
def postgres_url(cluster):  # noqa: F811
    """Yield the URL of a store without tables; skip without PostgreSQL."""
    if postgres.MISSING:
        pytest.skip(postgres.MISSING)
    return cluster.new_schema()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, cluster, tmp_path):  # noqa: F811
    """Yield the URL of an empty store, of each kind; PostgreSQL may be missing."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store/runs.db"
    if postgres.MISSING:
        pytest.skip(postgres.MISSING)
    url = cluster.new_schema()
    backend = connect(url)
    backend.migrate()
    backend.close()
    return url


def connect(url):
    """Return the back end for a URL."""
    if url.startswith("sqlite:///"):
        return SQLite(url.removeprefix("sqlite:///"))
    from syncagent.stores.postgres import PostgreSQL

    return PostgreSQL(url)


@pytest.fixture
def connected(url):
    """Yield a function that opens the store once more, as another process does."""
    opened = []

    def again():
        opened.append(connect(url))
        return opened[-1]

    yield again
    for each in opened:
        each.close()


@pytest.fixture
def backend(connected):
    """Yield an empty store."""
    return connected()
