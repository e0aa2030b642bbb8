"""One call: a request, sent again where that is safe, until a response is complete.

Guarantees:

- The caller's token is asked before the outcome of an attempt is believed, and again
  after it was translated: once cancelled, a call raises ``Cancelled`` and nothing else.
- No attempt starts after a cancel, after the total timeout, or once the caller has seen
  a part of the response.
- An attempt leaves nothing behind: its connection is back in the pool or closed, and no
  exception of it keeps the request, and with it the key, alive.
- Every attempt passes the gate, if there is one, and leaves it however it ends. Waits
  there do not count in the total timeout: others may be before us.

The model has a second, smaller loop, for errors that a provider reports inside a
response. It cannot be this one: here a failure after the protocol's own last event is
ignored on purpose, so a decoder inside an attempt would lose errors in that event.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, NamedTuple

import requests
from requests.hooks import dispatch_hook

from .._context import run_id
from ..cancel import CancelToken
from ..exceptions import Cancelled, ProviderError, SyncAgentError, TransportError
from .adapter import CancellableAdapter
from .exchange import Exchange
from .failures import Failures, find_handler_error, free_frames
from .gate import AttemptGate, OnPhase
from .prepared import Request
from .redactor import Redactor
from .resolver import Resolver
from .response import StreamedResponse
from .retries import Retries
from .timeouts import Timeouts
from .user_code import UserCodeError

_log = logging.getLogger("syncagent.transport")

#: Returns the meaning of an error response: the same error, or one of another class.
Explain = Callable[[ProviderError], ProviderError]


class RetriedRequest:
    """Attempts at the same request, one after the other.

    :param url: the address.
    :param prepare: makes a new request for each attempt, with fresh credentials. Its
        second argument is a request that was refused; it returns None if the
        credentials are still the same.
    :param token: the caller's.
    :param on_phase: called with the name of each phase as it begins.
    :param redactor: masks the credentials of the newest attempt.
    :param explain: returns the meaning of an error response, which decides whether the
        request is sent again.
    :param renews: false to send nothing again after a refusal of the credentials.
    :param gate: passed by every attempt.
    """

    def __init__(
        self,
        url: str,
        prepare: Callable[[Exchange, Request | None], Request | None],
        adapter: CancellableAdapter,
        token: CancelToken,
        *,
        timeouts: Timeouts,
        retries: Retries,
        resolver: Resolver | None,
        max_bytes: int,
        on_phase: OnPhase | None,
        redactor: Redactor | None = None,
        explain: Explain | None = None,
        renews: bool = True,
        gate: AttemptGate | None = None,
    ) -> None:
        self.prepare: Final = prepare
        self.adapter: Final = adapter
        self.timeouts: Final = timeouts
        self.resolver: Final = resolver
        self.max_bytes: Final = max_bytes
        self.on_phase: Final = on_phase
        self.redactor: Final = redactor or Redactor(url)
        self.gate: Final = gate
        #: The newest response, for callers who want to see its headers.
        self.response: StreamedResponse | None = None
        # Three tokens, each a child of the one before: the caller's; ours, for stop();
        # and this one, with the total timeout. So the origin of a cancel tells who did
        # it, and neither stop() nor a timeout reaches the caller's other work.
        self.token = token
        self._caller = token
        self._own = token.child()
        #: True if the newest attempt has failed. An error in the response itself, which
        #: the caller finds, is no failure of the attempt.
        self.has_failed = False
        self._retries = retries
        self._explain = explain
        self._renews = renews
        self._failures = Failures(self.redactor, timeouts)

    def attempts(self) -> Iterator[Attempt]:
        """Yield attempts, until one is complete or fails for good.

        Cancellation: ends at once, also the waits between attempts.

        :raises Cancelled: the caller's token was cancelled.
        :raises SyncAgentError: the last attempt's failure.
        """
        failures = 0
        refusal: RefusedAttempt | None = None
        may_renew = self._renews
        self.token = self._own.child(self.timeouts.total)
        while True:
            self._checkpoint("")
            self.has_failed = False
            try:
                if self.gate is not None:
                    self._pass_gate(self.gate)
                attempt, refusal = Attempt(self, refusal), None
                yield attempt
                # Before and after: an exception that a cancel caused may look like any
                # failure, and a cancel may come while we look at it.
                self.raise_if_cancelled()
                if isinstance(attempt.error, UserCodeError):
                    raise attempt.error.error
                failure = self._failure(attempt)
                self.raise_if_cancelled()
                if failure is None:
                    return
                self.has_failed = True
                if self._is_held_back(attempt, failure):
                    continue
            finally:
                if self.gate is not None:
                    self.gate.leave()
            if may_renew and attempt.request is not None and _has_expired(failure):
                # Once, and not counted as a retry: the credentials may have expired.
                may_renew, refusal = False, RefusedAttempt(attempt.request, failure)
                _log.info(
                    "run %s: the credentials were refused; renewing them", run_id.get()
                )
                continue
            failures += 1
            if attempt.has_delivered or not isinstance(
                failure, (TransportError, ProviderError)
            ):
                raise failure
            delay = self._retries.delay(failures, failure)
            remaining = self.token.remaining()
            # The failure tells more than the timeout that would end the wait.
            if delay is None or (remaining is not None and delay >= remaining):
                raise failure
            _log.info(
                "run %s: attempt %d failed (%s); retrying in %.2f s",
                *(run_id.get(), failures, type(failure).__name__, delay),
            )
            if self.on_phase is not None:
                self.on_phase("retry")
            self.token.wait(delay)
            self._checkpoint("retry")

    def _pass_gate(self, gate: AttemptGate) -> None:
        """Wait until the next attempt may begin.

        Cancellation: ends at once.
        """
        left = None if self.timeouts.total is None else self.token.remaining()
        try:
            has_waited = gate.enter(self._own, self.on_phase)
        except Cancelled:
            self.raise_if_cancelled()
            raise
        except ProviderError:
            self.has_failed = True
            raise
        if has_waited:
            self.token = self._own.child(left)
            self._checkpoint("limiter")

    def _is_held_back(self, attempt: Attempt, failure: BaseException) -> bool:
        """Tell the gate of a failure; return true to wait there for another attempt."""
        if self.gate is None or not isinstance(
            failure, (ProviderError, TransportError)
        ):
            return False
        response = attempt.response
        headers = {} if response is None else response.headers
        if not self.gate.failed(failure, headers) or attempt.has_delivered:
            return False
        _log.info(
            "run %s: the provider limits the rate; waiting at the limiter", run_id.get()
        )
        return True

    def stop(self) -> None:
        """End this call, and nothing else under the caller's token, from any thread."""
        self._own.cancel("the stream was closed by another thread", "closed")

    def _failure(self, attempt: Attempt) -> BaseException | None:
        """Return how *attempt* failed, as an error of this package where possible."""
        error, phase = attempt.error, attempt.exchange.phase
        if attempt.is_complete:
            return None
        if self._is_timed_out:
            return self._failures.took_too_long(phase)
        if isinstance(error, SyncAgentError):
            # The decoder of events, for one, does not know the address.
            if isinstance(error, TransportError) and not error.url:
                error.url, error.phase = self.redactor.url, phase
            if isinstance(error, ProviderError) and self._explain is not None:
                return self._explain(error)
            return error
        late = attempt.exchange.late_phase
        if late is not None:
            return self._failures.timed_out(late)
        assert error is not None
        return self._failures.translate(error, phase, attempt.before) or error

    def raise_if_cancelled(self) -> None:
        """Raise if the caller's token was cancelled, or the call was stopped."""
        # The caller's token first: its reason and origin are the true ones.
        self._caller.checkpoint()
        self._own.checkpoint()

    def raise_if_stopped(self) -> None:
        """Raise if :meth:`stop` was called before the call had ended."""
        self._own.checkpoint()

    def _checkpoint(self, phase: str) -> None:
        self.raise_if_cancelled()
        if self._is_timed_out:
            raise self._failures.took_too_long(phase)

    @property
    def _is_timed_out(self) -> bool:
        """True once the total timeout has passed. A cancel has another origin."""
        return self.token.origin == "deadline"


