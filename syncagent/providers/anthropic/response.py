"""Responses in the dialect of Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from ...events import Event, TextDelta, ThinkingDelta, UsageUpdated
from ...messages import (
    Citation,
    MessageStop,
    ProviderBlock,
    RedactedThinking,
    Text,
    Thinking,
)
from ...sse import ServerSentEvent
from ...usage import Usage
from ..dialect import read
from ..draft import Draft, OpenText

_STOPS: Final[dict[str, MessageStop]] = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_calls",
    "pause_turn": "pause",
    "refusal": "refusal",
    "": "end_turn",
}


class BlockDelta(msgspec.Struct):
    """More of a block, or of the message."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    citation: Any = None
    stop_reason: str | None = None


class MessageBody(msgspec.Struct):
    """An answer, or the beginning of one."""

    type: str | None = None
    id: str | None = None
    model: str | None = None
    content: list[dict[str, Any]] | None = None
    stop_reason: str | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


class AnthropicEvent(msgspec.Struct):
    """Any event of a stream."""

    type: str | None = None
    #: A number; some imitators write it as a string.
    index: int | str | None = None
    delta: BlockDelta | None = None
    content_block: dict[str, Any] | None = None
    message: MessageBody | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


_events: Final = msgspec.json.Decoder(AnthropicEvent)


replies: Final = msgspec.json.Decoder(MessageBody)


_nothing: Final = AnthropicEvent(type="")


_KINDS: Final = frozenset(
    {
        *{"message_start", "message_delta", "message_stop", "error", "message"},
        *{"content_block_start", "content_block_delta", "content_block_stop"},
    }
)


_DELTAS: Final = frozenset(
    {
        "text_delta",
        "thinking_delta",
        "signature_delta",
        "input_json_delta",
        "citations_delta",
    }
)


def read_event(event: ServerSentEvent) -> AnthropicEvent:
    """Return what an event says.

    :raises ProtocolError: it is not what the provider should say.
    """
    try:
        return _events.decode(event.data)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        # What is new, or from an imitator, may have any form.
        if event.event == "error":
            return AnthropicEvent(type="error", error=event.data)
        if event.data.strip() == "[DONE]" or kind_of(event) not in _KINDS:
            return _nothing
        return read(_events, event.data)


def kind_of(event: ServerSentEvent) -> str:
    """Return the kind of an event of any form; of a delta that is new, its own."""
    try:
        said = msgspec.json.decode(event.data)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return event.event
    kind = _word(said, "type") or event.event
    delta = _word(said.get("delta"), "type") if isinstance(said, dict) else ""
    is_new = kind == "content_block_delta" and delta not in ("", *_DELTAS)
    return delta if is_new else kind


class _Call(msgspec.Struct):
    """A tool call that is being written."""

    key: int
    #: Its arguments, if they were there at once and nothing has followed.
    whole: str


class _ServerBlock(msgspec.Struct):
    """Something that the provider does itself."""

    data: dict[str, Any]
    pieces: list[str]


