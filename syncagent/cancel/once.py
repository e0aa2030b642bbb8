"""A cell whose first value stays: the one atomic step that cancelling rests on."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Once(dict[None, T], Generic[T]):
    """Hold one value; whoever puts first wins, and everybody learns who that was.

    ``dict.setdefault`` with a key that hashes and compares in C is one step under the
    GIL (and takes the dict's own lock without it). No other lock is involved, so a
    signal handler or a ``__del__`` that runs in the middle of anything may call it.

    Putting the same object again gives the same answer, so that work which was
    interrupted between claiming and acting can simply be done again. Truth, not
    :meth:`value`, is the fast test for "somebody put something".
    """

    __slots__ = ()

    def put(self, value: T) -> T:
        """Put *value* if the cell is empty, and return what stands in it now."""
        return self.setdefault(None, value)

    @property
    def value(self) -> T | None:
        """What stands in the cell, ``None`` while it is empty."""
        return self.get(None)
