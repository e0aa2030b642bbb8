"""One request over HTTP: its POST, and the response as JSON or as a stream of events.

::

    caller ── run() ──▶ POST ──▶ JSON ──────────────────────────▶ result
                             └─▶ events: progress ... response ─▶ result
                                   └ a question: another thread reads on, this one asks

Guarantees:

- By default the caller's own thread reads: a cancel shuts its connection down, and
  ends nothing else.
- While the caller answers a question, a thread of the call reads on: the server can
  withdraw the question, answer, or end.
- Where questions and progress may come on another stream, too, the thread of the call
  does all of it from the beginning, and the caller waits in
  :meth:`~syncagent.mcp.pending.Pending.wait`.
- Every response ends the wait: one that is not a message of MCP is an error at once.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from ...cancel import Alarm, CancelToken
from ...cancel.once import finish_despite_signals, start_thread
from ...exceptions import (
    Cancelled,
    MCPProtocolError,
    MCPServerLost,
    StreamBroken,
    SyncAgentError,
)
from ...transport import OpenedResponse
from ...transport.redactor import Redactor
from ..messages import METHOD_NOT_FOUND, Message, decode, rpc_error_of
from ..pending import Pending, PendingRequests
from .wire import SESSION_ID, UNSENT, HTTPWire

__all__ = ["PostedCall", "SessionGone", "messages_in"]

_log = logging.getLogger("syncagent.mcp")

#: How often a stream without news is asked for again.
_RESUMPTIONS: Final = 3
#: Seconds before that, if the server has not said how long, and at most.
_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0


class SessionGone(MCPServerLost):
    """The server does not know the session any longer; it has done nothing."""


class PostedCall:
    """One attempt at one request.

    :param requests: all requests of the connection.
    :param pending: this one.
    :param life: the token of the connection; its cancel ends the call, too.
    :param can_resume: true if a broken stream may be asked for again, by GET.
    """

    def __init__(
        self,
        wire: HTTPWire,
        requests: PendingRequests,
        pending: Pending,
        life: CancelToken,
        *,
        can_resume: bool = False,
    ) -> None:
        self._wire = wire
        self._requests = requests
        self._pending = pending
        self._life = life
        self._can_resume = can_resume
        caller = pending.caller
        # Neither a timeout nor the end of the connection reaches the caller's token.
        self._token = CancelToken.any_of(caller.token, life, deadline=pending.end)
        self._alarm = Alarm(self._token)
        self._redactor = Redactor(wire.url)
        self._headers: Mapping[str, str] = {}
        self._response: OpenedResponse | None = None
        self._phases = [""]
        #: The status of the response; 0 before it.
        self.status = 0
        #: The headers of the response.
        self.response_headers: Mapping[str, str] = {}

    @property
    def is_seen(self) -> bool:
        """True if the server may have seen the request."""
        return self._phases[-1] not in UNSENT

    def run(
        self,
        data: bytes,
        headers: Mapping[str, str],
        credentials: Mapping[str, str],
        *,
        on_own_thread: bool = False,
    ) -> Any:
        """Send the request, and return its result.

        Cancellation: ends at once.

        :param on_own_thread: true to use a thread of the call from the beginning.
        :raises CredentialsRefused: the server wants other credentials.
        :raises SessionGone: it does not know the session.
        :raises MCPError: there is no result.
        """
        self._headers = headers
        send = partial(self._send, data, headers, credentials)
        try:
            try:
                if on_own_thread:
                    return self._wait_beside(send)
                return self._read_here(send)
            finally:
                finish_despite_signals(self._end)
        finally:
            self._end()  # again: a signal handler may have raised before the first one

    def _end(self) -> None:
        """End the connection, unless the response is complete. Safe to repeat."""
        self._alarm.stop()
        if self._response is not None:
            self._response.close()
        self._token.cancel("the request is over", "closed")

    # -- on the caller's thread ----------------------------------------------------

    def _read_here(self, send: Callable[[], Iterator[Message]]) -> Any:
        pending = self._pending
        messages = send()
        try:
            self._restart_clock()
            for message in messages:
                self._alarm.stop()
                self._receive(message)
                pending.pass_on_progress()
                if pending.questions and not pending.is_over:
                    return self._wait_beside(lambda: messages)
                self._restart_clock()
        except Cancelled:
            if not self._token.cancelled:
                raise  # it has nothing to do with this call
            if pending.response is None:
                pending.caller.token.checkpoint()
                if self._life.cancelled:
                    raise self._closed() from None
                raise pending.timed_out(self._wire.name) from None
        return pending.result(self._wire.name)

    def _closed(self) -> MCPServerLost:
        lost = MCPServerLost(
            f"{self._wire.name} was closed during {self._pending.method}; its effects "
            "are unknown",
            server=self._wire.name,
        )
        lost.started = self.is_seen
        return lost

    def _restart_clock(self) -> None:
        if self._pending.caller.idle is not None:
            self._alarm.set(self._pending.caller.idle, "idle")

    def _wait_beside(self, send: Callable[[], Iterator[Message]]) -> Any:
        """Have a thread of the call read, and wait for the response."""
        context = contextvars.copy_context()
        start_thread(
            threading.Thread(
                target=context.run,
                args=(self._read_beside, send),
                name=f"syncagent-mcp-call-{self._wire.name}",
                daemon=True,
            )
        )
        answer = partial(self._requests.answer, self._pending)
        return self._pending.wait(self._wire.name, answer)

    # -- on the thread that reads --------------------------------------------------

    def _read_beside(self, send: Callable[[], Iterator[Message]]) -> None:
        pending = self._pending
        try:
            for message in send():
                pending.note_sign()
                self._receive(message)
        except Cancelled:
            # The caller knows by itself, unless it was the connection that ended.
            if self._life.cancelled:
                pending.fail(self._closed())
        except SyncAgentError as error:
            pending.fail(error)
        except BaseException as error:
            _log.exception("%s: a reading thread failed", self._wire.name)
            pending.fail(self._lost(f"could not be read ({type(error).__name__})"))

    def _send(
        self, data: bytes, headers: Mapping[str, str], credentials: Mapping[str, str]
    ) -> Iterator[Message]:
        """Send the request, and yield the messages of the response."""
        try:
            self._response = self._wire.open(
                "POST",
                self._token,
                data=data,
                headers=headers,
                credentials=credentials,
                on_phase=self._phases.append,
                redactor=self._redactor,
            )
        except SyncAgentError as error:
            raise self._wire.failure(error, self._phases[-1]) from None
        self.status = self._response.status
        self.response_headers = self._response.headers
        if self._response.is_event_stream:
            yield from self._read_on()
        else:
            yield from self._read_body(self._response)

    def _read_body(self, response: OpenedResponse) -> Iterator[Message]:
        """Yield the messages of a body, of which one must be the response."""
        try:
            body = response.read()
        except SyncAgentError as error:
            raise self._wire.failure(error, "body") from None
        try:
            messages = decode(body)
        except ValueError:
            messages = []
        self._look_for_session(messages, body)
        yield from messages
        if self._pending.is_over:
            return
        if any(message.is_response for message in messages):
            raise MCPProtocolError(
                f"{self._wire.name} answered {self._pending.method} with the response "
                "to another request; the server mixes up ids",
                server=self._wire.name,
            )
        raise self._wire.unexpected(response, body, self._redactor)

    def _look_for_session(self, messages: list[Message], body: bytes) -> None:
        """Raise if the response says that the session is unknown."""
        if SESSION_ID not in self._headers or self.status not in (400, 404):
            return
        errors = [rpc_error_of(one.error) for one in messages if one.error]
        if any(error.code == METHOD_NOT_FOUND for error in errors):
            return
        text = " ".join(error.message for error in errors)
        text = text or body[:1000].decode("utf-8", "replace")
        if self.status == 404 or "session" in text.lower():
            raise SessionGone(
                f"{self._wire.name} does not know its session any longer",
                server=self._wire.name,
            )

    def _read_on(self) -> Iterator[Message]:
        """Yield the messages of the stream, which is resumed if it breaks."""
        assert self._response is not None
        last_id, tries = "", 0
        while True:
            why = "ended"
            try:
                for event in self._response.events():
                    tries = 0
                    yield from messages_in(event.data, self._wire.name)
                    if self._pending.is_over:
                        self._response.finish()
                        return
            except StreamBroken as error:
                why = f"broke ({error})"
            except SyncAgentError as error:
                raise self._wire.failure(error, "stream") from None
            found = self._response.last_event_id
            tries = 0 if found not in ("", last_id) else tries
            last_id = found or last_id
            if not (self._can_resume and last_id) or tries >= _RESUMPTIONS:
                raise self._lost(f"{why} before the response to {self._pending.method}")
            tries += 1
            self._resume(last_id)

    def _resume(self, last_id: str) -> None:
        """Ask for the rest of the stream."""
        assert self._response is not None
        retry = self._response.retry
        self._token.sleep(
            _PAUSE if retry is None else min(retry / 1000, _LONGEST_PAUSE)
        )
        headers = {
            "Accept": "text/event-stream",
            **self._headers,
            "Last-Event-ID": last_id,
        }
        try:
            self._response = self._wire.open(
                "GET",
                self._token,
                headers=headers,
                credentials=self._wire.credentials(self._token),
            )
        except SyncAgentError as error:
            raise self._lost(f"broke, and was not resumed ({error})") from None
        if self._response.status != 200 or not self._response.is_event_stream:
            status = self._response.status
            raise self._lost(f"broke, and was not resumed (status {status})")

    def _lost(self, what: str) -> MCPServerLost:
        return MCPServerLost(
            f"{self._wire.name}: the stream of {self._pending.method} {what}; its "
            "effects are unknown",
            server=self._wire.name,
        )

    def _receive(self, message: Message) -> None:
        if not message.is_response:
            self._requests.receive(message, self._pending)
        elif message.error is not None:
            # It belongs to the POST that it answers, whatever its id.
            error = rpc_error_of(message.error)
            text = self._redactor.clean(error.message)
            masked = {"code": error.code, "message": text, "data": error.data}
            self._pending.resolve(Message(id=message.id, error=masked))
        elif str(message.id) == str(self._pending.id):
            self._pending.resolve(message)
        else:
            _log.debug(
                "%s answered %r on a foreign stream", self._wire.name, message.id
            )


def messages_in(data: str, name: str) -> list[Message]:
    """Return the messages of an event; none if it is there for its id only."""
    if not data.strip():
        return []
    try:
        return decode(data)
    except ValueError:
        _log.debug("%s sent an event that is not a message", name)
        return []
