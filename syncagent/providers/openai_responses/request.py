"""Requests in the dialect of OpenAI's Responses API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ...events import Event
from ...messages import (
    AssistantMessage,
    File,
    Image,
    ProviderBlock,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    UserBlock,
)
from ...options import Options, ToolSpec
from ...sse import ServerSentEvent
from ...transcript.transcript import Piece, Transcript
from ...transcript.turns import AssistantTurn, Turn, UserTurn
from ..blocks import arguments_of, encoded, name_of, url_of, words_of
from ..dialect import Dialect, cut_off, given, read
from ..draft import Draft
from ..refusals import error_in_answer
from ..schemas import enforceable
from .response import ENDS, NAME, ResponsesReader, said_in

# Inside of a string quotes are escaped, so this is the key itself.
_END: Final = re.compile(r'"type"\s*:\s*"response\.(?:completed|incomplete|failed)"')


#: Names of models that reason, unasked too; with or without a vendor before them.
#: Those for chats do not, whatever their family.
_REASONS: Final = re.compile(r"(?:.*/)?(?:o\d|gpt-5(?!(?:\.\d+)?-chat)|codex|gpt-oss)")


class OpenAIResponsesDialect(Dialect):
    """``/responses``."""

    name = NAME
    unknown_options = frozenset({"stop", "prefill", "thinking_tokens"})

    def _head(
        self, model: str, tools: Sequence[ToolSpec], options: Options, *, stream: bool
    ) -> dict[str, Any]:
        head: dict[str, Any] = {
            "model": model,
            "stream": stream,
            "store": False,
        }
        if options.effort is not None or _REASONS.match(model):
            # The server keeps nothing, so reasoning has to travel with us. A model that
            # does none rejects the word.
            head["include"] = ["reasoning.encrypted_content"]
        # Not every account may see a summary: extra= can ask for one.
        effort = options.effort and {"effort": options.effort}
        head |= given(
            instructions=options.system or None,
            temperature=options.temperature,
            top_p=options.top_p,
            max_output_tokens=options.max_tokens,
            reasoning=effort,
            metadata=options.metadata or None,
        )
        if tools:
            head["tools"] = [_tool(tool) for tool in tools]
            if options.tool_choice is not None:
                named = {"type": "function", "name": options.tool_choice}
                is_word = options.tool_choice in ("auto", "none", "required")
                head["tool_choice"] = options.tool_choice if is_word else named
            if options.parallel_tool_calls is not None:
                head["parallel_tool_calls"] = options.parallel_tool_calls
        if options.output is not None:
            form = enforceable(options.output)
            head["text"] = {"format": {"type": "json_schema", **form}}
        return head

    def _body(
        self, transcript: Transcript, options: Options
    ) -> tuple[str, list[Piece]]:
        return "input", transcript.encode(self.name, encode)

    def is_end(self, event: ServerSentEvent) -> bool:
        return event.event in ENDS or _END.search(event.data) is not None

    def decode(
        self, stream: Iterable[ServerSentEvent], draft: Draft | None = None
    ) -> Iterator[Event]:
        answer = ResponsesReader(draft)
        for event in stream:
            if event.data == "[DONE]":  # some imitators say so
                continue
            said = read(said_in, event.data)
            kind = said.type if isinstance(said.type, str) else event.event
            if kind == "response.output_text.delta" and answer.has_begun:
                yield from answer.text(said)
                continue
            if kind == "error" or said.error:
                told = {"code": said.code, "message": said.message}
                raise error_in_answer(said.error or told)
            yield from answer.take(kind, said)
            if kind in ENDS:
                return
        raise cut_off()

    def decode_reply(self, body: bytes) -> Iterator[Event]:
        reply, answer = read(said_in, body), ResponsesReader()
        if reply.error or not isinstance(reply.output, list):
            raise error_in_answer(reply.error) if reply.error else cut_off()
        yield from answer.begin(reply)
        yield from answer.finish(reply, reply.status or "completed")


def _tool(tool: ToolSpec) -> dict[str, Any]:
    said = {"name": tool.name, "description": tool.description}
    return {"type": "function", **said, "parameters": tool.parameters, "strict": False}


_Data = dict[str, Any]


def encode(turn: Turn) -> bytes:
    """Return a turn as JSON: items, with a comma between."""
    said = _user(turn) if isinstance(turn, UserTurn) else _assistant(turn)
    return b",".join(map(encoded, said))


def _user(turn: UserTurn) -> Iterator[_Data]:
    for result in turn.results:
        item = {"type": "function_call_output", "call_id": result.call_id}
        yield {**item, "output": _output(result)}
    if turn.content:
        yield {"role": "user", "content": [_part(block) for block in turn.content]}


def _output(result: ToolResult) -> str | list[_Data]:
    shown = [_part(b) for b in result.content if isinstance(b, (Image, File))]
    told = [words_of(b) for b in result.content if not isinstance(b, (Image, File))]
    words = "Error: " * result.is_error + "\n".join(told)
    if not shown:
        return words or "(no output)"
    return [_part(Text(words)), *shown] if words.strip() else shown


def _part(block: UserBlock) -> _Data:
    if isinstance(block, Text):
        return {"type": "input_text", "text": block.text}
    if isinstance(block, Image):
        return {"type": "input_image", "image_url": url_of(block), "detail": "auto"}
    if block.url:
        return {"type": "input_file", "file_url": block.url}
    return {"type": "input_file", "filename": block.name, "file_data": url_of(block)}


def _assistant(turn: AssistantTurn) -> list[_Data]:
    calls = dict(turn.calls)
    items = [item for said in turn.messages for item in _items(said, calls)]
    return items or _items(AssistantMessage((Text("(nothing)"),)), calls)


def _items(message: AssistantMessage, calls: dict[str, ToolCall]) -> list[_Data]:
    """Return *message* as items; of its calls those that are left in *calls*."""
    items: list[_Data] = []
    parts: list[_Data] | None = None
    phase = ""
    for block in message.content:
        if isinstance(block, (Text, Refusal)) and block.text.strip():
            is_ours = message.provider == NAME
            now = block.signature if is_ours and isinstance(block, Text) else ""
            if parts is None or now != phase:
                parts, phase = [], now
                items.append({"type": "message", "role": "assistant", "content": parts})
                if phase:
                    items[-1]["phase"] = phase
            is_text = isinstance(block, Text)
            kind, field = ("output_text", "text") if is_text else ("refusal",) * 2
            parts.append({"type": kind, field: block.text})
        elif isinstance(block, ToolCall) and block.call_id in calls:
            items.append(_call(calls.pop(block.call_id)))
            parts = None
        elif isinstance(block, ProviderBlock) and _is_welcome(block):
            items.append(block.data)
            parts = None
    # Reasoning that nothing has come of is rejected.
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items


def _is_welcome(block: ProviderBlock) -> bool:
    # Bare reasoning is but an id, of something that the server has not kept.
    is_whole = bool(block.data.get("encrypted_content") or block.data.get("content"))
    is_usable = is_whole or block.data.get("type") != "reasoning"
    return is_usable and block.provider == NAME


def _call(call: ToolCall) -> _Data:
    return {
        "type": "function_call",
        "call_id": call.call_id,
        "name": name_of(call, 64),
        "arguments": bytes(arguments_of(call)).decode(),
    }
