"""Responses in the dialect of OpenAI's Chat Completions, and of compatible servers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from ...events import Event, MessageStarted, UsageUpdated
from ...exceptions import ProtocolError
from ...messages import MessageStop, Refusal, Text, Thinking
from ...sse import ServerSentEvent
from ...usage import Usage
from ..dialect import decode_json, stream_broken
from ..draft import Draft, OpenText
from ..errors import error_in_response
from ..json_values import as_count, as_dicts, as_string, get_path

NAME: Final = "openai-chat"
_STOPS: Final[dict[str, MessageStop]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refusal",
    "": "end_turn",
}
#: Half a character, escaped in JSON, which no encoder would write again.
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


# -- the wire format -------------------------------------------------------------------

# Nearly all servers send data of these types, and msgspec decodes it at once. The rest
# is decoded again by _decode_leniently().


class Function(msgspec.Struct):
    """The name and the arguments of a tool call."""

    name: str | None = None
    arguments: Any = None


class CallDelta(msgspec.Struct):
    """A tool call, or more of it."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None


class ChoiceDelta(msgspec.Struct):
    """More of a message, or all of it."""

    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: str | None = None
    tool_calls: list[CallDelta] | None = None
    function_call: Function | None = None


class Choice(msgspec.Struct):
    """One of the alternative messages; the request asks for one."""

    index: int | None = None
    delta: ChoiceDelta | None = None
    message: ChoiceDelta | None = None
    finish_reason: str | None = None
    error: Any = None


class ChatChunk(msgspec.Struct):
    """An event of a stream, or a complete response."""

    id: str | None = None
    model: str | None = None
    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


_chunks: Final = msgspec.json.Decoder(ChatChunk)


# -- decoding --------------------------------------------------------------------------


def is_end(event: ServerSentEvent) -> bool:
    """Return whether the response is complete with *event*."""
    # Quotes inside of a string are escaped, so this can only be the key.
    data = event.data
    return 'finish_reason":"' in data or 'finish_reason": "' in data or data == "[DONE]"


def decode(stream: Iterable[ServerSentEvent], draft: Draft) -> Iterator[Event]:
    """Yield our events for those of a streamed response."""
    finish, has_begun, is_done = "", False, False
    calls = _Calls(draft)
    for event in stream:
        if event.data == "[DONE]":
            is_done = True
            continue
        try:
            chunk = _chunks.decode(event.data)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            is_empty = event.data.strip() in ("", "[DONE]")
            chunk = ChatChunk() if is_empty else _read(event.data)
        if chunk.error:
            raise error_in_response(chunk.error)
        if not has_begun and (chunk.choices or chunk.model):
            has_begun = True
            for choice in chunk.choices or ():
                _raise_for_error(choice)
            draft.model = chunk.model or ""
            yield MessageStarted(draft.model, chunk.id or "")
        for choice in chunk.choices or ():
            if choice.index:  # the request asks for one choice
                continue
            delta = choice.delta
            if delta is not None:
                yield from _add_delta(draft, calls, delta)
            if choice.finish_reason or choice.error:
                _raise_for_error(choice)
                finish = choice.finish_reason or finish
            # Some servers repeat the whole message with every delta.
            if choice.message and (finish or not (delta and delta.content)):
                yield from _add_message(draft, calls, choice.message)
        if chunk.usage:
            draft.usage = _usage(chunk.usage)
            yield UsageUpdated(draft.usage)
    # "[DONE]" alone may follow an incomplete response; but usage comes at its end.
    if not finish and not (is_done and draft.usage.output_tokens):
        raise stream_broken()
    yield from calls.end()
    yield from draft.finish(_stop_reason(draft, finish), finish)


def decode_body(body: bytes, draft: Draft) -> Iterator[Event]:
    """Yield our events for a response that is not streamed."""
    response = _read(body)
    if response.error:
        raise error_in_response(response.error)
    choice = response.choices[0] if response.choices else Choice()
    _raise_for_error(choice)
    draft.model = response.model or ""
    yield MessageStarted(draft.model, response.id or "")
    if choice.message is None:
        raise stream_broken()
    calls = _Calls(draft)
    yield from _add_message(draft, calls, choice.message)
    yield from calls.end()
    if response.usage:
        draft.usage = _usage(response.usage)
        yield UsageUpdated(draft.usage)
    finish = choice.finish_reason or "stop"
    yield from draft.finish(_stop_reason(draft, finish), finish)


