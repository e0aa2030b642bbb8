"""A run in the background: follow it, answer it, steer it, end it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .._checks import check_number, check_timeout
from .._closeable import Closeable
from ..cancel import CancelMode, CancelToken, Receipt, clock
from ..cancel.deferred import check_mode
from ..cancel.reason import make_cause
from ..conversation.conversation import Background, check_background
from ..conversation.descendants import cancel_begun_by
from ..conversation.request import Cancel, compose
from ..events import RunState
from ..exceptions import AgentBusy, ConfigurationError, InterruptOver, Origin
from ..interrupts import Approval, Interrupt, Remember
from ..messages import Prompt, UserMessage, user_message
from ..result import RunResult
from .handle_thread import Serving
from .subscriptions import Subscription

__all__ = ["Handle"]


class Handle(Serving, Closeable):
    """A run in the background, on a daemon thread of its own.

    Everything here may be called from any thread. What ends something, ``cancel()``,
    ``interrupt()`` and ``shutdown()``, is as safe as :meth:`syncagent.Agent.cancel`.
    A ``with`` block shuts it down at its end.
    """

    # -- what it comes to ----------------------------------------------------------

    def result(self, timeout: float | None = None) -> RunResult:
        """Wait until it has nothing left to do; return what its last run came to.

        Cancellation: it waits for the end of a run, which that run's cancel brings.

        :raises TimeoutError: it is still busy after *timeout* seconds.
        :raises AgentBusy: this is a part of the run, which would wait for itself.
        :raises SyncAgentError: what the run has raised.
        """
        if not self.wait(timeout):
            raise TimeoutError(f"run {self.run_id} is still busy after {timeout} s")
        outcome = self._outcome
        if isinstance(outcome, BaseException):
            raise outcome
        if outcome is None:
            raise ConfigurationError(
                "there is no result, as nothing was said; give start() a prompt, or "
                "send_input() before"
            )
        return outcome

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has nothing left to do, at most *timeout* seconds.

        Cancellation: it waits for the end of a run, which that run's cancel brings.

        :return: whether that is so.
        :raises AgentBusy: this is a part of the run, which would wait for itself.
        """
        self._refuse_child()
        if not self._is_idle() and self._is_own_thread():
            raise AgentBusy("this is a part of the run, which would wait for itself")
        check_timeout(timeout)
        until = None if timeout is None else clock.now() + timeout
        return self._rested.wait(self._is_idle, CancelToken(), until)

    def join(self, timeout: float | None = None) -> bool:
        """Wait until it is over, and its done callbacks have returned.

        An idle one is not over.

        On its own thread, and on those of its tools, it does not wait, as that would
        be for ever.

        Cancellation: it waits for the end of one, so nothing else ends it.

        :return: whether it is over.
        """
        is_part = self._pid != os.getpid() or self._is_own_thread()
        return self.callbacks.returned.wait(0.0 if is_part else timeout)

    def done(self) -> bool:
        """Is it over? One that is idle is not."""
        return self.ended.cancelled

    def cancelled(self) -> bool:
        """Is it over, and was its last run cancelled?"""
        outcome = self._outcome
        return self.done() and isinstance(outcome, RunResult) and outcome.cancelled

    @property
    def error(self) -> BaseException | None:
        """What its last run has raised, if it did."""
        outcome = self._outcome
        return outcome if isinstance(outcome, BaseException) else None

    def add_done_callback(self, function: Callable[[Handle], object]) -> None:
        """Have *function* called with this when it is over.

        It is called on the handle's own thread; on this one, and at once, if it is over
        already. What it raises is logged.

        :raises TypeError: it cannot be called.
        """
        if not callable(function):
            raise TypeError(f"add_done_callback() takes a function; got {function!r}")
        self.callbacks.add(function)  # publish first, then look
        if self.done():
            self.callbacks.call(self.run_id, self)

    # -- ending it -----------------------------------------------------------------

    def cancel(
        self,
        reason: str = "",
        origin: Origin = "user",
        *,
        mode: CancelMode = "now",
        force: bool = False,
        background: Background = "keep",
    ) -> Receipt:
        """End the live run, and with it the handle.

        :param background: ``cancel`` also ends the handles that its tools have started.
        :return: true if and only if a run was live, or waited for its turn; else
            nothing happens.
        """
        nothing = _checked(reason, origin, mode)
        check_background(background)
        claim = self._live()
        if claim is None:
            return nothing
        self._cancelled = claim
        receipt = claim.cancel(reason, origin, mode=mode, force=force)
        if background == "cancel":
            cancel_begun_by(claim.run_id, reason, mode=mode, force=force)
        return receipt

    def interrupt(
        self,
        reason: str = "interrupted",
        origin: Origin = "user",
        *,
        mode: CancelMode = "now",
        force: bool = False,
    ) -> Receipt:
        """End the live run; the handle lives on, and takes :meth:`send_input`.

        What was sent before, and not heard yet, is said next. If the run still waits
        for its turn, what it was to say is said together with that.

        :return: true if and only if a run was live, or waited for its turn; else
            nothing happens.
        """
        nothing = _checked(reason, origin, mode)
        claim = self._live()
        if claim is None:
            return nothing
        self._interrupted = claim
        return claim.cancel(reason, origin, mode=mode, force=force)

    def background(self) -> None:
        """Have it count as sent to the background, as nobody waits for it any more.

        ``agent.cancel()`` and Ctrl+C under ``cancel_on_signals()`` spare it from now
        on, and ``agent.fork()`` is the conversation before its run.
        """
        self.is_background = True  # publish first, then look
        claim = self._live()
        if claim is not None:
            claim.is_background = True

    def shutdown(self, reason: str = "shut down", *, force: bool = False) -> Receipt:
        """End the handle, whatever it is doing; :meth:`wait` waits for that.

        :return: true if and only if a run was live, or waited for its turn; it ends as
            ``shutdown``.
        """
        return self._stop(reason, "shutdown", force=force)

    def close(self) -> None:
        """Shut it down, and wait for that.

        Cancellation: it waits for the end of one, so nothing else ends it.
        """
        self.shutdown()
        self.join(timeout=None)

    # -- talking to it -------------------------------------------------------------

    def send_input(self, prompt: Prompt) -> None:
        """Say something to it, whatever it is doing.

        It is heard after the tool round that runs, or else in a run of its own, with
        all that was sent meanwhile, in order.

        :raises ConfigurationError: it is over, and would never hear it.
        """
        self._refuse_child()
        if not self._inbox.put(user_message(prompt)):
            raise ConfigurationError(
                f"run {self.run_id} is over and takes no more input; start another one "
                "with agent.start()"
            )

    @property
    def pending_inputs(self) -> tuple[UserMessage, ...]:
        """What was sent and not heard yet, also if it never will be."""
        return (*self._unsaid, *self._inbox.messages)

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """What it waits for; each can be answered directly, or with :meth:`answer`."""
        return self._desk.open

    def answer(
        self,
        id: str,
        answer: Any,
        remember: Remember = False,
        *,
        arguments: dict[str, Any] | None = None,
        reason: str = "",
    ) -> bool:
        """Answer what it waits for.

        :param id: the interrupt's, or that of the tool call that it is about.
        :param answer: whether a tool may be called; credentials; words.
        :param remember: for later calls, see :class:`~syncagent.interrupts.Approval`.
        :param arguments: to be used in place of the model's.
        :param reason: told to the model if it is not allowed.
        :return: whether it counts; false if that was over already.
        :raises ConfigurationError: nobody has asked that, or the answer makes no sense;
            it still waits then.
        """
        self._refuse_child()
        if isinstance(answer, bool):
            answer = Approval(answer, arguments, reason, remember)
        elif remember or reason or arguments is not None:
            raise ConfigurationError(
                "remember, arguments and reason go with True or False; put them into "
                "Approval(...), or leave them away"
            )
        try:
            self._desk.answer(id, answer)
        except InterruptOver:
            return False
        return True

    # -- following it --------------------------------------------------------------

    def subscribe(
        self,
        *,
        replay: bool = True,
        after: int | None = None,
        cancel: Cancel | None = None,
    ) -> Subscription:
        """Follow its events; any number of threads may, each at its own pace.

        :param replay: begin with what has happened already, as far as it is kept.
        :param after: begin after so many events, the ``position`` of an earlier
            subscription; more than there were are as many as there were.
        :param cancel: an event or a token of yours that ends the subscription.
        :raises ConfigurationError: *after* is no such number.
        """
        begin = _begin(self._events.count, replay, after)
        token, following = compose(None, None, cancel)
        return Subscription(self._events, begin, token, following)

    @property
    def event_count(self) -> int:
        """How many events there were so far."""
        return self._events.count

    @property
    def state(self) -> RunState:
        """What it is doing: a string, which has ``tool``, ``call_id``, ``message``."""
        return RunState(self._state)

    def __repr__(self) -> str:
        return f"<Handle of run {self.run_id}: {self.state}>"


def _begin(count: int, replay: bool, after: int | None) -> int:
    """Return the number of the first event that is to be seen, of *count*."""
    if after is None:
        return 0 if replay else count
    check_number("after", after, is_integer=True, unit="events")
    return min(after, count)


def _checked(reason: str, origin: Origin, mode: CancelMode) -> Receipt:
    """Return what a cancel gives that finds nothing; before it has done anything.

    :raises TypeError: *reason* or *origin* is not a string.
    :raises ValueError: there is no such origin or mode.
    """
    check_mode(mode)
    return Receipt(None, make_cause(reason, origin))
