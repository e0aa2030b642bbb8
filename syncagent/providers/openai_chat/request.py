"""Requests in the dialect of OpenAI's Chat Completions, and of compatible servers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, ClassVar, Final

from ...events import Event
from ...exceptions import ConfigurationError
from ...messages import File, Image, Refusal, Text, UserBlock
from ...options import Options, OutputFormat, ToolSpec
from ...sse import ServerSentEvent
from ...transcript.transcript import Piece, Transcript
from ...transcript.turns import AssistantTurn, Turn, UserTurn
from ..dialect import Dialect, without_none
from ..draft import Draft
from ..encoding import arguments_of, json_bytes, text_of, tool_name_of, url_of
from ..strict_schemas import openai_format
from . import response
from .response import NAME

#: Length of call ids for servers that want short ones.
_SHORT_ID: Final = 9
_MAX_NAME: Final = 64


class OpenAIChatDialect(Dialect):
    """``/chat/completions``."""

    name: ClassVar[str] = NAME
    unknown_options: ClassVar[frozenset[str]] = frozenset({"thinking_tokens"})

    def can_enforce(
        self, model: str, tools: Sequence[ToolSpec], output: OutputFormat
    ) -> bool:
        return self.quirks.field_names.get("response_format", "") is not None

    def fields(
        self, model: str, tools: Sequence[ToolSpec], options: Options, *, stream: bool
    ) -> dict[str, Any]:
        fields = without_none(
            model=model,
            stream=stream,
            stream_options={"include_usage": True} if stream else None,
            temperature=options.temperature,
            top_p=options.top_p,
            max_completion_tokens=options.max_tokens,
            stop=list(options.stop) or None,
            seed=options.seed,
            reasoning_effort=options.effort,
        )
        if tools:
            functions = (
                without_none(
                    name=tool.name,
                    parameters=tool.parameters,
                    description=tool.description or None,
                )
                for tool in tools
            )
            fields["tools"] = [{"type": "function", "function": f} for f in functions]
            if options.tool_choice is not None:
                named = {"type": "function", "function": {"name": options.tool_choice}}
                is_mode = options.tool_choice in ("auto", "none", "required")
                fields["tool_choice"] = options.tool_choice if is_mode else named
            if options.parallel_tool_calls is not None:
                fields["parallel_tool_calls"] = options.parallel_tool_calls
        if options.output is not None:
            output = openai_format(options.output)
            fields["response_format"] = {"type": "json_schema", "json_schema": output}
        for official, name in self.quirks.field_names.items():
            value = fields.pop(official, None)
            if name is not None and value is not None:
                fields[name] = value
        return fields

    def conversation(
        self, model: str, transcript: Transcript, options: Options
    ) -> tuple[str, list[Piece]]:
        encode = encode_short if self.quirks.has_short_ids else encode_turn
        pieces = transcript.encode(self.encoding, encode)
        if options.system:
            system = {"role": "system", "content": options.system}
            pieces = [json_bytes(system), b",", *pieces]
        if options.prefill:
            if self.quirks.prefill == "answers":
                raise ConfigurationError(
                    f"{self.endpoint} models cannot continue a prefill; they would "
                    "answer it"
                )
            prefill = {"role": "assistant", "content": options.prefill}
            pieces += [b",", json_bytes(prefill)]
        return "messages", pieces

    is_end = staticmethod(response.is_end)

    def decode(
        self, stream: Iterable[ServerSentEvent], draft: Draft | None = None
    ) -> Iterator[Event]:
        return response.decode(stream, draft or Draft(self.origin))

    def decode_body(self, body: bytes, draft: Draft | None = None) -> Iterator[Event]:
        return response.decode_body(body, draft or Draft(self.origin))


# -- turns -----------------------------------------------------------------------------


def encode_turn(turn: Turn) -> bytes:
    """Return a turn as JSON, or several values with commas between them."""
    messages = _user(turn) if isinstance(turn, UserTurn) else _assistant(turn)
    return b",".join(map(json_bytes, messages))


def encode_short(turn: Turn) -> bytes:
    """Return a turn with short ids of its calls."""
    messages = list(_user(turn) if isinstance(turn, UserTurn) else _assistant(turn))
    for message in messages:
        if "tool_call_id" in message:
            message["tool_call_id"] = _short_id(message["tool_call_id"])
        for call in message.get("tool_calls", ()):
            call["id"] = _short_id(call["id"])
    return b",".join(map(json_bytes, messages))


def _short_id(call_id: str) -> str:
    """Return an id of nine letters and digits, always the same for the same id."""
    if len(call_id) == _SHORT_ID and call_id.isalnum():
        return call_id
    return sha256(call_id.encode()).hexdigest()[:_SHORT_ID]


def _user(turn: UserTurn) -> Iterator[dict[str, Any]]:
    attachments: list[UserBlock] = []
    for result in turn.results:
        text = "\n".join(map(text_of, result.content))
        content = f"Error: {text}" if result.is_error else text or "(no output)"
        yield {"role": "tool", "tool_call_id": result.call_id, "content": content}
        # A result is text only; its images and files follow as the user's.
        attachments += [b for b in result.content if isinstance(b, (Image, File))]
    parts = [_part(block) for block in (*attachments, *turn.content)]
    if len(parts) == 1 and parts[0]["type"] == "text":
        yield {"role": "user", "content": parts[0]["text"]}
    elif parts:
        yield {"role": "user", "content": parts}


def _part(block: UserBlock) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if isinstance(block, Image):
        return {"type": "image_url", "image_url": {"url": url_of(block)}}
    if block.url and not block.url.startswith("data:"):
        # The provider takes the bytes of a file only; the model can still be told.
        return {"type": "text", "text": f"(a file, at {block.url})"}
    file = {"filename": block.name, "file_data": url_of(block)}
    return {"type": "file", "file": file}


def _assistant(turn: AssistantTurn) -> Iterator[dict[str, Any]]:
    blocks = [block for message in turn.messages for block in message.content]
    text = "".join(block.text for block in blocks if isinstance(block, Text))
    refusals = [block.text for block in blocks if isinstance(block, Refusal)]
    calls = []
    for call in turn.calls.values():
        # Strict servers parse the arguments of every call, in every request.
        arguments = bytes(arguments_of(call)).decode()
        function = {"name": tool_name_of(call, _MAX_NAME), "arguments": arguments}
        calls.append({"id": call.call_id, "type": "function", "function": function})
    message: dict[str, Any] = {"role": "assistant"}
    if text.strip() or not (calls or refusals):
        message["content"] = text if text.strip() else "(nothing)"
    if refusals:
        message["refusal"] = "".join(refusals)
    if calls:
        message["tool_calls"] = calls
    yield message
