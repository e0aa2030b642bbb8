"""The back ends that every test of a contract runs with."""

import pytest
from support import commands, postgres
from support.postgres import cluster  # noqa: F401

from syncagent.stores.sqlite import SQLite

#: Counts the connections of one test: they are named after its schema.
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"


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


# -- PostgreSQL alone ---------------------------------------------------------------


@pytest.fixture
def named_url(postgres_url):
    """Yield a URL whose connections can be told from those of other tests."""
    schema = postgres_url.rpartition("%3D")[2]
    return f"{postgres_url}&application_name={schema}"


@pytest.fixture
def store(named_url):
    """Yield a store with tables."""
    store = connect(named_url)
    store.migrate()
    yield store
    store.close()


@pytest.fixture
def other(named_url, store):
    """Yield the store of another process."""
    other = connect(named_url)
    yield other
    other.close()


@pytest.fixture
def connections(cluster, named_url):  # noqa: F811
    """Yield a function that counts the connections of this test."""
    name = named_url.rpartition("=")[2]
    return lambda: cluster.execute(CONNECTIONS, name)[0][0]
