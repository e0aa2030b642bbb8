"""Threads that start together, and the bound on every wait in a test."""

import threading
import time
from contextlib import contextmanager

#: Seconds after which a wait in a test has failed.
LONG = 20.0


def together(*functions, timeout=LONG):
    """Run *functions* in a thread each, all at once; raise what one raised."""
    barrier = threading.Barrier(len(functions))
    errors = []

    def run(function):
        try:
            barrier.wait(timeout)
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(f,), daemon=True) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
    stuck = sum(thread.is_alive() for thread in threads)
    assert not stuck, f"{stuck} of {len(threads)} threads did not end in {timeout} s"
    if errors:
        raise errors[0]


@contextmanager
def meanwhile(function):
    """Call *function* on another thread while the block runs; raise what it raised."""
    errors = []

    def work():
        try:
            function()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        thread.join(LONG)
    assert not thread.is_alive(), f"it did not end in {LONG} s"
    if errors:
        raise errors[0]


def until(condition, seconds=LONG):
    """Wait until a condition set by other threads or processes holds; return it."""
    end, pause = time.monotonic() + seconds, threading.Event()
    while not (value := condition()):
        assert time.monotonic() < end, f"{condition} did not hold within {seconds} s"
        pause.wait(0.002)
    return value
