"""PostgreSQL: connections, cuts, errors and the schema."""

import subprocess
import sys
import threading

import pytest
from support import postgres
from support.stored_runs import delta, new_run, running
from support.threads import LONG, meanwhile, together, until

from syncagent.exceptions import ConfigurationError, StoreUnavailable
from syncagent.stores.schema import VERSION

pytestmark = pytest.mark.skipif(bool(postgres.MISSING), reason=postgres.MISSING)

if not postgres.MISSING:
    from syncagent.stores.postgres import PostgreSQL


def test_psycopg_is_imported_only_for_postgresql():
    """Without it a store in SQLite works, and the message names the extra."""
    script = (
        "import sys; sys.modules['psycopg'] = None\n"
        "import syncagent.stores.sqlite, syncagent.exceptions\n"
        "try:\n"
        "    import syncagent.stores.postgres\n"
        "except syncagent.exceptions.ConfigurationError as error:\n"
        "    print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=LONG,
    )
    assert 'pip install "syncagent[postgres]"' in ended.stdout


# -- connections -------------------------------------------------------------------


def test_each_thread_has_a_connection(store, connections):
    """It is opened by the first operation; close() closes them all."""
    store.read("a")
    assert connections() == 1
    together(*[lambda: store.read("a")] * 3)
    assert 2 <= connections() <= 4
    store.close()
    until(lambda: connections() == 0)
    assert store.read("a") is None


def test_the_connection_of_a_dead_thread_is_closed(store, connections):
    """When another thread opens one."""
    is_dead = threading.Event()

    def later():
        is_dead.wait(LONG)
        store.read("a")

    with meanwhile(later):
        together(lambda: store.read("a"))
        assert connections() == 1
        is_dead.set()
    until(lambda: connections() == 1)


def test_a_connection_that_breaks_is_opened_again(store, cluster, connections):
    """The operation fails, and the next one succeeds."""
    store.read("a")
    cluster.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name <> '' AND pid <> pg_backend_pid()"
    )
    with pytest.raises(StoreUnavailable, match="not available"):
        store.read("a")
    assert store.read("a") is None
    assert connections() == 1


@pytest.mark.slow
def test_a_server_that_crashes_is_used_again():
    """Operations fail while it is away; what was committed is there."""
    cluster = postgres.Cluster()
    try:
        store = PostgreSQL(cluster.new_schema())
        store.migrate()
        id = running(store)
        cluster.crash()
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                store.read(id)
        cluster.start()
        assert store.checkpoint(id, 1, delta(0, "x")).is_stored
        store.close()
    finally:
        cluster.close()


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_cut_ends_a_statement_that_blocks(store, other, has_begun):
    """Its thread gets StoreUnavailable at once, in a transaction and outside."""
    id = running(store)
    thread, errors = [], []

    def blocked():
        thread.append(threading.get_ident())
        try:
            if has_begun:
                other.claim(id, "w2", "n")
            else:
                other.checkpoint(id, 1, delta())
        except StoreUnavailable as error:
            errors.append(error)

    with store.transaction() as do:
        store.lock_run(do, id)
        with meanwhile(blocked):
            until(
                lambda: do.rows(
                    "SELECT 1 FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid "
                    "FROM pg_stat_activity WHERE datname = current_database())"
                )
            )
            other.cut(thread[0])
    assert "closed the connection" in str(errors[0])
    other.cut(thread[0])
    other.cut(1)
    assert store.checkpoint(id, 1, delta()).is_stored


def test_a_thread_that_cuts_itself_closes_its_connection(store, connections):
    """So a thread that ends leaves nothing behind."""
    store.read("a")
    store.cut(threading.get_ident())
    until(lambda: connections() == 0)


def test_closing_ends_statements_that_block(store, other, connections):
    """Connections of other threads are closed, also those in use."""
    id = running(store)

    def blocked():
        with pytest.raises(StoreUnavailable):
            other.claim(id, "w2", "n")

    with store.transaction() as do:
        store.lock_run(do, id)
        with meanwhile(blocked):
            until(lambda: do.rows("SELECT 1 FROM pg_locks WHERE NOT granted"))
            other.close()
    until(lambda: connections() == 1)


def test_an_error_inside_a_transaction_undoes_it(store):
    """The connection stays usable, and nothing is stored."""
    with pytest.raises(ZeroDivisionError), store.transaction() as do:
        do.rows("INSERT INTO syncagent_worker VALUES ('w', 'h', 1, 'v', 0)")
        raise ZeroDivisionError
    assert store.single("SELECT 1 FROM syncagent_worker") == []


def test_a_frozen_process_loses_its_transaction(store, other):
    """Its locks would keep a run from being cancelled; the limit is 10 seconds."""
    with store.transaction() as do:
        shown = do.rows("SHOW idle_in_transaction_session_timeout")
    assert shown == [("10s",)]
    assert store.single("SHOW idle_in_transaction_session_timeout") == [("0",)]