def _read(data: str | bytes) -> ChatChunk:
    """Return the content of an event or a response.

    :raises ProtocolError: it does not have the form that the provider documents.
    """
    try:
        return decode_json(_chunks, data)
    except ProtocolError:
        chunk = _decode_leniently(data)
        if chunk is None:
            raise
        return chunk


def _decode_leniently(data: str | bytes) -> ChatChunk | None:
    """Return the usable fields of *data*, or None if it is no response at all."""
    try:
        text = json.dumps(json.loads(data), ensure_ascii=False)
        content = json.loads(_LONE_SURROGATE.sub("\ufffd", text))
    except (ValueError, RecursionError):
        return None
    choices, error = get_path(content, "choices"), get_path(content, "error")
    is_chunk = isinstance(content, dict) and isinstance(choices, (list, type(None)))
    if not is_chunk and not error:
        return None
    usage = get_path(content, "usage")
    return ChatChunk(
        _id(get_path(content, "id")),
        as_string(get_path(content, "model")),
        [
            Choice(
                _index(choice.get("index")),
                _delta(choice.get("delta")),
                _delta(choice.get("message")),
                as_string(choice.get("finish_reason")),
                choice.get("error"),
            )
            for choice in as_dicts(choices)
        ],
        usage if isinstance(usage, dict) else None,
        error,
    )


def _delta(delta: Any) -> ChoiceDelta | None:
    if not isinstance(delta, dict):
        return None
    calls = [
        CallDelta(
            _index(d.get("index")), _id(d.get("id")), _function(d.get("function"))
        )
        for d in as_dicts(delta.get("tool_calls"))
    ]
    return ChoiceDelta(
        delta.get("content"),
        delta.get("reasoning_content"),
        delta.get("reasoning"),
        as_string(delta.get("refusal")),
        calls,
        _function(delta.get("function_call")),
    )


def _function(function: Any) -> Function | None:
    if not isinstance(function, dict):
        return None
    return Function(as_string(function.get("name")), function.get("arguments"))


def _id(value: Any) -> str:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value)[:100] if is_number else as_string(value)


