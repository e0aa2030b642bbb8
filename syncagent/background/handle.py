"""A run in the background: follow it, answer it, steer it, end it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Generic

from .._checks import check_number, check_timeout
from .._closeable import Closeable
from ..cancel import CancelMode, CancelToken, Receipt, clock
from ..cancel.claim import check_cancel
from ..conversation.conversation import Background, check_background
from ..conversation.descendants import cancel_descendants
from ..conversation.one_call import CancelsCalls
from ..conversation.request import Cancel, run_token
from ..events import RunState
from ..exceptions import AgentBusy, ConfigurationError, InterruptOver, Origin
from ..interrupts import Approval, Interrupt, Remember
from ..messages import Prompt, UserMessage, user_message
from ..result import RunResult, Value
from ..run.run import Run
from .handle_thread import HandleThread
from .subscriptions import Subscription

__all__ = ["Handle"]


class Handle(Closeable, CancelsCalls, Generic[Value]):
    """A run in the background, on a daemon thread of its own.

    Call everything here from any thread. ``cancel()``, ``cancel_call()``,
    ``interrupt()`` and ``shutdown()`` are as safe as :meth:`syncagent.Agent.cancel`. A
    ``with`` block shuts the handle down at its end.
    """

    def __init__(self, thread: HandleThread) -> None:
        self.thread: Final = thread
        #: The id of its first run, by which it is known.
        self.run_id: Final = thread.run_id

    # -- the result ----------------------------------------------------------------

    def result(self, timeout: float | None = None) -> RunResult[Value]:
        """Wait until there is nothing left to do; return the result of the last run.

        Cancellation: a cancel of the run ends the wait.

        :raises TimeoutError: it is still busy after *timeout* seconds.
        :raises AgentBusy: the caller is part of the run, and would wait for itself.
        :raises SyncAgentError: the error that the run raised.
        """
        if not self.wait(timeout):
            raise TimeoutError(f"run {self.run_id} is still busy after {timeout} s")
        outcome = self.thread.outcome
        if isinstance(outcome, BaseException):
            raise _copy_of(outcome)
        if outcome is None:
            raise ConfigurationError(
                "there is no result, because there was no prompt; give start() a "
                "prompt, or call send_input() first"
            )
        return outcome

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until there is nothing left to do, at most *timeout* seconds.

        Cancellation: a cancel of the run ends the wait.

        :return: false if it is still busy.
        :raises AgentBusy: the caller is part of the run, and would wait for itself.
        """
        thread = self.thread
        thread.check_process()
        if not thread.is_idle and thread.is_own_thread:
            raise AgentBusy(
                "this code is part of the run, and would wait for itself",
                cause="inside",
                run_id=self.run_id,
            )
        check_timeout(timeout)
        until = None if timeout is None else clock.now() + timeout
        return thread.rested.wait(lambda: thread.is_idle, CancelToken(), until)

    def join(self, timeout: float | None = None) -> bool:
        """Wait until it is over and its done callbacks have returned.

        An idle handle is not over. On its own thread, and on those of its tools, this
        does not wait, because it would wait forever.

        Cancellation: none but *timeout*: this is the wait for the end.

        :return: whether it is over.
        """
        thread = self.thread
        is_part = not thread.is_own_process or thread.is_own_thread
        return thread.callbacks.returned.wait(0.0 if is_part else timeout)

    def done(self) -> bool:
        """Return whether it is over. An idle handle is not."""
        return self.thread.ended.cancelled

    def cancelled(self) -> bool:
        """Return whether it is over, and its last run was cancelled."""
        outcome = self.thread.outcome
        return self.done() and isinstance(outcome, RunResult) and outcome.cancelled

    @property
    def ended(self) -> CancelToken:
        """A token that is cancelled when the handle is over."""
        return self.thread.ended

    @property
    def error(self) -> BaseException | None:
        """The error of the last run, if it raised one."""
        outcome = self.thread.outcome
        return outcome if isinstance(outcome, BaseException) else None

    def add_done_callback(self, function: Callable[[Handle[Value]], object]) -> None:
        """Call *function* with this handle when it is over.

        It is called on the handle's own thread; on this one, at once, if the handle is
        over already. What it raises is logged.

        :raises TypeError: it cannot be called.
        """
        if not callable(function):
            raise TypeError(f"add_done_callback() takes a function; got {function!r}")
        callbacks = self.thread.callbacks
        callbacks.add(partial(function, self))  # publish first, then look
        if self.done():
            callbacks.call(self.run_id)

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
        """Cancel the live run, and end the handle with it.

        :param background: ``cancel`` also ends the handles that its tools have started.
        :return: true if and only if a run was live or waited for its turn; else
            nothing happens.
        """
        cause = check_cancel(reason, origin, mode)
        check_background(background)
        claim = self.thread.live_claim
        if claim is None:
            return Receipt(None, cause)
        self.thread.cancelled = claim
        receipt = claim.cancel_for(cause, mode, force=force)
        if background == "cancel":
            cancel_descendants(claim.run_id, reason, mode=mode, force=force)
        return receipt

    def interrupt(
        self,
        reason: str = "interrupted",
        origin: Origin = "user",
        *,
        mode: CancelMode = "now",
        force: bool = False,
    ) -> Receipt:
        """Cancel the live run; the handle lives on, and takes :meth:`send_input`.

        Input that was sent before and not taken becomes the next prompt, together with
        the prompt of a run that still waited for its turn.

        :return: true if and only if a run was live or waited for its turn; else
            nothing happens.
        """
        cause = check_cancel(reason, origin, mode)
        claim = self.thread.live_claim
        if claim is None:
            return Receipt(None, cause)
        self.thread.interrupted = claim
        return claim.cancel_for(cause, mode, force=force)

    def _find_run(self) -> Run | None:
        return self.thread.live_run

    def background(self) -> None:
        """Count as sent to the background: no caller waits for it any more.

        ``agent.cancel()`` and Ctrl+C under ``cancel_on_signals()`` spare it from now
        on, and ``agent.fork()`` has the conversation before its run.
        """
        thread = self.thread
        thread.is_background = True  # publish first, then look
        claim = thread.live_claim
        if claim is not None:
            claim.is_background = True

    def shutdown(self, reason: str = "shut down", *, force: bool = False) -> Receipt:
        """End the handle, whatever it is doing; :meth:`wait` waits for that.

        :return: true if and only if a run was live or waited for its turn; it ends as
            ``shutdown``.
        """
        return self.thread.stop(reason, "shutdown", force=force)

    def close(self) -> None:
        """Shut it down, and wait for the end.

        Cancellation: none: this is the wait for the end.
        """
        self.shutdown()
        self.join(timeout=None)

    # -- talking to it -------------------------------------------------------------

    def send_input(self, prompt: Prompt) -> None:
        """Send input, whatever the handle is doing.

        The run takes it after its current tool round; else it becomes the prompt of
        the next run, together with all other input, in order.

        :raises ConfigurationError: the handle is over.
        """
        self.thread.check_process()
        if not self.thread.inbox.put(user_message(prompt)):
            raise ConfigurationError(
                f"run {self.run_id} is over and takes no more input; start another one "
                "with agent.start()"
            )

    @property
    def pending_inputs(self) -> tuple[UserMessage, ...]:
        """Input that was sent and not taken yet, also if it never will be."""
        return (*self.thread.unsent, *self.thread.inbox.messages)

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """The open questions; answer them directly, or with :meth:`answer`."""
        return self.thread.questions.open

    def answer(
        self,
        id: str,
        answer: Any,
        remember: Remember = False,
        *,
        arguments: dict[str, Any] | None = None,
        reason: str = "",
    ) -> bool:
        """Answer an open question.

        :param id: the id of the interrupt, or of the tool call that it is about.
        :param answer: true or false for an approval; credentials; text.
        :param remember: for later calls, see :class:`~syncagent.interrupts.Approval`.
        :param arguments: replace those of the model.
        :param reason: told to the model if the answer is false.
        :return: whether the answer counts; false if the question was over already.
        :raises ConfigurationError: there is no such question, or the answer does not
            fit; the question stays open.
        """
        self.thread.check_process()
        if isinstance(answer, bool):
            answer = Approval(answer, arguments, reason, remember)
        elif remember or reason or arguments is not None:
            raise ConfigurationError(
                "remember, arguments and reason go with True or False; put them into "
                "Approval(...), or omit them"
            )
        try:
            self.thread.questions.answer(id, answer)
        except InterruptOver:
            return False
        return True

    # -- registration it --------------------------------------------------------------

    def subscribe(
        self,
        *,
        replay: bool = True,
        after: int | None = None,
        cancel: Cancel | None = None,
    ) -> Subscription:
        """Follow the events; any number of threads may, each at its own pace.

        :param replay: begin with the events so far, as far as they are kept.
        :param after: begin after this many events: the ``position`` of an earlier
            subscription.
        :param cancel: an event or a token of yours that ends the subscription.
        :raises ConfigurationError: *after* is not such a number.
        """
        log = self.thread.events
        begin = 0 if replay else log.count
        if after is not None:
            check_number("after", after, is_integer=True, unit="events")
            begin = min(after, log.count)
        token, registration = run_token(None, None, cancel)
        return Subscription(log, begin, token, registration)

    @property
    def event_count(self) -> int:
        """The number of events so far."""
        return self.thread.events.count

    @property
    def state(self) -> RunState:
        """The state: a string that has ``tool``, ``call_id`` and ``message``."""
        return RunState(self.thread.state)

    def __repr__(self) -> str:
        return f"<Handle of run {self.run_id}: {self.state}>"


def _copy_of(error: BaseException) -> BaseException:
    """Return a copy of *error* to raise; the same one if it cannot be copied.

    An exception that is raised holds the frames of its catcher. The handle must not:
    those frames hold the handle.
    """
    kind = type(error)
    try:
        copied = kind.__new__(kind, *error.args)
        builtin = next(each for each in kind.__mro__ if each.__module__ == "builtins")
        # The part of it that is not in __dict__, such as the code of a SystemExit.
        builtin.__init__(copied, *error.args)  # type: ignore[misc]
        copied.__dict__.update(error.__dict__)
    except Exception:  # a class of the user's, which may do as it likes
        return error
    copied.__cause__, copied.__context__ = error.__cause__, error.__context__
    copied.__suppress_context__ = error.__suppress_context__
    return copied.with_traceback(error.__traceback__)