class Blocks:
    """The blocks of an answer, by the numbers that the provider gives them."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._open: dict[int | str | None, OpenText | _Call | _ServerBlock] = {}
        self._last: int | str | None = None
        self._count = 0

    def start(self, index: int | str | None, block: dict[str, Any]) -> Iterator[Event]:
        """Begin a block, possibly with all of it."""
        yield from self.stop(index)
        self._last = index
        kind, draft = _word(block, "type"), self._draft
        if kind in ("text", "thinking"):
            draft.new_block()
            words = draft.open(Text if kind == "text" else Thinking)
            self._open[index] = words
            words.signature = _word(block, "signature")
            _cite(words, block.get("citations"))
            text = _word(block, kind)
            if text:
                yield draft.text(text) if kind == "text" else draft.thinking(text)
        elif kind == "redacted_thinking":
            if _word(block, "data"):
                draft.add(RedactedThinking(_word(block, "data")))
        elif kind == "tool_use":
            call = _Call(self._count, _text_of(block.get("input")))
            self._open[index] = call
            self._count += 1
            yield draft.start_call(call.key, _word(block, "id"), _word(block, "name"))
        elif kind:
            self._open[index] = _ServerBlock(block, [])
            draft.add(ProviderBlock(NAME, block))

    def delta(self, index: int | str | None, delta: BlockDelta) -> Event | None:
        """Add to a block."""
        block = self._open.get(self._last if index is None else index)
        kind = delta.type
        if kind == "text_delta":
            text = delta.text
            if text and type(block) is OpenText and block.kind is Text:
                block.add(text)
                return TextDelta(text)
            return self._draft.text(text) if text and block is None else None
        if kind == "thinking_delta":
            text = delta.thinking
            if text and type(block) is OpenText and block.kind is Thinking:
                block.add(text)
                return ThinkingDelta(text)
            return self._draft.thinking(text) if text and block is None else None
        if kind == "input_json_delta" and delta.partial_json:
            if isinstance(block, _Call):
                block.whole = ""
                return self._draft.arguments(block.key, delta.partial_json)
            if isinstance(block, _ServerBlock):
                block.pieces.append(delta.partial_json)
        elif isinstance(block, OpenText):
            block.signature = delta.signature or block.signature
            _cite(block, [delta.citation])
        return None

    def stop(self, index: int | str | None) -> Iterator[Event]:
        """End a block, if it has begun."""
        block = self._open.pop(self._last if index is None else index, None)
        if isinstance(block, _Call):
            if block.whole:
                yield self._draft.arguments(block.key, block.whole)
            yield from self._draft.ready(block.key)
        elif isinstance(block, _ServerBlock) and block.pieces:
            try:
                block.data["input"] = msgspec.json.decode("".join(block.pieces))
            except (msgspec.DecodeError, RecursionError, UnicodeError):
                pass  # it was cut off by a limit; nobody here will call it

    def stop_all(self) -> Iterator[Event]:
        """End what the provider has not."""
        for index in list(self._open):
            yield from self.stop(index)


def _word(block: Any, name: str) -> str:
    word = block.get(name) if isinstance(block, dict) else None
    return word if isinstance(word, str) else ""


def _text_of(value: Any) -> str:
    """Return the arguments that a call has from the start, nothing if it has none."""
    if isinstance(value, str) or not value:
        return value or ""
    return msgspec.json.encode(value).decode()


def _cite(words: OpenText, citations: Any) -> None:
    for said in citations if isinstance(citations, list) else ():
        if isinstance(said, dict):
            title = _word(said, "title") or _word(said, "document_title")
            url = _word(said, "url") or _word(said, "source")
            quoted = Citation(_word(said, "cited_text"), title, url, said)
            words.citations.append(quoted)


def stop_reason(draft: Draft, finish: str) -> MessageStop:
    """Return our word for why it stopped."""
    stop = _STOPS.get(finish, "other")
    # Imitators may say that they are at the end, though there are calls.
    if draft.has_calls and stop in ("end_turn", "other"):
        return "tool_calls"
    return stop


def count(
    draft: Draft, counts: dict[str, int], usage: dict[str, Any] | None
) -> Iterator[UsageUpdated]:
    """Add what the provider says; it counts up, and may leave out what it has said."""
    if not usage:
        return
    for name, value in usage.items():
        if isinstance(value, int) and value > 0:
            counts[name] = value
    read = counts.get("cache_read_input_tokens", 0)
    written = counts.get("cache_creation_input_tokens", 0)
    draft.usage = Usage(
        counts.get("input_tokens", 0) + read + written,
        counts.get("output_tokens", 0),
        cached_tokens=read,
        cache_write_tokens=written,
    )
    yield UsageUpdated(draft.usage)


#: The dialect's name; signatures of messages with another are of no use to it.
NAME: Final = "anthropic"
