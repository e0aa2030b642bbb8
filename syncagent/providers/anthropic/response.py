"""Responses in the dialect of Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from ...events import Event, MessageStarted, TextDelta, ThinkingDelta, UsageUpdated
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
from ..dialect import decode_json, stream_broken
from ..draft import Draft, OpenText
from ..errors import error_in_response
from ..json_values import as_count, as_dicts, get_path

NAME: Final = "anthropic"
_STOPS: Final[dict[str, MessageStop]] = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_calls",
    "pause_turn": "pause",
    # Claude has summarized the conversation, and continues with the next request.
    "compaction": "pause",
    "refusal": "refusal",
    "": "end_turn",
}
#: Types of events that must be valid; an unknown one is ignored.
_EVENT_TYPES: Final = frozenset(
    {
        *{"message_start", "message_delta", "message_stop", "error", "message"},
        *{"content_block_start", "content_block_delta", "content_block_stop"},
    }
)
_DELTA_TYPES: Final = frozenset(
    {
        *{"text_delta", "thinking_delta", "signature_delta"},
        *{"input_json_delta", "citations_delta", "compaction_delta"},
    }
)


# -- the wire format -------------------------------------------------------------------


class BlockDelta(msgspec.Struct):
    """More of a block, or of the message."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    citation: Any = None
    #: A summary, and its part that only the provider can read.
    content: Any = None
    encrypted_content: Any = None
    stop_reason: str | None = None
    stop_details: Any = None


class MessageBody(msgspec.Struct):
    """A complete response, or the start of a streamed one."""

    type: str | None = None
    id: str | None = None
    model: str | None = None
    content: list[dict[str, Any]] | None = None
    stop_reason: str | None = None
    stop_details: Any = None
    usage: dict[str, Any] | None = None
    error: Any = None
    request_id: str | None = None


class AnthropicEvent(msgspec.Struct):
    """Any event of a stream."""

    type: str | None = None
    #: A number; some compatible servers write it as a string.
    index: int | str | None = None
    delta: BlockDelta | None = None
    content_block: dict[str, Any] | None = None
    message: MessageBody | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    request_id: str | None = None


_events: Final = msgspec.json.Decoder(AnthropicEvent)
_bodies: Final = msgspec.json.Decoder(MessageBody)


# -- decoding --------------------------------------------------------------------------


def is_end(event: ServerSentEvent) -> bool:
    """Return whether the response is complete with *event*."""
    if event.event == "message_stop":
        return True
    # The text may contain the word; then take a closer look.
    return '"message_stop"' in event.data and _type_of(event) == "message_stop"


def decode(stream: Iterable[ServerSentEvent], draft: Draft) -> Iterator[Event]:
    """Yield our events for those of a streamed response."""
    finish, detail, has_begun, is_done = "", "", False, False
    blocks, counts = _Blocks(draft), dict[str, Any]()
    for sse in stream:
        event = _read_event(sse)
        kind = event.type or sse.event
        if kind == "content_block_delta":
            if event.delta is not None:
                delta = blocks.delta(event.index, event.delta)
                if delta is not None:
                    yield delta
        elif kind == "content_block_start":
            yield from blocks.start(event.index, event.content_block or {})
        elif kind == "content_block_stop":
            yield from blocks.stop(event.index)
        elif kind == "error" or event.error:
            raise error_in_response(event.error or {}, event.request_id)
        elif kind == "message_start" and not has_begun:
            has_begun = True
            start = event.message or MessageBody()
            draft.model = start.model or ""
            yield MessageStarted(draft.model, start.id or "")
            yield from _count(draft, counts, start.usage)
        elif kind == "message_delta":
            if event.delta is not None:
                finish = event.delta.stop_reason or finish
                detail = _detail(event.delta.stop_details) or detail
            yield from _count(draft, counts, event.usage)
        elif kind == "message_stop":
            is_done = True
    if not is_done or not (has_begun or finish):
        raise stream_broken()
    yield from blocks.stop_all()
    yield from draft.finish(_stop_reason(draft, finish), finish, detail)


