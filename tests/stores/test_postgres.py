"""PostgreSQL: connections, hints, cuts, forks, errors and the schema."""

import os
import subprocess
import sys
import threading

import pytest
from support import postgres
from support.processes import in_child
from support.stored_runs import (
    DONE,
    batch,
    cancel,
    delta,
    new_run,
    running,
    until,
)
from support.threads import LONG, meanwhile, together

from syncagent.exceptions import ConfigurationError, StoreUnavailable
from syncagent.stores.schema import VERSION

pytestmark = pytest.mark.skipif(bool(postgres.MISSING), reason=postgres.MISSING)

if not postgres.MISSING:
    from syncagent.stores.postgres import PostgreSQL

#: Counts the connections of one test: they are named after its schema.
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"


@pytest.fixture
def named_url(postgres_url):
    """Yield a URL whose connections can be told from those of other tests."""
    schema = postgres_url.rpartition("%3D")[2]
    return f"{postgres_url}&application_name={schema}"


@pytest.fixture
def store(named_url):
    """Yield a store with tables."""
    store = PostgreSQL(named_url)
    store.migrate()
    yield store
    store.close()


@pytest.fixture
def other(named_url, store):
    """Yield the store of another process."""
    other = PostgreSQL(named_url)
    yield other
    other.close()


@pytest.fixture
def connections(cluster, named_url):
    """Yield a function that counts the connections of this test."""
    name = named_url.rpartition("=")[2]
    return lambda: cluster.execute(CONNECTIONS, name)[0][0]


class Listener:
    """A thread that listens for hints."""

    def __init__(self, store, on_hint=None):
        self.heard = []
        self.errors = []
        self._store = store
        self._on_hint = on_hint or self.heard.append
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self):
        try:
            self._store.listen("w1", self._on_hint)
        except StoreUnavailable as error:
            self.errors.append(error)

    def ids(self):
        return [id for ids in self.heard for id in ids]

    def end(self):
        self._store.stop_listening()
        self.join()

    def join(self):
        self.thread.join(LONG)
        assert not self.thread.is_alive()


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


# -- hints -------------------------------------------------------------------------


def test_hints_arrive(store, other):
    """After the first look, and with run ids only; not those of this process."""
    listener = Listener(other)
    until(lambda: listener.heard)
    assert listener.heard == [()]
    id = running(store)
    running(other, "b", worker="w2")
    other.cancel("public-b", cancel())
    store.cancel(id, cancel())
    until(lambda: "run-a" in listener.ids())
    store.finish(id, 1, DONE, None, batch(1, "{}"))
    store.hint(["run-x", "run-x", "run-y"])
    until(lambda: "run-y" in listener.ids())
    assert set(listener.ids()) == {"run-a", "run-x", "run-y"}
    listener.end()
    assert not listener.errors


def test_a_long_hint_is_the_hint_to_look_at_everything(store, other):
    """PostgreSQL takes 8000 bytes."""
    listener = Listener(other)
    until(lambda: listener.heard)
    store.hint(f"run-{n:030}" for n in range(1000))
    until(lambda: len(listener.heard) == 2)
    assert listener.heard == [(), ()]
    store.hint([])
    listener.end()


def test_what_was_undone_is_no_hint(store, other):
    """A hint is part of its transaction."""
    listener = Listener(other)
    until(lambda: listener.heard)
    id = running(store)
    with pytest.raises(ZeroDivisionError), store.transaction() as do:
        do.rows(
            "UPDATE syncagent_run AS r SET state = 'queued' WHERE r.id = ? "
            "RETURNING run_id{hint}",
            id,
        )
        raise ZeroDivisionError
    store.hint(["last"])
    until(lambda: "last" in listener.ids())
    assert listener.ids() == ["last"]
    listener.end()


def test_an_operation_of_the_listener_uses_its_connection(store, other, connections):
    """One connection for both; hints that come meanwhile are passed on."""
    store.read("a")
    heard = []

    def look(ids):
        heard.append(ids)
        if "one" in ids:
            store.hint(["two"])  # before the next reply of this connection
            other.read("a")
        other.read("a")

    listener = Listener(other, look)
    until(lambda: heard == [()])
    assert connections() == 2
    store.hint(["one"])
    until(lambda: heard == [(), ("one",), ("two",)])
    # store.hint() was called on the listener's thread, so store has two.
    assert connections() == 3
    listener.end()
    until(lambda: connections() == 2)


def test_a_listener_that_is_cut_says_so(store, other, cluster):
    """By the server, by cut(), and after an operation that failed; then it listens."""
    listener = Listener(other)
    until(lambda: listener.heard)
    other.cut(listener.thread.ident)
    listener.join()
    assert "closed the connection" in str(listener.errors[0])

    def fail(ids):
        with pytest.raises(ConfigurationError):
            other.single("SELECT * FROM missing")

    listener = Listener(other, fail)
    listener.join()
    assert "was cut" in str(listener.errors[0])
    listener = Listener(other)
    until(lambda: listener.heard)
    store.hint(["run-a"])
    until(lambda: "run-a" in listener.ids())
    listener.end()


def test_listening_ends_at_once(store, other):
    """From any thread, before it has begun, and when the store is closed."""
    listener = Listener(other)
    until(lambda: listener.heard)
    other.close()
    listener.join()
    other.listen("w1", pytest.fail)
    assert not listener.errors


# -- forks -------------------------------------------------------------------------


def test_a_forked_child_leaves_the_sessions_alone(store, other):
    """It closes its copies; parent and child work on, each with its own."""
    listener = Listener(other)
    until(lambda: listener.heard)
    id = running(store)
    descriptors = len(os.listdir("/proc/self/fd"))

    def child():
        store.start_over()
        other.start_over()
        left = len(os.listdir("/proc/self/fd"))
        found = store.read(id).run_id
        store.close()
        return [left, found]

    left, found = in_child(child)
    # Two for each connection and two to end the listening; and those of the pipe.
    assert (left, found) == (descriptors - 6 + 2, "run-a")
    assert store.read(id).run_id == "run-a"
    store.hint(["run-a"])
    until(lambda: "run-a" in listener.ids())
    listener.end()


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


def test_the_public_id_is_in_no_hint(store, cluster):
    """Who may listen must not learn how to cancel a run."""
    heard = []
    import psycopg

    with psycopg.connect(cluster.address, autocommit=True) as connection:
        connection.execute("LISTEN syncagent")
        id = running(store)
        store.append([batch(1, "{}")])
        store.cancel(id, cancel())
        store.finish(id, 1, DONE, None, None)
        store.forget("anna")
        store.hint(["end"])
        for notify in connection.notifies(timeout=LONG):
            heard.append(notify.payload)
            if notify.payload == "end":
                break
    named = {name for payload in heard for name in payload.split(",")}
    assert named == {"run-a", "sweep", "end"}
