"""A response of any status, whose body is read as bytes or as events.

Guarantees:

- The request is sent once, whatever happens: it may have effects.
- ``close()`` on any thread ends the wait of another one, which gets ``Cancelled`` with
  origin ``closed``. It never passes for the regular end of the response.
- The time between two reads is the caller's: only the total timeout counts then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping

from .._closeable import Closeable
from ..sse import EventDecoder, ServerSentEvent
from .calls import Attempt, RetriedRequest
from .response import StreamedResponse
from .streams import deliver

__all__ = ["OpenedResponse"]


class _Reading:
    """How the body is read, and the part of it that has come."""

    def __init__(self, decoder: EventDecoder) -> None:
        self.decoder = decoder
        #: True to read events, False for bytes; None until the caller has chosen.
        self.is_of_events: bool | None = None
        self.body: bytes | None = None
        #: True once the caller needs no more of it.
        self.is_enough = False
        #: True once nothing more can come.
        self.is_over = False


class OpenedResponse(Closeable):
    """A response that has begun; use it in a ``with`` block, or close it.

    Its status may be any: look at it first. Then read the body, by :meth:`read` or by
    :meth:`events`, or do without.
    """

    def __init__(
        self, call: RetriedRequest, make_decoder: Callable[[], EventDecoder]
    ) -> None:
        self._call = call
        self._reading = _Reading(make_decoder())
        # Not a method: a cycle would leave a forgotten response to the collector.
        self._steps = _steps(call, self._reading)
        next(self._steps)
        assert call.response is not None
        self._response: StreamedResponse = call.response

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, case-insensitive as in :mod:`requests`."""
        return self._response.headers

    @property
    def media_type(self) -> str:
        """The media type in lower case, such as ``application/json``, or empty."""
        return self._response.kind

    @property
    def is_event_stream(self) -> bool:
        """True if the body is a stream of events, by its media type."""
        return self._response.is_event_stream

    @property
    def last_event_id(self) -> str:
        """The last id in the stream, also that of a block without data, or empty."""
        return self._reading.decoder.last_event_id

    @property
    def retry(self) -> int | None:
        """Milliseconds to wait before another connection, if the stream has said so."""
        return self._reading.decoder.retry

    def read(self) -> bytes:
        """Read the body to its end and return it; the same again for another call.

        Cancellation: ends at once.

        :raises Cancelled: the token was cancelled, or the response closed.
        :raises StreamBroken: only a part of the body arrived.
        :raises ResponseTooLarge: it is larger than allowed.
        """
        self._choose(is_of_events=False)
        if self._reading.body is None:
            self._advance()
        if self._reading.body is None:
            raise RuntimeError("the response is over, and its body was not read")
        return self._reading.body

    def events(self) -> Iterator[ServerSentEvent]:
        """Yield the events of the body as they arrive; a second call reads on.

        It may take any number of bytes, but each event has its limits. Comments are
        no events: they neither arrive nor keep the stall timeout from passing.

        Cancellation: ends at once.

        :raises Cancelled: the token was cancelled, or the response closed.
        :raises StreamBroken: the connection ended before HTTP said that the body does.
        :raises ProtocolError: the body is not a stream of events.
        """
        self._choose(is_of_events=True)
        while (event := self._advance()) is not None:
            yield event

    def finish(self) -> None:
        """Close it without a need for the rest, which keeps the connection if it can.

        The end of the body is awaited for a moment (0.2 s), so that the next request
        finds the connection open. Call it on the thread that reads, for instance after
        the last event that matters, or in place of reading a body.

        Cancellation: ends at once, and is not raised: the caller has all it needs.
        """
        self._reading.is_enough = True
        self._steps.close()

    def close(self) -> None:
        """End it, from any thread; the connection is closed unless all was read.

        A thread that is reading gets :exc:`~syncagent.exceptions.Cancelled`, with
        origin ``closed``.
        """
        if not self._reading.is_over:
            self._call.stop()
        try:
            self._steps.close()
        except ValueError:  # another thread is inside; stop() wakes it
            pass

    def _choose(self, *, is_of_events: bool) -> None:
        reading = self._reading
        if reading.is_of_events is None:
            reading.is_of_events = is_of_events
        elif reading.is_of_events is not is_of_events:
            raise RuntimeError("a response is read by read() or by events(), not both")

    def _advance(self) -> ServerSentEvent | None:
        try:
            event = next(self._steps, None)
        except ValueError:  # perhaps another thread is just closing it
            self._call.raise_if_stopped()
            raise
        if event is None:
            self._call.raise_if_stopped()
        return event


def _steps(
    call: RetriedRequest, reading: _Reading
) -> Generator[ServerSentEvent | None, None, None]:
    """Yield None as soon as the head is there, then the events, if they are wanted."""
    try:
        for attempt in call.attempts():
            with attempt:
                yield from _attempted(attempt, reading)
    finally:
        reading.is_over = True


def _attempted(
    attempt: Attempt, reading: _Reading
) -> Generator[ServerSentEvent | None, None, None]:
    response = attempt.send(raises_for_status=False)
    if response.is_empty:
        response.read()  # never waits, and gives the connection back
    attempt.exchange.end_clock()
    try:
        yield None
        # The caller may be handling another exception by now.
        attempt.before = sys.exc_info()[1]
        if not reading.is_of_events:
            reading.body = response.read_whole().body
            attempt.is_complete = True
        elif response.is_event_stream:
            response.allow_any_size()
            yield from deliver(attempt, response, None, reading.decoder)
        else:
            raise response.not_a_stream(b"")
    except GeneratorExit:
        attempt.is_complete = reading.is_enough
        raise
