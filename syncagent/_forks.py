"""Start over in the child of a fork.

A child has the memory of its parent and none of its threads. Locks that another thread
held stay held there forever, and what belonged to those threads is not the child's.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

__all__ = ["in_child"]

_Function = TypeVar("_Function", bound=Callable[[], object])


def in_child(function: _Function) -> _Function:
    """Call a function in every forked child, before anything else runs there.

    :param function: It takes no arguments and must not raise.
    """
    if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
        os.register_at_fork(after_in_child=function)
    return function
