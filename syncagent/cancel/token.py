"""The token: one flag that every wait of a run listens to."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import NoReturn

from .. import _clock
from ..exceptions import Cancelled
from . import services
from .callbacks import Registration
from .deadlines import absolute, earlier
from .family import ChildLink
from .generation import Generation, Strike
from .links import Killable, Link, Waiter
from .reason import CancelReason, Origin
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

    __slots__ = (
        "__weakref__",
        "_deadline",
        "_deadline_from",
        "_generation",
        "_home",
        "_own_deadline",
        "_parents",
        "_signal",
    )

    def __init__(
        self, timeout: float | None = None, *, deadline: float | None = None
    ) -> None:
        self._set_up((), absolute(timeout, deadline))

    def _set_up(self, parents: tuple[CancelToken, ...], deadline: float | None) -> None:
        self._generation = Generation()
        #: Strong: a child keeps the way up, over which a cancel comes down, alive.
        self._parents = parents
        self._signal: weakref.ref[CancelSignal] | None = None
        #: The process services that know this token, None if none needs to.
        self._home: services.Services | None = None
        self._set_deadline(deadline)
        for parent in parents:
            parent._link(ChildLink(self, parent))

    def _set_deadline(self, own: float | None) -> None:
        """Take the earliest of *own* and the parents' deadlines as effective."""
        self._own_deadline = self._deadline = own
        #: The ancestor that set it; None if it is this token's own.
        self._deadline_from: CancelToken | None = None
        for parent in self._parents:
            earliest = earlier(self._deadline, parent._deadline)
            if earliest != self._deadline:
                self._deadline = earliest
                self._deadline_from = parent._deadline_from or parent

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
    def any_of(*tokens: CancelToken) -> CancelToken:
        """Return a token that is cancelled with the first of *tokens*.

        Unlike a child it takes reason and origin over as they are.

        :raises TypeError: one of them is not a token, or there is none.
        """
        if not tokens:
            raise TypeError("any_of() needs at least one CancelToken")
        for token in tokens:
            if not isinstance(token, CancelToken):
                raise TypeError(f"any_of() takes CancelTokens, got {token!r}")
        linked = _LinkedToken.__new__(_LinkedToken)
        linked._set_up(tokens, None)
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
        mine = CancelReason(reason, origin)
        return self._strike(mine) is mine

    def _strike(self, mine: CancelReason) -> CancelReason:
        """Cancel for *mine* unless there is a reason already; return what stands."""
        generation = self._generation
        # Not the reason: a linked token shares it with those it was linked to.
        claimant = object()
        try:
            standing = generation.stop.put(mine)
            if not generation.is_spread:
                Strike(claimant).run(generation)
        except BaseException:
            # A signal handler raised in the middle (a second Ctrl+C): no wait may be
            # left asleep for that. Finish first, then let it go up.
            generation.stop.put(mine)
            Strike(claimant).run(generation)
            raise
        return standing

    def _inherit(self, cause: CancelReason) -> CancelReason:
        """Turn a parent's reason into the one for this token."""
        return cause.as_parent()

    def reset(self) -> None:
        """Make the token as new: not cancelled, no callbacks, no background request.

        Waits in progress, children and whatever the SDK has hung on the token stay;
        a deadline stays unless it has passed. Under a cancelled parent the token is
        cancelled again at once.

        :raises RuntimeError: a live run uses the token; it clears it when it ends.
        """
        old = self._generation
        if old.is_held:
            raise RuntimeError(
                "this token belongs to a live run, which clears it when it ends; "
                "cancel the run, or use a token of your own"
            )
        self._drop_passed_deadline()
        self._generation = Generation()
        for link in list(old.links):
            if link.survives_reset and not link.is_spent:
                self._link(link)
            elif not link.survives_reset:
                link.drop()
        for parent in self._parents:
            cause = parent._cause()
            if cause is not None:
                self._strike(self._inherit(cause))

    # -- looking -------------------------------------------------------------------

    @property
    def cancelled(self) -> bool:
        """Is it cancelled, or past its deadline?"""
        return self._cause() is not None

    @property
    def reason(self) -> CancelReason | None:
        """The first canceller's words (a ``str``), ``None`` while not cancelled."""
        return self._cause()

    @property
    def origin(self) -> Origin | None:
        """Who cancelled, ``None`` while not cancelled."""
        cause = self._cause()
        return None if cause is None else cause.origin

    def checkpoint(self) -> None:
        """Raise if cancelled.

        :raises Cancelled: it is.
        """
        if self._generation.stop or self._deadline is not None:
            cause = self._cause()
            if cause is not None:
                raise Cancelled(cause, cause.origin)

    def _cause(self) -> CancelReason | None:
        generation = self._generation
        if generation.stop:
            return generation.cause
        if self._deadline is not None and self._deadline <= _clock.now():
            self._expire()
            return generation.cause
        return None

    # -- time ----------------------------------------------------------------------

    @property
    def deadline(self) -> float | None:
        """The monotonic time at which it cancels by itself, own or a parent's."""
        return self._deadline

    def remaining(self) -> float | None:
        """Return the seconds to the deadline, at least 0, or ``None`` without one."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - _clock.now())

    def _drop_passed_deadline(self) -> None:
        now = _clock.now()
        if self._deadline is not None and self._deadline <= now:
            own = self._own_deadline
            self._set_deadline(own if own is not None and own > now else None)
            self._enrol(anew=True)

    def _expire(self) -> None:
        """Cancel for a deadline that has passed, beginning with the token it is of."""
        holder = self._deadline_from
        if holder is not None:
            cause = holder._cause()
            if cause is not None:
                self._strike(self._inherit(cause))
                return
        self._strike(CancelReason("deadline passed", "deadline"))

    # -- blocking ------------------------------------------------------------------

    def wait(self, timeout: float | None = None) -> bool:
        """Block until cancelled, at most *timeout* seconds.

        Cancellation: this is what it waits for.

        :return: whether it was cancelled.
        :raises ValueError: *timeout* is negative.
        """
        until = earlier(absolute(timeout, None), self._deadline)
        if self._cause() is not None:
            return True
        waiter = Waiter()
        try:
            self._link(waiter)
            woken = waiter.wait(until)
        finally:
            self.detach(waiter)
        return woken or self._cause() is not None

    def sleep(self, seconds: float) -> None:
        """Sleep, but not through a cancel.

        Cancellation: raises :class:`Cancelled` at once.

        :raises Cancelled: the token was cancelled before or while sleeping.
        """
        self.wait(seconds)
        self.checkpoint()

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
        services.current.courier.ensure_thread()
        registration = Registration(self, callback)
        self._enrol()
        self._link(registration)
        return registration

    def attach(self, killable: Killable) -> None:
        """Have *killable* fired by a cancel; at once if there was one already."""
        self._enrol()
        self._link(killable)

    def detach(self, killable: Killable) -> bool:
        """Take *killable* back.

        :return: false if a cancel came first: the resource is tainted.
        """
        self._unlink(killable)
        return killable.take()

    def _enrol(self, anew: bool = False) -> None:
        """Make fork and deadline reach what is, or will be, hung on this token."""
        home = services.current
        if self._home is not home or anew:
            self._home = home
            home.enrol(self)
            if self._deadline is not None:
                home.timer.call_at(self._deadline, self._cause)

    def _link(self, link: Link) -> None:
        while True:
            generation = self._generation
            generation.links[link] = None  # publish first ...
            cause = generation.cause
            if cause is not None:  # ... then look
                Strike(object()).hit(link, cause)
            if link.is_spent:
                generation.links.pop(link, None)
            if self._generation is generation:
                return

    def _unlink(self, link: Link) -> None:
        self._generation.links.pop(link, None)

    def _cut_after_fork(self) -> None:
        links = self._generation.links
        for link in list(links):
            if not link.survives_fork:
                link.drop()
                links.pop(link, None)

    # -- background ----------------------------------------------------------------

    def request_background(self) -> None:
        """Ask that the work go on in the background. Safe wherever cancel() is."""
        self._generation.background = True

    @property
    def background_requested(self) -> bool:
        """Has somebody asked for the background?"""
        return self._generation.background

    # -- as other things -----------------------------------------------------------

    @property
    def signal(self) -> CancelSignal:
        """The token as a :class:`threading.Event`, whose ``set()`` takes no lock."""
        signal = self._signal() if self._signal is not None else None
        if signal is None:
            signal = CancelSignal(self)
            # Weak, as the signal holds the token. Two threads may each make one:
            # they are the same thing in two coats.
            self._signal = weakref.ref(signal)
        return signal

    def __repr__(self) -> str:
        cause = self._cause()
        if cause is not None:
            state = f"cancelled, {cause!r}"
        elif self._deadline is not None:
            state = f"live, {self.remaining():.3g} s left"
        else:
            state = "live"
        return f"<CancelToken: {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a CancelToken belongs to its process and cannot be copied or pickled; "
            "make one on the other side and cancel it there"
        )


class _LinkedToken(CancelToken):
    """A token that stands for several, see :meth:`CancelToken.any_of`."""

    __slots__ = ()

    def _inherit(self, cause: CancelReason) -> CancelReason:
        return cause
