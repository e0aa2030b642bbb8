"""An answer of Chat Completions, as it is read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from ...events import Event
from ...exceptions import ProtocolError
from ...messages import MessageStop, Refusal, Text, Thinking
from ...usage import Usage
from ..dialect import read
from ..draft import Draft, OpenText
from ..refusals import error_in_answer
from ..values import at, dicts, integer, string

_STOPS: Final[dict[str, MessageStop]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refusal",
    "": "end_turn",
}


# What nearly everybody sends is of these types, and read at once. What is not, is read
# again with patience, see _patiently().


class Function(msgspec.Struct):
    """What is called."""

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
    """One of the answers; there is but one if no more are asked for."""

    index: int | None = None
    delta: ChoiceDelta | None = None
    message: ChoiceDelta | None = None
    finish_reason: str | None = None
    error: Any = None


class ChatChunk(msgspec.Struct):
    """An event of a stream, or an answer that is none."""

    id: str | None = None
    model: str | None = None
    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


_chunks: Final = msgspec.json.Decoder(ChatChunk)
_LONE: Final = re.compile("[\ud800-\udfff]")


def read_event(data: str) -> ChatChunk:
    """Return what an event of a stream says.

    :raises ProtocolError: it is not what a provider should say.
    """
    try:
        return _chunks.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        if data.strip() in ("", "[DONE]"):
            return ChatChunk()
        return read_reply(data)


def read_reply(data: str | bytes) -> ChatChunk:
    """Return what an answer says.

    :raises ProtocolError: it is not what a provider should say.
    """
    try:
        return read(_chunks, data)
    except ProtocolError:
        said = _patiently(data)
        if said is None:
            raise
        return said


def _patiently(data: str | bytes) -> ChatChunk | None:
    """Return what makes sense of *data*, None if nothing does."""
    try:
        # Half a character, escaped, is JSON to some; nobody could write it again.
        text = json.dumps(json.loads(data), ensure_ascii=False)
        said = json.loads(_LONE.sub("\ufffd", text))
    except (ValueError, RecursionError):
        return None
    choices, error = at(said, "choices"), at(said, "error")
    is_ours = isinstance(said, dict) and isinstance(choices, (list, type(None)))
    if not is_ours and not error:
        return None
    usage = at(said, "usage")
    return ChatChunk(
        _id(at(said, "id")),
        string(at(said, "model")),
        [_choice(choice) for choice in dicts(choices)],
        usage if isinstance(usage, dict) else None,
        error,
    )


def _choice(choice: dict[str, Any]) -> Choice:
    return Choice(
        _index(choice.get("index")),
        _delta(choice.get("delta")),
        _delta(choice.get("message")),
        string(choice.get("finish_reason")),
        choice.get("error"),
    )


def _delta(delta: Any) -> ChoiceDelta | None:
    if not isinstance(delta, dict):
        return None
    calls = [
        CallDelta(
            _index(d.get("index")), _id(d.get("id")), _function(d.get("function"))
        )
        for d in dicts(delta.get("tool_calls"))
    ]
    return ChoiceDelta(
        delta.get("content"),
        delta.get("reasoning_content"),
        delta.get("reasoning"),
        string(delta.get("refusal")),
        calls,
        _function(delta.get("function_call")),
    )


def _function(function: Any) -> Function | None:
    if not isinstance(function, dict):
        return None
    return Function(string(function.get("name")), function.get("arguments"))


def _id(value: Any) -> str:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value)[:100] if is_number else string(value)


def _index(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number else None


# -- words -----------------------------------------------------------------------------


def more(draft: Draft, calls: Calls, delta: ChoiceDelta) -> Iterator[Event]:
    """Add what a delta brings."""
    thinking = delta.reasoning_content or delta.reasoning
    if thinking:
        text = words_in(delta.reasoning_content) or words_in(delta.reasoning)
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
            yield from calls.more(call)
    elif delta.function_call is not None:
        yield from calls.more(CallDelta(0, None, delta.function_call))


def rest(draft: Draft, calls: Calls, message: ChoiceDelta) -> Iterator[Event]:
    """Add what a whole message says that has not come before."""
    parts = _parts(message.content)
    thinking = words_in(message.reasoning_content) or words_in(message.reasoning)
    thinking += "".join(text for kind, text in parts if kind is Thinking)
    thinking = _new(draft, Thinking, thinking)
    if thinking:
        yield draft.thinking(thinking)
    text = _new(draft, Text, "".join(text for kind, text in parts if kind is Text))
    if text:
        yield draft.text(text)
    refusal = _new(draft, Refusal, message.refusal or "")
    if refusal:
        draft.refusal(refusal)
    if not calls.have_begun:
        yield from calls.whole(message)


def _new(draft: Draft, kind: type[Text | Thinking | Refusal], text: str) -> str:
    """Return what *text* adds to what was said, nothing if it is something else."""
    if not text:
        return ""
    open_ = (b for b in draft.blocks if isinstance(b, OpenText) and b.kind is kind)
    said = "".join("".join(block.pieces) for block in open_)
    return text[len(said) :] if text.startswith(said) else ""


def words_in(value: Any) -> str:
    """Return the words of text that may come in parts, as some imitators send it."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else [value]
    return "".join(
        part if isinstance(part, str) else string(at(part, "text")) for part in parts
    )


