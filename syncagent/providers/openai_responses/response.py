"""Responses in the dialect of OpenAI's Responses API."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec

from ...events import Event, MessageStarted, TextDelta, ThinkingDelta, UsageUpdated
from ...messages import Citation, MessageStop, ProviderBlock, Refusal, Text, Thinking
from ...sse import ServerSentEvent
from ...usage import Usage
from ..dialect import decode_json, stream_broken
from ..draft import Draft, OpenText
from ..errors import error_in_response
from ..json_values import as_count, as_dicts, as_string, get_path
from .items import call_signature, waiting_calls

_Data = dict[str, Any]
_Kind = type[Text | Thinking | Refusal]
K = TypeVar("K")
W = TypeVar("W")

NAME: Final = "openai-responses"
#: How a response can end, other than by an error.
_STATUSES: Final = ("completed", "incomplete", "cancelled")
_STOPS: Final[dict[str, MessageStop]] = {
    "max_output_tokens": "max_tokens",
    "content_filter": "refusal",
}
#: The distance of two items that cannot be the same; all others are nearer.
_OTHER: Final = 4
#: The events that a response can end with.
_ENDS: Final = ("response.completed", "response.incomplete", "response.failed")
# Quotes inside of a string are escaped, so this can only be the key.
_END: Final = re.compile(r'"type"\s*:\s*"response\.(?:completed|incomplete|failed)"')


# -- the wire format -------------------------------------------------------------------


class ResponsesEvent(msgspec.Struct):
    """An event, or a complete response. Fields are checked where they are used."""

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


_events: Final = msgspec.json.Decoder(ResponsesEvent)
_responses: Final = msgspec.json.Decoder(ResponsesEvent | None)


# -- decoding --------------------------------------------------------------------------


def is_end(event: ServerSentEvent) -> bool:
    """Return whether the response is complete with *event*."""
    return event.event in _ENDS or _END.search(event.data) is not None


def decode(stream: Iterable[ServerSentEvent], draft: Draft) -> Iterator[Event]:
    """Yield our events for those of a streamed response."""
    reader = _Reader(draft)
    for sse in stream:
        if sse.data == "[DONE]":  # some compatible servers send it
            continue
        event = decode_json(_events, sse.data)
        kind = event.type if isinstance(event.type, str) else sse.event
        if kind == "response.output_text.delta" and reader.has_begun:
            yield from reader.text(event)
            continue
        if kind == "error" or event.error:
            error = {"code": event.code, "message": event.message}
            raise error_in_response(event.error or error)
        yield from reader.add(kind, event)
        if kind in _ENDS:
            return
    raise stream_broken()


def decode_body(body: bytes, draft: Draft) -> Iterator[Event]:
    """Yield our events for a response that is not streamed."""
    response, reader = decode_json(_events, body), _Reader(draft)
    if response.error:
        raise error_in_response(response.error)
    if not isinstance(response.output, list):
        raise stream_broken()
    yield from reader.begin(response)
    yield from reader.finish(response, response.status or "completed")


class _Item:
    """One item of a response, as far as it has arrived."""

    def __init__(self, index: int, data: _Data) -> None:
        self.index = index
        self.kind = as_string(data.get("type"))
        self.call_id = as_string(data.get("call_id"))
        self.is_done = False
        #: Its blocks in the draft.
        self.blocks: list[Any] = []
        #: Those of them that are text, by the number of the part.
        self.texts: dict[int, OpenText] = {}
        #: The part of the thinking that arrives at the moment.
        self.thinking_part: object = None

    def is_same(self, data: _Data) -> bool:
        """Return whether *data* can be of this item."""
        if self.kind != data.get("type"):
            return False
        return not self.call_id or data.get("call_id") in (None, "", self.call_id)

    @property
    def text(self) -> str:
        """All text of a message that has arrived."""
        return "".join("".join(block.pieces) for block in self.blocks)

    def distance(self, index: int, data: _Data) -> int:
        """Return how far this is from *data*, the complete item at *index*."""
        if not self.is_same(data):
            return _OTHER
        if self.kind == "function_call":
            is_in = bool(self.call_id)
        elif self.kind == "message":
            is_in = _is_beginning(self.text, _join(_parts(data)))
        else:
            is_in = any(getattr(block, "data", None) == data for block in self.blocks)
        return 2 * (not is_in) + (index != self.index)


class _Reader:
    """Collect the items of a response, and make our events of them."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.has_begun = False
        self.items: list[_Item] = []
        #: The current item of each index; some servers use an index again.
        self.slots: dict[int, _Item] = {}

    def begin(self, response: ResponsesEvent) -> Iterator[Event]:
        """Yield the first event."""
        self.has_begun = True
        self.draft.model = as_string(response.model)
        yield MessageStarted(self.draft.model, as_string(response.id))

    def add(self, kind: str, event: ResponsesEvent) -> Iterator[Event]:
        """Yield our events for an event of any kind."""
        if not kind.startswith("response."):
            return
        response = decode_json(_responses, event.response) or ResponsesEvent()
        if not self.has_begun and kind != "response.failed":
            yield from self.begin(response)
        if kind in _ENDS:
            is_worse = response.status in ("incomplete", "failed", "cancelled")
            status = response.status if is_worse else kind.removeprefix("response.")
            yield from self.finish(response, status)
        elif kind in _HANDLERS:
            yield from _HANDLERS[kind](self, event)

    def text(self, event: ResponsesEvent) -> Iterable[Event]:
        """Add text."""
        if delta := as_string(event.delta):
            item = self._item(event.output_index, {"type": "message"})
            self._text_block(item, event.content_index, Text).add(delta)
        return (TextDelta(delta),) if delta else ()

    def refusal_or_citation(self, event: ResponsesEvent) -> Iterable[Event]:
        """Add a refusal or a citation; we have no events for them."""
        item = self._item(event.output_index, {"type": "message"})
        kind = Refusal if event.annotation is None else Text
        block = self._text_block(item, event.content_index, kind)
        block.add(as_string(event.delta))
        block.citations += _citations({"annotations": [event.annotation]})
        return ()

    def thinking(self, event: ResponsesEvent) -> Iterator[Event]:
        """Add thinking."""
        item = self._item(event.output_index, {"type": "reasoning"})
        block = self._text_block(item, 0, Thinking)
        part = (event.summary_index, event.content_index)
        if delta := as_string(event.delta):
            is_next = bool(block.pieces) and part != item.thinking_part
            item.thinking_part = part
            block.add(delta := "\n\n" * is_next + delta)
            yield ThinkingDelta(delta)

    def arguments(self, event: ResponsesEvent) -> Iterator[Event]:
        """Add to the arguments of a call, or complete them."""
        item = self._item(event.output_index, {"type": "function_call"})
        # Before the call has a name they wait: the complete item has them, too.
        if self.draft.has_call(item) and not item.is_done:
            if delta := as_string(event.delta):
                yield self.draft.arguments(item, delta)
            yield from self._complete_arguments(item, event.arguments)

    def added(self, event: ResponsesEvent) -> Iterator[Event]:
        """Start an item."""
        data = event.item if isinstance(event.item, dict) else {}
        item = self._item(event.output_index, data, is_new=True)
        if item.kind == "function_call" and not self.draft.has_call(item):
            yield self._start(item, data)

    def done(self, event: ResponsesEvent) -> Iterator[Event]:
        """End an item."""
        data = event.item if isinstance(event.item, dict) else {}
        yield from self._complete(self._item(event.output_index, data), data)

    def finish(self, response: ResponsesEvent, status: object) -> Iterator[Event]:
        """Yield the events that complete the response."""
        if status == "failed" or response.error:
            raise error_in_response(response.error or {})
        if status not in _STATUSES:
            raise stream_broken()
        draft = self.draft
        draft.model = draft.model or as_string(response.model)
        yield from self._add_output(as_dicts(response.output))
        if isinstance(response.usage, dict):
            draft.usage = _usage(response.usage)
            yield UsageUpdated(draft.usage)
        yield from draft.finish(*self._stop(response, str(status)))

    def _stop(
        self, response: ResponsesEvent, status: str
    ) -> tuple[MessageStop, str, str]:
        """Return why the response ended, in our word, the provider's, and in detail."""
        blocks = self.draft.blocks
        texts = (block for block in blocks if isinstance(block, OpenText))
        if any(block.kind is Refusal and any(block.pieces) for block in texts):
            return "refusal", status, ""
        if status != "completed":
            reason = as_string(get_path(response.incomplete_details, "reason"))
            stop = _STOPS.get(reason, "other")
            return stop, status, "" if stop == "max_tokens" else reason or status
        if self.draft.has_calls:
            return "tool_calls", status, ""
        if blocks and waiting_calls(blocks) & waiting_calls(blocks[-1:]):
            detail = "the model called a tool that the provider defines and its client "
            return "other", status, detail + "has to run; syncagent does not run it"
        return "end_turn", status, ""

    def _item(self, index: Any, data: _Data, *, is_new: bool = False) -> _Item:
        """Return the item at *index*, or a new one if *data* is of another."""
        if not isinstance(index, int):
            index = self.items[-1].index + is_new if self.items else 0
        item = self.slots.get(index)
        if item is None or not item.is_same(data) or (is_new and item.is_done):
            item = self.slots[index] = _Item(index, data)
            self.items.append(item)
        return item

    def _text_block(self, item: _Item, part: Any, kind: _Kind) -> OpenText:
        """Return the growing text of a part of an item."""
        part = part if isinstance(part, int) else 0
        block = item.texts.get(part)
        if block is None or block.kind is not kind:
            self.draft.new_block()
            block = item.texts[part] = self.draft.open(kind)
            item.blocks.append(block)
        return block

    def _start(self, item: _Item, data: _Data) -> Event:
        item.call_id = item.call_id or as_string(data.get("call_id"))
        started = self.draft.start_call(item, item.call_id, as_string(data.get("name")))
        self.draft.sign_call(item, call_signature(data))
        item.blocks.append(self.draft.calls[item])
        return started

    def _add_output(self, output: list[_Data]) -> Iterator[Event]:
        """Add what the complete *output* has and no event brought, in its place."""
        found = _align(self.items, output, _Item.distance)
        rest = [item for item in self.items if item not in found.values()]
        self.slots.clear()
        for index, data in enumerate(output):
            found[index] = found.get(index) or self._item(index, data)
            yield from self._complete(found[index], data)
        items = [*rest, *(found[index] for index in range(len(output)))]
        self.draft.blocks = [block for item in items for block in item.blocks]

    def _complete(self, item: _Item, data: _Data) -> Iterator[Event]:
        """Add what is missing of an item; *data* is the complete one."""
        if item.is_done or not item.kind:
            return
        item.is_done = True
        if item.kind == "message":
            yield from self._complete_message(item, data)
        elif item.kind == "function_call":
            if not self.draft.has_call(item):
                yield self._start(item, data)
            yield from self._complete_arguments(item, data.get("arguments"))
            yield from self.draft.ready(item)
        else:
            if item.kind == "reasoning":
                parts = [*as_dicts(data.get("summary")), *as_dicts(data.get("content"))]
                texts = filter(None, (as_string(part.get("text")) for part in parts))
                block = self._text_block(item, 0, Thinking)
                if rest := _add_rest(block, "\n\n".join(texts)):
                    yield ThinkingDelta(rest)
            own = ProviderBlock(self.draft.provider, data)
            self.draft.add(own)
            item.blocks.append(own)

    def _complete_message(self, item: _Item, data: _Data) -> Iterator[Event]:
        parts = _parts(data)
        if 0 < len(item.blocks) < len(parts) and item.text == _join(parts):
            # All parts came under one number. Their text is complete.
            cited = [citation for part in parts for citation in part.citations]
            item.blocks[-1].citations = cited or item.blocks[-1].citations
        else:
            yield from self._complete_parts(item, parts)
        for block in item.blocks:
            if block.kind is Text and any(block.pieces):
                block.signature = as_string(data.get("phase"))

    def _complete_parts(self, item: _Item, parts: list[_Part]) -> Iterator[Event]:
        numbers = {block: number for number, block in item.texts.items()}

        def distance(block: OpenText, number: int, part: _Part) -> int:
            if block.kind is not part.kind:
                return _OTHER
            is_in = _is_beginning("".join(block.pieces), part.text)
            return 2 * (not is_in) + (numbers.get(block) != number)

        item.texts = _align(item.blocks, parts, distance)
        for number, part in enumerate(parts):
            block = self._text_block(item, number, part.kind)
            rest = _add_rest(block, part.text)
            if part.kind is Text:
                block.citations = part.citations or block.citations
                if rest:
                    yield TextDelta(rest)

    def _complete_arguments(self, item: _Item, arguments: Any) -> Iterator[Event]:
        if isinstance(arguments, dict):  # some servers send an object
            arguments = msgspec.json.encode(arguments).decode()
        whole = as_string(arguments).strip()
        if not whole:  # joining all pieces for every delta would take too long
            return
        known = "".join(self.draft.calls[item].pieces)
        if not whole.startswith(known):
            self.draft.set_arguments(item, whole)
        elif len(whole) > len(known):
            yield self.draft.arguments(item, whole[len(known) :])


