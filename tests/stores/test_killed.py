"""A worker is killed, or frozen, at every point of a run: another one takes over."""

import os
import signal
import sqlite3
from contextlib import suppress

import pytest
from support.store_work import (
    ROUNDS,
    Points,
    adder,
    at_most,
    check_done,
    drive,
    finish_all,
    interrupted,
    make_agent,
    pipe,
    processes,
    start,
    submit,
    watched_store,
    work_until,
)
from support.threads import LONG, until

from syncagent.exceptions import StoreUnavailable
from syncagent.stores import RunStore

#: Seconds that a dead worker keeps its runs.
LEASE = 0.5


def points_of(url, kind, folder):
    """Return the names of all points that a run of a kind passes."""
    points = Points()
    store = watched_store(url, points)
    try:
        with adder(url) as elsewhere:
            drive(store, submit(elsewhere, kind, folder))
    finally:
        store.close()
    return points.passed


def added_runs(url, folder, step):
    """Add a run for each chosen point: the number of the point, by the run.

    :param step: every so many writes; 0 for all points, events too.
    """
    runs = {}
    with adder(url) as elsewhere:
        for first, kind in enumerate(ROUNDS):
            names = list(enumerate(points_of(url, kind, folder), 1))
            writes = [each for each in names if " " in each[1]]
            for number, name in writes[first % step :: step] if step else names:
                runs[submit(elsewhere, kind, folder)] = (number, name)
    return runs


def check_all(url, runs):
    """Take over all runs, and check how each of them has ended."""
    with RunStore(url, make_agent, lease=10.0, max_workers=4) as store:
        # A frozen process may hold a lock in PostgreSQL, for 10 seconds at most.
        finish_all(store, runs, 2 * LONG)
        for id, where in runs.items():
            run = check_done(store, id)
            assert run.crashes <= 1, where
            assert interrupted(run) <= 3, where


def kill_everywhere(url, folder, step):
    runs = added_runs(url, folder, step)
    at_most(
        4,
        (
            (work_until, url, id, number, signal.SIGKILL, LEASE, None)
            for id, (number, _) in runs.items()
        ),
    )
    check_all(url, runs)


@pytest.mark.slow
def test_killed_at_writes(url, tmp_path):
    """kill -9 before and after writes: nothing is doubled, lost or made up."""
    kill_everywhere(url, tmp_path, 1 if url.startswith("sqlite") else 3)


@pytest.mark.stress
def test_killed_at_every_point(url, tmp_path):
    """kill -9 before and after each write, and at each event: the same."""
    kill_everywhere(url, tmp_path, 0)


@pytest.mark.stress
@pytest.mark.parametrize("operation", ["append", "beat"])
def test_killed_at_writes_of_other_threads(url, operation, tmp_path):
    """kill -9 where events are stored or the lease is renewed: the same."""
    runs = {}
    with adder(url) as elsewhere:
        for kind in ROUNDS:
            for number in range(1, 7):
                runs[submit(elsewhere, kind, tmp_path)] = (number, operation)
    at_most(
        4,
        (
            (work_until, url, id, n, signal.SIGKILL, LEASE, None, (operation,))
            for id, (n, _) in runs.items()
        ),
    )
    check_all(url, runs)


def freeze_everywhere(url, folder, step):
    """Freeze workers past their leases, have others go on, and thaw them."""
    runs = added_runs(url, folder, step)
    with processes() as started:
        ends = []
        for id, (number, _) in runs.items():
            reading, writing = pipe()
            args = (url, id, number, signal.SIGSTOP, LEASE, writing)
            started.append(start(work_until, *args))
            writing.close()
            ends.append(reading)
            if len(started) % 4 == 0:
                wait_for_stop(started[-4:])
        wait_for_stop(started)
        check_all(url, runs)
        said = []
        for process, reading, where in zip(started, ends, runs.values(), strict=True):
            with suppress(ProcessLookupError):  # it has ended before its point
                os.kill(process.pid, signal.SIGCONT)
            process.join(LONG)
            assert process.exitcode == 0, where
            said.append(reading.recv())
            reading.close()
        check_all(url, runs)
    return said


def wait_for_stop(started):
    until(lambda: all(is_stopped(process) for process in started))


def is_stopped(process):
    try:
        with open(f"/proc/{process.pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "TZ"
    except OSError:
        return True


def check_told(said):
    """Check that each worker that came too late was told so."""
    for told, *point in said:  # a point that was passed; parallel tools may take turns
        if point in (["before checkpoint"], ["before finish"], ["before park"]):
            assert told == "lost", point
        else:
            assert told in ("lost", "ended", "unavailable"), point
    assert sum(told == "lost" for told, *_ in said) > len(said) / 2


@pytest.mark.slow
def test_frozen_past_the_lease(url, tmp_path):
    """A worker that was frozen is told that its run is another's, and does no more."""
    # All frozen workers keep their connections, and a server has 60.
    step = 4 if url.startswith("sqlite") else 8
    check_told(freeze_everywhere(url, tmp_path, step))


@pytest.mark.stress
def test_frozen_at_every_point(url, tmp_path):
    """The same, before and after each write."""
    step = 1 if url.startswith("sqlite") else 6
    check_told(freeze_everywhere(url, tmp_path, step))


def hold_lock(path):
    """Begin to write, and freeze."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    os.kill(os.getpid(), signal.SIGSTOP)


@pytest.mark.slow
def test_frozen_with_the_lock_of_sqlite(tmp_path):
    """The known limit: all wait for a process that is frozen while it writes."""
    path = tmp_path / "runs.db"
    url = f"sqlite:///{path}"
    with adder(url, timeout=0.3) as store, processes() as started:
        id = submit(store, "plain", tmp_path)
        started.append(start(hold_lock, path))
        wait_for_stop(started)
        with pytest.raises(StoreUnavailable, match="locked"):
            store.cancel(id)
        assert store.get(id).state == "queued"
        started[0].kill()
        started[0].join(LONG)
        assert store.cancel(id).first
        assert store.get(id).state == "cancelled"
