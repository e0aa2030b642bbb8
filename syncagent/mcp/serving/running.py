"""Calls that run for clients, each on a thread of its own.

Guarantees:

- A call has one fate: it is answered, or it is cancelled. After a cancel nothing is
  sent for it any more, however its tool ends.
- A cancel never waits: it claims the fate of the call and cancels its token.
- A call counts until its thread has ended it: a tool that does not stop still takes one
  of the places.
- :meth:`RunningCalls.end` returns in bounded time, whatever the tools do.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...cancel import CancelToken, Watch, clock
from ...cancel.once import Once, start_thread
from ...exceptions import Cancelled, Origin
from ..messages import INTERNAL_ERROR, RPCError, encode_error, encode_result
from .requests import TOO_MANY_CALLS, ClientRequest, RequestRefused, ServedClient

if TYPE_CHECKING:
    from .service import MCPService

__all__ = ["RunningCall", "RunningCalls"]

_log = logging.getLogger("syncagent.mcp")

#: Seconds for tools to end after they are no longer waited for.
_LAST_CHANCE: Final = 0.5

_ANSWERED: Final = "answered"
_CANCELLED: Final = "cancelled"


class RunningCall:
    """A call on its thread.

    :param token: ends the call.
    :param watch: woken by a cancel.
    """

    def __init__(
        self, request: ClientRequest, token: CancelToken, watch: Watch | None
    ) -> None:
        self.request: Final = request
        self.token: Final = token
        self._watch = watch
        self._fate: Once[str] = Once()
        #: The HTTP status of its response.
        self.status = 200

    def cancel(self, reason: str, origin: Origin = "remote") -> bool:
        """End the call: no response is sent for it. Never blocks.

        :return: false if it has its response already.
        """
        is_first = self._fate.claim(_CANCELLED) is _CANCELLED
        self.token.cancel(reason, origin)
        if self._watch is not None:
            self._watch.wake()
        return is_first

    @property
    def is_open(self) -> bool:
        """True until it is answered or cancelled."""
        return not self._fate

    @property
    def is_cancelled(self) -> bool:
        """True if no response will be sent."""
        return self._fate.value is _CANCELLED

    def claim_answer(self) -> bool:
        """True if a response may be sent: there was no cancel."""
        return self._fate.claim(_ANSWERED) is _ANSWERED


class RunningCalls:
    """The calls of one server.

    :param token: ends all of them.
    """

    def __init__(self, service: MCPService, token: CancelToken | None = None) -> None:
        self._service = service
        self._token = CancelToken() if token is None else token.child()
        #: Cancelled when tools are no longer waited for.
        self._forced = CancelToken()
        self._lock = threading.Lock()  # held for a moment, never while anything waits
        self._calls: dict[RunningCall, None] = {}
        self._watch = Watch()

    def __len__(self) -> int:
        return len(self._calls)

    def start(
        self,
        request: ClientRequest,
        client: ServedClient,
        when_done: Callable[[RunningCall, bytes], object],
        watch: Watch | None = None,
    ) -> RunningCall:
        """Start a call on a thread of its own.

        :param when_done: called on that thread with the encoded response, unless the
            call was cancelled.
        :param watch: woken by a cancel.
        :raises RequestRefused: too many calls run.
        """
        call = RunningCall(request, self._token.child(), watch)
        if self._token.cancelled:
            raise RequestRefused(
                TOO_MANY_CALLS, "the server is shutting down", status=503
            )
        with self._lock:
            if len(self._calls) >= self._service.max_calls:
                limit = self._service.max_calls
                what = f"this server makes at most {limit} calls at once; try later"
                raise RequestRefused(TOO_MANY_CALLS, what, status=503)
            self._calls[call] = None
        thread = threading.Thread(
            # With the context variables of the caller, such as a framework's.
            target=contextvars.copy_context().run,
            args=(self._run, call, client, when_done),
            name="syncagent-mcp-call",
            daemon=True,
        )
        try:
            start_thread(thread)
        except RuntimeError as error:  # the system refuses another thread
            self._calls.pop(call, None)
            raise RequestRefused(
                TOO_MANY_CALLS, f"no thread for this call: {error}", status=503
            ) from None
        return call

    def _run(
        self,
        call: RunningCall,
        client: ServedClient,
        when_done: Callable[[RunningCall, bytes], object],
    ) -> None:
        try:
            data = self._answer(call, client)
            if data is not None and call.claim_answer():
                when_done(call, data)
        except BaseException:
            _log.exception("the response to a call could not be sent")
        finally:
            self._calls.pop(call, None)
            self._watch.wake()

    def _answer(self, call: RunningCall, client: ServedClient) -> bytes | None:
        """Make the call; return the response, ``None`` after a cancel. Never raises."""
        request = call.request
        try:
            result = self._service.call(request, client, call.token, self._forced)
            return encode_result(request.id, result)
        except RequestRefused as refused:
            call.status = refused.status
            return encode_error(request.id, refused.error)
        except Cancelled:
            if call.token.cancelled:
                return None
            _log.exception("a call was cancelled from inside")
        except BaseException:  # SystemExit of a tool must not end the server, either
            _log.exception("a call failed")
        error = RPCError(INTERNAL_ERROR, "the call failed; the server's log has more")
        return encode_error(request.id, error)

    def cancel(self, reason: str, origin: Origin) -> int:
        """Cancel all calls, those that come later included. Takes no lock.

        :return: how many had no response.
        """
        self._token.cancel(reason, origin)
        return sum(call.cancel(reason, origin) for call in list(self._calls))

    def end(self, reason: str, origin: Origin, grace: float) -> bool:
        """Cancel all calls, and wait for their ends.

        Cancellation: none; it returns after about *grace* seconds.

        :return: false if a tool is left behind.
        """
        self.cancel(reason, origin)
        if self._wait(grace):
            return True
        self._forced.cancel(reason, origin)
        if self._wait(_LAST_CHANCE):
            return True
        _log.warning("%d calls did not stop and are left behind", len(self._calls))
        return False

    def _wait(self, seconds: float) -> bool:
        until = clock.now() + seconds
        return self._watch.wait(lambda: not self._calls, CancelToken(), until)
