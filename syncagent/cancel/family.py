"""The way down from a parent token to a child."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from .generation import RETIRED, Generation
from .links import Link
from .reason import Cause

if TYPE_CHECKING:
    from .token import CancelToken

    _Ref = weakref.ref[CancelToken]
else:
    _Ref = weakref.ref


class ChildLink(_Ref, Link):
    """A child, on its parent; weak, so that children come and go as they like.

    One whose child is gone is found by the parent when it gets the next.

    The child holds its parent, so the parent is there whenever a child ends.
    """

    __slots__ = ("_parent",)
    _parent: weakref.ref[CancelToken]

    survives_fork = True

    def __new__(cls, child: CancelToken, parent: CancelToken) -> ChildLink:
        # A callback in C: one in Python would swallow a signal handler's exception.
        self = super().__new__(cls, child, parent._lost.append)
        self._parent = weakref.ref(parent)
        return self

    def hit(self, cause: Cause, claimant: object) -> Generation | None:
        child = self()
        while child is not None:
            generation = child._current()
            # Look after that, and not at *cause*: if the parent was reset meanwhile,
            # its reset has reached every child, and this is none of our business.
            cause_now = self._cause_of_parent()
            if cause_now is None:
                return None
            if generation.stop.put(child._inherit(cause_now)) is not RETIRED:
                return generation
            child._succeed(generation)  # its own reset came first: finish that
        return None

    def _cause_of_parent(self) -> Cause | None:
        parent = self._parent()
        return None if parent is None else parent._current().cause

    def drop(self) -> None:
        """Stay: it survives everything but its child."""

    @property
    def is_spent(self) -> bool:
        return self() is None
