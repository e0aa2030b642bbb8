"""The test kit itself."""

import os
import threading

import pytest
from support.threads import LONG, together

from syncagent import CancelToken
from syncagent.cancel import clock as _clock
from syncagent.cancel.links import Bell
from syncagent.testing import FakeClock, Gate, no_leaks


def test_fake_time_passes_only_when_told():
    """now() stands still until advance()."""
    with FakeClock() as clock:
        before = _clock.now()
        assert _clock.now() == before == clock.now()
        clock.advance(5)
        assert _clock.now() == before + 5
    assert _clock.now() < before + 5


def test_advance_wakes_those_whose_time_has_come():
    """A sleeper whose timeout has passed wakes and says false; another sleeps on."""
    answers = []
    short, long = CancelToken(), CancelToken()
    with FakeClock() as clock:
        threads = [
            threading.Thread(target=lambda: answers.append(("short", short.wait(1)))),
            threading.Thread(target=lambda: answers.append(("long", long.wait(9)))),
        ]
        for thread in threads:
            thread.start()
        clock.wait_for_sleepers(2)
        clock.advance(1)
        threads[0].join(LONG)
        assert answers == [("short", False)]
        long.cancel()
        threads[1].join(LONG)
    assert answers == [("short", False), ("long", True)]


def test_gate_stops_a_thread_at_a_point():
    """What comes before the gate is done, what comes after has not begun."""
    gate, seen = Gate(), []

    def walk():
        seen.append("before")
        gate.stop_here()
        seen.append("after")

    def watch():
        gate.wait_reached()
        assert seen == ["before"]
        gate.open()

    together(walk, watch)
    assert seen == ["before", "after"]


def test_gate_gives_up():
    """A test that would wait for ever fails instead."""
    gate = Gate()
    with pytest.raises(TimeoutError, match="reached"):
        gate.wait_reached(timeout=0.001)
    with pytest.raises(TimeoutError, match="opened"):
        gate.stop_here(timeout=0.001)


@pytest.mark.slow
def test_no_leaks_finds_threads_and_descriptors():
    """A thread of ours, and a descriptor, that outlive the block are named."""
    gate, opened = Gate(), []
    thread = threading.Thread(target=gate.stop_here, name="syncagent-left")
    with pytest.raises(AssertionError) as found, no_leaks():
        thread.start()
        opened.append(os.open(os.devnull, os.O_RDONLY))
    gate.open()
    thread.join(LONG)
    os.close(opened[0])
    assert "syncagent-left" in str(found.value)
    has_descriptors = os.path.isdir("/proc/self/fd")
    assert ("/dev/null" in str(found.value)) == has_descriptors


def test_no_leaks_is_content_with_what_was_there():
    """Only what the block itself leaves counts."""
    descriptor = os.open(os.devnull, os.O_RDONLY)
    with no_leaks():
        os.close(os.dup(descriptor))
    os.close(descriptor)


def test_time_that_passes_in_the_instant_before_a_wait_counts():
    """A thread that has just read the clock does not wait for what has passed."""
    with FakeClock() as clock:
        lock = threading.Lock()
        lock.acquire(blocking=False)
        end = clock.now() + 1
        left = end - clock.now()
        clock.advance(2)
        assert not clock.acquire(lock, left)


def test_a_ring_at_the_end_of_the_block_is_not_lost():
    """A thread that is rung just as the clock becomes the real one wakes at once."""
    bell, rung = Bell(), []
    with FakeClock() as clock:
        end = clock.now() + 60
        thread = threading.Thread(target=lambda: rung.append(bell.wait(end)))
        thread.start()
        clock.wait_for_sleepers()
    bell.ring()
    thread.join(LONG)
    assert rung == [True]
