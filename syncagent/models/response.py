"""The response of a model: its events, its draft, and its usage."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing

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
from ..exceptions import Cancelled, SyncAgentError
from ..messages import AssistantMessage, Text
from ..providers.draft import Draft
from ..usage import Usage

__all__ = [
    "Events",
    "ModelResponse",
]

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
        guess = Usage.estimate(self._sent, self._received)
        reported = self._usage
        return msgspec.structs.replace(
            reported,
            input_tokens=reported.input_tokens or guess.input_tokens,
            output_tokens=max(reported.output_tokens, guess.output_tokens),
            estimated=True,
        )

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
