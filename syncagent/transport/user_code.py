"""Exceptions of the user's code on their way out, past the libraries in between.

A user's code runs inside a call as a callback, and as a signal handler, which Python
may run anywhere. The libraries below catch errors of many types, to wrap, to retry or
to ignore them, and so do we; none of that is for the user's own exceptions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..cancel.handler_errors import raised_by_signal_handler

T = TypeVar("T")


class UserCodeError(BaseException):
    """Carries an exception of the user's code out to the caller.

    A :class:`BaseException`, so that neither the libraries that it passes nor we take
    it for a failure of the call.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def call_user_code(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a user's *function*.

    :raises UserCodeError: it raised an exception.
    """
    try:
        return function(*args, **kwargs)
    except Exception as error:
        raise UserCodeError(error) from None


def raise_if_from_handler(error: BaseException) -> None:
    """Raise *error*, wrapped, if a signal handler has raised it.

    :raises UserCodeError: it did.
    """
    if isinstance(error, Exception) and raised_by_signal_handler(error):
        raise UserCodeError(error) from None
