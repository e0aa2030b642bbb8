"""Find what a test has left behind: threads of the SDK and descriptors."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: One of each per process, made on first use and kept: no leak.
_SERVICES: Final = frozenset({"syncagent-cancel", "syncagent-timer"})
#: Real seconds within which what is on its way out must be gone.
_LIMIT: Final = 2.0


@contextmanager
def no_leaks() -> Iterator[None]:
    """Fail if the block leaves a ``syncagent-*`` thread or a descriptor behind.

    Connections that wait for the next request are closed, and count for nothing.

    :raises AssertionError: it did; the message names them.
    """
    before = _present()
    yield
    pause = threading.Event()
    for attempt in range(20):
        left = {name for key, name in _present().items() if key not in before}
        if not left:
            return
        if attempt == 0:
            gc.collect()  # what only the collector can close is no leak,
            _close_idle()  # nor what waits for the next request
        pause.wait(_LIMIT / 20)
    raise AssertionError(f"left behind: {', '.join(sorted(left))}")


def _close_idle() -> None:
    transport = sys.modules.get("syncagent.transport")
    if transport is not None:
        transport.close_idle()


def _present() -> dict[object, str]:
    """Map everything that could be left, by identity, to a name for it."""
    present: dict[object, str] = {}
    for thread in threading.enumerate():
        if thread.name.startswith("syncagent-") and thread.name not in _SERVICES:
            present[thread] = f"thread {thread.name}"
    for number in _descriptors():
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:  # closed meanwhile: it was the one for the listing itself
            continue
        present[number, target] = f"descriptor {number} ({target})"
    return present


def _descriptors() -> list[str]:
    try:
        return os.listdir("/proc/self/fd")
    except FileNotFoundError:  # not Linux: only threads are looked at
        return []
