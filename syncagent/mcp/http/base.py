"""The part that all connections over HTTP share: their end, forks, and the outboxes.

Guarantees:

- ``close()`` ends every call, every thread and every wait of a connection within about
  its grace, from any thread, twice, and while a handshake runs.
- A forked child touches nothing of its parent's: neither its session nor its threads.
  It starts over at its first request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from weakref import WeakSet

from ..._forks import in_child
from ...cancel import CancelToken, clock
from ...cancel.once import Once
from ...exceptions import Cancelled, MCPError, MCPServerLost, MCPTimedOut
from ..connection import Caller, ConnectionOwner, MCPSession
from ..messages import CANCELLED, encode_notification, encode_request
from ..pending import Pending, PendingRequests
from .outbox import Outbox
from .settings import HTTPSettings
from .wire import CredentialsRefused, HTTPWire

__all__ = ["HTTPConnection", "LISTS"]

#: Seconds for a notification, and for an answer to a question of the server.
_NOTICE: Final = 2.0
_REPLY: Final = 30.0

#: The lists that a server can have, by the names of their capabilities.
LISTS: Final = ("tools", "resources", "prompts")

_T = TypeVar("_T")


class HTTPConnection:
    """A connection over HTTP; subclasses speak one dialect each."""

    def __init__(self, settings: HTTPSettings, owner: ConnectionOwner) -> None:
        self._settings = settings
        self._owner = owner
        self._wire = HTTPWire(settings, owner.name)
        self._session: MCPSession | None = None
        self._closed: Once[object] = Once()
        self.begin_life()
        _connections.add(self)

    def begin_life(self) -> None:
        """Make everything that belongs to one process. Extended by dialects."""
        self._life = CancelToken()
        self._requests = PendingRequests(self._owner, self._reply)
        # Two: an answer must not wait behind cancels that a server does not take.
        self._notices = Outbox(self._owner.name, _NOTICE)
        self._replies = Outbox(self._owner.name, _REPLY)

    @property
    def session(self) -> MCPSession:
        """The server and the version of the protocol."""
        assert self._session is not None, "the connection is not ready"
        return self._session

    @property
    def is_usable(self) -> bool:
        """False once the connection was closed."""
        return not self._closed

    # -- requests ------------------------------------------------------------------

    def request(self, method: str, params: dict[str, Any], caller: Caller) -> Any:
        """Make a request, and return its result.

        Cancellation: ends at once. The server is notified in the way of its dialect, if
        it may have seen the request; else ``started`` of the exception is false.
        """
        return self._repeating_refused(
            caller, lambda caller: self.request_once(method, params, caller)
        )

    def _repeating_refused(self, caller: Caller, attempt: Callable[[Caller], _T]) -> _T:
        """Make an attempt, again with other credentials after each refusal."""
        refusals = 0
        while True:
            try:
                return attempt(caller)
            except CredentialsRefused as refusal:
                # A login takes a person's time, not the call's.
                with self._before_sending(caller) as token:
                    self._wire.authorize(refusal, token, refusals)
                refusals += 1

    def request_once(self, method: str, params: dict[str, Any], caller: Caller) -> Any:
        """Make a request in the way of the dialect, with the credentials of now."""
        raise NotImplementedError

    def _credentials(self, caller: Caller) -> dict[str, str]:
        with self._before_sending(caller) as token:
            return self._wire.credentials(token)

    @contextmanager
    def _before_sending(self, caller: Caller) -> Iterator[CancelToken]:
        """Say of every end in this block that the server has not seen the request."""
        try:
            yield CancelToken.any_of(caller.token, self._life)
        except (Cancelled, MCPServerLost) as error:
            error.started = False
            is_closed = self._life.cancelled and not caller.token.cancelled
            if not isinstance(error, Cancelled) or not is_closed:
                raise
            raise self._was_closed() from None

    def _encode(self, pending: Pending, params: dict[str, Any]) -> bytes:
        if pending.caller.on_progress is not None:
            meta = {**params.get("_meta", {}), "progressToken": pending.id}
            params = {**params, "_meta": meta}
        return encode_request(pending.id, pending.method, params)

    # -- messages without a response -----------------------------------------------

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification soon. Never blocks and never raises."""
        data = encode_notification(method, params)
        headers = self.headers_of_notice(method)
        if headers is not None:
            self._notices.put(self._posting(data, headers))

    def headers_of_notice(self, method: str) -> Mapping[str, str] | None:
        """Return the headers of a notification; ``None`` if it cannot be sent."""
        raise NotImplementedError

    def _reply(self, data: bytes) -> None:
        """Send the answer to a question of the server."""
        headers = self.headers_of_notice("")
        if headers is not None:
            self._replies.put(self._posting(data, headers))

    def _tell_cancelled(
        self, pending: Pending, error: BaseException, headers: Mapping[str, str]
    ) -> None:
        """Tell the server that a request was given up, if that is what happened."""
        is_failure = isinstance(error, MCPError) and not isinstance(error, MCPTimedOut)
        if pending.is_over or is_failure:
            return
        reason = "timed out" if isinstance(error, MCPTimedOut) else "cancelled"
        if isinstance(error, Cancelled) and error.reason:
            reason = error.reason[:200]
        params = {"requestId": pending.id, "reason": reason}
        self._notices.put(
            self._posting(encode_notification(CANCELLED, params), headers)
        )

    def _posting(
        self, data: bytes, headers: Mapping[str, str], url: str | None = None
    ) -> Callable[[CancelToken], None]:
        """Return a function that posts *data*, whatever the server says."""

        def post(token: CancelToken) -> None:
            with self._wire.open(
                "POST",
                token,
                data=data,
                headers=headers,
                credentials=self._wire.credentials(token),
                url=url,
            ) as response:
                if response.status < 300 and not response.is_event_stream:
                    response.finish()

        return post

    def _tell_changes(self) -> None:
        """Have the owner look at all lists: it may have missed changes."""
        for kind in LISTS:
            if kind in self.session.capabilities:
                self._owner.notified(f"notifications/{kind}/list_changed", {})

    # -- the end -------------------------------------------------------------------

    def close(self, *, grace: float) -> None:
        """End the connection within about *grace* seconds. Safe to repeat."""
        # All of it again, if it is repeated: the first one may have been interrupted.
        self._closed.claim(self)
        until = clock.now() + grace
        self._life.cancel("the connection is closed", "closed")
        self._requests.fail_all(self.closed_during("the request"))
        self._notices.close(until)
        self._replies.close(clock.now())
        self.end_streams(until)

    def end_streams(self, until: float) -> None:
        """End what the dialect keeps open."""

    def closed_during(self, what: str) -> MCPServerLost:
        """Return the error for a request that the server may have seen."""
        return MCPServerLost(
            f"{self._owner.name} was closed during {what}; its effects are unknown",
            server=self._owner.name,
        )

    def _was_closed(self) -> MCPServerLost:
        lost = MCPServerLost(
            f"{self._owner.name} was closed; open it again to use it",
            server=self._owner.name,
        )
        lost.started = False
        return lost

    def _never_answered(self) -> MCPTimedOut:
        seconds = self._settings.start_timeout
        return MCPTimedOut(
            f"{self._owner.name} did not answer the handshake within {seconds:g} s; "
            "raise timeouts.start if it needs more",
            server=self._owner.name,
        )

    def _check_open(self) -> None:
        if self._closed:
            raise self._was_closed()

    def start_over_in_child(self) -> None:
        """Forget what belongs to the parent of a fork."""
        self.begin_life()


#: All connections of the process, for forks.
_connections: WeakSet[HTTPConnection] = WeakSet()


@in_child
def _start_over_in_child() -> None:
    for connection in list(_connections):
        connection.start_over_in_child()