class RefusedAttempt(NamedTuple):
    """A request whose credentials may have expired, and its error."""

    request: Request
    error: BaseException


class Attempt:
    """One request and its outcome; use it in a ``with`` block.

    The block's exceptions end there: :meth:`RetriedRequest.attempts` interprets them.
    Only exceptions that are not about the call, such as :exc:`KeyboardInterrupt`,
    propagate.

    :param refusal: the attempt before this one, if it was refused.
    """

    def __init__(
        self, call: RetriedRequest, refusal: RefusedAttempt | None = None
    ) -> None:
        self._call = call
        self._refusal = refusal
        #: The request, if its credentials can be renewed.
        self.request: Request | None = None
        self._http_response: requests.Response | None = None
        #: Its head, once there is one.
        self.response: StreamedResponse | None = None
        self.exchange: Final = Exchange(
            call.token,
            timeouts=call.timeouts,
            resolver=call.resolver,
            on_phase=call.on_phase,
        )
        #: The exception that the caller is handling as it calls us. Python links ours
        #: to it, although it has nothing to do with this call.
        self.before = sys.exc_info()[1]
        #: How it failed.
        self.error: BaseException | None = None
        #: True once the caller was given a part of the response.
        self.has_delivered = False
        #: True once the response is known to be complete.
        self.is_complete = False

    def send(self, *, raises_for_status: bool = True) -> StreamedResponse:
        """Send the request and return its response, of which only the head is there.

        Cancellation: ends at once.

        :param raises_for_status: false to return a response of any status.
        :raises ProviderError: its status is that of an error.
        :raises RedirectRefused: it points elsewhere.
        """
        call, exchange = self._call, self.exchange
        refusal, self._refusal = self._refusal, None
        request = call.prepare(exchange, None if refusal is None else refusal.request)
        if request is None:
            assert refusal is not None
            raise refusal.error.with_traceback(None)
        if request.renewals is not None:
            self.request = request
        call.redactor.secrets = request.secrets
        options = {"stream": True, "timeout": None, **request.route}
        with exchange.bound():
            self._http_response = call.adapter.send(request.prepared, **options)
            # A hook may put another response in its place. It may send the request
            # again, as digest authentication does: a failure of that is the call's
            # failure. Any other exception is the hook's own.
            hooks = request.prepared.hooks
            try:
                self._http_response = dispatch_hook(
                    "response", hooks, self._http_response, **options
                )
            except requests.HTTPError as error:
                raise UserCodeError(error) from None
            except requests.RequestException:
                raise
            except Exception as error:
                raise UserCodeError(error) from None
        call.response = self.response = response = StreamedResponse(
            self._http_response,
            exchange,
            redactor=call.redactor,
            max_bytes=call.max_bytes,
        )
        exchange.token.checkpoint()
        if call.gate is not None and response.is_success:
            call.gate.begun(response.headers)
        if raises_for_status:
            response.raise_for_status()
        else:
            response.refuse_redirect()
        return response

    def __enter__(self) -> Attempt:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        try:
            if self.response is not None:
                # A KeyboardInterrupt, for one, does not wait for the server.
                is_fine = error is None or isinstance(error, GeneratorExit)
                self.response.close(lingers=self.is_complete and is_fine)
            elif self._http_response is not None:
                self._http_response.close()
        except UserCodeError as carrier:  # of a signal handler
            error = carrier
        finally:
            self.exchange.close()
        self._http_response = None  # it holds the request, and with it the key
        # Before the frames are freed, by which a handler is known.
        raised = find_handler_error(error, self.before)
        free_frames(error, self.before)
        error = error if raised is None else UserCodeError(raised)
        is_about_call = isinstance(error, (Exception, Cancelled, UserCodeError))
        # Not one that propagates: it refers to frames that refer to this attempt.
        self.error = error if is_about_call else None
        return is_about_call


def _has_expired(failure: BaseException) -> bool:
    """Return whether other credentials may help; AWS answers 403 if they expire."""
    status = getattr(failure, "status", None)
    return status == 401 or (status == 403 and "ExpiredToken" in str(failure))
