"""PostgreSQL: hints between processes, and forks."""

import os
import threading

import pytest
from support import postgres
from support.processes import in_child
from support.stored_runs import DONE, batch, cancel, running
from support.threads import LONG, until

from syncagent.exceptions import ConfigurationError, StoreUnavailable

pytestmark = pytest.mark.skipif(bool(postgres.MISSING), reason=postgres.MISSING)

if not postgres.MISSING:
    pass


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
