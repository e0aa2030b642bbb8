"""Call a user's handler on its own thread, with a deadline."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, Final

from ..cancel import CancelToken, Mailbox, clock
from ..tools.detachable import DetachableWork

__all__ = ["HandlerCall", "call_handler"]

#: Seconds that a handler which knows of the cancel has to end before it is left behind.
_PATIENCE: Final = 1.0

#: The answer, or the error that the handler raised.
_Outcome = tuple[Any, BaseException | None]


class HandlerCall:
    """One call of a handler, on a thread of its own.

    A handler that takes a second argument is given *token*, to learn of a cancel.

    :param name: names the thread, and the entry in ``syncagent.abandoned()``.
    :param token: ends the wait; its own deadline is the time the handler has.
    """

    def __init__(
        self,
        name: str,
        run_id: str,
        handler: Callable[..., Any],
        question: object,
        token: CancelToken,
    ) -> None:
        self._token = token
        self._takes_token = _takes_token(handler)
        arguments = (question, token) if self._takes_token else (question,)

        def work() -> _Outcome:
            try:
                return handler(*arguments), None
            except BaseException as error:  # for the waiting thread
                return None, error

        self._mail: Mailbox[_Outcome] = Mailbox()
        self._work = DetachableWork(name, "", run_id, work, self._mail.put)
        self._outcome: _Outcome | None = None
        self._has_begun = False

    def wait(self, wake: CancelToken | None = None) -> bool:
        """Wait until the handler has returned; then :meth:`answer` has its answer.

        Cancellation: ends at once; the thread is left behind, unless it ends by itself.

        :param wake: ends only the wait, which can be continued later on another thread.
        :return: false if *wake* ended it.
        :raises Cancelled: the token was cancelled.
        :raises TimeoutError: the handler did not answer in time.
        """
        token = self._token
        is_kept = False
        self._checkpoint()
        try:
            if not self._has_begun:
                self._has_begun = True
                self._work.start()
            either = token if wake is None else CancelToken.any_of(token, wake)
            self._outcome = self._mail.get(either)
            if self._outcome is None and not token.cancelled:
                is_kept = True
                return False
            if self._outcome is None and self._takes_token:
                self._outcome = self._mail.get(CancelToken(), clock.now() + _PATIENCE)
        finally:
            if not is_kept:
                self.leave()
        self._checkpoint()  # an answer after a cancel does not count
        return True

    def _checkpoint(self) -> None:
        # Only its own deadline: the run's arrives as a cancel of the parent.
        if self._token.cancelled and self._token.origin == "deadline":
            raise TimeoutError("the handler did not answer in time")
        self._token.checkpoint()

    def leave(self) -> None:
        """Leave the handler behind if it has not answered. Safe to repeat."""
        if self._outcome is None and not self._work.withdraw():
            self._work.leave(logging.INFO)  # a person who does not answer is no news

    def answer(self) -> Any:
        """Return the answer, or raise the error of the handler."""
        assert self._outcome is not None
        answer, error = self._outcome
        if error is not None:
            # Its traceback has the frames that hold this call: no cycle.
            self._outcome, self._work.result = (None, None), None
            try:
                raise error
            finally:
                del error
        return answer


def call_handler(
    name: str,
    run_id: str,
    handler: Callable[..., Any],
    question: object,
    token: CancelToken,
) -> Any:
    """Call a handler, and return its answer.

    Cancellation: ends at once; the thread is left behind, unless it ends by itself.

    :raises Cancelled: *token* was cancelled.
    :raises TimeoutError: its own deadline has passed.
    """
    call = HandlerCall(name, run_id, handler, question, token)
    call.wait(None)
    return call.answer()


def _takes_token(handler: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):  # a builtin, such as input
        return False
    positional = [
        each
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        and each.default is each.empty
    ]
    return len(positional) >= 2
