"""One call: a request, made again where that is safe, until it is answered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final

import msgspec
import requests
from requests.hooks import dispatch_hook

from .._redaction import is_secret_name
from .._resolver import Resolver
from .._run_id import run_id
from .._sockets import FOREVER
from ..cancel import CancelToken
from ..exceptions import Cancelled, ProviderError, SyncAgentError, TransportError
from ..retry import Retries
from ..timeouts import Timeouts
from .adapter import CancellableAdapter
from .answers import Answer
from .exchange import Exchange
from .failures import free, timed_out, took_too_long, translate
from .routes import Route

#: Parts of a credential that are shorter may be words that mean something else.
_SHORTEST_SECRET: Final = 6

_log = logging.getLogger("syncagent.transport")


class Request(msgspec.Struct, frozen=True):
    """A request ready to be sent, once."""

    prepared: requests.PreparedRequest
    #: The way there: what the adapter needs beside it.
    route: Route
    #: Its headers before credentials were added.
    open_headers: dict[str, str | bytes]

    def secrets(self) -> Iterator[str]:
        """Yield what must not be shown: all that is there because of credentials."""
        for name, value in self.prepared.headers.items():
            if self.open_headers.get(name) != value or is_secret_name(name):
                text = value.decode("latin-1") if isinstance(value, bytes) else value
                parts = sorted({text, *text.split()}, key=len, reverse=True)
                yield from (part for part in parts if len(part) >= _SHORTEST_SECRET)


class Call:
    """Attempts at the same request, one after the other.

    :param url: where to.
    :param prepare: makes the request anew for each attempt, with fresh credentials.
    :param token: the caller's.
    :param on_phase: called with the name of each phase as it begins.
    """

    def __init__(
        self,
        url: str,
        prepare: Callable[[], Request],
        adapter: CancellableAdapter,
        token: CancelToken,
        *,
        timeouts: Timeouts,
        retries: Retries,
        resolver: Resolver | None,
        max_bytes: int,
        on_phase: Callable[[str], object] | None,
    ) -> None:
        self.url: Final = url
        self.prepare: Final = prepare
        self.adapter: Final = adapter
        self.timeouts: Final = timeouts
        self.resolver: Final = resolver
        self.max_bytes: Final = max_bytes
        self.on_phase: Final = on_phase
        #: The newest answer, for those who want to see its head.
        self.answer: Answer | None = None
        self._caller = token
        self._retries = retries
        #: A child of the caller's, which the total timeout cancels.
        self.token: Final = token.child(timeouts.total)

    def attempts(self) -> Iterator[Attempt]:
        """Yield attempts, until one is complete or fails for good.

        Cancellation: ends at once, also the waits between attempts.

        :raises Cancelled: the caller's token was cancelled.
        :raises SyncAgentError: the last attempt's failure.
        """
        failures = 0
        while True:
            self._checkpoint("")
            attempt = Attempt(self)
            yield attempt
            # Whatever came out of it, and whatever it looks like: a cancel is a cancel,
            # also one that comes while we look.
            self._caller.checkpoint()
            failure = None if attempt.is_complete else self._failure(attempt)
            self._caller.checkpoint()
            if failure is None:
                return
            failures += 1
            delay = self._delay(failures, failure, attempt)
            if delay is None:
                raise failure
            _log.info(
                "run %s: attempt %d failed (%s); again in %.2f s",
                *(run_id.get(), failures, type(failure).__name__, delay),
            )
            self._wait(delay)

    def _failure(self, attempt: Attempt) -> BaseException:
        """Say in our words how *attempt* failed, if we have words for it."""
        error, phase = attempt.error, attempt.exchange.phase
        if self._is_over:
            return took_too_long(phase, self.timeouts, self.url)
        if isinstance(error, SyncAgentError):
            return error
        late = attempt.exchange.late_phase
        if late is not None:
            return timed_out(late, self.timeouts, self.url)
        assert error is not None
        return translate(error, phase, self.url) or error

    def _delay(
        self, failures: int, failure: BaseException, attempt: Attempt
    ) -> float | None:
        if attempt.has_delivered or not isinstance(
            failure, (TransportError, ProviderError)
        ):
            return None
        delay = self._retries.delay(failures, failure)
        left = self.token.remaining()
        # The failure says more than a deadline that would only come later.
        return None if delay is None or (left is not None and delay >= left) else delay

    def _wait(self, seconds: float) -> None:
        if self.on_phase is not None:
            self.on_phase("retry")
        self.token.wait(seconds)
        self._checkpoint("retry")

    def _checkpoint(self, phase: str) -> None:
        self._caller.checkpoint()
        if self._is_over:
            raise took_too_long(phase, self.timeouts, self.url)

    @property
    def _is_over(self) -> bool:
        """Has the total timeout passed? A cancel from above has another origin."""
        return self.token.origin == "deadline"


class Attempt:
    """One request and what came of it, to be used in a ``with`` block.

    The block's exceptions end there: :meth:`Call.attempts` says what they mean. Only
    those that are not about the call, such as :exc:`KeyboardInterrupt`, go through.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._answer: Answer | None = None
        self.exchange: Final = Exchange(
            call.token,
            timeouts=call.timeouts,
            resolver=call.resolver,
            on_phase=call.on_phase,
        )
        #: How it failed.
        self.error: BaseException | None = None
        #: Has the caller been given anything of the answer?
        self.has_delivered = False
        #: Has the answer been told to be complete?
        self.is_complete = False

    def send(self) -> Answer:
        """Send the request and return its answer, of which only the head is there.

        Cancellation: ends at once.

        :raises ProviderError: its status is that of an error.
        :raises RedirectRefused: it points elsewhere.
        """
        call, exchange = self._call, self.exchange
        request = call.prepare()
        options = {"stream": True, "timeout": FOREVER, **request.route}
        with exchange.bound():
            response = call.adapter.send(request.prepared, **options)
            # A hook may send the request again, as digest authentication does.
            hooks = request.prepared.hooks
            response = dispatch_hook("response", hooks, response, **options)
        call.answer = self._answer = answer = Answer(
            response,
            exchange,
            url=call.url,
            max_bytes=call.max_bytes,
            secrets=request.secrets,
        )
        exchange.token.checkpoint()
        answer.raise_for_status()
        return answer

    def __enter__(self) -> Attempt:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        try:
            if self._answer is not None:
                # An exception from outside is not kept waiting.
                is_fine = error is None or isinstance(error, GeneratorExit)
                self._answer.close(lingers=self.is_complete and is_fine)
        finally:
            self.exchange.close()
        self.error = error
        free(error)
        return isinstance(error, (Exception, Cancelled))