def decode_body(body: bytes, draft: Draft) -> Iterator[Event]:
    """Yield our events for a response that is not streamed."""
    message = decode_json(_bodies, body)
    if message.type == "error" or message.error:
        raise error_in_response(message.error or {}, message.request_id)
    if message.content is None:
        raise stream_broken()
    draft.model = message.model or ""
    yield MessageStarted(draft.model, message.id or "")
    blocks = _Blocks(draft)
    for number, block in enumerate(message.content):
        yield from blocks.start(number, block)
        yield from blocks.stop(number)
    yield from _count(draft, {}, message.usage)
    finish, detail = message.stop_reason or "", _detail(message.stop_details)
    yield from draft.finish(_stop_reason(draft, finish), finish, detail)


def _read_event(event: ServerSentEvent) -> AnthropicEvent:
    """Return the content of an event.

    :raises ProtocolError: it does not have the form that the provider documents.
    """
    try:
        return _events.decode(event.data)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        # A new event, or one of a compatible server, may have any form.
        if event.event == "error":
            return AnthropicEvent(type="error", error=event.data)
        if event.data.strip() == "[DONE]" or _type_of(event) not in _EVENT_TYPES:
            return AnthropicEvent(type="")
        return decode_json(_events, event.data)


def _type_of(event: ServerSentEvent) -> str:
    """Return the type of an event of any form; that of its delta if that is new."""
    try:
        content = msgspec.json.decode(event.data)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return event.event
    kind = _string(content, "type") or event.event
    delta = _string(content.get("delta"), "type") if isinstance(content, dict) else ""
    is_new = kind == "content_block_delta" and delta not in ("", *_DELTA_TYPES)
    return delta if is_new else kind


class _Call(msgspec.Struct):
    """A tool call that is still growing."""

    key: int
    #: The arguments that it started with, unless deltas have followed.
    initial: str


class _ServerBlock(msgspec.Struct):
    """A block of the provider's own, such as a search that it runs."""

    data: dict[str, Any]
    #: Its input, as JSON.
    pieces: list[str]
    #: Fields of the complete block; a block that was cut off lacks them.
    more: dict[str, Any]

    def add(self, delta: BlockDelta) -> None:
        """Add the fields of a delta."""
        if delta.signature:
            self.more["signature"] = delta.signature
        if delta.type == "compaction_delta":
            before, text = self.more.get("content"), delta.content
            is_more = isinstance(before, str) and isinstance(text, str)
            self.more["content"] = before + text if is_more else text or before
            if delta.encrypted_content is not None:
                self.more["encrypted_content"] = delta.encrypted_content


