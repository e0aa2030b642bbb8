"""One call: a request, made again where that is safe, until it is answered."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final

import requests
from requests.hooks import dispatch_hook

from .._context import run_id
from ..cancel import CancelToken
from ..exceptions import Cancelled, ProviderError, SyncAgentError, TransportError
from .adapter import CancellableAdapter
from .exchange import Exchange, Outside
from .failures import Failures, free
from .prepared import Request
from .redactor import Redactor
from .resolver import Resolver
from .response import StreamedResponse
from .retries import Retries
from .timeouts import Timeouts

_log = logging.getLogger("syncagent.transport")


class RetriedRequest:
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
        self.prepare: Final = prepare
        self.adapter: Final = adapter
        self.timeouts: Final = timeouts
        self.resolver: Final = resolver
        self.max_bytes: Final = max_bytes
        self.on_phase: Final = on_phase
        self.redactor: Final = Redactor(url)
        #: The newest answer, for those who want to see its head.
        self.answer: StreamedResponse | None = None
        #: What ends it: the caller, whoever stops it, or the total timeout.
        self.token = token
        self._caller = token
        self._own = token.child()
        self._retries = retries
        self._failures = Failures(self.redactor, timeouts)

    def attempts(self) -> Iterator[Attempt]:
        """Yield attempts, until one is complete or fails for good.

        Cancellation: ends at once, also the waits between attempts.

        :raises Cancelled: the caller's token was cancelled.
        :raises SyncAgentError: the last attempt's failure.
        """
        failures = 0
        self.token = self._own.child(self.timeouts.total)
        while True:
            self._checkpoint("")
            attempt = Attempt(self)
            yield attempt
            # Whatever came out of it, and whatever it looks like: a cancel is a cancel,
            # also one that comes while we look.
            self._ask()
            failure = self._failure(attempt)
            self._ask()
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

    def stop(self) -> None:
        """End it, from any thread: the call, and not what else hangs on the token."""
        self._own.cancel("the stream was closed by another thread", "closed")

    def _failure(self, attempt: Attempt) -> BaseException | None:
        """Say in our words how *attempt* failed, if it did and we have words for it."""
        error, phase = attempt.error, attempt.exchange.phase
        if isinstance(error, Outside):
            return error.error
        if attempt.is_complete:
            return None
        if self._is_over:
            return self._failures.took_too_long(phase)
        if isinstance(error, SyncAgentError):
            return self._located(error, phase)
        late = attempt.exchange.late_phase
        if late is not None:
            return self._failures.timed_out(late)
        assert error is not None
        return self._failures.translate(error, phase, attempt.before) or error

    def _located(self, error: SyncAgentError, phase: str) -> SyncAgentError:
        """Say where *error* happened, if whoever made it did not know."""
        if isinstance(error, TransportError) and not error.url:
            error.url, error.phase = self.redactor.url, phase
        return error

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

    def _ask(self) -> None:
        """Ask the caller's token first: it knows why."""
        self._caller.checkpoint()
        self._own.checkpoint()

    def _checkpoint(self, phase: str) -> None:
        self._ask()
        if self._is_over:
            raise self._failures.took_too_long(phase)

    @property
    def _is_over(self) -> bool:
        """Has the total timeout passed? A cancel from above has another origin."""
        return self.token.origin == "deadline"


class Attempt:
    """One request and what came of it, to be used in a ``with`` block.

    The block's exceptions end there: :meth:`RetriedRequest.attempts` says what they
    mean. Only
    those that are not about the call, such as :exc:`KeyboardInterrupt`, go through.
    """

    def __init__(self, call: RetriedRequest) -> None:
        self._call = call
        self._response: requests.Response | None = None
        self._answer: StreamedResponse | None = None
        self.exchange: Final = Exchange(
            call.token,
            timeouts=call.timeouts,
            resolver=call.resolver,
            on_phase=call.on_phase,
        )
        #: What the caller is handling as it calls us, which is none of our business.
        self.before = sys.exc_info()[1]
        #: How it failed.
        self.error: BaseException | None = None
        #: Has the caller been given anything of the answer?
        self.has_delivered = False
        #: Has the answer been told to be complete?
        self.is_complete = False

    def send(self) -> StreamedResponse:
        """Send the request and return its answer, of which only the head is there.

        Cancellation: ends at once.

        :raises ProviderError: its status is that of an error.
        :raises RedirectRefused: it points elsewhere.
        """
        call, exchange = self._call, self.exchange
        request = call.prepare()
        call.redactor.secrets = request.secrets
        options = {"stream": True, "timeout": None, **request.route}
        with exchange.bound():
            self._response = call.adapter.send(request.prepared, **options)
            self._response = _call_hooks(request, self._response, options)
        call.answer = self._answer = answer = StreamedResponse(
            self._response, exchange, redactor=call.redactor, max_bytes=call.max_bytes
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
            elif self._response is not None:
                self._response.close()
        finally:
            self.exchange.close()
        self._response = None  # it holds the request, and with it the key
        self.error = error
        free(error, self.before)
        return isinstance(error, (Exception, Cancelled, Outside))


def _call_hooks(
    request: Request, response: requests.Response, options: dict[str, Any]
) -> requests.Response:
    """Let hooks see the response, and perhaps put another in its place.

    One may send the request again, as digest authentication does: what goes wrong then
    is the call's failure. Any other exception is the hook's own.
    """
    try:
        hooks = request.prepared.hooks
        answered: requests.Response = dispatch_hook(
            "response", hooks, response, **options
        )
    except requests.HTTPError as error:
        raise Outside(error) from None
    except requests.RequestException:
        raise
    except Exception as error:
        raise Outside(error) from None
    return answered
