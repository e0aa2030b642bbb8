"""The legacy dialects (2025-03-26 to 2025-11-25): a handshake, and perhaps a session.

::

                   ┌──────────── dropped ◀──── 404 ───┐
                   ▼                                 │
    no session ── one handshake ──▶ LegacySession ── requests
                   ▲ others wait                └─── GET stream

Guarantees:

- One handshake for any number of threads. Each of them waits under its own token; if
  the one that makes the handshake is cancelled, or interrupted by a signal handler that
  raises, another makes it. No lock is held during that time.
- A request whose session the server has lost is made once more, in a new session: the
  server has not run it. A late 404 for an old session does not end the new one.
- A cancel shuts the connection of the request, and the notification follows on another
  thread. ``initialize`` is never cancelled by notification.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from typing import Any, Final

from ...cancel import CancelToken, Watch, clock
from ...cancel.once import Once, finish_despite_signals
from ...exceptions import (
    Cancelled,
    MCPError,
    MCPProtocolError,
    MCPServerLost,
    MCPTimedOut,
    StreamBroken,
    SyncAgentError,
)
from ..connection import Caller, ConnectionOwner, MCPSession
from ..handshake import (
    INITIALIZE,
    INITIALIZED,
    initialize_params,
    initialized_session,
)
from ..messages import encode_notification
from ..pending import Pending
from .base import LISTS, HTTPConnection
from .calls import PostedCall, SessionGone, messages_in
from .settings import HTTPSettings
from .standing import StandingStream, StreamEnd
from .wire import SESSION_ID

__all__ = ["LegacyConnection", "LegacySession"]

_log = logging.getLogger("syncagent.mcp")

#: Seconds for the DELETE at the end of a session.
_DELETE: Final = 1.0
#: Seconds that a handshake waits for the GET stream: a server may ask its first
#: question there.
_STREAM: Final = 1.0
#: The characters that a session id may have.
_VISIBLE: Final = re.compile(r"[!-~]+")


class LegacySession:
    """A session that a handshake has made; also where the server keeps none.

    :param id: its id at the server, a secret.
    """

    def __init__(self, id: str | None, session: MCPSession) -> None:
        self.id: Final = id
        self.session: Final = session
        self.headers: Final = {"MCP-Protocol-Version": session.version}
        if id is not None:
            self.headers[SESSION_ID] = id
        self.stream: StandingStream | None = None
        #: Where to resume its GET stream.
        self.last_event_id = ""
        #: True once the server does not know it any longer.
        self.is_gone = False

    @property
    def has_stream(self) -> bool:
        """True if messages may come on a GET stream."""
        return self.stream is not None and self.stream.is_expected


class _Handshake:
    """A handshake under way."""

    def __init__(self) -> None:
        self.watch = Watch()
        self.is_over = False
        #: For all who wait; none if only the thread that made it was cancelled.
        self.failure: MCPError | None = None
        #: The session that it has made, until that is everyone's.
        self.made: LegacySession | None = None

    def wait(self, token: CancelToken) -> None:
        """Wait for its end. Cancellation: ends at once."""
        self.watch.wait(lambda: self.is_over, token)


class LegacyConnection(HTTPConnection):
    """The requests to a server with handshakes."""

    def __init__(self, settings: HTTPSettings, owner: ConnectionOwner) -> None:
        super().__init__(settings, owner)
        #: The status of the last handshake that failed, 0 if there was no response.
        self.refused_status = 0

    def begin_life(self) -> None:
        """Make everything that belongs to one process."""
        super().begin_life()
        self._current: LegacySession | None = None
        #: The handshake under way; a new cell after each.
        self._handshake: Once[_Handshake] = Once()

    def connect(self, token: CancelToken) -> None:
        """Make the first handshake.

        Cancellation: ends at once.

        :raises MCPError: the server cannot be used in this way.
        """
        self._repeating_refused(Caller(token=token), self._session_for)

    def request_once(self, method: str, params: dict[str, Any], caller: Caller) -> Any:
        """Make a request, with the credentials of now. Cancellation: ends at once."""
        try:
            return self._request_in_session(method, params, caller)
        except SessionGone:
            return self._request_in_session(method, params, caller)

    def _request_in_session(
        self, method: str, params: dict[str, Any], caller: Caller
    ) -> Any:
        session = self._session_for(caller)
        credentials = self._credentials(caller)
        pending = Pending(self._requests.next_id(), method, caller)
        call = PostedCall(
            self._wire, self._requests, pending, self._life, can_resume=True
        )
        post = partial(
            call.run,
            self._encode(pending, params),
            session.headers,
            credentials,
            on_own_thread=session.has_stream,
        )
        try:
            return self._requests.while_open(pending, post)
        except SessionGone:
            if session.stream is not None:
                session.stream.close(clock.now())
            session.is_gone = True  # this one, not a newer one; last: then it is left
            raise
        except BaseException as error:
            if call.is_seen:
                self._tell_cancelled(pending, error, session.headers)
            elif isinstance(error, (Cancelled, MCPServerLost)):
                error.started = False
            raise

    def headers_of_notice(self, method: str) -> Mapping[str, str] | None:
        """Return the headers of a notification; ``None`` if it cannot be sent."""
        session = self._usable()
        return None if session is None else session.headers

    # -- sessions ------------------------------------------------------------------

    def _session_for(self, caller: Caller) -> LegacySession:
        """Return the current session; make one if there is none.

        Cancellation: ends at once, also while another thread makes it.
        """
        self._check_open()
        session = self._usable()
        if session is not None:
            return session
        own = _Handshake()
        try:
            try:
                return self._awaited_session(own, caller)
            finally:
                finish_despite_signals(partial(self._leave, own))
        finally:
            self._leave(own)  # again: a signal handler may have raised before

    def _usable(self) -> LegacySession | None:
        session = self._current
        return None if session is None or session.is_gone else session

    def _awaited_session(self, own: _Handshake, caller: Caller) -> LegacySession:
        """Wait for a session of another thread, or make one."""
        while True:
            self._check_open()
            handshake = self._handshake.claim(own)
            session = self._usable()  # one who has made it leaves after that
            if session is not None:
                return session
            with self._before_sending(caller) as token:
                if handshake is own:
                    return self._shake_hands(own, token)
                handshake.wait(token)
                token.checkpoint()
            if handshake.failure is not None:
                raise copy(handshake.failure)

    def _shake_hands(self, handshake: _Handshake, token: CancelToken) -> LegacySession:
        """Make a session for all threads that wait for one."""
        is_again = self._session is not None
        try:
            session = self._initialize(handshake, token)
        except MCPError as error:
            handshake.failure = error
            raise
        self._current, self._session = session, session.session
        if is_again:
            self._tell_changes()
        return session

    def _leave(self, handshake: _Handshake) -> None:
        """Have others go on: the thread that made a handshake is done with it.

        Safe to repeat, and without effect if the handshake was another thread's.
        """
        made = handshake.made
        if made is not None and made is not self._current:
            # No one will use it: end it, on another thread.
            if made.stream is not None:
                made.stream.close(clock.now())
            if made.id is not None and not made.is_gone:
                made.is_gone = True
                self._notices.put(partial(self._delete, made))
        handshake.made = None
        if self._handshake.value is handshake:
            self._handshake = Once()
        handshake.is_over = True  # publish first, then wake those who look
        handshake.watch.wake()

    def _initialize(self, handshake: _Handshake, token: CancelToken) -> LegacySession:
        timeout, self.refused_status = self._settings.start_timeout, 0
        credentials = self._wire.credentials(token)
        until = clock.now() + timeout
        caller = Caller(token=token, total=timeout)
        pending = Pending(self._requests.next_id(), INITIALIZE, caller)
        call = PostedCall(self._wire, self._requests, pending, self._life)
        data = self._encode(pending, initialize_params(self._owner))
        try:
            result = self._requests.while_open(
                pending, partial(call.run, data, {}, credentials)
            )
        except MCPTimedOut:
            raise self._never_answered() from None
        except MCPError:
            self.refused_status = call.status
            raise
        id = call.response_headers.get(SESSION_ID)
        if id is not None and not _VISIBLE.fullmatch(id):
            raise MCPProtocolError(
                f"{self._owner.name} gave a session id that cannot be sent back",
                server=self._owner.name,
            )
        session = LegacySession(id, initialized_session(result, self._owner))
        handshake.made = session
        self._confirm(session, token.child(deadline=until))
        self._open_stream(session, token)
        return session

    def _confirm(self, session: LegacySession, token: CancelToken) -> None:
        """Tell the server that the handshake is complete."""
        try:
            with self._wire.open(
                "POST",
                token,
                data=encode_notification(INITIALIZED),
                headers=session.headers,
                credentials=self._wire.credentials(token),
            ) as response:
                status = response.status
                response.finish()
        except SyncAgentError as error:
            raise self._wire.failure(error, "headers") from None
        except Cancelled:
            if token.origin != "deadline":
                raise
            raise self._never_answered() from None
        if status >= 300:
            raise MCPServerLost(
                f"{self._owner.name} answered the end of the handshake with status "
                f"{status}; try again later",
                server=self._owner.name,
            )

    # -- the GET stream ------------------------------------------------------------

    def _open_stream(self, session: LegacySession, token: CancelToken) -> None:
        """Open the GET stream, if anything that matters may come on it."""
        capabilities = session.session.capabilities
        announces = any(
            isinstance(found := capabilities.get(kind), dict)
            and found.get("listChanged")
            for kind in LISTS
        )
        if not (announces or self._owner.client_capabilities):
            return
        name = f"syncagent-mcp-stream-{self._owner.name}"
        attend = partial(self._attend, session)
        session.stream = StandingStream(name, self._life, attend)
        session.stream.start()
        if self._owner.client_capabilities:
            session.stream.wait_decided(token, clock.now() + _STREAM)
            token.checkpoint()

    def _attend(
        self,
        session: LegacySession,
        token: CancelToken,
        decide: Callable[[], None],
    ) -> StreamEnd:
        """Open the stream, and pass on what comes until it ends."""
        headers = {**session.headers, "Accept": "text/event-stream"}
        if session.last_event_id:
            headers["Last-Event-ID"] = session.last_event_id
        was_alive = False
        with self._wire.open(
            "GET", token, headers=headers, credentials=self._wire.credentials(token)
        ) as response:
            status = response.status
            if status != 200 or not response.is_event_stream:
                may_come = status in (408, 409, 429) or status >= 500
                return StreamEnd(is_final=not may_come)
            decide()
            try:
                for event in response.events():
                    was_alive = True
                    session.last_event_id = response.last_event_id
                    for message in messages_in(event.data, self._owner.name):
                        self._requests.receive(message)
            except StreamBroken as error:
                _log.debug("%s: %s", self._owner.name, error)
            session.last_event_id = response.last_event_id or session.last_event_id
            pause = None if response.retry is None else response.retry / 1000
        return StreamEnd(was_alive=was_alive, pause=pause)

    # -- the end -------------------------------------------------------------------

    def end_streams(self, until: float) -> None:
        """End what the dialect keeps open, until a monotonic time."""
        session, self._current = self._usable(), None
        if session is None:
            return
        if session.stream is not None:
            session.stream.close(until)
        seconds = min(_DELETE, until - clock.now())
        if session.id is not None and seconds > 0:
            try:
                self._delete(session, CancelToken(seconds))
            except (Exception, Cancelled) as error:
                _log.debug("%s: no DELETE (%s)", self._owner.name, type(error).__name__)

    def _delete(self, session: LegacySession, token: CancelToken) -> None:
        with self._wire.open(
            "DELETE",
            token,
            headers=session.headers,
            credentials=self._wire.credentials(token),
        ) as response:
            response.finish()
