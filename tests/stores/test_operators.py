"""Every back end: what operators look at."""

import math

from support.stored_runs import cancel, dead, lease, new_run, running, waiting


def test_ids_are_found_by_their_beginning(backend):
    """Exactly those, whatever a wildcard would find; no more than asked for."""
    for name in ("a1", "a2", "b_1", "bx1"):
        backend.add(new_run(name), None)
    assert sorted(backend.find_ids("public-a", 9)) == ["public-a1", "public-a2"]
    assert len(backend.find_ids("public-", 2)) == 2
    assert backend.find_ids("public-b_", 9) == ["public-b_1"]
    assert backend.find_ids("public-%", 9) == []
    assert backend.find_ids("PUBLIC-a1", 9) == []


def test_live_runs_and_workers_are_counted(backend):
    """By state; runs that lost their worker, and processes whose lease is over."""
    empty = backend.census()
    assert (empty.states, empty.unheld, empty.workers) == ({}, 0, 0)
    backend.add(new_run("queued"), None)
    running(backend, "held")
    waiting(backend, "waiting")
    dead(backend, "dead")
    backend.add(new_run("ended"), None)
    backend.cancel("public-ended", cancel())
    backend.beat(lease("late", 0.0))
    found = backend.census()
    assert found.states == {"queued": 1, "running": 2, "waiting": 1}
    assert (found.unheld, found.workers) == (1, 1)
    assert 0 <= found.oldest_queued < 60
    assert found.overdue < 0  # it is to be handed out later


def test_events_and_runs_are_pruned_alone(backend):
    """An infinite age keeps all of the other, so that each can be counted."""
    for name in ("a", "b"):
        backend.add(new_run(name), None)
        backend.cancel(f"public-{name}", cancel())
    assert backend.prune(-1.0, math.inf, 9) == 2
    assert backend.prune(-1.0, math.inf, 9) == 0
    assert backend.prune(math.inf, -1.0, 9) == 2
    assert backend.read("public-a") is None
