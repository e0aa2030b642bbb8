"""An answer as it is passed on: whole, and with what it has cost."""

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

__all__ = ["ModelResponse", "Events"]

#: What a model yields.
Events = Generator[Event, None, None]


class ModelResponse(Closeable, Iterator[Event]):
    """The events of an answer: iterate over it, and close it if you stop early.

    The request is made when the first event is asked for.

    :param sent: the size of what is sent, in bytes.
    :param prefill: how the answer is told to begin, which no provider repeats.
    """

    def __init__(self, sent: int = 0, prefill: str = "") -> None:
        #: What has come, as far as it can be kept when no more does.
        self.draft = Draft("")
        self._sent = sent
        self._prefill = prefill
        self._received = 0
        self._told = Usage()
        self._has_begun = False
        self._events: Events = _nothing()

    def __iter__(self) -> Events:
        return self._events

    def __next__(self) -> Event:
        return next(self._events)

    def close(self) -> None:
        """End it; the connection is closed unless the answer was complete."""
        self._events.close()

    def partial(self) -> AssistantMessage | None:
        """Return what has come of a message that is cut off; ``None`` if nothing has.

        Words are kept, and thinking that is complete; tool calls are not.
        """
        if not self._has_begun:
            return None
        message = self._begun(self.draft.partial())
        return message if message.content else None

    @property
    def usage(self) -> Usage:
        """What it has cost up to here, which nobody knows for sure."""
        return self._so_far()

    def follow(self, events: Events) -> ModelResponse:
        """Make *events*, of a dialect, the events of this answer.

        Whatever ends them early carries, as its ``usage``, what they have cost.
        """
        self._events = self._follow(events)
        return self

    def _follow(self, events: Events) -> Events:
        try:
            with closing(events):
                for event in events:
                    if isinstance(event, (TextDelta, ThinkingDelta)):
                        self._received += len(event.text)
                        yield event
                    else:
                        yield from self._other(event)
        except (Cancelled, SyncAgentError) as error:
            error.usage = self._so_far()
            raise

    def _so_far(self) -> Usage:
        guess = Usage.estimate(self._sent, self._received)
        told = self._told
        return msgspec.structs.replace(
            told,
            input_tokens=told.input_tokens or guess.input_tokens,
            output_tokens=max(told.output_tokens, guess.output_tokens),
            estimated=True,
        )

    def _other(self, event: Event) -> Events:
        if isinstance(event, UsageUpdated):
            self._told = event.usage
        elif isinstance(event, ToolCallDelta):
            self._received += len(event.arguments)
        elif isinstance(event, MessageFinished):
            usage = event.usage if event.usage.total_tokens else self._so_far()
            yield MessageFinished(self._begun(event.message), usage)
            return
        yield event
        if isinstance(event, MessageStarted):
            self._has_begun = True
            if self._prefill:
                yield TextDelta(self._prefill)

    def _begun(self, message: AssistantMessage) -> AssistantMessage:
        """Return *message* with its beginning."""
        if not self._prefill:
            return message
        first, *rest = message.content or (Text(""),)
        if isinstance(first, Text):
            whole = msgspec.structs.replace(first, text=self._prefill + first.text)
            content = (whole, *rest)
        else:
            content = (Text(self._prefill), *message.content)
        return msgspec.structs.replace(message, content=content)


def _nothing() -> Events:
    yield from ()