def _parts(content: Any) -> list[tuple[type[Text | Thinking], str]]:
    """Return the words of content of any form, and what they are."""
    found: list[tuple[type[Text | Thinking], str]] = []
    for part in content if isinstance(content, list) else [content]:
        if at(part, "type") == "thinking":
            found.append((Thinking, words_in(part.get("thinking"))))
        else:
            found.append((Text, words_in(part)))
    return [(kind, text) for kind, text in found if text]


# -- calls -----------------------------------------------------------------------------


class _Slot:
    """A tool call that is being written; before it has a name nobody is told."""

    def __init__(self) -> None:
        self.call_id = ""
        self.name = ""
        self.pieces: list[str] = []


class Calls:
    """The tool calls of an answer, by whatever they go by."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._slots: list[_Slot] = []
        #: The one that was begun last, by index.
        self._latest: dict[int, _Slot] = {}
        #: By index, if they have one, and id.
        self._known: dict[tuple[int | None, str], _Slot] = {}

    @property
    def have_begun(self) -> bool:
        """Is there any?"""
        return bool(self._slots)

    def more(self, call: CallDelta) -> Iterator[Event]:
        """Add what has come of a call."""
        function = call.function or Function()
        slot = self._find(call, function.name or "")
        if slot is None:
            slot = self._begin(call.index)
        if call.id and slot.call_id in ("", call.id):
            self._known.setdefault((call.index, call.id), slot)
            self._known.setdefault((None, call.id), slot)
        yield from self._write(slot, call.id or "", function)

    def whole(self, message: ChoiceDelta) -> Iterator[Event]:
        """Add calls that are complete: each is one, whatever it goes by."""
        calls = message.tool_calls or ()
        if not calls and message.function_call is not None:
            calls = [CallDelta(function=message.function_call)]
        for call in calls:
            slot = self._begin(None)
            yield from self._write(slot, call.id or "", call.function or Function())

    def end(self) -> Iterator[Event]:
        """Begin what has never got a name, unless there is nothing in it."""
        for slot in self._slots:
            if not slot.name and "".join(slot.pieces).strip():
                yield from self._write(slot, "", Function("unnamed"))

    def _find(self, call: CallDelta, name: str) -> _Slot | None:
        """Return what *call* goes on with, None if it is new."""
        if call.id:
            known = self._known.get((call.index, call.id))
            if known is not None:
                return known
        if call.index is None:
            last = self._slots[-1] if self._slots else None
            is_new = call.id or (name and last is not None and last.name)
            return None if is_new else last
        slot = self._latest.get(call.index)
        # Some give every call the same index.
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
        text = _text_of(function.arguments)
        if not slot.name:
            slot.pieces.append(text)
            if not function.name:
                return
            slot.name = function.name
            yield self._draft.start_call(slot, slot.call_id, slot.name)
            text = "".join(slot.pieces)
        if text:
            yield self._draft.arguments(slot, text)


def _text_of(arguments: Any) -> str:
    """Return arguments as text; some are sent whole, and not as that."""
    if isinstance(arguments, str):
        return arguments
    return msgspec.json.encode(arguments).decode() if arguments else ""


# -- the end ---------------------------------------------------------------------------


def check(choice: Choice) -> None:
    """Let nothing pass that is an error in place of an answer.

    :raises ProviderError: it is one.
    """
    if choice.error or choice.finish_reason == "error":
        raise error_in_answer(choice.error or "without a word")


def stop_reason(draft: Draft, finish: str) -> MessageStop:
    """Return our word for why it stopped."""
    stop = _STOPS.get(finish, "other")
    if stop not in ("end_turn", "other"):
        return stop
    # Some say "stop", or a word of their own, though there are calls, or no answer.
    if draft.has_calls:
        return "tool_calls"
    words = (block for block in draft.blocks if isinstance(block, OpenText))
    is_refused = any(block.kind is Refusal for block in words)
    return "refusal" if is_refused else stop


def usage_of(usage: dict[str, Any]) -> Usage:
    """Return what was used, in our words."""
    cached = at(usage, "prompt_tokens_details", "cached_tokens")
    reasoning = at(usage, "completion_tokens_details", "reasoning_tokens")
    return Usage(
        integer(usage.get("prompt_tokens")),
        integer(usage.get("completion_tokens")),
        integer(cached),
        reasoning_tokens=integer(reasoning),
    )
