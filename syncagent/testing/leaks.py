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
#: Real seconds within which what is on its way out must be gone, more or less, and how
#: often to look; the first time is at once, and each pause is twice the one before.
_LIMIT: Final = 1.0
_LOOKS: Final = 12


@contextmanager
def no_leaks(*, allow_threads: bool = False) -> Iterator[None]:
    """Fail if the block leaves a ``syncagent-*`` thread or a descriptor behind.

    Connections that wait for the next request, and worker processes that wait for the
    next tool, are closed, and count for nothing.

    :param allow_threads: look at descriptors only.
    :raises AssertionError: it did; the message names them.
    """
    before = _present(allow_threads)
    yield
    pause = threading.Event()
    for attempt in range(_LOOKS):
        present = _present(allow_threads).items()
        left = {name for key, name in present if key not in before}
        if not left:
            return
        if attempt == 0:
            _close_idle()  # what waits for the next request is no leak,
        elif attempt == 4:
            gc.collect()  # nor what only the collector can close; but that takes time
        pause.wait(_LIMIT * 2.0 ** (attempt + 1 - _LOOKS))
    raise AssertionError(f"left behind: {', '.join(sorted(left))}")


def _close_idle() -> None:
    for name in ("syncagent.transport", "syncagent.tools.processes.pool"):
        module = sys.modules.get(name)
        if module is not None:
            module.close_idle()


def _present(allow_threads: bool) -> dict[object, str]:
    """Map everything that could be left, by identity, to a name for it."""
    present: dict[object, str] = {}
    for thread in threading.enumerate():
        is_ours = thread.name.startswith("syncagent-")
        if is_ours and thread.name not in _SERVICES and not allow_threads:
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