def test_statements_are_prepared(store):
    """Those that are used often."""
    for _ in range(5):
        store.read("a")
    assert store.single("SELECT count(*) FROM pg_prepared_statements")[0][0] >= 1


def test_a_pool_that_shares_sessions_ends_the_preparing(store):
    """A statement that another session prepared is missing: the next try has none."""
    for _ in range(5):
        store.read("a")
    store.single("DO 'BEGIN EXECUTE ''DEALLOCATE ALL''; END'")
    with pytest.raises(StoreUnavailable):
        store.read("a")
    for _ in range(5):
        assert store.read("a") is None
    assert store.single("SELECT count(*) FROM pg_prepared_statements") == [(0,)]


# -- errors ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    ["postgresql://anna:s3cret@[::1", "postgresql://a:s3cret@h/d?nonsense=1"],
)
def test_a_wrong_url_is_refused(url):
    """Without the password in the message."""
    with pytest.raises(ConfigurationError, match="URL of the store") as raised:
        PostgreSQL(url)
    assert "s3cret" not in str(raised.value)
    assert raised.value.__suppress_context__


def test_a_server_that_is_away(cluster):
    """The message says where it was looked for, without the password."""
    store = PostgreSQL(f"postgres://anna:s3cret@/db?host={cluster.folder}/none")
    with pytest.raises(StoreUnavailable, match="none") as raised:
        store.read("a")
    assert "s3cret" not in str(raised.value)


def test_missing_tables(postgres_url):
    """The message says how to make them."""
    store = PostgreSQL(postgres_url)
    for operation in (
        lambda: store.read("a"),
        store.check,
        lambda: store.find(None, None, 1),
    ):
        with pytest.raises(ConfigurationError, match="syncagent store migrate"):
            operation()
    store.close()


def test_text_that_cannot_be_stored(store):
    """It is the caller's mistake, and repeating it does not help."""
    with pytest.raises(ConfigurationError, match="NUL"):
        store.add(new_run(owner="an\0na"), None)
    assert store.add(new_run(), None) == "added"


def test_a_user_without_rights(store, cluster, named_url):
    """The message names the rights that are missing."""
    store.migrate()
    cluster.execute("DROP ROLE IF EXISTS guest")
    cluster.execute("CREATE ROLE guest LOGIN")
    schema = store.single("SELECT current_schema()")[0][0]
    cluster.execute(f"GRANT USAGE ON SCHEMA {schema} TO guest")
    guest = PostgreSQL(named_url.replace("user=postgres", "user=guest"))
    with pytest.raises(ConfigurationError, match="grant SELECT"):
        guest.read("a")
    guest.close()


@pytest.mark.slow
def test_a_deadlock_is_an_error_that_passes(store, other):
    """One of two that wait for each other is told to try again."""
    running(store, "a")
    running(store, "b")
    errors = []

    def lock(backend, first, second, barrier):
        try:
            with backend.transaction() as do:
                backend.lock_run(do, first)
                barrier.wait(LONG)
                backend.lock_run(do, second)
        except StoreUnavailable as error:
            errors.append(str(error))

    barrier = threading.Barrier(2)
    together(
        lambda: lock(store, "public-a", "public-b", barrier),
        lambda: lock(other, "public-b", "public-a", barrier),
    )
    assert len(errors) == 1
    assert "deadlock" in errors[0]


# -- the schema --------------------------------------------------------------------


def test_migrating_twice_at_once(postgres_url):
    """One makes the tables, the other waits, and finds them."""
    stores = [PostgreSQL(postgres_url) for _ in range(3)]
    versions = []
    together(
        *(lambda store=store: versions.append(store.migrate()) for store in stores)
    )
    assert sorted(versions) == [(0, VERSION), (VERSION, VERSION), (VERSION, VERSION)]


def test_a_newer_major_version_is_refused(store, other):
    """Nothing is read or migrated; a newer minor one is fine."""
    store.single("UPDATE syncagent_schema SET version = version + 1")
    assert other.read("a") is None
    assert other.migrate() == (VERSION + 1, VERSION + 1)
    other.close()
    store.single("UPDATE syncagent_schema SET version = 900")
    for operation in (lambda: other.read("a"), other.migrate, other.check):
        with pytest.raises(ConfigurationError, match="upgrade syncagent"):
            operation()


def test_an_older_version_has_to_be_migrated(store, other):
    """The message says how."""
    store.single("UPDATE syncagent_schema SET version = 1")
    with pytest.raises(ConfigurationError, match="syncagent store migrate"):
        other.read("a")


def test_a_check_tells_the_facts(store):
    """Versions, safety of commits, connections, and that hints arrive."""
    facts = store.check()
    assert facts["database"].startswith("PostgreSQL ")
    assert facts["schema"] == str(VERSION)
    assert facts["synchronous_commit"] == "on"
    assert facts["connections"].endswith(" of 60")
    assert facts["hints"] == "NOTIFY"
