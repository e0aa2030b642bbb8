"""The response of a model: its events, its draft, and its usage."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from typing import Final

import msgspec

from .._closeable import Closeable
from ..events import (
    Event,
    MessageFinished,
    MessageStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageUpdated,
)
from ..exceptions import (
    Cancelled,
    ConfigurationError,
    ProtocolError,
    ProviderError,
    SyncAgentError,
    TransportError,
)
from ..messages import AssistantMessage, Text
from ..providers.draft import Draft
from ..transport import EventStream, WholeResponse
from ..usage import Usage

__all__ = [
    "Events",
    "ModelResponse",
    "NOT_SENT",
]

#: Phases in which the provider has not received the request yet.
NOT_SENT: Final = frozenset(
    {
        "",
        "begin",
        "model",
        "limiter",
        "budget",
        "credentials",
        "resolve",
        "connect",
        "handshake",
    }
)

#: The events of a response.
Events = Generator[Event, None, None]


class ModelResponse(Closeable, Iterator[Event]):
    """The events of a response: iterate over it, and close it if you stop early.

    The request is sent with the first ``next()``.

    :param sent: the size of the request in bytes.
    :param prefill: the beginning of the response, which no provider repeats.
    """

    def __init__(self, sent: int = 0, prefill: str = "") -> None:
        #: The content so far.
        self.draft = Draft("")
        self._sent = sent
        self._prefill = prefill
        self._received = 0
        #: As the provider reported it.
        self._usage = Usage()
        self._has_begun = False
        #: True if the newest error came inside of a response, where the transport does
        #: not see it.
        self.has_error_inside = False
        #: The provider's id of that request.
        self.request_id: str | None = None
        #: True if the provider never worked on the request.
        self._is_refused = False
        self._events: Events = (event for event in tuple[Event, ...]())

    def __iter__(self) -> Events:
        return self._events

    def __next__(self) -> Event:
        return next(self._events)

    def close(self) -> None:
        """End it; the connection is closed unless the response was complete."""
        self._events.close()

    def partial(self) -> AssistantMessage | None:
        """Return the content so far, as a message that was cut off, or None.

        Text and complete thinking are kept; tool calls are not.
        """
        if not self._has_begun:
            return None
        message = self._with_prefill(self.draft.partial())
        return message if message.content else None

    @property
    def usage(self) -> Usage:
        """The usage so far, estimated where the provider has not reported it."""
        if self._is_refused:
            return self._usage
        guess = Usage.estimate(self._sent, self._received)
        reported = self._usage
        return msgspec.structs.replace(
            reported,
            input_tokens=reported.input_tokens or guess.input_tokens,
            output_tokens=max(reported.output_tokens, guess.output_tokens),
            estimated=True,
        )

    @property
    def usage_reported(self) -> Usage:
        """The usage that the provider has reported so far."""
        return self._usage

    @contextmanager
    def decoding(self, source: EventStream | WholeResponse) -> Iterator[None]:
        """Note whether an error of the block came inside of *source*."""
        self.has_error_inside = False
        try:
            yield
        except (ProviderError, TransportError):
            is_broken = isinstance(source, EventStream) and source.has_failed
            self.has_error_inside = not is_broken
            self.request_id = source.request_id
            raise

    def follow(self, events: Events) -> ModelResponse:
        """Make *events*, of a dialect, the events of this response.

        An error or a cancel that ends them early carries their ``usage``.
        """
        self._events = self._follow(events)
        return self

    def _follow(self, events: Events) -> Events:
        try:
            with closing(events):
                for event in events:
                    # Thousands of events: this is faster than isinstance().
                    if event.__class__ is TextDelta:
                        self._received += len(event.text)
                        yield event
                        continue
                    if isinstance(event, ThinkingDelta):
                        self._received += len(event.text)
                    elif isinstance(event, UsageUpdated):
                        self._usage = event.usage
                    elif isinstance(event, ToolCallDelta):
                        self._received += len(event.arguments)
                    elif isinstance(event, MessageFinished):
                        usage = event.usage if event.usage.total_tokens else self.usage
                        message = self._with_prefill(event.message)
                        event = MessageFinished(message, usage)
                    yield event
                    if isinstance(event, MessageStarted):
                        self._has_begun = True
                        if self._prefill:
                            yield TextDelta(self._prefill)
        except (Cancelled, SyncAgentError) as error:
            if isinstance(error, TransportError):
                is_refused = error.phase in NOT_SENT
            else:  # a response that makes no sense has been generated all the same
                kinds = (ConfigurationError, ProviderError)
                is_nonsense = isinstance(error, ProtocolError)
                is_refused = isinstance(error, kinds) and not is_nonsense
            self._is_refused = is_refused and not self._has_begun
            error.usage = self.usage
            raise

    def _with_prefill(self, message: AssistantMessage) -> AssistantMessage:
        """Return *message* with the prefill before it."""
        if not self._prefill:
            return message
        first, *rest = message.content or (Text(""),)
        if isinstance(first, Text):
            whole = msgspec.structs.replace(first, text=self._prefill + first.text)
            content = (whole, *rest)
        else:
            content = (Text(self._prefill), *message.content)
        return msgspec.structs.replace(message, content=content)