def _index(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number else None


# -- text ------------------------------------------------------------------------------


def _add_delta(draft: Draft, calls: _Calls, delta: ChoiceDelta) -> Iterable[Event]:
    """Add the content of a delta."""
    # Nearly every delta is a string and nothing else, as this comparison sees.
    content = delta.content
    if content.__class__ is str and delta == ChoiceDelta(content):
        return (draft.text(content),) if content else ()
    return _add_parts(draft, calls, delta)


def _add_parts(draft: Draft, calls: _Calls, delta: ChoiceDelta) -> Iterator[Event]:
    thinking = delta.reasoning_content or delta.reasoning
    if thinking:
        text = _text_in(delta.reasoning_content) or _text_in(delta.reasoning)
        if text:
            yield draft.thinking(text)
    content = delta.content
    if content:
        if isinstance(content, str):
            yield draft.text(content)
        else:
            for kind, text in _parts(content):
                yield draft.text(text) if kind is Text else draft.thinking(text)
    if delta.refusal:
        draft.refusal(delta.refusal)
    if delta.tool_calls:
        for call in delta.tool_calls:
            yield from calls.add_delta(call)
    elif delta.function_call is not None:
        yield from calls.add_delta(CallDelta(0, None, delta.function_call))


def _add_message(draft: Draft, calls: _Calls, message: ChoiceDelta) -> Iterator[Event]:
    """Add the content of a whole message that no delta has brought."""
    parts = _parts(message.content)
    thinking = _text_in(message.reasoning_content) or _text_in(message.reasoning)
    thinking += "".join(text for kind, text in parts if kind is Thinking)
    thinking = _new_text(draft, Thinking, thinking)
    if thinking:
        yield draft.thinking(thinking)
    text = "".join(text for kind, text in parts if kind is Text)
    text = _new_text(draft, Text, text)
    if text:
        yield draft.text(text)
    refusal = _new_text(draft, Refusal, message.refusal or "")
    if refusal:
        draft.refusal(refusal)
    if not calls.have_begun:
        yield from calls.add_whole(message)


def _new_text(draft: Draft, kind: type[Text | Thinking | Refusal], text: str) -> str:
    """Return the part of *text* that follows the draft's; nothing if they differ."""
    if not text:
        return ""
    blocks = (b for b in draft.blocks if isinstance(b, OpenText) and b.kind is kind)
    known = "".join("".join(block.pieces) for block in blocks)
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


# -- calls -----------------------------------------------------------------------------


class _Slot:
    """A tool call that is still growing. Before it has a name it has no events."""

    def __init__(self) -> None:
        self.call_id = ""
        self.name = ""
        self.pieces: list[str] = []


class _Calls:
    """The tool calls of a response, by index or id, or neither: servers differ."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._slots: list[_Slot] = []
        #: The latest call of each index.
        self._latest: dict[int, _Slot] = {}
        #: The calls by index, or None, and id.
        self._known: dict[tuple[int | None, str], _Slot] = {}

    @property
    def have_begun(self) -> bool:
        """True if there is a call."""
        return bool(self._slots)

    def add_delta(self, call: CallDelta) -> Iterator[Event]:
        """Add more of a call."""
        function = call.function or Function()
        slot = self._find(call, function.name or "")
        if slot is None:
            slot = self._begin(call.index)
        if call.id and slot.call_id in ("", call.id):
            self._known.setdefault((call.index, call.id), slot)
            self._known.setdefault((None, call.id), slot)
        yield from self._write(slot, call.id or "", function)

    def add_whole(self, message: ChoiceDelta) -> Iterator[Event]:
        """Add complete calls: each is a call of its own, whatever its index or id."""
        calls = message.tool_calls or ()
        if not calls and message.function_call is not None:
            calls = [CallDelta(function=message.function_call)]
        for call in calls:
            slot = self._begin(None)
            yield from self._write(slot, call.id or "", call.function or Function())

    def end(self) -> Iterator[Event]:
        """Start the calls that never got a name, unless they are empty."""
        for slot in self._slots:
            if not slot.name and "".join(slot.pieces).strip():
                yield from self._write(slot, "", Function("unnamed"))

    def _find(self, call: CallDelta, name: str) -> _Slot | None:
        """Return the call that *call* is more of, or None if it is a new one."""
        if call.id:
            known = self._known.get((call.index, call.id))
            if known is not None:
                return known
        if call.index is None:
            last = self._slots[-1] if self._slots else None
            is_new = call.id or (name and last is not None and last.name)
            return None if is_new else last
        slot = self._latest.get(call.index)
        # Some servers give every call the same index.
        is_other = slot is not None and slot.call_id and call.id and name
        return None if is_other else slot

    def _begin(self, index: int | None) -> _Slot:
        slot = _Slot()
        self._slots.append(slot)
        if index is not None:
            self._latest[index] = slot
        return slot

    def _write(self, slot: _Slot, call_id: str, function: Function) -> Iterator[Event]:
        slot.call_id = slot.call_id or call_id
        text = function.arguments or ""
        if not isinstance(text, str):  # some servers send an object
            text = msgspec.json.encode(text).decode()
        if not slot.name:
            slot.pieces.append(text)
            if not function.name:
                return
            slot.name = function.name
            yield self._draft.start_call(slot, slot.call_id, slot.name)
            text = "".join(slot.pieces)
        if text:
            yield self._draft.arguments(slot, text)


# -- the end ---------------------------------------------------------------------------


def _raise_for_error(choice: Choice) -> None:
    """Raise the error that a server sent in place of a message."""
    if choice.error or choice.finish_reason == "error":
        raise error_in_response(choice.error or "no message")


def _stop_reason(draft: Draft, finish: str) -> MessageStop:
    stop = _STOPS.get(finish, "other")
    if stop not in ("end_turn", "other"):
        return stop
    # Some servers report "stop", or a value of their own, for calls and refusals too.
    if draft.has_calls:
        return "tool_calls"
    texts = (block for block in draft.blocks if isinstance(block, OpenText))
    is_refused = any(block.kind is Refusal for block in texts)
    return "refusal" if is_refused else stop


def _usage(usage: dict[str, Any]) -> Usage:
    cached = get_path(usage, "prompt_tokens_details", "cached_tokens")
    reasoning = get_path(usage, "completion_tokens_details", "reasoning_tokens")
    return Usage(
        as_count(usage.get("prompt_tokens")),
        as_count(usage.get("completion_tokens")),
        as_count(cached),
        reasoning_tokens=as_count(reasoning),
    )
