"""The events of an answer, as they come."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Final

from .._closeable import Closeable
from ..sse import EventDecoder, ServerSentEvent
from .calls import Attempt, RetriedRequest
from .exchange import call_outside
from .response import StreamedResponse

#: Tells whether an event is the one by which its protocol says: this was all.
IsEnd = Callable[[ServerSentEvent], bool]

#: What may stand before the beginning: white space and a byte order mark.
_NOTHING: Final = b"\xef\xbb\xbf \t\r\n"
#: How much of an answer without events is kept, to say what it is, in bytes.
_BEGINNING: Final = 4096
#: How long to wait for more after the event that says: this was all, in seconds.
_LAST_WORDS: Final = 2.0


class EventStream(Closeable):
    """The events of one answer: iterate over it, and close it.

    The request is made when the first event is asked for. Use it in a ``with`` block,
    or close it: an answer that is not read to its end keeps its connection.
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
        """The HTTP status, once the answer has begun."""
        return None if self._call.answer is None else self._call.answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the answer, once it has begun."""
        return {} if self._call.answer is None else self._call.answer.headers

    @property
    def request_id(self) -> str | None:
        """The server's own name for the request, for its support."""
        return None if self._call.answer is None else self._call.answer.request_id

    def __iter__(self) -> Iterator[ServerSentEvent]:
        return self._events

    def __next__(self) -> ServerSentEvent:
        return next(self._events)

    def close(self) -> None:
        """End it; the connection is closed unless the answer was complete.

        Another thread that waits for the next event gets
        :exc:`~syncagent.exceptions.Cancelled`, with origin ``closed``.
        """
        try:
            self._events.close()
        except ValueError:  # it is running
            self._call.stop()


def _events(
    call: RetriedRequest, is_end: IsEnd | None, make_decoder: Callable[[], EventDecoder]
) -> Generator[ServerSentEvent, None, None]:
    for attempt in call.attempts():
        with attempt:
            answer = attempt.send()
            yield from _deliver(attempt, answer, is_end, make_decoder())


def _deliver(
    attempt: Attempt,
    answer: StreamedResponse,
    is_end: IsEnd | None,
    decoder: EventDecoder,
) -> Generator[ServerSentEvent, None, None]:
    exchange = attempt.exchange
    cancelled = exchange.token.flag()
    exchange.enter("first event")
    beginning = b""
    while piece := answer.read():
        if not attempt.has_delivered:
            beginning += piece[: _BEGINNING - len(beginning)]
            if not answer.is_event_stream and _is_json_or_page(beginning):
                raise answer.not_a_stream(beginning)
        has_events = False
        for event in decoder.feed(piece):
            if not has_events:
                if not attempt.has_delivered:
                    exchange.enter("stream")
                    beginning = b""
                has_events = attempt.has_delivered = True
                exchange.stop_clock()  # the caller's time is not the server's
            if is_end is not None and call_outside(is_end, event):
                attempt.is_complete = True
            if cancelled:  # what came before it may still be in our hands
                exchange.token.checkpoint()
            yield event
        piece = b""  # not to be kept while we wait for the next
        if has_events:
            attempt.before = sys.exc_info()[1]  # the caller may handle another by now
            exchange.enter("stream")
            if attempt.is_complete:
                exchange.limit(_LAST_WORDS)
    if not attempt.has_delivered and _is_something_else(
        beginning, is_labelled=answer.is_event_stream
    ):
        raise answer.not_a_stream(beginning)
    if is_end is None and answer.is_framed and not decoder.has_begun_an_event:
        attempt.is_complete = True
    if not attempt.is_complete:
        raise answer.broken(
            "before it was complete; what came was delivered"
            if attempt.has_delivered
            else "before its first event"
        )


def _is_json_or_page(beginning: bytes) -> bool:
    return beginning.lstrip(_NOTHING).startswith((b"{", b"[", b"<"))


def _is_something_else(beginning: bytes, *, is_labelled: bool) -> bool:
    """Was it something else, rather than a stream cut before its first event?"""
    if is_labelled:
        return _is_json_or_page(beginning)
    said = beginning.lstrip(_NOTHING)
    return said != b"" and not said.startswith((b":", b"data", b"event", b"id"))
