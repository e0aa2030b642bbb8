"""Responses in the dialect of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from ...events import Event, MessageStarted, TextDelta, ThinkingDelta, UsageUpdated
from ...messages import Citation, MessageStop, ProviderBlock, Refusal, Text, Thinking
from ...usage import Usage
from ..dialect import cut_off, read
from ..draft import Draft, OpenText
from ..refusals import error_in_answer
from ..values import at, dicts, integer, string

_Data = dict[str, Any]


_Words = type[Text | Thinking | Refusal]


_STOPS: Final[dict[object, MessageStop]] = {
    "max_output_tokens": "max_tokens",
    "content_filter": "refusal",
}


#: The events that an answer can end with.
ENDS: Final = ("response.completed", "response.incomplete", "response.failed")


class ResponsesEvent(msgspec.Struct):
    """An event or a response; what is unknown in it is no reason to break off."""

    type: Any = None
    delta: Any = None
    output_index: Any = None
    content_index: Any = None
    summary_index: Any = None
    item: Any = None
    arguments: Any = None
    annotation: Any = None
    response: msgspec.Raw = msgspec.Raw(b"null")
    id: Any = None
    model: Any = None
    status: Any = None
    output: Any = None
    incomplete_details: Any = None
    usage: Any = None
    error: Any = None
    code: Any = None
    message: Any = None


#: Reads an event, or a whole response.
said_in: Final = msgspec.json.Decoder(ResponsesEvent)


_MESSAGE: Final = {"type": "message"}


_responses: Final = msgspec.json.Decoder(ResponsesEvent | None)


class _Item:
    """One item of an answer, as far as it has come."""

    def __init__(self, index: int, data: _Data) -> None:
        self.index = index
        self.kind = string(data.get("type"))
        self.call_id = string(data.get("call_id"))
        self.is_done = False
        #: What the draft has of it, and those that are words by their parts.
        self.blocks: list[Any] = []
        self.words: dict[int, OpenText] = {}
        #: Which part of the thinking comes.
        self.thought: object = None

    def is_same(self, data: _Data) -> bool:
        """Can it be the item that *data* is of?"""
        if self.kind != data.get("type"):
            return False
        return not self.call_id or data.get("call_id") in (None, "", self.call_id)


class ResponsesReader:
    """Collect the items of an answer, and say them in events."""

    def __init__(self, draft: Draft | None = None) -> None:
        self.draft = draft or Draft(NAME)
        self.has_begun = False
        self.items: list[_Item] = []
        #: Which of them an index means now; some hosts use one again.
        self.slots: dict[int, _Item] = {}

    def begin(self, response: ResponsesEvent) -> Iterator[Event]:
        """Say who answers."""
        self.has_begun = True
        self.draft.model = string(response.model)
        yield MessageStarted(self.draft.model, string(response.id))

    def take(self, kind: str, said: ResponsesEvent) -> Iterator[Event]:
        """Say what is new with an event of any kind."""
        if not kind.startswith("response."):
            return
        response = read(_responses, said.response) or ResponsesEvent()
        if not self.has_begun and kind != "response.failed":
            yield from self.begin(response)
        if kind in ENDS:
            is_worse = response.status in ("incomplete", "failed")
            told = response.status if is_worse else kind.removeprefix("response.")
            yield from self.finish(response, told)
        elif kind in _TAKES:
            yield from _TAKES[kind](self, said)

    def text(self, said: ResponsesEvent) -> Iterable[Event]:
        """Add words."""
        if delta := string(said.delta):
            item = self._item(said.output_index, _MESSAGE)
            self._words(item, said.content_index, Text).add(delta)
        return (TextDelta(delta),) if delta else ()

    def aside(self, said: ResponsesEvent) -> Iterable[Event]:
        """Add what has no event of ours: a refusal, a citation."""
        item = self._item(said.output_index, _MESSAGE)
        kind = Refusal if said.annotation is None else Text
        words = self._words(item, said.content_index, kind)
        words.add(string(said.delta))
        words.citations += _citations([said.annotation])
        return ()

    def thinking(self, said: ResponsesEvent) -> Iterator[Event]:
        """Add thinking."""
        item = self._item(said.output_index, {"type": "reasoning"})
        words = self._words(item, 0, Thinking)
        part = (said.summary_index, said.content_index)
        if delta := string(said.delta):
            is_next = bool(words.pieces) and part != item.thought
            item.thought = part
            words.add(delta := "\n\n" * is_next + delta)
            yield ThinkingDelta(delta)

    def arguments(self, said: ResponsesEvent) -> Iterator[Event]:
        """Add to the arguments of a call, or have all of them."""
        item = self._item(said.output_index, {"type": "function_call"})
        # Without a name they have to wait for the whole item, which has them, too.
        if self.draft.has_call(item) and not item.is_done:
            if delta := string(said.delta):
                yield self.draft.arguments(item, delta)
            yield from self._rest_of_call(item, said.arguments)

    def added(self, said: ResponsesEvent) -> Iterator[Event]:
        """Begin an item."""
        data = said.item if isinstance(said.item, dict) else {}
        item = self._item(said.output_index, data, is_new=True)
        if item.kind == "function_call" and not self.draft.has_call(item):
            yield self._start(item, data)

    def done(self, said: ResponsesEvent) -> Iterator[Event]:
        """End an item."""
        data = said.item if isinstance(said.item, dict) else {}
        yield from self._complete(self._item(said.output_index, data), data)

    def finish(self, response: ResponsesEvent, status: object) -> Iterator[Event]:
        """Say what has not come yet, and that this is all."""
        if status == "failed" or response.error:
            raise error_in_answer(response.error or {})
        if status not in ("completed", "incomplete"):
            raise cut_off()
        draft = self.draft
        draft.model = draft.model or string(response.model)
        yield from self._rest(dicts(response.output))
        if isinstance(response.usage, dict):
            draft.usage = _usage(response.usage)
            yield UsageUpdated(draft.usage)
        stop: MessageStop = "tool_calls" if draft.has_calls else "end_turn"
        if status == "incomplete":
            why = at(response.incomplete_details, "reason")
            stop = _STOPS.get(string(why), "other")
        if any(map(_is_refusal, draft.blocks)):
            stop = "refusal"
        yield from draft.finish(stop, str(status))

    def _item(self, index: Any, data: _Data, *, is_new: bool = False) -> _Item:
        """Return the item that goes by *index*, a new one if *data* is of another."""
        if not isinstance(index, int):
            index = self.items[-1].index + is_new if self.items else 0
        item = self.slots.get(index)
        if item is None or not item.is_same(data) or (is_new and item.is_done):
            item = self.slots[index] = _Item(index, data)
            self.items.append(item)
        return item

    def _words(self, item: _Item, part: Any, kind: _Words) -> OpenText:
        """Return what a part of an item says so far."""
        part = part if isinstance(part, int) else 0
        words = item.words.get(part)
        if words is None or words.kind is not kind:
            self.draft.new_block()
            words = item.words[part] = self.draft.open(kind)
            item.blocks.append(words)
        return words

    def _start(self, item: _Item, data: _Data) -> Event:
        item.call_id = item.call_id or string(data.get("call_id"))
        started = self.draft.start_call(item, item.call_id, string(data.get("name")))
        item.blocks.append(self.draft.calls[item])
        return started

    def _rest(self, output: list[_Data]) -> Iterator[Event]:
        """Say what the whole *output* has and no event brought, in its place."""
        found: dict[int, _Item] = {}
        free = dict.fromkeys(self.items)
        for is_strict in (True, False):  # indexes of some hosts are not to be trusted
            for index, data in enumerate(output):
                for item in () if index in found else free:
                    if item.is_same(data) and (item.index == index or not is_strict):
                        found[index] = item
                        del free[item]
                        break
        self.slots.clear()
        for index, data in enumerate(output):
            found[index] = found.get(index) or self._item(index, data)
            yield from self._complete(found[index], data)
        told = [*free, *(found[index] for index in range(len(output)))]
        self.draft.blocks = [block for item in told for block in item.blocks]

    def _complete(self, item: _Item, data: _Data) -> Iterator[Event]:
        """Say what is still to be said of an item, which is *data* as a whole."""
        if item.is_done or not item.kind:
            return
        item.is_done = True
        if item.kind == "message":
            yield from self._rest_of_message(item, data)
        elif item.kind == "function_call":
            if not self.draft.has_call(item):
                yield self._start(item, data)
            yield from self._rest_of_call(item, data.get("arguments"))
            yield from self.draft.ready(item)
        else:
            if item.kind == "reasoning":
                parts = [*dicts(data.get("summary")), *dicts(data.get("content"))]
                texts = filter(None, (string(part.get("text")) for part in parts))
                rest = _rest(self._words(item, 0, Thinking), "\n\n".join(texts))
                yield from [ThinkingDelta(rest)] if rest else ()
            block = ProviderBlock(NAME, data)
            self.draft.add(block)
            item.blocks.append(block)

    def _rest_of_message(self, item: _Item, data: _Data) -> Iterator[Event]:
        for number, part in enumerate(dicts(data.get("content"))):
            if part.get("type") == "refusal":
                words = self._words(item, number, Refusal)
                _rest(words, string(part.get("refusal")))
            elif part.get("type") == "output_text":
                words = self._words(item, number, Text)
                if rest := _rest(words, string(part.get("text"))):
                    yield TextDelta(rest)
                words.citations = _citations(part.get("annotations")) or words.citations
        for words in item.words.values():
            if words.kind is Text and any(words.pieces):
                words.signature = string(data.get("phase"))

    def _rest_of_call(self, item: _Item, arguments: Any) -> Iterator[Event]:
        if isinstance(arguments, dict):  # sent whole, and not as text
            arguments = msgspec.json.encode(arguments).decode()
        whole = string(arguments).strip()
        if not whole:  # a delta alone: to join all before it each time takes too long
            return
        come = "".join(self.draft.calls[item].pieces)
        if not whole.startswith(come):
            self.draft.set_arguments(item, whole)
        elif len(whole) > len(come):
            yield self.draft.arguments(item, whole[len(come) :])


_TAKES: Final[
    dict[str, Callable[[ResponsesReader, ResponsesEvent], Iterable[Event]]]
] = {
    "response.output_item.added": ResponsesReader.added,
    "response.output_item.done": ResponsesReader.done,
    "response.output_text.delta": ResponsesReader.text,
    "response.output_text.annotation.added": ResponsesReader.aside,
    "response.refusal.delta": ResponsesReader.aside,
    "response.reasoning_summary_text.delta": ResponsesReader.thinking,
    "response.reasoning_text.delta": ResponsesReader.thinking,
    "response.function_call_arguments.delta": ResponsesReader.arguments,
    "response.function_call_arguments.done": ResponsesReader.arguments,
}


def _rest(words: OpenText, whole: str) -> str:
    """Add what has not come of *whole*, and return it; nothing if others have come."""
    come = "".join(words.pieces)
    rest = whole[len(come) :] if whole.startswith(come) else ""
    words.add(rest)
    return rest


def _is_refusal(block: object) -> bool:
    if not isinstance(block, OpenText) or block.kind is not Refusal:
        return False
    return any(block.pieces)


def _citations(annotations: Any) -> list[Citation]:
    return [_citation(data) for data in dicts(annotations)]


def _citation(data: _Data) -> Citation:
    title = string(data.get("title") or data.get("filename"))
    return Citation("", title, string(data.get("url")), data)


def _usage(usage: _Data) -> Usage:
    cached = at(usage, "input_tokens_details", "cached_tokens")
    reasoning = at(usage, "output_tokens_details", "reasoning_tokens")
    return Usage(
        integer(usage.get("input_tokens")),
        integer(usage.get("output_tokens")),
        integer(cached),
        reasoning_tokens=integer(reasoning),
    )


#: The dialect's name; reasoning of messages with another is of no use to it.
NAME: Final = "openai-responses"
