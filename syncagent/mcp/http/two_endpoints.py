"""HTTP+SSE (2024-11-05): requests by POST, everything else on one stream by GET.

The stream is the session: when it ends, the connection is lost, and its owner makes a
new one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from ...cancel import CancelToken, Watch
from ...cancel.once import start_thread
from ...exceptions import (
    Cancelled,
    MCPError,
    MCPProtocolError,
    MCPServerLost,
    SyncAgentError,
)
from ...transport import OpenedResponse
from ...transport.redactor import Redactor
from ..connection import Caller, ConnectionOwner
from ..handshake import (
    INITIALIZE,
    INITIALIZED,
    initialize_params,
    initialized_session,
)
from ..messages import decode, encode_notification
from ..pending import Pending
from .base import HTTPConnection
from .calls import messages_in
from .settings import HTTPSettings
from .wire import UNSENT

__all__ = ["TwoEndpointsConnection"]

_log = logging.getLogger("syncagent.mcp")

#: Seconds in which the server must take a request: its response comes elsewhere.
_ACCEPT: Final = 60.0


class TwoEndpointsConnection(HTTPConnection):
    """The requests to a server of the oldest kind."""

    def __init__(self, settings: HTTPSettings, owner: ConnectionOwner) -> None:
        super().__init__(settings, owner)
        self._watch = Watch()
        self._endpoint: str | None = None
        #: Why the stream has ended, or was refused.
        self._lost: MCPError | None = None
        self._stream_has_ended = True
        self._version: dict[str, str] = {}

    @property
    def is_usable(self) -> bool:
        """False once the stream has ended, and in a forked child."""
        return super().is_usable and self._lost is None

    def connect(self, token: CancelToken) -> None:
        """Open the stream, and make the handshake.

        Cancellation: ends at once.

        :raises MCPError: the server cannot be used in this way.
        """
        caller = Caller(token=token, total=self._settings.start_timeout)
        self._repeating_refused(caller, self._open_stream)
        result = self.request(INITIALIZE, initialize_params(self._owner), caller)
        self._session = initialized_session(result, self._owner)
        self._version = {"MCP-Protocol-Version": self._session.version}
        budget = token.child(self._settings.start_timeout)
        confirm = self._posting(encode_notification(INITIALIZED), {}, self._endpoint)
        try:
            confirm(budget)
        except SyncAgentError as error:
            raise self._wire.failure(error, "headers") from None
        except Cancelled:
            token.checkpoint()
            raise self._never_answered() from None

    # -- the stream ----------------------------------------------------------------

    def _open_stream(self, caller: Caller) -> None:
        self._check_open()
        self._lost, self._stream_has_ended = None, False
        credentials = self._credentials(caller)
        start_thread(
            threading.Thread(
                target=self._read_stream,
                args=(credentials,),
                name=f"syncagent-mcp-stream-{self._owner.name}",
                daemon=True,
            )
        )
        with self._before_sending(caller) as token:
            limited = token.child(caller.total)
            self._watch.wait(lambda: bool(self._endpoint or self._lost), limited)
            token.checkpoint()
        if self._lost is not None:
            raise self._lost
        if self._endpoint is None:
            raise self._never_answered()

    def _read_stream(self, credentials: Mapping[str, str]) -> None:
        """Read the stream to its end; then every request has failed."""
        lost: MCPError = self._stream_ended("ended")
        try:
            with self._wire.open(
                "GET",
                self._life,
                headers={"Accept": "text/event-stream"},
                credentials=credentials,
            ) as response:
                if response.status != 200 or not response.is_event_stream:
                    body = b"" if response.is_event_stream else response.read()
                    redactor = Redactor(self._wire.url)
                    raise self._wire.unexpected(response, body, redactor)
                for event in response.events():
                    if event.event != "endpoint":
                        for message in messages_in(event.data, self._owner.name):
                            self._requests.receive(message)
                    elif self._endpoint is None:
                        self._endpoint = self._checked(event.data.strip())
                        self._watch.wake()
        except Cancelled:
            lost = self.closed_during("the request")
        except SyncAgentError as error:
            lost = error if isinstance(error, MCPError) else self._stream_ended(error)
        except BaseException as error:
            _log.exception("%s: the stream failed", self._owner.name)
            lost = self._stream_ended(type(error).__name__)
        self._lost = lost
        if self._endpoint is not None:  # else it may be opened again, after a login
            self._requests.fail_all(lost)
        self._stream_has_ended = True
        self._watch.wake()

    def _stream_ended(self, why: object) -> MCPServerLost:
        return MCPServerLost(
            f"{self._owner.name}: the stream of the server is gone ({why}); the "
            "effects of open requests are unknown",
            server=self._owner.name,
        )

    def _checked(self, endpoint: str) -> str:
        """Return the address for requests, which must not lead elsewhere."""
        base = self._wire.url
        try:
            target = urljoin(base, endpoint)
            is_same = _origin(target) == _origin(base)
        except ValueError:
            is_same = False
        if not is_same:
            raise MCPProtocolError(
                f"{self._owner.name} wants requests at another origin than its own; "
                "they are sent nowhere else. Configure that address if it is right",
                server=self._owner.name,
            )
        return target

    # -- requests ------------------------------------------------------------------

    def request_once(self, method: str, params: dict[str, Any], caller: Caller) -> Any:
        """Make a request, with the credentials of now. Cancellation: ends at once."""
        self._check_open()
        credentials = self._credentials(caller)
        limits = (_ACCEPT, caller.idle, caller.total)
        limit = min(seconds for seconds in limits if seconds is not None)
        posting = CancelToken.any_of(caller.token, self._life, timeout=limit)
        watch = _EndingWatch(posting)
        pending = Pending(self._requests.next_id(), method, caller, watch)
        watch.pending = pending
        data = self._encode(pending, params)
        phases = [""]

        def exchange() -> Any:
            self._post(pending, data, credentials, posting, phases)
            answer = partial(self._requests.answer, pending)
            return pending.wait(self._owner.name, answer)

        try:
            return self._requests.while_open(pending, exchange)
        except BaseException as error:
            if phases[-1] in UNSENT:
                if isinstance(error, (Cancelled, MCPServerLost)):
                    error.started = False
            elif method != INITIALIZE:
                self._tell_cancelled(pending, error, self._version)
            raise

    def _post(
        self,
        pending: Pending,
        data: bytes,
        credentials: Mapping[str, str],
        token: CancelToken,
        phases: list[str],
    ) -> None:
        """Post a request; its response comes on the stream, perhaps earlier."""
        redactor = Redactor(self._wire.url)
        try:
            with self._wire.open(
                "POST",
                token,
                data=data,
                headers=self._version,
                credentials=credentials,
                url=self._endpoint,
                on_phase=phases.append,
                redactor=redactor,
            ) as response:
                self._judge(pending, response, redactor)
        except Cancelled:
            if pending.is_over:
                return
            pending.caller.token.checkpoint()
            if self._life.cancelled:
                raise self.closed_during(pending.method) from None
            raise pending.timed_out(self._owner.name) from None
        except SyncAgentError as error:
            if not pending.is_over:
                raise self._wire.failure(error, phases[-1]) from None

    def _judge(
        self, pending: Pending, response: OpenedResponse, redactor: Redactor
    ) -> None:
        """Raise if the server did not take the request."""
        if response.status < 300 and response.is_event_stream:
            return  # nothing of it concerns us
        body = response.read()
        try:
            messages = decode(body) if body.strip() else []
        except ValueError:  # "Accepted"
            messages = []
        for message in messages:
            self._requests.receive(message, pending)
        if response.status >= 300 and not pending.is_over:
            raise self._wire.unexpected(response, body, redactor)

    def headers_of_notice(self, method: str) -> Mapping[str, str] | None:
        """Return the headers of a notification; ``None`` if it cannot be sent."""
        return self._version

    def _posting(self, data: bytes, headers: Mapping[str, str], url: Any = None) -> Any:
        return super()._posting(data, headers, url or self._endpoint)

    # -- the end -------------------------------------------------------------------

    def end_streams(self, until: float) -> None:
        """End what the dialect keeps open, until a monotonic time."""
        self._watch.wait(lambda: self._stream_has_ended, CancelToken(), until)

    def start_over_in_child(self) -> None:
        """Forget what belongs to the parent of a fork: the stream is its session."""
        super().start_over_in_child()
        self._lost = self._stream_ended("it belongs to the parent process")
        self._requests.fail_all(self._lost)
        self._stream_has_ended = True


class _EndingWatch(Watch):
    """Ends the POST of a request whose response has come on the stream already."""

    __slots__ = ("_posting", "pending")

    def __init__(self, posting: CancelToken) -> None:
        super().__init__()
        self._posting = posting
        self.pending: Pending | None = None

    def wake(self) -> None:
        super().wake()
        if self.pending is not None and self.pending.is_over:
            self._posting.cancel("the response is there", "closed")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or usual
