"""Requests in the dialect of OpenAI's Responses API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from ...events import Event
from ...messages import (
    AssistantMessage,
    File,
    Image,
    ProviderBlock,
    Refusal,
    Text,
    ToolCall,
    UserBlock,
)
from ...options import Options, ToolSpec
from ...sse import ServerSentEvent
from ...transcript.transcript import Piece, Transcript
from ...transcript.turns import Turn, UserTurn
from ..dialect import Dialect, without_none
from ..draft import Draft
from ..encoding import arguments_of, json_bytes, text_of, tool_name_of, url_of
from ..strict_schemas import openai_format
from . import response
from .response import NAME

_Data = dict[str, Any]

#: Names of models that reason even if no effort is set, with or without a vendor's
#: prefix. The chat versions of a family do not.
_REASONS: Final = re.compile(r"(?:.*/)?(?:o\d|gpt-5(?!(?:\.\d+)?-chat)|codex|gpt-oss)")
_MAX_NAME: Final = 64


class OpenAIResponsesDialect(Dialect):
    """``/responses``."""

    name: ClassVar[str] = NAME
    unknown_options: ClassVar[frozenset[str]] = frozenset(
        {"stop", "prefill", "thinking_tokens"}
    )

    def fields(
        self, model: str, tools: Sequence[ToolSpec], options: Options, *, stream: bool
    ) -> _Data:
        fields: _Data = {"model": model, "stream": stream, "store": False}
        if options.effort is not None or _REASONS.match(model):
            # The server stores nothing, so reasoning has to travel with us. A model
            # that does not reason rejects the field.
            fields["include"] = ["reasoning.encrypted_content"]
        fields |= without_none(
            instructions=options.system or None,
            temperature=options.temperature,
            top_p=options.top_p,
            max_output_tokens=options.max_tokens,
            # Not every account may see a summary: extra= can ask for one.
            reasoning=options.effort and {"effort": options.effort},
            metadata=options.metadata or None,
        )
        if tools:
            fields["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                    "strict": False,
                }
                for tool in tools
            ]
            if options.tool_choice is not None:
                named = {"type": "function", "name": options.tool_choice}
                is_mode = options.tool_choice in ("auto", "none", "required")
                fields["tool_choice"] = options.tool_choice if is_mode else named
            if options.parallel_tool_calls is not None:
                fields["parallel_tool_calls"] = options.parallel_tool_calls
        if options.output is not None:
            output = openai_format(options.output)
            fields["text"] = {"format": {"type": "json_schema", **output}}
        return fields

    def conversation(
        self, model: str, transcript: Transcript, options: Options
    ) -> tuple[str, list[Piece]]:
        encode = partial(encode_turn, origin=self.origin)
        return "input", transcript.encode(self.encoding, encode)

    is_end = staticmethod(response.is_end)

    def decode(
        self, stream: Iterable[ServerSentEvent], draft: Draft | None = None
    ) -> Iterator[Event]:
        return response.decode(stream, draft or Draft(self.origin))

    def decode_body(self, body: bytes, draft: Draft | None = None) -> Iterator[Event]:
        return response.decode_body(body, draft or Draft(self.origin))


# -- turns -----------------------------------------------------------------------------


def encode_turn(turn: Turn, origin: str) -> bytes:
    """Return a turn as JSON, or several values with commas between them."""
    items: Iterable[_Data]
    if isinstance(turn, UserTurn):
        items = _user(turn)
    else:
        calls = dict(turn.calls)
        parts = (_items(message, calls, origin) for message in turn.messages)
        items = [item for part in parts for item in part]
        items = items or _items(AssistantMessage((Text("(nothing)"),)), calls, origin)
    return b",".join(map(json_bytes, items))


def _user(turn: UserTurn) -> Iterable[_Data]:
    for result in turn.results:
        shown = [_part(b) for b in result.content if isinstance(b, (Image, File))]
        texts = [text_of(b) for b in result.content if not isinstance(b, (Image, File))]
        text = "Error: " * result.is_error + "\n".join(texts)
        output: str | list[_Data] = text or "(no output)"
        if shown:
            output = [_part(Text(text)), *shown] if text.strip() else shown
        item = {"type": "function_call_output", "call_id": result.call_id}
        yield {**item, "output": output}
    if turn.content:
        yield {"role": "user", "content": [_part(block) for block in turn.content]}


def _part(block: UserBlock) -> _Data:
    if isinstance(block, Text):
        return {"type": "input_text", "text": block.text}
    if isinstance(block, Image):
        return {"type": "input_image", "image_url": url_of(block), "detail": "auto"}
    if block.url:
        return {"type": "input_file", "file_url": block.url}
    return {"type": "input_file", "filename": block.name, "file_data": url_of(block)}


def _items(
    message: AssistantMessage, calls: dict[str, ToolCall], origin: str
) -> list[_Data]:
    """Return *message* as items, and take those of its calls that it has from *calls*.

    Text and refusals become parts of one message item, as long as nothing is between
    them and they are of the same phase.
    """
    items: list[_Data] = []
    parts: list[_Data] | None = None
    last_phase = ""
    for block in message.content:
        if isinstance(block, (Text, Refusal)) and block.text.strip():
            is_ours, is_text = message.provider == origin, isinstance(block, Text)
            phase = block.signature if is_ours and isinstance(block, Text) else ""
            if parts is None or phase != last_phase:
                parts, last_phase = [], phase
                items.append({"type": "message", "role": "assistant", "content": parts})
                if phase:
                    items[-1]["phase"] = phase
            kind, field = ("output_text", "text") if is_text else ("refusal",) * 2
            parts.append({"type": kind, field: block.text})
        elif isinstance(block, ToolCall) and block.call_id in calls:
            call = calls.pop(block.call_id)
            name, arguments = tool_name_of(call, _MAX_NAME), arguments_of(call)
            function = {"name": name, "arguments": bytes(arguments).decode()}
            items.append({"type": "function_call", "call_id": call.call_id, **function})
            parts = None
        elif isinstance(block, ProviderBlock) and block.provider == origin:
            data = block.data
            is_whole = data.get("encrypted_content") or data.get("content")
            is_whole = is_whole and isinstance(data.get("summary"), list)
            # Reasoning without content is only an id, which the server has not stored.
            if is_whole or data.get("type") != "reasoning":
                items.append(data)
                parts = None
    # The provider rejects reasoning that nothing follows.
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items
