"""Ask somebody who may take for ever: a person, mostly."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, Final

from .. import _clock
from ..cancel import CancelToken, Mailbox
from .threads import Errand

__all__ = ["ask_handler"]

#: How long a handler that can hear of a cancel has to end, in seconds, before it is
#: left behind.
_PATIENCE: Final = 1.0


def ask_handler(
    name: str,
    run_id: str,
    handler: Callable[..., Any],
    question: object,
    token: CancelToken,
) -> Any:
    """Have a handler answer a question, on a thread of its own.

    One that takes a second argument is given *token*, to hear of a cancel.

    Cancellation: ends at once; the thread is left behind, unless it ends by itself.

    :param name: what the thread, and the ledger, call it.
    :raises Cancelled: *token* was cancelled.
    """
    can_hear = _takes_two(handler)
    given = (question, token) if can_hear else (question,)

    def work() -> tuple[Any, BaseException | None]:
        try:
            return handler(*given), None
        except BaseException as error:  # for whoever waits
            return None, error

    mail: Mailbox[tuple[Any, BaseException | None]] = Mailbox()
    token.checkpoint()
    errand = Errand(name, "", run_id, work, mail.put)
    done = None
    try:
        errand.start()
        done = mail.get(token)
        if done is None and can_hear:
            done = mail.get(CancelToken(), _clock.now() + _PATIENCE)
    finally:
        if done is None and not errand.withdraw():
            errand.leave(logging.INFO)  # people do not stop, that is nothing new
    token.checkpoint()  # an answer that comes after a cancel is none
    assert done is not None
    answer, error = done
    if error is not None:
        raise error
    return answer


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
