"""SQLite: the file, its locks, its clock, its datagrams, and forks."""

import os
import sqlite3
import stat
import sys
import threading
import time

import pytest
from support.processes import fork, in_child
from support.stored_runs import cancel, delta, lease, new_run, persist, running
from support.threads import LONG, together, until

from syncagent.exceptions import ConfigurationError, StoreUnavailable
from syncagent.stores import sqlite as module
from syncagent.stores.schema import VERSION
from syncagent.stores.sqlite import SQLite

#: Seconds within which something is done at once.
AT_ONCE = 0.5


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "store" / "runs.db")


@pytest.fixture
def opened(path):
    """Yield a function that opens the store once more."""
    stores = []

    def open_store(place=path):
        stores.append(SQLite(place))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


@pytest.fixture
def store(opened):
    return opened()


def descriptors_of(path):
    """Return the open files of this process in a folder."""
    folder, found = os.path.dirname(path), []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue
    return [each for each in found if each.startswith(folder)]


# -- the file ----------------------------------------------------------------------


def test_no_one_else_can_read_the_file(store, path):
    """The file has 0600, its folder 0700, also those that SQLite adds."""
    running(store)
    folder = os.path.dirname(path)
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    names = os.listdir(folder)
    assert {"runs.db", "runs.db-wal"} <= set(names)
    for name in names:
        assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == 0o600


def test_a_folder_that_exists_keeps_its_rights(tmp_path, opened):
    """Only what is made here is made private."""
    before = os.stat(tmp_path).st_mode
    opened(str(tmp_path / "runs.db")).read("a")
    assert os.stat(tmp_path).st_mode == before


def test_a_file_that_is_no_store(tmp_path, opened):
    """The message names it."""
    place = tmp_path / "runs.db"
    place.write_text("a letter, and no database at all" * 100)
    with pytest.raises(ConfigurationError, match="is not a store"):
        opened(str(place)).read("a")


