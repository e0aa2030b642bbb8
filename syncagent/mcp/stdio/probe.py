"""Find the era of a server on its pipes, without starting it twice.

Both first words may be sent on one pipe. ``server/discover`` goes first; a server that
answers with an error, or not at all, gets ``initialize``, and then its response to that
decides.
"""

from __future__ import annotations

from typing import Final

from ...cancel import CancelToken, clock
from ...cancel.deadlines import earlier
from ...exceptions import MCPProtocolError, MCPTimedOut
from ..connection import Caller, ConnectionOwner, Era, MCPSession
from ..handshake import (
    DISCOVER,
    INITIALIZE,
    INITIALIZED,
    UNSUPPORTED_VERSION,
    discover_params,
    discovered_session,
    initialize_params,
    initialized_session,
)
from ..messages import encode_notification, encode_request, rpc_error_of
from ..pending import Pending
from .channel import StdioChannel

__all__ = ["Probe"]

#: Seconds from the first byte of a server, or from its start, until a silent one gets
#: the other first word.
_AFTER_FIRST_BYTE: Final = 3.0
_AFTER_START: Final = 10.0


class Probe:
    """The first exchange with a server.

    :param era: the era, if it is known.
    :param timeout: seconds for all of it; ``npx`` may download the server first.
    """

    def __init__(
        self,
        channel: StdioChannel,
        owner: ConnectionOwner,
        token: CancelToken,
        *,
        era: Era | None,
        timeout: float,
    ) -> None:
        self._channel = channel
        self._owner = owner
        self._token = token
        self._era = era
        self._began = clock.now()
        self._timeout = timeout
        self._discover: Pending | None = None
        self._initialize: Pending | None = None

    def find_session(self) -> MCPSession:
        """Speak the first words, and return the session.

        Cancellation: ends at once; the caller must end the server then.

        :raises MCPTimedOut: the server did not answer in time.
        :raises MCPProtocolError: it answered, but speaks no version that we speak.
        :raises MCPServerLost: it ended.
        """
        try:
            if self._era == "legacy":
                self._send_initialize()
            else:
                self._send_discover()
            while True:
                session = self._modern_session() or self._legacy_session()
                if session is not None:
                    return session
                self._wait()
        finally:
            for pending in (self._discover, self._initialize):
                if pending is not None:
                    self._channel.requests.finish(pending)

    # -- sending -------------------------------------------------------------------

    def _send_discover(self) -> None:
        self._discover = self._send(DISCOVER, discover_params(self._owner))

    def _send_initialize(self) -> None:
        self._initialize = self._send(INITIALIZE, initialize_params(self._owner))

    def _send(self, method: str, params: dict[str, object]) -> Pending:
        caller, requests = Caller(self._token), self._channel.requests
        pending = Pending(requests.next_id(), method, caller, self._channel.watch)
        requests.add(pending)
        self._channel.send_bytes(encode_request(pending.id, method, params))
        return pending

    # -- receiving -----------------------------------------------------------------

    def _modern_session(self) -> MCPSession | None:
        """Return the session if the response to ``server/discover`` decides it."""
        discover = self._discover
        # Once initialize was sent, only the response to that decides.
        if discover is None or self._initialize is not None or not discover.is_over:
            return None
        response = discover.response
        if response is None:
            discover.result(self._owner.name)  # raises: the server is gone
        assert response is not None
        session = None if response.error else discovered_session(response.result)
        if session is None and self._era == "modern":
            raise MCPProtocolError(
                f"{self._owner.name}: the server does not answer {DISCOVER}, so it "
                "speaks only the older protocol; remove era='modern'",
                server=self._owner.name,
            )
        if session is None:
            self._send_initialize()
        return session

    def _legacy_session(self) -> MCPSession | None:
        """Return the session if the response to ``initialize`` decides it."""
        initialize = self._initialize
        if initialize is None or not initialize.is_over:
            return None
        response = initialize.response
        error = None if response is None else response.error
        if error is not None and rpc_error_of(error).code == UNSUPPORTED_VERSION:
            return self._modern_after_all()
        session = initialized_session(initialize.result(self._owner.name), self._owner)
        self._channel.send_bytes(encode_notification(INITIALIZED))
        return session

    def _modern_after_all(self) -> MCPSession | None:
        """Return the session of a server that has refused the handshake."""
        discover = self._discover
        if discover is not None and discover.response is not None:
            session = discovered_session(discover.response.result)
            if session is not None:
                return session
        for pending in (discover, self._initialize):
            if pending is not None:
                self._channel.requests.finish(pending)
        self._initialize = None
        self._era = "modern"  # a second refusal is an error
        self._send_discover()
        return None

    # -- waiting -------------------------------------------------------------------

    def _wait(self) -> None:
        """Wait for a response, for the first byte, or until the next word is due."""
        had_byte = self._channel.first_byte_at is not None
        is_open = [
            pending
            for pending in (self._discover, self._initialize)
            if pending is not None and not pending.is_over
        ]

        def has_news() -> bool:
            has_byte = self._channel.first_byte_at is not None
            return has_byte != had_byte or any(pending.is_over for pending in is_open)

        last = self._began + self._timeout
        self._channel.watch.wait(has_news, self._token, earlier(self._patience, last))
        self._token.checkpoint()
        if clock.now() >= last and not has_news():
            tail = self._channel.errors.text[-1500:]
            words = f"; the end of its error output:\n{tail}" if tail else ""
            raise MCPTimedOut(
                f"{self._owner.name}: the server did not answer within "
                f"{self._timeout:g} s of its start; is it an MCP server, and does it "
                f"speak on its standard output? Raise timeouts.start if it is slow"
                f"{words}",
                server=self._owner.name,
            )
        patience = self._patience
        if patience is not None and clock.now() >= patience:
            self._send_initialize()

    @property
    def _patience(self) -> float | None:
        """When a silent server gets the other first word."""
        if self._initialize is not None or self._era == "modern":
            return None
        first = self._channel.first_byte_at
        after_start = self._began + _AFTER_START
        return (
            after_start
            if first is None
            else min(first + _AFTER_FIRST_BYTE, after_start)
        )
