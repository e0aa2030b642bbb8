"""``manage.py migrate`` and the store's own migrations make the same tables."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.postgres import MISSING
from support.processes import script_environment
from support.threads import LONG

from syncagent.stores import RunStore
from syncagent.stores.schema import MIGRATIONS, VERSION

SITE = Path(__file__).parent / "admin_site.py"
LATEST = f"Tables of syncagent's store: version {{}} -> {VERSION}"


def manage(commands, *, database, store="django:default", code=0, **environment):
    """Run commands of the site, in one process; return their output."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", str(SITE), *commands.split()],
        env={
            **script_environment(),
            "DATABASE": str(database),
            "STORE": store,
            **environment,
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=2 * LONG,
        cwd=SITE.parent,
    )
    assert ended.returncode == code, ended.stdout
    return ended.stdout


@pytest.fixture
def url(cluster):
    """The URL of an empty schema."""
    if MISSING:
        pytest.skip(MISSING)
    return cluster.new_schema()


def versions(url):
    """Return the versions that the store's own migrations find, and leave."""
    return RunStore(url).backend.migrate()


@pytest.mark.slow
def test_from_nothing(url):
    """migrate makes the tables, once; the store's own command finds them."""
    out = manage("migrate then migrate", database=url)
    assert out.count(LATEST.format(0)) == 1
    assert versions(url) == (VERSION, VERSION)
    with RunStore(url, enqueue=lambda run: None) as store:
        id = store.submit("hello")
        manage("migrate syncagent zero", database=url)  # deletes nothing
        assert store.get(id).state == "queued"


@pytest.mark.slow
def test_from_an_older_version(url):
    """migrate brings tables of an older version up to date, with what is in them."""
    import psycopg

    version, statements = MIGRATIONS[0]
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE syncagent_schema (version integer NOT NULL)")
        connection.execute(f"INSERT INTO syncagent_schema VALUES ({version})")
        for statement in statements:
            connection.execute(statement)
    assert LATEST.format(version) in manage("migrate", database=url)
    assert versions(url) == (VERSION, VERSION)


@pytest.mark.slow
def test_after_the_command_of_the_store(url):
    """Tables that are there are left alone, also those that have runs."""
    assert versions(url) == (0, VERSION)
    with RunStore(url, enqueue=lambda run: None) as store:
        id = store.submit("hello")
        assert "Tables of syncagent" not in manage("migrate", database=url)
        assert store.get(id).state == "queued"


@pytest.mark.slow
def test_a_site_that_gets_a_store_later(url):
    """The migration was applied before there was a store, and the tables are made."""
    assert "Tables of syncagent" not in manage("migrate", database=url, store="")
    assert LATEST.format(0) in manage("migrate", database=url)


@pytest.mark.slow
def test_a_router_that_refuses(url):
    """It is respected, and manage.py check says so."""
    routers = {"ROUTERS": "admin_site.NoSyncagent"}
    out = manage("check then migrate", database=url, **routers)
    assert "syncagent.W004" in out
    assert versions(url)[0] == 0


@pytest.mark.slow
def test_a_store_elsewhere(url, tmp_path):
    """migrate makes no tables in the database of the site, and no file."""
    elsewhere = f"sqlite:///{tmp_path}/runs.db"
    manage("migrate", database=url, store=elsewhere)
    assert versions(url)[0] == 0
    manage("migrate", database=tmp_path / "db.sqlite3")
    assert [path.name for path in tmp_path.iterdir()] == ["db.sqlite3"]


@pytest.mark.slow
@pytest.mark.parametrize("store", ["", "django:default"])
def test_nothing_to_migrate_and_to_dump(tmp_path, store):
    """makemigrations has nothing to do, and dumpdata leaves the store out."""
    database = tmp_path / "db.sqlite3"
    commands = "check then makemigrations --check then migrate then dumpdata"
    out = manage(commands, database=database, store=store)
    assert "no issues" in out
    assert "No changes" in out
    out = out.rpartition("OK\n")[2]  # the end of migrate
    assert "auth.permission" in out
    assert '"model": "syncagent.' not in out


@pytest.mark.slow
def test_the_database_of_tests(cluster):
    """``manage.py test`` has the tables of the store in its own database."""
    if MISSING:
        pytest.skip(MISSING)
    out = manage("test admin_site", database=cluster.address)
    assert "\nOK\n" in out


@pytest.mark.slow
def test_check_without_endpoints(tmp_path):
    """A site with only the admin learns of a store that cannot be used."""
    database = tmp_path / "db.sqlite3"
    out = manage("check", database=database, store="django:nothing", code=1)
    assert "syncagent.E005" in out
    assert "DATABASES has no 'nothing'" in out
