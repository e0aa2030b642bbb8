"""An answer as it is passed on: whole, and with what it has cost."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

import msgspec

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
from ..usage import Usage

__all__ = ["Answer", "Events"]

#: What a model yields.
Events = Generator[Event, None, None]


class Answer:
    """What comes between a dialect and the caller.

    :param payload: what was sent.
    :param prefill: how the answer was told to begin, which no provider repeats.
    """

    def __init__(self, payload: bytes, prefill: str) -> None:
        self._sent = len(payload)
        self._prefill = prefill
        self._received = 0
        self._told = Usage()

    def follow(self, events: Events) -> Events:
        """Yield *events*, as they come.

        Whatever ends them early carries, as its ``usage``, what they have cost.
        """
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
        """Return what it has cost up to here, which nobody knows for sure."""
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
        if isinstance(event, MessageStarted) and self._prefill:
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
