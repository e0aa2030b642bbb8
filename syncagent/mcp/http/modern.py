"""The modern dialect (2026-07-28): every request stands alone.

Closing the connection of a request is its cancel; nothing else is said. List changes
come on a subscription, which one thread keeps open.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from ...cancel import CancelToken
from ...cancel.once import Once
from ...exceptions import Cancelled, MCPServerLost, StreamBroken
from ..connection import Caller, ConnectionOwner, MCPSession
from ..handshake import (
    DISCOVER,
    MODERN_VERSION,
    discover_params,
    discovered_session,
    with_envelope,
)
from ..messages import CANCELLED, Message, encode_request
from ..pending import Pending
from .base import HTTPConnection
from .calls import PostedCall, messages_in
from .headers import ToolHeaders, request_headers
from .settings import HTTPSettings
from .standing import StandingStream, StreamEnd

__all__ = ["ModernConnection"]

_log = logging.getLogger("syncagent.mcp")

_LISTEN: Final = "subscriptions/listen"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
#: The changes to ask for, by the capability that has them.
_CHANGES: Final = {
    "tools": "toolsListChanged",
    "prompts": "promptsListChanged",
    "resources": "resourcesListChanged",
}
_VERSION: Final = {"MCP-Protocol-Version": MODERN_VERSION}


class ModernConnection(HTTPConnection):
    """The requests to a server without sessions."""

    def __init__(self, settings: HTTPSettings, owner: ConnectionOwner) -> None:
        super().__init__(settings, owner)
        self._tool_headers = ToolHeaders()
        self._numbers = itertools.count(1)
        #: True once a list was asked for. Set before the request is sent, and read when
        #: the server has subscribed us: a change in between is heard by one of the two.
        self._has_listed = False

    def begin_life(self) -> None:
        """Make everything that belongs to one process."""
        super().begin_life()
        self._listening: Once[StandingStream] = Once()

    def discover(self, caller: Caller) -> MCPSession | None:
        """Look at the server; return the session if it speaks this dialect.

        Cancellation: ends at once.
        """
        result = self.request(DISCOVER, discover_params(self._owner), caller)
        self._session = discovered_session(result)
        if self._session is not None:
            self._listen()
        return self._session

    def request_once(self, method: str, params: dict[str, Any], caller: Caller) -> Any:
        """Make a request, with the credentials of now. Cancellation: ends at once."""
        self._check_open()
        if self._session is not None:
            self._listen()  # again, in a forked child
        if method.endswith("/list"):
            self._has_listed = True
        credentials = self._credentials(caller)
        pending = Pending(self._requests.next_id(), method, caller)
        call = PostedCall(self._wire, self._requests, pending, self._life)
        headers = {**_VERSION, **request_headers(method, params)}
        if method == "tools/call":
            headers |= self._tool_headers.of_call(params)
        data = self._encode(pending, params)
        try:
            result = self._requests.while_open(
                pending, partial(call.run, data, headers, credentials)
            )
        except (Cancelled, MCPServerLost) as error:
            if not call.is_seen:
                error.started = False
            raise
        if method == "tools/list":
            return self._tool_headers.learn(result, self._owner.name)
        return result

    def _encode(self, pending: Pending, params: dict[str, Any]) -> bytes:
        return super()._encode(pending, with_envelope(params, self._owner))

    def headers_of_notice(self, method: str) -> Mapping[str, str] | None:
        """Return the headers of a notification; ``None`` if it cannot be sent."""
        # A modern server asks nothing over HTTP, so there is nothing to answer.
        return {**_VERSION, **request_headers(method, {})} if method else None

    # -- list changes --------------------------------------------------------------

    def _listen(self) -> None:
        """Subscribe to list changes, unless that was done."""
        if self._listening or not self._wanted():
            return
        name = f"syncagent-mcp-listen-{self._owner.name}"
        stream = StandingStream(name, self._life, self._attend)
        if self._listening.claim(stream) is stream:
            stream.start()

    def _wanted(self) -> dict[str, bool]:
        capabilities = self.session.capabilities
        return {
            name: True
            for kind, name in _CHANGES.items()
            if isinstance(found := capabilities.get(kind), dict)
            and found.get("listChanged")
        }

    def _attend(self, token: CancelToken, decide: Callable[[], None]) -> StreamEnd:
        """Subscribe, and pass on what comes until the stream ends."""
        own_id = f"listen-{next(self._numbers)}"
        params = with_envelope({"notifications": self._wanted()}, self._owner)
        is_again = own_id != "listen-1"
        was_alive = False
        with self._wire.open(
            "POST",
            token,
            data=encode_request(own_id, _LISTEN, params),
            headers={**_VERSION, **request_headers(_LISTEN, {})},
            credentials=self._wire.credentials(token),
        ) as response:
            if not response.is_event_stream:
                is_final = response.status < 500 and response.status not in (408, 429)
                _log.debug("%s has no subscriptions", self._owner.name)
                return StreamEnd(is_final=is_final)
            try:
                for event in response.events():
                    was_alive = True
                    for message in messages_in(event.data, self._owner.name):
                        end = self._take(message, own_id, is_again)
                        if end is not None:
                            return end
            except StreamBroken as error:
                _log.debug("%s: %s", self._owner.name, error)
        return StreamEnd(was_alive=was_alive)

    def _take(self, message: Message, own_id: str, is_again: bool) -> StreamEnd | None:
        """Take a message of the subscription; return how it has ended, if it has."""
        if message.is_response:
            # A result is the server's regular end, for instance before a restart.
            return StreamEnd(is_final=message.error is not None, was_alive=True)
        if message.method == CANCELLED:
            if str(message.arguments.get("requestId")) == own_id:
                return StreamEnd(was_alive=True)
        elif message.method == _ACKNOWLEDGED:
            if is_again or self._has_listed:
                self._tell_changes()
        elif message.is_notification:
            self._requests.receive(message)
        return None

    def end_streams(self, until: float) -> None:
        """End what the dialect keeps open, until a monotonic time."""
        if self._listening.value is not None:
            self._listening.value.close(until)
