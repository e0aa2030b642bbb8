"""A connection to a server that is a child process."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from ...cancel import CancelToken
from ...cancel.once import finish_despite_signals
from ...exceptions import Cancelled, MCPServerLost, MCPTimedOut
from ..connection import Caller, ConnectionOwner, MCPSession
from ..handshake import with_envelope
from ..messages import CANCELLED, encode_notification, encode_request
from ..pending import Pending
from .channel import StdioChannel
from .leader import Leadership
from .probe import Probe
from .process import StdioSettings
from .writer import Outgoing

__all__ = ["StdioConnection", "connect_stdio"]

#: The id of the request that stays open; those of callers are numbers.
_LISTENING: Final = "changes"
_KILLED: Final = "was killed because a request was cancelled"


def connect_stdio(
    settings: StdioSettings, owner: ConnectionOwner, token: CancelToken
) -> StdioConnection:
    """Start a server, and find out what it speaks.

    Cancellation: ends at once; the server is killed.

    :raises MCPServerLost: it cannot be started, or ended.
    :raises MCPTimedOut: it did not answer in time.
    :raises MCPProtocolError: it speaks no version that we speak.
    """
    token.checkpoint()
    try:
        channel = StdioChannel(settings, owner)
    except OSError as error:
        raise MCPServerLost(
            f"{owner.name}: cannot start {settings.command[0]!r}: {error}. Is it "
            "installed, and on the PATH? A server inherits only a few variables; pass "
            "others with env=",
            server=owner.name,
        ) from None
    try:
        timeout = settings.start_timeout
        probe = Probe(channel, owner, token, era=settings.era, timeout=timeout)
        return StdioConnection(settings, owner, channel, probe.find_session())
    except BaseException:
        channel.kill("was killed before it was ready")
        channel.close(grace=0.0)
        raise


class StdioConnection:
    """The requests of one server process; implements
    :class:`~syncagent.mcp.connection.MCPConnection`.
    """

    def __init__(
        self,
        settings: StdioSettings,
        owner: ConnectionOwner,
        channel: StdioChannel,
        session: MCPSession,
    ) -> None:
        self._settings = settings
        self._owner = owner
        self._channel = channel
        self.session = session
        channel.watch_for_deafness(session.era)
        if session.era == "modern":
            self._listen_for_changes()

    @property
    def name(self) -> str:
        """The name of the server."""
        return self._owner.name

    @property
    def is_usable(self) -> bool:
        """False once the server has ended or was closed, and in a forked child."""
        return self._channel.is_usable

    @property
    def error_tail(self) -> str:
        """The end of the server's error output."""
        return self._channel.errors.text

    @property
    def pid(self) -> int:
        """The pid of the server."""
        return self._channel.pid

    @property
    def was_killed(self) -> bool:
        """True if it was ended because a request was cancelled."""
        return self._channel.end_reason == _KILLED

    @property
    def kills_on_cancel(self) -> bool:
        """True if the server is killed in place of being told of a cancel."""
        return self._settings.kills_on_cancel

    def request(self, method: str, params: dict[str, Any], caller: Caller) -> Any:
        """Make a request, and return its result.

        Cancellation: ends at once. The server is notified, unless it has not seen the
        request: then that is taken back, and ``started`` of the exception is false.
        """
        pending = Pending(self._channel.requests.next_id(), method, caller)
        request = _PipeRequest(self, self._channel, pending)
        try:
            if caller.on_progress is not None:
                meta = {**params.get("_meta", {}), "progressToken": pending.id}
                params = {**params, "_meta": meta}
            if self.session.era == "modern":
                params = with_envelope(params, self._owner)
            return request.make(encode_request(pending.id, method, params))
        except BaseException as error:
            # Once more: a signal handler may have raised while it was done within.
            request.give_up(error)
            raise
        finally:
            request.finish()

    def _listen_for_changes(self) -> None:
        """Ask a modern server to announce changes of its lists.

        That request stays open for as long as the server lives. Its notifications need
        no one to wait for them, and its end is not an event.
        """
        wanted = {
            f"{kind}ListChanged": True
            for kind, capability in self.session.capabilities.items()
            if isinstance(capability, dict) and capability.get("listChanged") is True
        }
        if wanted:
            params = with_envelope({"notifications": wanted}, self._owner)
            self._channel.send_bytes(
                encode_request(_LISTENING, "subscriptions/listen", params)
            )

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification soon. Never blocks and never raises."""
        if self.session.era == "modern" and params is not None and method != CANCELLED:
            params = with_envelope(params, self._owner)
        self._channel.send_bytes(encode_notification(method, params))

    def close(self, *, grace: float) -> None:
        """End the server within about *grace* seconds. Safe to repeat.

        Cancellation: not needed; it is bounded.
        """
        self._channel.close(grace)


class _PipeRequest:
    """One request on the pipes of a server.

    On the main thread a signal handler may raise between any two steps. So each step of
    the end can be repeated, and has its effect once.
    """

    def __init__(
        self, connection: StdioConnection, channel: StdioChannel, pending: Pending
    ) -> None:
        self._connection = connection
        self._channel = channel
        self._pending = pending
        self._leadership = Leadership(channel, pending.caller.token)
        #: The request; nothing can be taken back before it is made.
        self._outgoing = Outgoing(b"")
        #: Tells the server of the cancel.
        self._notice: Outgoing | None = None

    def make(self, data: bytes) -> Any:
        """Send the request, wait for the response, and return its result.

        Cancellation: ends at once.
        """
        channel, pending = self._channel, self._pending
        try:
            self._outgoing = Outgoing(data)
            channel.requests.add(pending)
            self._leadership.begin(pending)
            channel.send(self._outgoing)
            return pending.wait(
                self._connection.name,
                partial(channel.requests.answer, pending),
                self._leadership.wait_for_news,
            )
        except BaseException as error:
            finish_despite_signals(partial(self.give_up, error))
            raise
        finally:
            finish_despite_signals(self.finish)

    def give_up(self, error: BaseException) -> None:
        """Take the request back, or tell the server that it was cancelled."""
        is_unseen = self._outgoing.take_back()
        if isinstance(error, (Cancelled, MCPServerLost)):
            error.started = not is_unseen  # it may be that of a call in a handler
        if not is_unseen and not self._pending.is_over:
            self._tell_cancelled(error)

    def _tell_cancelled(self, error: BaseException) -> None:
        if self._connection.kills_on_cancel:
            self._channel.kill(_KILLED)
            return
        reason = (error.reason if isinstance(error, Cancelled) else "") or "cancelled"
        if isinstance(error, MCPTimedOut):
            reason = "timed out"
        if self._notice is None:
            params = {"requestId": self._pending.id, "reason": reason[:200]}
            self._notice = Outgoing(encode_notification(CANCELLED, params))
        self._channel.send(self._notice)
        self._channel.note_cancel()

    def finish(self) -> None:
        """Stop reading for others, and forget the request. Safe to repeat."""
        self._leadership.end()
        self._channel.requests.finish(self._pending)
