"""Responses in the dialect of OpenAI's Chat Completions, and of compatible servers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from ...events import Event, MessageStarted, UsageUpdated
from ...messages import Refusal, Text, Thinking
from ...sse import ServerSentEvent
from ..dialect import stream_broken
from ..draft import Draft, OpenText
from ..errors import error_in_response
from ..json_values import as_string, get_path
from .calls import Calls
from .citations import add_annotations, add_sources
from .details import Details
from .ending import find_usage, raise_for_error, stop_detail, stop_reason
from .wire import CallDelta, ChatChunk, Choice, ChoiceDelta, chunks, read

# -- decoding --------------------------------------------------------------------------


def is_end(event: ServerSentEvent) -> bool:
    """Return whether the response is complete with *event*."""
    # Quotes inside of a string are escaped, so this can only be the key.
    data = event.data
    return 'finish_reason":"' in data or 'finish_reason": "' in data or data == "[DONE]"


def decode(stream: Iterable[ServerSentEvent], draft: Draft) -> Iterator[Event]:
    """Yield our events for those of a streamed response."""
    ending, has_begun, is_done = Choice(), False, False
    content = _Content(draft)
    for event in stream:
        if event.data == "[DONE]":
            is_done = True
            continue
        try:
            chunk = chunks.decode(event.data)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            is_empty = event.data.strip() in ("", "[DONE]")
            chunk = ChatChunk() if is_empty else read(event.data)
        if chunk.error:
            raise error_in_response(chunk.error)
        if not has_begun and (chunk.choices or chunk.model):
            has_begun = True
            for choice in chunk.choices or ():
                raise_for_error(choice)
            draft.model = chunk.model or ""
            yield MessageStarted(draft.model, chunk.id or "")
        for choice in chunk.choices or ():
            if choice.index:  # the request asks for one choice
                continue
            delta = choice.delta
            if delta is not None:
                yield from content.add_delta(delta)
            if choice.finish_reason or choice.error:
                raise_for_error(choice)
                ending = choice
                add_sources(draft, chunk)
            # Some servers repeat the whole message with every delta.
            if choice.message and (
                ending.finish_reason or not (delta and delta.content)
            ):
                yield from content.add_message(choice.message)
        if chunk.usage or chunk.x_groq or ending.finish_reason:
            yield from _update_usage(draft, chunk)
    # "[DONE]" alone may follow an incomplete response; but usage comes at its end.
    if not ending.finish_reason and not (is_done and draft.usage.output_tokens):
        raise stream_broken()
    yield from content.end(ending)


def decode_body(body: bytes, draft: Draft) -> Iterator[Event]:
    """Yield our events for a response that is not streamed."""
    response = read(body)
    if response.error:
        raise error_in_response(response.error)
    choice = response.choices[0] if response.choices else Choice()
    raise_for_error(choice)
    draft.model = response.model or ""
    yield MessageStarted(draft.model, response.id or "")
    # A filter may leave a reason only, and no message.
    if (
        choice.message is None
        and stop_reason(draft, choice.finish_reason or "") != "refusal"
    ):
        raise stream_broken()
    content = _Content(draft)
    yield from content.add_message(choice.message or ChoiceDelta())
    add_sources(draft, response)
    yield from _update_usage(draft, response)
    choice.finish_reason = choice.finish_reason or "stop"
    yield from content.end(choice)


def _update_usage(draft: Draft, chunk: ChatChunk) -> Iterator[Event]:
    usage = find_usage(chunk)
    if usage is not None:
        draft.usage = usage
        yield UsageUpdated(usage)


# -- content ---------------------------------------------------------------------------


class _Content:
    """The content of a response under construction."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._calls = Calls(draft)
        self._details = Details()

    def add_delta(self, delta: ChoiceDelta) -> Iterable[Event]:
        """Add the content of a delta."""
        # Nearly every delta is a string and nothing else, as this comparison sees.
        content = delta.content
        if content.__class__ is str and delta == ChoiceDelta(content):
            return (self._draft.text(content),) if content else ()
        return self._add_parts(delta)

    def _add_parts(self, delta: ChoiceDelta) -> Iterator[Event]:
        draft, content = self._draft, delta.content
        thinking = _text_in(delta.reasoning_content) or _text_in(delta.reasoning)
        if delta.reasoning_details:
            details = self._details.add(delta.reasoning_details)
            thinking = thinking or details
        if thinking:
            yield draft.thinking(thinking)
        if content:
            if isinstance(content, str):
                yield draft.text(content)
            else:
                for kind, text in _parts(content):
                    yield draft.text(text) if kind is Text else draft.thinking(text)
        if delta.annotations:
            add_annotations(draft, delta.annotations)
        if delta.refusal:
            draft.refusal(delta.refusal)
        if delta.tool_calls:
            for call in delta.tool_calls:
                yield from self._calls.add_delta(call)
        elif delta.function_call is not None:
            yield from self._calls.add_delta(CallDelta(0, None, delta.function_call))

    def add_message(self, message: ChoiceDelta) -> Iterator[Event]:
        """Add the content of a whole message that no delta has brought."""
        parts = _parts(message.content)
        thinking = _text_in(message.reasoning_content) or _text_in(message.reasoning)
        thinking += "".join(text for kind, text in parts if kind is Thinking)
        details = self._details.add_whole(message.reasoning_details)
        thinking = self._new_text(Thinking, thinking or details)
        if thinking:
            yield self._draft.thinking(thinking)
        text = "".join(text for kind, text in parts if kind is Text)
        text = self._new_text(Text, text)
        if text:
            yield self._draft.text(text)
        add_annotations(self._draft, message.annotations)
        refusal = self._new_text(Refusal, message.refusal or "")
        if refusal:
            self._draft.refusal(refusal)
        if not self._calls.have_begun:
            yield from self._calls.add_whole(message)

    def end(self, ending: Choice) -> Iterator[Event]:
        """Yield the events that complete the message."""
        finish = ending.finish_reason or ""
        yield from self._calls.end()
        stop = stop_reason(self._draft, finish)
        self._details.end(self._draft)
        yield from self._draft.finish(stop, finish, stop_detail(stop, ending))

    def _new_text(self, kind: type[Text | Thinking | Refusal], text: str) -> str:
        """Return the part of *text* after the draft's; nothing if they differ."""
        if not text:
            return ""
        texts = (block for block in self._draft.blocks if isinstance(block, OpenText))
        known = "".join("".join(b.pieces) for b in texts if b.kind is kind)
        return text[len(known) :] if text.startswith(known) else ""


def _text_in(value: Any) -> str:
    """Return a text that may come in parts, as some compatible servers send it."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else [value]
    return "".join(
        part if isinstance(part, str) else as_string(get_path(part, "text"))
        for part in parts
    )


def _parts(content: Any) -> list[tuple[type[Text | Thinking], str]]:
    """Return the texts in content of any form, and their kinds."""
    found: list[tuple[type[Text | Thinking], str]] = []
    for part in content if isinstance(content, list) else [content]:
        if get_path(part, "type") == "thinking":
            found.append((Thinking, _text_in(part.get("thinking"))))
        else:
            found.append((Text, _text_in(part)))
    return [(kind, text) for kind, text in found if text]
