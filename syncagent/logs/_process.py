"""The moments at which a process doubles or ends, as far as log files care."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["on_process_events", "watch_multiprocessing"]

# Below the priorities of others, so that what their finalizers log is written too.
_LAST = -100


class _Hooks:
    """What :func:`on_process_events` was told; one instance, that others point to."""

    at_end_of_child: Callable[[], None] = staticmethod(lambda: None)
    finalizer: Any = None
    is_watching = False


_hooks = _Hooks()


def on_process_events(
    *,
    in_forked_child: Callable[[], None],
    at_end_of_child: Callable[[], None],
    at_exit: Callable[[], None],
) -> None:
    """Register what happens after a fork, at the end of a child, and at exit.

    :param at_end_of_child: for children of :mod:`multiprocessing`, which may leave
        through ``os._exit`` without running :mod:`atexit`.
    """
    _hooks.at_end_of_child = at_end_of_child
    atexit.register(at_exit)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=in_forked_child)


def watch_multiprocessing() -> None:
    """Have the end of this process noticed if :mod:`multiprocessing` may have made it.

    A child throws the finalizers of its parent away when it begins to work, which can
    be after it has logged (a module that configures logging while it is imported).
    That is why the finalizer is registered once more at that point.
    """
    util = sys.modules.get("multiprocessing.util")
    if util is None:
        return
    if not _hooks.is_watching:
        _hooks.is_watching = True
        util.register_after_fork(_hooks, _register_finalizer)
    _register_finalizer(_hooks)


def _register_finalizer(hooks: _Hooks) -> None:
    util = sys.modules["multiprocessing.util"]
    if hooks.finalizer is not None and hooks.finalizer.still_active():
        return
    hooks.finalizer = util.Finalize(None, hooks.at_end_of_child, exitpriority=_LAST)
