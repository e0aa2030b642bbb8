"""A response under construction: deltas in, blocks out."""

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

#: Number of pieces that are joined at once.
_JOIN_AT: Final = 128


class OpenText:
    """A block of text that is still growing."""

    def __init__(self, kind: type[Text | Thinking | Refusal]) -> None:
        self.kind = kind
        self.pieces: list[str] = []
        #: Number of leading pieces that are already joined ones.
        self._joined = 0
        self.citations: list[Citation] = []
        self.signature = ""

    def add(self, text: str) -> None:
        """Add text. Pieces are joined now and then: small strings waste memory."""
        pieces = self.pieces
        pieces.append(text)
        if len(pieces) - self._joined >= _JOIN_AT:
            pieces[self._joined :] = ["".join(pieces[self._joined :])]
            self._joined += 1

    def close(self) -> AssistantBlock | None:
        """Return the finished block, or None if it is empty."""
        text = "".join(self.pieces)
        if self.kind is Refusal:
            return Refusal(text) if text else None
        if self.kind is Thinking:
            return Thinking(text, self.signature) if text or self.signature else None
        if not text and not self.signature:
            return None
        return Text(text, tuple(self.citations), self.signature)


class OpenCall:
    """A tool call that is still growing."""

    def __init__(self, call_id: str, name: str) -> None:
        self.call_id = call_id
        self.name = name
        self.pieces: list[str] = []
        self.signature = ""
        self.is_ready = False

    def close(self) -> ToolCall:
        """Return the call as it is now."""
        arguments = "".join(self.pieces)
        return ToolCall(
            self.call_id, self.name, arguments.strip() or "{}", self.signature
        )


class Draft:
    """Collect the content of a response, and make our events of it.

    :param provider: the issuer of the response.
    """

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self.model = ""
        self.usage = Usage()
        #: All blocks, in order of arrival.
        self.blocks: list[OpenText | OpenCall | AssistantBlock] = []
        #: The tool calls among them, by the keys of :meth:`start_call`.
        self.calls: dict[object, OpenCall] = {}
        self._call_ids: set[str] = set()
        self._last: OpenText | None = None

    def text(self, text: str) -> TextDelta:
        """Add text."""
        self.open(Text).add(text)
        return TextDelta(text)

    def thinking(self, text: str) -> ThinkingDelta:
        """Add thinking."""
        self.open(Thinking).add(text)
        return ThinkingDelta(text)

    def refusal(self, text: str) -> None:
        """Add text to the model's refusal."""
        self.open(Refusal).add(text)

    def open(self, kind: type[Text | Thinking | Refusal]) -> OpenText:
        """Return the growing block of that kind, or start a new one."""
        last = self._last
        if last is None or last.kind is not kind:
            last = self._last = OpenText(kind)
            self.blocks.append(last)
        return last

    def new_block(self) -> None:
        """Make the next text start a new block."""
        self._last = None

    def add(self, block: AssistantBlock) -> None:
        """Add a complete block."""
        self.blocks.append(block)
        self._last = None

    @property
    def has_calls(self) -> bool:
        """True if there is a tool call."""
        return bool(self.calls)

    def has_call(self, key: object) -> bool:
        """Return whether a call has been started under *key*."""
        return key in self.calls

    def start_call(self, key: object, call_id: str, name: str) -> ToolCallStarted:
        """Start a tool call, which the other methods know by *key*."""
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
        """Replace the arguments of a call."""
        self.calls[key].pieces = [text]

    def sign_call(self, key: object, signature: str) -> None:
        """Set the signature that the provider wants back with a call."""
        self.calls[key].signature = signature

    def ready(self, key: object) -> Iterator[ToolCallReady]:
        """Yield the event for a complete call, once."""
        call = self.calls[key]
        if not call.is_ready:
            call.is_ready = True
            yield ToolCallReady(call.close())

    def partial(self) -> AssistantMessage:
        """Return the content so far, as a message that was cut off.

        Text and complete thinking are kept. Tool calls are dropped, as they will not
        be run, and so are the provider's own blocks, which may be incomplete.
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

    def finish(
        self, stop_reason: MessageStop, raw: str, detail: str = ""
    ) -> Iterator[Event]:
        """Yield the events that complete the message.

        :param raw: the provider's word for the reason.
        :param detail: its explanation of an irregular end.
        """
        for key in self.calls:
            yield from self.ready(key)
        blocks: list[AssistantBlock] = []
        for block in self.blocks:
            whole = block.close() if isinstance(block, (OpenText, OpenCall)) else block
            if whole is not None:
                blocks.append(whole)
        message = AssistantMessage(
            tuple(blocks),
            stop_reason,
            raw,
            self.provider,
            self.model,
            stop_detail=detail,
        )
        yield MessageFinished(message, self.usage)
