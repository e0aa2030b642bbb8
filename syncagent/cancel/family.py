"""The way down from a parent token to a child."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from .links import Link
from .reason import CancelReason

if TYPE_CHECKING:
    from .generation import Strike
    from .token import CancelToken

    _Ref = weakref.ref[CancelToken]
else:
    _Ref = weakref.ref


class ChildLink(_Ref, Link):
    """A child, on its parent; weak, so that children come and go as they like.

    The child holds its parent, so the parent is there whenever a child ends.
    """

    __slots__ = ("_parent",)
    _parent: weakref.ref[CancelToken]

    survives_fork = True

    def __new__(cls, child: CancelToken, parent: CancelToken) -> ChildLink:
        self = super().__new__(cls, child, _forget)
        self._parent = weakref.ref(parent)
        return self

    def hit(self, cause: CancelReason, strike: Strike) -> None:
        child = self()
        if child is not None:
            generation = child._generation
            generation.stop.put(child._inherit(cause))
            strike.reach(generation)

    def drop(self) -> None:
        """Stay: it survives everything but its child."""

    @property
    def is_spent(self) -> bool:
        return self() is None


def _forget(link: weakref.ref[CancelToken]) -> None:
    """Take a dead child off its parent."""
    assert isinstance(link, ChildLink)
    parent = link._parent()
    if parent is not None:
        parent._unlink(link)