def test_a_folder_that_cannot_be_made(tmp_path, opened):
    """The store is not available, and the message says why."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        opened(str(tmp_path / "file" / "runs.db")).read("a")


def test_a_newer_major_version_is_refused(store, opened):
    """A newer minor one is fine."""
    store.single("UPDATE syncagent_schema SET version = version + 1")
    assert opened().read("a") is None
    store.single("UPDATE syncagent_schema SET version = 900")
    with pytest.raises(ConfigurationError, match="upgrade syncagent"):
        opened().read("a")


def test_the_tables_are_made_by_themselves(store, path, opened):
    """migrate() tells what there was before."""
    assert store.migrate() == (0, VERSION)
    assert opened().migrate() == (VERSION, VERSION)


def test_processes_share_the_file(store, opened):
    """What one has committed the other sees."""
    store.close()

    def child():
        store.start_over()
        return persist(lambda: store.add(new_run(), None))

    assert in_child(child) == "added"
    assert opened().read("public-a").state == "queued"


def test_two_processes_make_the_file_at_once(opened, path):
    """Both find their tables."""
    ready, go = os.pipe()

    def child(name):
        pid = fork()
        if pid:
            return pid
        try:
            os.close(go)
            os.read(ready, 1)
            mine = SQLite(path)
            persist(lambda: mine.add(new_run(name), None))
            mine.close()
        finally:
            os._exit(0)

    pids = [child(name) for name in "ab"]
    os.close(ready)
    os.close(go)
    for pid in pids:
        os.waitpid(pid, 0)
    assert len(opened().find(None, None, 9)) == 2


# -- locks -------------------------------------------------------------------------


def test_a_locked_file_fails_at_once(store, path):
    """No statement waits inside SQLite: the caller decides how long to wait."""
    id = running(store)
    with sqlite3.connect(path, isolation_level=None) as blocker:
        blocker.execute("BEGIN IMMEDIATE")
        for write in (
            lambda: store.checkpoint(id, 1, delta()),
            lambda: store.checkpoint(id, 1, delta(0, "x")),
            lambda: store.cancel(id, cancel()),
        ):
            began = time.monotonic()
            with pytest.raises(StoreUnavailable, match="locked"):
                write()
            assert time.monotonic() - began < AT_ONCE
        assert store.read(id).state == "running"
        blocker.execute("ROLLBACK")
    blocker.close()
    assert store.checkpoint(id, 1, delta()).is_stored


def test_an_error_inside_a_transaction_undoes_it(store):
    """The store stays usable, and nothing is stored or hinted at."""
    with pytest.raises(ZeroDivisionError), store.transaction() as do:
        do.rows("INSERT INTO syncagent_worker VALUES ('w', 'h', 1, 'v', 0)")
        raise ZeroDivisionError
    assert store.single("SELECT 1 FROM syncagent_worker") == []


# -- the clock ---------------------------------------------------------------------


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_change_of_the_time_moves_nothing(store, opened, monkeypatch, step):
    """Leases last as long as they should, in this process and in new ones."""
    id = running(store, seconds=30.0)
    before = store.read(id).created_at
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + step)
    other = opened()
    assert 25 < other.recover(9, 5).next_look <= 30
    assert other.claim(id, "w2", "n") is None
    assert other.beat(lease())
    other.add(new_run("b"), None)
    assert 0 <= other.read("public-b").created_at - before < LONG


def test_a_boot_ends_all_leases(store, opened, monkeypatch):
    """The processes before it are dead; their runs are handed out at once."""
    id = running(store)
    store.close()
    monkeypatch.setattr(module, "_boot_id", lambda: "another")
    other = opened()
    assert other.recover(9, 5).ids == [id]
    assert not other.beat(lease())
    assert other.read(id).crashes == 1


# -- datagrams ---------------------------------------------------------------------


class Listener:
    """A thread that listens for hints."""

    def __init__(self, store, name="w1"):
        self.heard = []
        self._store = store
        self.thread = threading.Thread(
            target=store.listen, args=(name, self.heard.append), daemon=True
        )
        self.thread.start()
        until(lambda: self.heard)

    def ids(self):
        return [id for ids in self.heard for id in ids]

    def end(self):
        self._store.stop_listening()
        self.thread.join(LONG)
        assert not self.thread.is_alive()


@pytest.mark.parametrize("depth", [0, 3])
def test_hints_arrive(opened, tmp_path, depth):
    """Also where the path is longer than the 108 bytes that a socket may have."""
    folder = tmp_path.joinpath(*["long" * 15] * depth)
    store, other = (opened(str(folder / "runs.db")) for _ in range(2))
    id = running(store)
    listener = Listener(other)
    assert listener.heard == [()]
    store.cancel(id, cancel())
    until(lambda: listener.ids() == ["run-a"])
    store.hint(f"run-{n:030}" for n in range(1000))
    until(lambda: listener.heard[-1] == () and len(listener.heard) == 3)
    assert "1 processes" in store.check()["hints"]
    listener.end()
    assert os.listdir(f"{folder}/runs.db-hints") == []


def test_threads_that_hint_for_the_first_time_at_once(opened, path):
    """They share one socket; no other is made, and none after the end."""
    listener = Listener(opened())
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(30):
            store = SQLite(path)
            together(*[lambda store=store: store.hint(["run-a"])] * 8)
            store.close()
            store.hint(["run-a"])
    finally:
        sys.setswitchinterval(interval)
    assert set(listener.ids()) == {"run-a"}  # some: a full queue loses the rest
    listener.end()


def test_a_hint_is_sent_after_the_commit(store, opened):
    """Who looks because of it sees the change; what was undone is no hint."""
    id = running(store)
    watcher, states = opened(), []

    def look(ids):
        states.append((tuple(ids), watcher.read(id).cancel is not None))

    thread = threading.Thread(target=watcher.listen, args=("w2", look), daemon=True)
    thread.start()
    until(lambda: states)
    with pytest.raises(ZeroDivisionError), store.transaction() as do:
        do.rows("UPDATE syncagent_run AS r SET state = 'queued' RETURNING run_id{hint}")
        raise ZeroDivisionError
    store.cancel(id, cancel())
    until(lambda: len(states) == 2)
    assert states == [((), False), (("run-a",), True)]
    watcher.stop_listening()
    thread.join(LONG)


def test_the_socket_of_a_dead_process_is_removed(store, path):
    """The next hint finds no one there."""
    store.read("a")
    os.mkdir(f"{path}-hints", 0o700)

    def child():
        store.start_over()
        threading.Thread(
            target=SQLite(path).listen, args=("dead", print), daemon=True
        ).start()
        until(lambda: os.listdir(f"{path}-hints"))
        return "listens"

    assert in_child(child) == "listens"
    assert os.listdir(f"{path}-hints") == ["dead"]
    store.hint(["run-a"])
    assert os.listdir(f"{path}-hints") == []


# -- forks -------------------------------------------------------------------------


def test_a_forked_child_has_no_descriptor_of_the_store(store, path):
    """The connection is closed before the fork, the sockets in the child."""
    id = running(store)
    listener = Listener(store)
    assert descriptors_of(path)

    def child():
        store.start_over()
        left = descriptors_of(path)
        found = store.read(id).run_id
        store.close()
        return [left, found]

    store.before_fork()
    assert in_child(child) == [[], "run-a"]
    assert store.read(id).run_id == "run-a"
    listener.end()


def test_a_process_can_listen_before_there_is_a_file(tmp_path):
    """One that only looks is often the first."""
    store = SQLite(str(tmp_path / "not" / "there" / "runs.db"))
    heard = []
    thread = threading.Thread(target=lambda: store.listen("w1", heard.append))
    thread.start()
    until(lambda: heard)
    store.close()
    thread.join(LONG)
    assert heard == [()]
