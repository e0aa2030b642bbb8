"""The events of a response, as they arrive."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Final

from .._closeable import Closeable
from ..sse import EventDecoder, ServerSentEvent
from .calls import Attempt, RetriedRequest
from .response import StreamedResponse
from .user_code import UserCodeError

#: Tells whether an event is the last one of its protocol, such as ``[DONE]``.
IsEnd = Callable[[ServerSentEvent], bool]

#: Bytes that may precede the content: white space and a byte order mark.
_NOTHING: Final = b"\xef\xbb\xbf \t\r\n"
#: How much of a response without events is kept for the error message, in bytes.
_BEGINNING: Final = 4096
#: How long to wait for further events after the last one of the protocol, in seconds.
_LAST_WORDS: Final = 2.0


class EventStream(Closeable):
    """The events of one response: iterate over it, and close it.

    The request is sent when the first event is requested. Use it in a ``with`` block,
    or close it: a response that is not read to its end keeps its connection.
    """

    def __init__(
        self,
        call: RetriedRequest,
        is_end: IsEnd | None,
        make_decoder: Callable[[], EventDecoder],
    ) -> None:
        self._call = call
        self._events = _events(call, is_end, make_decoder)

    @property
    def status(self) -> int | None:
        """The HTTP status, once the response has begun."""
        return None if self._call.response is None else self._call.response.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the response, once it has begun."""
        return {} if self._call.response is None else self._call.response.headers

    @property
    def request_id(self) -> str | None:
        """The server's own name for the request, for its support."""
        return None if self._call.response is None else self._call.response.request_id

    @property
    def has_failed(self) -> bool:
        """True if the request has failed, and not only its content makes no sense."""
        return self._call.has_failed

    def __iter__(self) -> Iterator[ServerSentEvent]:
        return self._events

    def __next__(self) -> ServerSentEvent:
        return next(self._events)

    def close(self) -> None:
        """End it; the connection is closed unless the response was complete.

        Another thread that waits for the next event gets
        :exc:`~syncagent.exceptions.Cancelled`, with origin ``closed``.
        """
        try:
            self._events.close()
        except ValueError:  # another thread is inside the generator
            self._call.stop()


def _events(
    call: RetriedRequest, is_end: IsEnd | None, make_decoder: Callable[[], EventDecoder]
) -> Generator[ServerSentEvent, None, None]:
    for attempt in call.attempts():
        with attempt:
            response = attempt.send()
            yield from deliver(attempt, response, is_end, make_decoder())


def deliver(
    attempt: Attempt,
    response: StreamedResponse,
    is_end: IsEnd | None,
    decoder: EventDecoder,
) -> Generator[ServerSentEvent, None, None]:
    """Yield the events of *response*, and note in *attempt* how far it has come."""
    exchange = attempt.exchange
    cancelled = exchange.token.flag()
    exchange.enter("first event")
    beginning = b""
    while piece := response.read():
        if not attempt.has_delivered:
            beginning += piece[: _BEGINNING - len(beginning)]
            if not response.is_event_stream and _is_json_or_page(beginning):
                raise response.not_a_stream(beginning)
        has_events = False
        for event in decoder.feed(piece):
            if not has_events:
                if not attempt.has_delivered:
                    exchange.enter("stream")
                    beginning = b""
                has_events = attempt.has_delivered = True
                exchange.stop_clock()  # the caller's time is not the server's
            if is_end is not None:
                try:
                    attempt.is_complete = is_end(event) or attempt.is_complete
                except Exception as error:
                    raise UserCodeError(error) from None
            # Before every event, not only after a read: one piece may hold many, and
            # none of them is delivered after a cancel.
            if cancelled:
                exchange.token.checkpoint()
            yield event
        piece = b""  # do not keep it in memory while we wait for the next
        if has_events:
            # The caller may be handling another exception by now.
            attempt.before = sys.exc_info()[1]
            if attempt.is_complete:
                exchange.limit(_LAST_WORDS)
            else:
                exchange.restart_clock()
    if not attempt.has_delivered:
        # Tell a body of another kind from a stream that was cut before its first event.
        content = beginning.lstrip(_NOTHING)
        if response.is_event_stream:
            is_other = _is_json_or_page(content)
        else:
            starts = (b":", b"data", b"event", b"id")
            is_other = content != b"" and not content.startswith(starts)
        if is_other:
            raise response.not_a_stream(beginning)
    if is_end is None and response.is_framed and not decoder.has_begun_an_event:
        attempt.is_complete = True
    if not attempt.is_complete:
        raise response.broken(
            "before it was complete; the events up to there were delivered"
            if attempt.has_delivered
            else "before its first event"
        )


def _is_json_or_page(beginning: bytes) -> bool:
    return beginning.lstrip(_NOTHING).startswith((b"{", b"[", b"<"))
