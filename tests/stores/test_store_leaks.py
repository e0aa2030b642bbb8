"""Nothing of a store is left: after close(), after a fork, after many runs."""

import os
import threading
import time

import pytest
from support.processes import in_child
from support.store_work import adder, by_hand, check_done, make_agent, submit
from support.threads import together, until

from syncagent.stores import RunStore
from syncagent.testing import no_leaks


def own_threads():
    return [each for each in threading.enumerate() if "syncagent-store" in each.name]


def descriptors(*names):
    """Return the open files whose names contain one of *names*."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if any(name in target for name in names):
            found.append(target)
    return found


def sockets():
    return len(descriptors("socket:"))


def sessions(cluster):
    """Return how many sessions the server has, beside the one that asks."""
    ((count,),) = cluster.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'syncagent'"
    )
    return count


@pytest.mark.slow
def test_two_hundred_runs_in_a_row(url, tmp_path):
    """Threads, descriptors and connections do not grow with the runs."""
    with no_leaks():
        with RunStore(url, make_agent) as store:
            ids = [submit(store, "plain", tmp_path) for _ in range(20)]
            until(lambda: not store.list(live=True))
            threads, files = len(own_threads()), len(os.listdir("/proc/self/fd"))
            for _ in range(9):
                ids += [submit(store, "plain", tmp_path) for _ in range(20)]
                until(lambda: not store.list(live=True))
            until(lambda: len(own_threads()) <= threads)
            assert len(os.listdir("/proc/self/fd")) <= files + 2
            assert repr(store) == "<RunStore: 0 runs in this process>"
            assert not store.open().followers
            for id in ids[::40]:
                check_done(store, id)
        assert own_threads() == []


def test_no_session_is_left(postgres_url, cluster, tmp_path):
    """The server has no session of a store that is closed."""
    before = sessions(cluster)
    with by_hand(postgres_url, make_agent) as store:
        store.backend.migrate()
        store.work(submit(store, "plain", tmp_path))
        assert sessions(cluster) > before
    until(lambda: sessions(cluster) == before)


def test_nothing_is_open_before_it_is_used(url):
    """A store can be made before a fork, as with ``gunicorn --preload``."""
    with no_leaks():
        before = os.listdir("/proc/self/fd")
        store = RunStore(url, make_agent)
        assert own_threads() == []
        assert os.listdir("/proc/self/fd") == before
        store.close()
        store.close()


def test_made_before_a_fork_and_used_in_the_children(url, tmp_path):
    """Each child is a process of its own in the store."""
    store = RunStore(url, make_agent)

    def use():
        id = submit(store, "plain", tmp_path)
        until(lambda: not store.get(id).is_live)
        state = store.get(id).state
        worker = store.open().id
        store.close()
        return state, worker, len(own_threads())

    first, second = in_child(use), in_child(use)
    assert first[0] == second[0] == "done"
    assert first[1] != second[1]
    assert first[2] == second[2] == 0
    assert len(store.list()) == 2
    store.close()


def test_forked_while_it_is_used(url, tmp_path):
    """A child has none of the connections and runs of its parent, and does no harm."""
    with RunStore(url, make_agent) as store:
        id = submit(store, "approved", tmp_path)
        until(lambda: store.get(id).state == "waiting")

        def look():
            files = descriptors("runs.db")
            is_fresh = store._worker is None
            state = store.get(id).state
            threads = len(own_threads())
            store.close()
            return files, is_fresh, state, threads > 0, descriptors("runs.db")

        assert in_child(look) == [[], True, "waiting", True, []]
        (question,) = store.get(id).interrupts
        store.answer(id, {question.id: True})
        until(lambda: not store.get(id).is_live)
        check_done(store, id)


@pytest.mark.slow
@pytest.mark.parametrize(
    "times", [10, pytest.param(100, marks=pytest.mark.stress)], ids=str
)
def test_forked_again_and_again_under_load(url, tmp_path, times):
    """No child ever has a connection of its parent, whatever its threads do."""
    found, stop = [], threading.Event()
    with RunStore(url, make_agent) as store:
        store.open()

        def use():
            while not stop.is_set():
                store.list(limit=1)

        def fork():
            try:
                for _ in range(times):
                    found.append(in_child(lambda: descriptors("runs.db")))
            finally:
                stop.set()

        together(use, use, fork)
        assert found == [[]] * times
        assert store.list() == []


def test_closed_while_others_wait(url, tmp_path):
    """Followers and callers of a store that is closed do not hang."""
    store = by_hand(url, make_agent)
    id = submit(store, "plain", tmp_path)
    events = store.events(id)
    follower = threading.Thread(target=lambda: list(events))
    follower.start()
    began = time.monotonic()
    store.close()
    events.close()
    follower.join(5.0)
    assert not follower.is_alive()
    assert time.monotonic() - began < 5


@pytest.mark.slow
def test_a_store_that_is_away_when_it_is_opened(tmp_path):
    """Nothing is left of attempts that failed."""
    folder = tmp_path / "folder"
    folder.write_text("a file")
    with no_leaks():
        store = RunStore(f"sqlite:///{folder}/runs.db", make_agent, timeout=0.2)
        with pytest.raises(Exception, match="cannot be opened"):
            store.submit("Go.")
        with adder(f"sqlite:///{tmp_path}/good.db") as good:
            submit(good, "plain", tmp_path)
        store.close()
