"""A line: threads that wait until it is their turn, in the order in which they came.

Guarantees:

- A waiting thread is woken when its turn has come, when its token is cancelled, or at a
  time that the line names for the first in it; nobody polls, and there is no thread.
- Who is admitted is decided by one thread at a time, whichever has brought a change
  about. No thread ever waits to be that one: it leaves a note for the one that is
  (*publish first, then look*). So every method may be called in a signal handler or in
  ``__del__``, in the middle of any other call.
- A place is either admitted or given up, by one atomic step; the place of a cancelled
  thread passes to the next.
- A signal handler may raise at any moment: the work of the deciding thread is safe to
  repeat, and is repeated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from . import clock
from .deadlines import earlier
from .links import Bell
from .once import Once, finish_despite_signals
from .token import CancelToken
from .waits import BellLink

__all__ = ["Line", "LinePlace", "NOW"]

#: A time that has always passed.
NOW: Final = -math.inf

_ADMITTED: Final = "admitted"
_GIVEN_UP: Final = "given up"


class LinePlace:
    """The place of one thread in a line; used once."""

    __slots__ = ("__weakref__", "bell", "fate", "until")

    def __init__(self) -> None:
        self.fate: Final[Once[str]] = Once()
        self.bell: Final = Bell()
        #: When its thread looks again by itself; only the first in line has a time.
        self.until = math.inf

    @property
    def is_admitted(self) -> bool:
        """True once its turn has come."""
        return self.fate.get(None) is _ADMITTED


class Line:
    """Threads wait here in order; a subclass decides when the first one may go."""

    def __init__(self) -> None:
        #: Those that wait, in order.
        self.places: Final[dict[LinePlace, None]] = {}
        #: The one who decides at the moment.
        self._decider: Final[Once[object]] = Once()
        #: The one that is being admitted.
        self._going: LinePlace | None = None
        #: True if something has changed since the deciding thread has looked.
        self._is_due = False

    # -- for subclasses; called by one thread at a time ----------------------------

    def prepare(self) -> None:
        """Take in what has changed. Safe to repeat."""

    def decide(self, place: LinePlace) -> float:
        """Return when *place*, the first in line, may go: a monotonic time.

        Infinity means not before something changes.
        """
        raise NotImplementedError

    def admit(self, place: LinePlace) -> None:
        """Note that *place* goes, before its thread learns of it. Safe to repeat."""

    def withdraw(self, place: LinePlace) -> None:
        """Take back what :meth:`admit` has noted: *place* was given up before."""

    # -- for the threads in line ---------------------------------------------------

    def wait(
        self, place: LinePlace, token: CancelToken, begin: Callable[[], object]
    ) -> bool:
        """Wait until *place* is admitted; return whether that took any time.

        Cancellation: ends at once; the place passes to the next.

        :param begin: called before the thread really waits.
        :raises Cancelled: *token* was cancelled.
        """
        try:
            self.places[place] = None  # publish first, then look
            self.look()
            if place.is_admitted:
                return False
            begin()
            self._wait(place, token)
        except BaseException:
            finish_despite_signals(lambda: self.give_up(place))
            raise
        return True

    def _wait(self, place: LinePlace, token: CancelToken) -> None:
        link = BellLink(place.bell)
        try:
            token._link(link)
            while not place.is_admitted:
                token.checkpoint()
                until = place.until
                place.bell.wait(earlier(until, token.deadline))
                if until <= clock.now():
                    self.look()
        finally:
            token._unlink(link)

    def give_up(self, place: LinePlace) -> None:
        """Leave the line, admitted or not. Safe to repeat."""
        if place.fate.claim(_GIVEN_UP) is not _GIVEN_UP:
            self.withdraw(place)
        self.places.pop(place, None)
        self.look()

    def look(self, *, always: bool = False) -> None:
        """Admit those whose turn has come. Never blocks.

        :param always: take in what has changed, even if nobody waits.
        """
        # A thread that joins at this moment looks by itself, after us.
        if not self.places and not always:
            return
        self._is_due = True  # publish first, then look
        me = object()
        try:
            finish_despite_signals(lambda: self._work(me))
        finally:
            if self._decider.get(None) is me:  # it could not be finished: no stack left
                self._decider.pop(None, None)

    def _work(self, me: object) -> None:
        while self._decider.claim(me) is me:
            self._is_due = False
            self.prepare()
            self._admit_some()
            self._decider.pop(None, None)
            if not self._is_due:
                return

    def _admit_some(self) -> None:
        while (place := self.first()) is not None:
            # One that was being admitted when a signal handler raised takes part in the
            # decision already: it would wait for itself.
            is_decided = place.fate or place is self._going
            when = NOW if is_decided else self.decide(place)
            if when > clock.now():
                if when != place.until:
                    place.until = when  # publish first, then ring
                    place.bell.ring()
                return
            if not place.fate:
                self._going = place
                self.admit(place)
                if place.fate.claim(_ADMITTED) is not _ADMITTED:
                    self.withdraw(place)
            place.bell.ring()
            self.places.pop(place, None)
            self._going = None

    def first(self) -> LinePlace | None:
        """Return the place at the head of the line."""
        while True:
            try:
                return next(iter(self.places), None)
            except RuntimeError:  # another thread has joined or left at this moment
                continue
