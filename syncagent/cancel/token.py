"""The token: one flag that every wait of a run listens to."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import NoReturn

from ..exceptions import Origin
from . import clock
from . import threads as services
from .callbacks import CallbackLink, Registration
from .deadlines import absolute, earlier
from .generation import RESET, RETIRED, ChildLink, Generation, spread
from .links import Killable, Link, Waiter
from .once import finish_despite_signals
from .reason import CancelReason, Cause, as_exception, as_parent, make_cause
from .signal_event import CancelSignal


class CancelToken:
    """Cancel blocking work, at once, from any thread or signal handler.

    Once cancelled it stays cancelled: every :meth:`checkpoint`, :meth:`wait` and
    :meth:`sleep` under it ends until somebody calls :meth:`reset`.

    :param timeout: cancel by itself after so many seconds, with origin ``deadline``.
    :param deadline: the same as an absolute :func:`time.monotonic` time.
    :raises TypeError: one of them is not a number.
    :raises ValueError: *timeout* is negative, one is not a time, or both are given.
    """

    __slots__ = ("__weakref__", "_generation", "_home", "_lost", "_parents", "_signal")

    def __init__(
        self, timeout: float | None = None, *, deadline: float | None = None
    ) -> None:
        self._set_up((), absolute(timeout, deadline))

    def _set_up(self, parents: tuple[CancelToken, ...], deadline: float | None) -> None:
        #: Strong: a child keeps the way up, over which a cancel comes down, alive.
        self._parents = parents
        self._signal: weakref.ref[CancelSignal] | None = None
        #: The process services that know this token, None if none needs to.
        self._home: services.Services | None = None
        #: The newest one known; another thread may have put one after it.
        self._generation = self._new_generation(deadline)
        #: Links to children that are gone.
        self._lost: list[Link] = []
        for parent in parents:
            parent._adopt(self)

    def _new_generation(self, own_deadline: float | None) -> Generation:
        """Return one whose deadline is the earliest of *own_deadline* and above."""
        new = Generation()
        new.own_deadline = new.deadline = own_deadline
        for parent in self._parents:
            above = parent._current()
            earliest = earlier(new.deadline, above.deadline)
            if earliest != new.deadline:
                new.deadline = earliest
                new.deadline_from = above.deadline_from or parent
        return new

    def _current(self) -> Generation:
        generation = self._generation
        while generation.stop and generation.successor:
            generation = generation.successor[None]
        return generation

    # -- making more of them -------------------------------------------------------

    def child(
        self, timeout: float | None = None, *, deadline: float | None = None
    ) -> CancelToken:
        """Return a token that is cancelled with this one, but never the other way.

        :param timeout: as for the class; the earlier of it and the parent's counts.
        :param deadline: the same as an absolute time.
        """
        token = CancelToken.__new__(CancelToken)
        token._set_up((self,), absolute(timeout, deadline))
        return token

    @staticmethod
    def any_of(
        *tokens: CancelToken,
        timeout: float | None = None,
        deadline: float | None = None,
    ) -> CancelToken:
        """Return a token that is cancelled with the first of *tokens*.

        Unlike a child it takes reason and origin over as they are.

        :param timeout: as for the class; the earliest of all counts.
        :param deadline: the same as an absolute time.
        :raises TypeError: one of them is not a token, or there is none.
        """
        if not tokens:
            raise TypeError("any_of() needs at least one CancelToken")
        for token in tokens:
            if not isinstance(token, CancelToken):
                raise TypeError(f"any_of() takes CancelTokens, got {token!r}")
        linked = _LinkedToken.__new__(_LinkedToken)
        linked._set_up(tokens, absolute(timeout, deadline))
        return linked

    # -- cancelling ----------------------------------------------------------------

    def cancel(self, reason: str = "", origin: Origin = "user") -> bool:
        """Cancel; the first reason stays.

        Call it from any thread, a signal handler, ``__del__``, a callback, twice: it
        never blocks, takes no lock, runs no user code and logs nothing.

        :param reason: what to say about it.
        :param origin: who cancels.
        :return: whether this call was the first.
        :raises TypeError: *reason* or *origin* is not a string; nothing is cancelled.
        :raises ValueError: *origin* is not a known one; nothing is cancelled.
        """
        mine = make_cause(reason, origin)
        generation = self._generation
        while True:
            if generation.stop:
                generation = self._current()
            elif generation.deadline is not None:
                self._look_at_clock(generation)  # it may have been first
            standing = generation.strike(mine)
            if standing is not RETIRED:
                return standing is mine
            # A reset came first, and may have been interrupted: finish it.
            self._succeed(generation)

    def _inherit(self, cause: Cause) -> Cause:
        """Turn a parent's reason into the one for this token."""
        return as_parent(cause)

    def reset(self) -> None:
        """Make the token as new: not cancelled, no callbacks, no background request.

        Callbacks of a cancel that has happened still run. Waits in progress, children
        and whatever the SDK has hung on the token stay; a deadline stays unless it has
        passed. Under a cancelled parent the token is cancelled again at once.

        :raises RuntimeError: a live run uses the token; it has one of its own.
        """
        old = self._current()
        if not old.owner.claim(RESET).has_ended:
            raise RuntimeError(
                "this token belongs to a live run, whose cancel a reset would lose; "
                "cancel the run, or use a token of your own"
            )
        # If a cancel was first, this helps it to reach all children: one that is slow
        # must not reach them after they have been reset too.
        old.strike(RETIRED)
        self._succeed(old)
        for parent in self._parents:
            cause = parent._cause()
            if cause is not None:
                self._current().strike(self._inherit(cause))

    def _succeed(self, old: Generation) -> None:
        """Put a new generation after *old*, which has ended, with what stays."""
        finish_despite_signals(lambda: self._put_after(old))

    def _put_after(self, old: Generation) -> None:
        own, now = old.own_deadline, clock.now()
        new = self._new_generation(own if own is not None and own > now else None)
        # Filled before it is there for others: nothing that stays is ever unreachable.
        new.links = {link: None for link in list(old.links) if link.survives_reset}
        self._generation = new = old.successor.claim(new)
        # Again, for what was hung on the old one meanwhile, or has left it.
        for link in [*list(old.links), *list(new.links)]:
            if link.survives_reset:
                self._link(link)
            elif old.cause is None:
                link.drop()
        if self._home is not None and new.deadline != old.deadline:
            self._arm_timer(self._home)

    # -- looking -------------------------------------------------------------------

    @property
    def cancelled(self) -> bool:
        """Is it cancelled, or past its deadline?"""
        return self._cause() is not None

    @property
    def reason(self) -> CancelReason | None:
        """The first canceller's words (a ``str``), ``None`` while not cancelled."""
        cause = self._cause()
        return None if cause is None else CancelReason(*cause)

    @property
    def origin(self) -> Origin | None:
        """Who cancelled, ``None`` while not cancelled."""
        cause = self._cause()
        return None if cause is None else cause[1]

    def checkpoint(self) -> None:
        """Raise if cancelled.

        :raises Cancelled: it is.
        """
        generation = self._generation
        if not generation.stop:
            deadline = generation.deadline
            if deadline is None or deadline > clock.now():
                return
        cause = self._cause()
        if cause is not None:
            raise as_exception(cause)

    def flag(self) -> Collection[object]:
        """Return something that is false until the token is cancelled or reset.

        For loops in which a look may cost no more than a few nanoseconds: look at it,
        and call :meth:`checkpoint` when it is true. A deadline shows there once the
        timer thread has noticed it, for a token on which something hangs.
        """
        return self._current().stop

    def _cause(self) -> Cause | None:
        generation = self._generation
        if generation.stop:  # only then can there be a successor
            generation = self._current()
        if not generation.stop:
            if generation.deadline is None:
                return None
            self._look_at_clock(generation)
        return generation.cause

    # -- time ----------------------------------------------------------------------

    @property
    def deadline(self) -> float | None:
        """The monotonic time at which it cancels by itself, own or a parent's."""
        return self._current().deadline

    def remaining(self) -> float | None:
        """Return the seconds to the deadline, at least 0, or ``None`` without one."""
        deadline = self.deadline
        return None if deadline is None else max(0.0, deadline - clock.now())

    def _look_at_clock(self, generation: Generation) -> None:
        """Cancel *generation*, and no other, if its deadline has passed."""
        deadline = generation.deadline
        if deadline is None or deadline > clock.now():
            return
        holder = generation.deadline_from
        cause = None if holder is None else holder._cause()
        if cause is not None:
            generation.strike(self._inherit(cause))
        else:
            generation.strike(make_cause("deadline passed", "deadline"))

    # -- blocking ------------------------------------------------------------------

    def wait(self, timeout: float | None = None) -> bool:
        """Block until cancelled, at most *timeout* seconds.

        Cancellation: this is what it waits for.

        :return: whether it was cancelled.
        :raises ValueError: *timeout* is negative.
        """
        return self._block(timeout) is not None

    def sleep(self, seconds: float) -> None:
        """Sleep, but not through a cancel.

        Cancellation: raises :exc:`~syncagent.exceptions.Cancelled` at once.

        :raises Cancelled: the token was cancelled before or while sleeping.
        """
        cause = self._block(seconds)
        if cause is not None:
            raise as_exception(cause)

    def _block(self, timeout: float | None) -> Cause | None:
        """Return the cause of the cancel that ended the wait, if one did."""
        until = absolute(timeout, None)
        cause = self._cause()
        if cause is not None:
            return cause
        waiter = Waiter()
        try:
            self._link(waiter)
            waiter.wait(earlier(until, self._current().deadline))
        finally:
            self._unlink(waiter)
        return self._cause() if waiter.cause is None else waiter.cause

    # -- things that hang on it ----------------------------------------------------

    def on_cancel(self, callback: Callable[[], object]) -> Registration:
        """Have *callback* called once when the token is cancelled.

        It runs promptly on the SDK's own thread, after those registered before it;
        at once if the token is cancelled already. An exception in it is logged. It
        should only set, close or interrupt something: one that does not return is
        reported and left behind.

        :return: close it to take the callback back.
        :raises TypeError: *callback* cannot be called.
        """
        if not callable(callback):
            raise TypeError(f"on_cancel() takes a callable, got {callback!r}")
        services.current.start_threads()
        link = CallbackLink(callback)
        self._enrol()
        self._link(link)
        return Registration(self, link)

    def attach(self, killable: Killable) -> None:
        """Have *killable* fired by a cancel; at once if there was one already."""
        self._enrol()
        self._link(killable)

    def detach(self, killable: Killable) -> bool:
        """Take *killable* back.

        :return: false if a cancel came first: the resource is tainted.
        """
        taken = killable.take()
        self._unlink(killable)
        return taken

    def _enrol(self) -> None:
        """Make fork and deadline reach what is about to be hung on this token."""
        home = services.current
        if self._home is not home:
            self._arm_timer(home)
            home.enrol(self)
            self._home = home
        self._cause()  # a deadline that has passed counts as a cancel before this

    def _arm_timer(self, home: services.Services) -> None:
        deadline = self.deadline
        if deadline is not None:
            home.timer.call_at(deadline, CancelToken._cause, self)

    def _link(self, link: Link) -> None:
        claimant = object()
        while True:
            generation = self._current()
            generation.links[link] = None  # publish first ...
            cause = generation.cause
            # ... then look. What the cancel of an earlier generation has hit is not
            # hit again: in our name, that would be taken for one that was cut short.
            if cause is not None and not link.is_spent:
                below = link.hit(cause, claimant)
                if below is not None:
                    spread([below], claimant)
            if link.is_spent:
                generation.links.pop(link, None)
            if not generation.successor:
                return

    def _adopt(self, child: CancelToken) -> None:
        while self._lost:
            with suppress(IndexError):  # another thread was faster
                self._unlink(self._lost.pop())
        self._link(ChildLink(child, self))

    def _unlink(self, link: Link) -> None:
        generation = self._generation
        while generation.successor:
            generation = generation.successor[None]
        generation.links.pop(link, None)

    def _cut_after_fork(self) -> None:
        links = self._current().links
        for link in list(links):
            if not link.survives_fork:
                link.drop()
                links.pop(link, None)

    # -- background ----------------------------------------------------------------

    def request_background(self) -> None:
        """Ask that the work go on in the background. Safe wherever cancel() is."""
        generation = self._current()
        generation.background_asked = True  # publish first, then look
        if generation.background is not None:
            generation.background.cancel()

    @property
    def background_requested(self) -> bool:
        """Has somebody asked for the background?"""
        return self._current().background_asked

    @property
    def background(self) -> CancelToken:
        """A token that is cancelled when somebody asks for the background.

        For one thread at a time: the one that drives the work, or waits for it.
        """
        generation = self._current()
        if generation.background is None:
            generation.background = CancelToken()  # publish first, then look
        if generation.background_asked:
            generation.background.cancel()
        return generation.background

    def life(self) -> Generation:
        """Return what the token is until it is reset.

        For loops in which a look at ``background_asked`` may cost no more than a few
        nanoseconds.
        """
        return self._current()

    # -- as other things -----------------------------------------------------------

    @property
    def signal(self) -> CancelSignal:
        """The token as a :class:`threading.Event`, whose ``set()`` takes no lock."""
        ref = self._signal
        signal = None if ref is None else ref()
        if signal is None:
            signal = CancelSignal(self)
            # Weak, as the signal holds the token. Two threads may each make one:
            # they are the same thing in two coats.
            self._signal = weakref.ref(signal)
        return signal

    def __repr__(self) -> str:
        cause, left = self._cause(), self.remaining()
        if cause is not None:
            return f"<CancelToken: cancelled, {CancelReason(*cause)!r}>"
        return (
            "<CancelToken: live>"
            if left is None
            else f"<CancelToken: {left:.3g} s left>"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a CancelToken belongs to its process and cannot be copied or pickled; "
            "make one on the other side and cancel it there"
        )


class _LinkedToken(CancelToken):
    """A token that stands for several, see :meth:`CancelToken.any_of`."""

    __slots__ = ()

    def _inherit(self, cause: Cause) -> Cause:
        return cause
