"""Find threads of the SDK and descriptors that a test has left behind."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: One of each per process, started on first use and kept: no leak.
_SERVICES: Final = frozenset({"syncagent-cancel", "syncagent-timer"})
#: Real seconds, roughly, for threads and descriptors that are about to end, and the
#: number of looks. The first look is at once, and each pause is twice the one before.
_LIMIT: Final = 1.0
_LOOKS: Final = 12


@contextmanager
def no_leaks(*, allow_threads: bool = False) -> Iterator[None]:
    """Fail if the block leaves a ``syncagent-*`` thread or a descriptor behind.

    Idle connections and idle worker processes are closed first; they do not count.

    :param allow_threads: check descriptors only.
    :raises AssertionError: something is left; the message names it.
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
            for name in ("syncagent.transport", "syncagent.tools.processes.pool"):
                module = sys.modules.get(name)
                if module is not None:
                    module.close_idle()
        elif attempt == 4:
            gc.collect()  # garbage is no leak; but a collection takes time
        pause.wait(_LIMIT * 2.0 ** (attempt + 1 - _LOOKS))
    raise AssertionError(f"left behind: {', '.join(sorted(left))}")


def _present(allow_threads: bool) -> dict[object, str]:
    """Return the names of everything that could be left, by identity."""
    present: dict[object, str] = {}
    for thread in threading.enumerate():
        is_ours = thread.name.startswith("syncagent-")
        if is_ours and thread.name not in _SERVICES and not allow_threads:
            present[thread] = f"thread {thread.name}"
    try:
        descriptors = os.listdir("/proc/self/fd")
    except FileNotFoundError:  # not Linux: only threads are checked
        descriptors = []
    for number in descriptors:
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:  # the descriptor of the listing itself, closed by now
            continue
        present[number, target] = f"descriptor {number} ({target})"
    return present
