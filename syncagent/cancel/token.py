"""The token: one flag that every wait of a run listens to.

A token is a chain of generations (see :mod:`~.generation`): ``reset()`` adds one, and
:meth:`CancelToken._current` walks to the last.

Guarantees:

- The first cancel wins, and its reason stays until a reset.
- A cancel reaches all children before ``cancel()`` returns, and never a parent.
- A link that is added while a cancel is under way is reached by it, or by its own
  :meth:`CancelToken._link`.
- Once a deadline has passed, every check of the token sees it; the timer thread tells
  waiting threads and links.
- A reset loses no link that survives it, at any moment: it is on the old generation
  until it is on the new one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import NoReturn

from ..exceptions import Origin
from . import clock, threads
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
    :meth:`sleep` under it ends, until :meth:`reset` is called.

    :param timeout: seconds after which it cancels itself, with origin ``deadline``.
    :param deadline: the same as an absolute :func:`time.monotonic` time.
    :raises TypeError: one of them is not a number.
    :raises ValueError: *timeout* is negative, one is not a time, or both are given.
    """

    __slots__ = (
        "__weakref__",
        "_dead_links",
        "_generation",
        "_home",
        "_parents",
        "_signal",
    )

    def __init__(
        self, timeout: float | None = None, *, deadline: float | None = None
    ) -> None:
        self._set_up((), absolute(timeout, deadline))

    def _set_up(self, parents: tuple[CancelToken, ...], deadline: float | None) -> None:
        #: Strong: a child keeps alive the path on which a cancel comes down.
        self._parents = parents
        self._signal: weakref.ref[CancelSignal] | None = None
        #: The process services that know this token, None if none needs to.
        self._home: threads.Services | None = None
        #: The newest one known; another thread may have put one after it.
        self._generation = self._new_generation(deadline)
        #: Links to children that have been freed.
        self._dead_links: list[Link] = []
        for parent in parents:
            while parent._dead_links:
                with suppress(IndexError):  # another thread was faster
                    parent._unlink(parent._dead_links.pop())
            parent._link(ChildLink(self, parent))

    def _new_generation(self, own_deadline: float | None) -> Generation:
        """Return one with the earliest of *own_deadline* and the parents' deadlines."""
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
        """Return the last generation, even while another thread is resetting."""
        generation = self._generation
        while generation.stop and generation.successor:
            generation = generation.successor[None]
        return generation

    # -- children and linked tokens ------------------------------------------------

    def child(
        self, timeout: float | None = None, *, deadline: float | None = None
    ) -> CancelToken:
        """Return a token that is cancelled with this one, but not the reverse.

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

        Unlike a child it keeps reason and origin as they are.

        :param timeout: as for the class; the earliest of all counts.
        :param deadline: the same as an absolute time.
        :raises TypeError: no token is given, or an argument is not a token.
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

        :param reason: text for logs and results.
        :param origin: who cancels.
        :return: whether this call was the first.
        :raises TypeError: *reason* or *origin* is not a string; nothing is cancelled.
        :raises ValueError: *origin* is not a known one; nothing is cancelled.
        """
        cause = make_cause(reason, origin)
        generation = self._generation
        while True:
            if generation.stop:
                generation = self._current()
            elif generation.deadline is not None:
                self._look_at_clock(generation)  # the deadline may have come first
            standing = generation.cancel(cause)
            if standing is not RETIRED:
                return standing is cause
            # A reset came first, and may have been interrupted: finish it.
            self._start_successor(generation)

    def _inherit(self, cause: Cause) -> Cause:
        """Turn a parent's cause into the one for this token."""
        return as_parent(cause)

    def reset(self) -> None:
        """Reset the token: not cancelled, no callbacks, no background request.

        Callbacks of a cancel that has happened still run. Waits in progress, children
        and the SDK's own links stay; a deadline stays unless it has passed. Under a
        cancelled parent the token is cancelled again at once.

        :raises RuntimeError: the token belongs to a live run.
        """
        old = self._current()
        if not old.owner.claim(RESET).has_ended:
            raise RuntimeError(
                "this token belongs to a live run, whose cancel a reset would lose; "
                "cancel the run, or use a token of your own"
            )
        # If a cancel was first, this helps it to reach all children: a slow one must
        # not reach them after they have been reset too.
        old.cancel(RETIRED)
        self._start_successor(old)
        # Look at the parents last: a parent that is cancelled from here on finds the
        # new generation by itself.
        for parent in self._parents:
            cause = parent._cause()
            if cause is not None:
                self._current().cancel(self._inherit(cause))

    def _start_successor(self, old: Generation) -> None:
        """Put a new generation after *old*, which has ended, with what stays."""
        finish_despite_signals(lambda: self._put_after(old))

    def _put_after(self, old: Generation) -> None:
        own, now = old.own_deadline, clock.now()
        new = self._new_generation(own if own is not None and own > now else None)
        # Filled before other threads can see it: no surviving link is ever unreachable.
        new.links = {link: None for link in list(old.links) if link.survives_reset}
        self._generation = new = old.successor.claim(new)
        # Again, for links that joined the old generation, or left it, since the copy.
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
        """True once it is cancelled, or past its deadline."""
        return self._cause() is not None

    @property
    def reason(self) -> CancelReason | None:
        """The first canceller's reason (a ``str``), ``None`` while not cancelled."""
        cause = self._cause()
        return None if cause is None else CancelReason(*cause)

    @property
    def origin(self) -> Origin | None:
        """Who cancelled, ``None`` while not cancelled."""
        cause = self._cause()
        return None if cause is None else cause[1]

    def checkpoint(self) -> None:
        """Raise if the token is cancelled.

        :raises Cancelled: the token is cancelled, or past its deadline.
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
        """Return an object that is false until the token is cancelled or reset.

        For loops in which a check may cost no more than a few nanoseconds: test it,
        and call :meth:`checkpoint` when it is true. A deadline shows there once the
        timer thread has noticed it, for a token with links.
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
        """The monotonic time at which it is cancelled, its own or a parent's."""
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
            generation.cancel(self._inherit(cause))
        else:
            generation.cancel(make_cause("deadline passed", "deadline"))

    # -- blocking ------------------------------------------------------------------

    def wait(self, timeout: float | None = None) -> bool:
        """Block until cancelled, at most *timeout* seconds.

        Cancellation: ends the wait; that is its purpose.

        :return: whether it was cancelled.
        :raises ValueError: *timeout* is negative.
        """
        return self._block(timeout) is not None

    def sleep(self, seconds: float) -> None:
        """Sleep for *seconds*, unless the token is cancelled.

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
        # The waiter's own cause counts even if the token has been reset since.
        return self._cause() if waiter.cause is None else waiter.cause

    # -- links ---------------------------------------------------------------------

    def on_cancel(self, callback: Callable[[], object]) -> Registration:
        """Call *callback* once when the token is cancelled.

        It runs promptly on the SDK's own thread, after those registered before it;
        at once if the token is cancelled already. An exception in it is logged. It
        should only set, close or interrupt something: a callback that does not return
        is reported and left behind.

        :return: the registration; close it to take the callback back.
        :raises TypeError: *callback* is not callable.
        """
        if not callable(callback):
            raise TypeError(f"on_cancel() takes a callable, got {callback!r}")
        # Threads are started here, where blocking is allowed, and not by a cancel.
        threads.current.start_threads()
        link = CallbackLink(callback)
        self._enrol()
        self._link(link)
        return Registration(self, link)

    def attach(self, killable: Killable) -> None:
        """Have a cancel fire *killable*; at once if the token is cancelled already."""
        self._enrol()
        self._link(killable)

    def detach(self, killable: Killable) -> bool:
        """Take *killable* back.

        :return: false if a cancel came first: the resource is tainted.
        """
        is_ours = killable.take()
        self._unlink(killable)
        return is_ours

    def _enrol(self) -> None:
        """Make fork and deadline reach the link that is about to be added."""
        home = threads.current
        if self._home is not home:
            self._arm_timer(home)
            home.enrol(self)
            self._home = home
        self._cause()  # a deadline that has passed counts as a cancel before this

    def _arm_timer(self, home: threads.Services) -> None:
        deadline = self.deadline
        if deadline is not None:
            home.timer.call_at(deadline, CancelToken._cause, self)

    def _link(self, link: Link) -> None:
        """Add *link*, and cancel it if the token is cancelled."""
        claimant = object()
        while True:
            generation = self._current()
            generation.links[link] = None  # publish first ...
            cause = generation.cause
            # ... then look. A spent link was reached by the cancel of an earlier
            # generation: leave it alone, or it would be fired again.
            if cause is not None and not link.is_spent:
                below = link.cancel(cause, claimant)
                if below is not None:
                    spread([below], claimant)
            if link.is_spent:
                generation.links.pop(link, None)
            # A reset may have copied the links before ours was there: once more.
            if not generation.successor:
                return

    def _unlink(self, link: Link) -> None:
        generation = self._generation
        while generation.successor:
            generation = generation.successor[None]
        generation.links.pop(link, None)

    def _cut_after_fork(self) -> None:
        """Remove the links to resources and threads of the parent process."""
        links = self._current().links
        for link in list(links):
            if not link.survives_fork:
                link.drop()
                links.pop(link, None)

    # -- background ----------------------------------------------------------------

    def request_background(self) -> None:
        """Move the work to the background. As safe as :meth:`cancel`."""
        generation = self._current()
        generation.background_requested = True  # publish first, then look
        if generation.background is not None:
            generation.background.cancel()

    @property
    def background_requested(self) -> bool:
        """True once :meth:`request_background` was called."""
        return self._current().background_requested

    @property
    def background(self) -> CancelToken:
        """A token that :meth:`request_background` cancels.

        For one thread at a time: the one that drives the work, or waits for it.
        """
        generation = self._current()
        if generation.background is None:
            generation.background = CancelToken()  # publish first, then look
        if generation.background_requested:
            generation.background.cancel()
        return generation.background

    def generation(self) -> Generation:
        """Return the state of the token up to its next reset.

        For loops in which a look at ``background_requested`` may cost no more than a
        few nanoseconds.
        """
        return self._current()

    # -- other forms ---------------------------------------------------------------

    @property
    def signal(self) -> CancelSignal:
        """The token as a :class:`threading.Event`, whose ``set()`` takes no lock."""
        ref = self._signal
        signal = None if ref is None else ref()
        if signal is None:
            signal = CancelSignal(self)
            # Weak, as the signal holds the token. Two threads may each make one: they
            # have no state of their own, so that does no harm.
            self._signal = weakref.ref(signal)
        return signal

    def __repr__(self) -> str:
        cause, remaining = self._cause(), self.remaining()
        if cause is not None:
            return f"<CancelToken: cancelled, {CancelReason(*cause)!r}>"
        if remaining is None:
            return "<CancelToken: live>"
        return f"<CancelToken: {remaining:.3g} s left>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a CancelToken belongs to its process and cannot be copied or pickled; "
            "make one on the other side and cancel it there"
        )


class _LinkedToken(CancelToken):
    """A token linked to several others, see :meth:`CancelToken.any_of`."""

    __slots__ = ()

    def _inherit(self, cause: Cause) -> Cause:
        return cause