_HANDLERS: Final[dict[str, Callable[[_Reader, ResponsesEvent], Iterable[Event]]]] = {
    "response.output_item.added": _Reader.added,
    "response.output_item.done": _Reader.done,
    "response.output_text.delta": _Reader.text,
    "response.output_text.annotation.added": _Reader.refusal_or_citation,
    "response.refusal.delta": _Reader.refusal_or_citation,
    "response.reasoning_summary_text.delta": _Reader.thinking,
    "response.reasoning_text.delta": _Reader.thinking,
    "response.function_call_arguments.delta": _Reader.arguments,
    "response.function_call_arguments.done": _Reader.arguments,
}


class _Part(msgspec.Struct, frozen=True):
    """A part of a complete message."""

    kind: type[Text | Refusal]
    text: str
    citations: list[Citation]


def _parts(message: _Data) -> list[_Part]:
    parts = as_dicts(message.get("content"))
    return [
        _Part(Refusal, as_string(part.get("refusal")), [])
        if part["type"] == "refusal"
        else _Part(Text, as_string(part.get("text")), _citations(part))
        for part in parts
        if part.get("type") in ("refusal", "output_text")
    ]


def _join(parts: Iterable[_Part]) -> str:
    return "".join(part.text for part in parts)


def _align(
    known: Iterable[K], whole: Sequence[W], distance: Callable[[K, int, W], int]
) -> dict[int, K]:
    """Return the known item for each complete one, by the number of the complete one.

    Some servers number items in one way in deltas, and in another way in the complete
    response. The content of an item counts most, then its number.
    """
    found: dict[int, K] = {}
    free = list(known)
    for most in range(_OTHER):
        for number, complete in enumerate(whole):
            for each in () if number in found else free:
                if distance(each, number, complete) <= most:
                    found[number] = each
                    free.remove(each)
                    break
    return found


def _is_beginning(known: str, whole: str) -> bool:
    return bool(known) and whole.startswith(known)


def _add_rest(block: OpenText, whole: str) -> str:
    """Add the missing end of *whole* and return it; nothing if the texts differ."""
    known = "".join(block.pieces)
    rest = whole[len(known) :] if whole.startswith(known) else ""
    block.add(rest)
    return rest


def _citations(part: _Data) -> list[Citation]:
    return [
        Citation(
            "",
            as_string(data.get("title") or data.get("filename")),
            as_string(data.get("url")),
            data,
        )
        for data in as_dicts(part.get("annotations"))
    ]


def _usage(usage: _Data) -> Usage:
    sent, received = usage.get("input_tokens"), as_count(usage.get("output_tokens"))
    details = usage.get("input_tokens_details")
    reasoning = as_count(get_path(usage, "output_tokens_details", "reasoning_tokens"))
    total = usage.get("total_tokens")
    if reasoning and total == as_count(sent) + received + reasoning:
        received += reasoning  # some servers count it beside the output
    return Usage(
        as_count(sent),
        received,
        as_count(get_path(details, "cached_tokens")),
        as_count(get_path(details, "cache_write_tokens")),
        reasoning,
    )
