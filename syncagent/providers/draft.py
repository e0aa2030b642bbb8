"""An answer as it comes together: deltas in, blocks out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from uuid import uuid4

from ..events import (
    Event,
    MessageFinished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStarted,
)
from ..messages import (
    AssistantBlock,
    AssistantMessage,
    Citation,
    MessageStop,
    ProviderBlock,
    Refusal,
    Text,
    Thinking,
    ToolCall,
)
from ..usage import Usage

#: How many pieces are joined at once.
_MANY: Final = 128


class OpenText:
    """Words that are still coming."""

    def __init__(self, kind: type[Text | Thinking | Refusal]) -> None:
        self.kind = kind
        self.pieces: list[str] = []
        #: How many of them are many, joined.
        self._joined = 0
        self.citations: list[Citation] = []
        self.signature = ""

    def add(self, text: str) -> None:
        """Add words; many small pieces would take more room than all that they say."""
        pieces = self.pieces
        pieces.append(text)
        if len(pieces) - self._joined >= _MANY:
            pieces[self._joined :] = ["".join(pieces[self._joined :])]
            self._joined += 1

    def close(self) -> AssistantBlock | None:
        """Return the block that they are, None if there is nothing in it."""
        text = "".join(self.pieces)
        if self.kind is Refusal:
            return Refusal(text) if text else None
        if self.kind is Thinking:
            return Thinking(text, self.signature) if text or self.signature else None
        if not text and not self.signature:
            return None
        return Text(text, tuple(self.citations), self.signature)


class OpenCall:
    """A tool call that is still being written."""

    def __init__(self, call_id: str, name: str) -> None:
        self.call_id = call_id
        self.name = name
        self.pieces: list[str] = []
        self.signature = ""
        self.is_ready = False

    def close(self) -> ToolCall:
        """Return the call as it is written by now."""
        arguments = "".join(self.pieces)
        return ToolCall(
            self.call_id, self.name, arguments.strip() or "{}", self.signature
        )


class Draft:
    """Collect what a stream brings, and say it in events.

    :param provider: the name of the dialect.
    """

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self.model = ""
        self.usage = Usage()
        #: All that has come, in order.
        self.blocks: list[OpenText | OpenCall | AssistantBlock] = []
        #: The tool calls among it, by what they go by.
        self.calls: dict[object, OpenCall] = {}
        self._call_ids: set[str] = set()
        self._last: OpenText | None = None

    def text(self, text: str) -> TextDelta:
        """Add words."""
        self.open(Text).add(text)
        return TextDelta(text)

    def thinking(self, text: str) -> ThinkingDelta:
        """Add thinking."""
        self.open(Thinking).add(text)
        return ThinkingDelta(text)

    def refusal(self, text: str) -> None:
        """Add to what it says in place of an answer."""
        self.open(Refusal).add(text)

    def open(self, kind: type[Text | Thinking | Refusal]) -> OpenText:
        """Return the block of that kind that is being written, a new one if need be."""
        last = self._last
        if last is None or last.kind is not kind:
            last = self._last = OpenText(kind)
            self.blocks.append(last)
        return last

    def new_block(self) -> None:
        """Have the next words begin a block of their own."""
        self._last = None

    def add(self, block: AssistantBlock) -> None:
        """Add a block that is complete."""
        self.blocks.append(block)
        self._last = None

    @property
    def has_calls(self) -> bool:
        """Is there any tool call?"""
        return bool(self.calls)

    def has_call(self, key: object) -> bool:
        """Has the call that goes by *key* begun?"""
        return key in self.calls

    def start_call(self, key: object, call_id: str, name: str) -> ToolCallStarted:
        """Begin a tool call, which goes by *key* from now on."""
        if not call_id or call_id in self._call_ids:
            call_id = f"call_{uuid4().hex[:16]}"
        self._call_ids.add(call_id)
        call = self.calls[key] = OpenCall(call_id, name)
        self.blocks.append(call)
        self._last = None
        return ToolCallStarted(call_id, name)

    def arguments(self, key: object, text: str) -> ToolCallDelta:
        """Add to the arguments of a call."""
        call = self.calls[key]
        call.pieces.append(text)
        return ToolCallDelta(call.call_id, text)

    def set_arguments(self, key: object, text: str) -> None:
        """Replace all that has come of the arguments of a call."""
        self.calls[key].pieces = [text]

    def sign_call(self, key: object, signature: str) -> None:
        """Note what the provider wants back with a call."""
        self.calls[key].signature = signature

    def ready(self, key: object) -> Iterator[ToolCallReady]:
        """Say that a call is written, once."""
        call = self.calls[key]
        if not call.is_ready:
            call.is_ready = True
            yield ToolCallReady(call.close())

    def partial(self) -> AssistantMessage:
        """Return what has come so far, of a message that is cut off.

        Words are kept, and thinking that is complete. Tool calls are not, as nobody
        will call them, nor what only the provider knows, as it may be half of
        something.
        """
        blocks: list[AssistantBlock] = []
        last = self.blocks[-1] if self.blocks else None
        for block in self.blocks:
            if isinstance(block, OpenText):
                is_open = block.kind is Thinking and block is last
                whole = None if is_open and not block.signature else block.close()
                if whole is not None:
                    blocks.append(whole)
            elif not isinstance(block, (OpenCall, ToolCall, ProviderBlock)):
                blocks.append(block)
        return AssistantMessage(
            tuple(blocks), "other", "", self.provider, self.model, is_cut=True
        )

    def finish(self, stop_reason: MessageStop, raw: str) -> Iterator[Event]:
        """Say that all is written."""
        for key in self.calls:
            yield from self.ready(key)
        yield MessageFinished(self._message(stop_reason, raw), self.usage)

    def _message(self, stop_reason: MessageStop, raw: str) -> AssistantMessage:
        blocks: list[AssistantBlock] = []
        for block in self.blocks:
            whole = block.close() if isinstance(block, (OpenText, OpenCall)) else block
            if whole is not None:
                blocks.append(whole)
        return AssistantMessage(
            tuple(blocks), stop_reason, raw, self.provider, self.model
        )