class _Blocks:
    """The blocks of a response, by the numbers that the provider gives them."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._open: dict[int | str | None, OpenText | _Call | _ServerBlock] = {}
        self._last: int | str | None = None
        self._count = 0

    def start(self, index: int | str | None, block: dict[str, Any]) -> Iterator[Event]:
        """Start a block, which may be complete."""
        yield from self.stop(index)
        self._last = index
        kind, draft = _string(block, "type"), self._draft
        if kind in ("text", "thinking"):
            draft.new_block()
            opened = draft.open(Text if kind == "text" else Thinking)
            self._open[index] = opened
            opened.signature = _string(block, "signature")
            _cite(opened, block.get("citations"))
            text = _string(block, kind)
            if text:
                yield draft.text(text) if kind == "text" else draft.thinking(text)
        elif kind == "redacted_thinking":
            if _string(block, "data"):
                draft.add(RedactedThinking(_string(block, "data")))
        elif kind == "tool_use":
            arguments = block.get("input") or ""
            if not isinstance(arguments, str):
                arguments = msgspec.json.encode(arguments).decode()
            call = _Call(self._count, arguments)
            self._open[index] = call
            self._count += 1
            call_id, name = _string(block, "id"), _string(block, "name")
            yield draft.start_call(call.key, call_id, name)
        elif kind:
            self._open[index] = _ServerBlock(block, [], {})
            draft.add(ProviderBlock(draft.provider, block))

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
                block.initial = ""
                return self._draft.arguments(block.key, delta.partial_json)
            if isinstance(block, _ServerBlock):
                block.pieces.append(delta.partial_json)
        elif isinstance(block, _ServerBlock):
            block.add(delta)
        elif isinstance(block, OpenText):
            block.signature = delta.signature or block.signature
            _cite(block, [delta.citation])
        return None

    def stop(self, index: int | str | None) -> Iterator[Event]:
        """End a block, if it has started."""
        block = self._open.pop(self._last if index is None else index, None)
        if isinstance(block, _Call):
            if block.initial:
                yield self._draft.arguments(block.key, block.initial)
            yield from self._draft.ready(block.key)
        elif isinstance(block, _ServerBlock):
            block.data.update(block.more)
            try:
                if block.pieces:
                    block.data["input"] = msgspec.json.decode("".join(block.pieces))
            except (msgspec.DecodeError, RecursionError, UnicodeError):
                pass  # cut off by a limit; the call is the provider's to run, not ours

    def stop_all(self) -> Iterator[Event]:
        """End the blocks that the provider has not ended."""
        for index in list(self._open):
            yield from self.stop(index)


def _string(data: Any, name: str) -> str:
    value = data.get(name) if isinstance(data, dict) else None
    return value if isinstance(value, str) else ""


def _cite(text: OpenText, citations: Any) -> None:
    for data in citations if isinstance(citations, list) else ():
        if isinstance(data, dict):
            title = _string(data, "title") or _string(data, "document_title")
            url = _string(data, "url") or _string(data, "source")
            citation = Citation(_string(data, "cited_text"), title, url, data)
            text.citations.append(citation)


# -- the end ---------------------------------------------------------------------------


def _stop_reason(draft: Draft, finish: str) -> MessageStop:
    stop = _STOPS.get(finish, "other")
    # Compatible servers may report the end of the turn, though there are calls.
    if draft.has_calls and stop in ("end_turn", "other"):
        return "tool_calls"
    return stop


def _detail(details: Any) -> str:
    """Return the provider's explanation of a refusal, after its category."""
    words = (_string(details, "category"), _string(details, "explanation"))
    return ": ".join(filter(None, words))


def _count(
    draft: Draft, counts: dict[str, Any], usage: dict[str, Any] | None
) -> Iterator[UsageUpdated]:
    """Update the usage. Counts are totals, and an event may leave some of them out."""
    if not usage:
        return
    for name, value in usage.items():
        if isinstance(value, dict) or (type(value) is int and value == as_count(value)):
            counts[name] = value
    # The totals lack the iterations in which the provider summarized the conversation.
    each = as_dicts(usage.get("iterations")) or [counts]
    cached = sum(as_count(one.get("cache_read_input_tokens")) for one in each)
    written = sum(_written(one) for one in each)
    fresh = sum(as_count(one.get("input_tokens")) for one in each)
    draft.usage = Usage(
        fresh + cached + written,
        sum(as_count(one.get("output_tokens")) for one in each),
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=as_count(
            get_path(counts, "output_tokens_details", "thinking_tokens")
        ),
    )
    yield UsageUpdated(draft.usage)


def _written(counts: dict[str, Any]) -> int:
    """Return the tokens written to the cache, or else the sum over its lifetimes."""
    if "cache_creation_input_tokens" in counts:
        return as_count(counts["cache_creation_input_tokens"])
    parts = counts.get("cache_creation")
    return sum(map(as_count, parts.values())) if isinstance(parts, dict) else 0
