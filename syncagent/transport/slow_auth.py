"""Credentials that may block, and that are renewed once after a status of 401.

A user's function or ``auth`` object may fetch a token from a server. It runs on a
short-lived thread of its own, which a cancel leaves behind: see :mod:`~.detached`.

Guarantees:

- Credentials are renewed once, however many threads were refused with them. A thread
  that learns of its refusal later finds the renewed ones.
- No lock is taken: the result of a renewal is published before its number.
- A function that uses the model whose credentials it fetches gets an error, and does
  not wait for itself.
- A user's exception is never mistaken for one of the libraries: it is the cause of an
  :exc:`~syncagent.exceptions.AuthenticationFailed`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from requests import PreparedRequest
from requests.auth import AuthBase

from ..exceptions import AuthenticationFailed, ConnectionFailed
from .detached import call_detached
from .exchange import Exchange
from .prepared import Request
from .redactor import Redactor

__all__ = ["NoCredentials", "SlowAuth", "sign", "summary_of"]

_T = TypeVar("_T")

#: Its ``auths`` are the credentials that this thread fetches.
_fetching = threading.local()


class NoCredentials(Exception):
    """Says why there are no credentials; its cause is the user's exception, if any."""

    def as_error(self, url: str, auth: SlowAuth) -> AuthenticationFailed:
        """Return the error for the request to *url*, which was not sent."""
        redactor = Redactor(url)
        redactor.secrets = lambda: auth.secrets
        error = AuthenticationFailed(
            f"{redactor.url}: no credentials; the request was not sent: "
            f"{redactor.quote(str(self))}",
            url=redactor.url,
        )
        error.__cause__ = self.__cause__
        return error


class SlowAuth(AuthBase, ABC):
    """Credentials that may block, and may change.

    The methods run on threads of their own, any number of them at once.
    """

    def __init__(self) -> None:
        #: The number of renewals.
        self.renewals = 0
        #: The values of the newest renewal, and whether a ``refresh()`` took part.
        self.renewed: tuple[Any, bool] = (None, False)

    @abstractmethod
    def ask(self) -> Any:
        """Return fresh values for :meth:`add`.

        :raises NoCredentials: there are none.
        """

    @abstractmethod
    def add(self, request: PreparedRequest, values: Any) -> PreparedRequest:
        """Add the credentials to *request*.

        :raises NoCredentials: that failed.
        """

    @abstractmethod
    def refresh(self) -> bool:
        """Drop values that were refused; return whether there is a way to do so."""

    @property
    @abstractmethod
    def secrets(self) -> tuple[str, ...]:
        """The newest values, and some before them, which must not be shown."""

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        return self.add(request, self.ask())

    def renew(self, number: int) -> None:
        """Renew the values, unless there were more than *number* renewals."""
        if self.renewals == number:
            has_refresh = self.refresh()
            self.renewed = (self.ask(), has_refresh)  # publish first, then count
            self.renewals = number + 1


def sign(
    auth: SlowAuth,
    request: PreparedRequest,
    exchange: Exchange,
    refused: Request | None = None,
) -> int | None:
    """Add credentials to *request*, in the phase ``credentials``.

    Cancellation: ends at once; *request* must not be used any more then.

    :param refused: the same request with credentials that got a status of 401.
    :return: the number of renewals, or None if the credentials are still those of
        *refused*.
    :raises AuthenticationFailed: there are no credentials.
    """
    exchange.enter("credentials")
    url = request.url or ""
    outer: tuple[SlowAuth, ...] = getattr(_fetching, "auths", ())
    if auth in outer:
        raise NoCredentials(
            "the function that fetches them uses the model that needs them"
        ).as_error(url, auth)

    def run(function: Callable[[], _T], **options: Any) -> _T:
        outcome = call_detached(
            partial(_guarded, function, (*outer, auth)),
            exchange.token,
            name="syncagent-credentials",
            refusal=partial(_try_again, Redactor(url).url),
            **options,
        )
        if isinstance(outcome, NoCredentials):
            raise outcome.as_error(url, auth)
        return outcome

    is_new = True
    before = None if refused is None else refused.renewals
    if before is not None and auth.renewals == before:
        run(partial(auth.renew, before), key=(auth, before))
    number = auth.renewals  # first: any later renewal is one of these credentials
    if refused is None:
        run(lambda: request.prepare_auth(auth, url))
    else:
        values, has_refresh = auth.renewed
        run(lambda: request.prepare_auth(partial(auth.add, values=values), url))
        sent = refused.prepared
        is_same = (sent.url, sent.headers) == (request.url, request.headers)
        is_new = has_refresh or not is_same
    exchange.end_clock()
    return number if is_new else None


def _guarded(
    function: Callable[[], _T], auths: tuple[SlowAuth, ...]
) -> _T | NoCredentials:
    """Return the result of *function*, or the reason for its failure."""
    _fetching.auths = auths  # for good: the thread is this call's own
    try:
        return function()
    except NoCredentials as error:
        return error.with_traceback(None)
    except BaseException as error:
        failed = NoCredentials(summary_of(error))
        failed.__cause__ = error.with_traceback(None)
        return failed


def summary_of(error: BaseException) -> str:
    """Return type and message of a user's exception, whose ``str()`` may fail, too."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def _try_again(url: str, problem: str) -> ConnectionFailed:
    return ConnectionFailed(
        f"{url}: the credentials were not fetched: {problem}",
        phase="credentials",
        url=url,
        retryable=True,
    )
