"""Ask somebody who may take for ever: a person, mostly."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, Final

from ..cancel import CancelToken, Mailbox, clock
from ..tools.detachable import DetachableWork

__all__ = ["HandlerCall", "call_handler"]

#: How long a handler that can hear of a cancel has to end, in seconds, before it is
#: left behind.
_PATIENCE: Final = 1.0

_Done = tuple[Any, BaseException | None]


class HandlerCall:
    """A question to a handler, on a thread of its own.

    One that takes a second argument is given *token*, to hear of a cancel.

    :param name: what the thread, and the ledger, call it.
    :param token: what ends it; its deadline, if it has one of its own, is how long the
        handler has.
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
        self._can_hear = _takes_two(handler)
        given = (question, token) if self._can_hear else (question,)

        def work() -> _Done:
            try:
                return handler(*given), None
            except BaseException as error:  # for whoever waits
                return None, error

        self._mail: Mailbox[_Done] = Mailbox()
        self._errand = DetachableWork(name, "", run_id, work, self._mail.put)
        self._done: _Done | None = None
        self._has_begun = False

    def wait(self, wake: CancelToken | None = None) -> bool:
        """Wait for the answer; one that is in is found with :meth:`answer`.

        Cancellation: ends at once; the thread is left behind, unless it ends by itself.

        :param wake: ends the wait, and nothing else: it can go on later, elsewhere.
        :return: false if *wake* did.
        :raises Cancelled: the token was cancelled.
        :raises TimeoutError: the handler did not answer in time.
        """
        token = self._token
        is_kept = False
        self._checkpoint()
        try:
            if not self._has_begun:
                self._has_begun = True
                self._errand.start()
            either = token if wake is None else CancelToken.any_of(token, wake)
            self._done = self._mail.get(either)
            if self._done is None and not token.cancelled:
                is_kept = True
                return False
            if self._done is None and self._can_hear:
                self._done = self._mail.get(CancelToken(), clock.now() + _PATIENCE)
        finally:
            if not is_kept:
                self.leave()
        self._checkpoint()  # an answer that comes after a cancel is none
        return True

    def _checkpoint(self) -> None:
        # Its own deadline: the run's comes as the parent's.
        if self._token.cancelled and self._token.origin == "deadline":
            raise TimeoutError("nobody has answered in time")
        self._token.checkpoint()

    def leave(self) -> None:
        """Leave the handler behind if it has not answered; may be done again."""
        if self._done is None and not self._errand.withdraw():
            self._errand.leave(logging.INFO)  # people do not stop, nothing new

    def answer(self) -> Any:
        """Return the answer, or raise what the handler has raised."""
        assert self._done is not None
        answer, error = self._done
        if error is not None:
            raise error
        return answer


def call_handler(
    name: str,
    run_id: str,
    handler: Callable[..., Any],
    question: object,
    token: CancelToken,
) -> Any:
    """Have a handler answer a question, and wait for that.

    Cancellation: ends at once; the thread is left behind, unless it ends by itself.

    :raises Cancelled: *token* was cancelled.
    :raises TimeoutError: its own deadline has passed.
    """
    inquiry = HandlerCall(name, run_id, handler, question, token)
    inquiry.wait(None)
    return inquiry.answer()


def _takes_two(handler: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):  # a builtin, such as input
        return False
    by_place = [
        each
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        and each.default is each.empty
    ]
    return len(by_place) >= 2
