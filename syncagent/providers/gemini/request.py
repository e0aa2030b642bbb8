"""Requests in the dialect of Google's Gemini API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from ...events import Event
from ...exceptions import (
    AuthenticationFailed,
    ConfigurationError,
    ProviderError,
    RequestRejected,
)
from ...messages import (
    AssistantBlock,
    File,
    Image,
    Json,
    ProviderBlock,
    Refusal,
    Text,
    Thinking,
    ToolCall,
)
from ...options import BUDGETS, Options, OutputFormat, ToolSpec
from ...sse import ServerSentEvent
from ...transcript.transcript import Piece, Transcript
from ...transcript.turns import AssistantTurn, Turn, UserTurn
from ..dialect import Dialect, without_none
from ..draft import Draft
from ..encoding import arguments_of, base64_of, json_bytes, text_of, tool_name_of
from ..errors import recast
from ..strict_schemas import gemini_schema
from . import response
from .response import NAME, SIGNATURE

#: The smallest thinking budget of models that cannot turn thinking off.
_MIN_BUDGET: Final = 128
_VERSION: Final = re.compile(r"gemini-(\d+)")
_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
#: Newer models reject a call without a signature. Google documents this value for calls
#: that no Gemini has made.
_FOREIGN_SIGNATURE: Final = "skip_thought_signature_validator"
_MAX_NAME: Final = 64
#: Parts of the provider's own that it takes back, and the field that each needs. It
#: rejects conversations with any other part, even with one that it has sent.
_OWN_PARTS: Final = {
    "inlineData": "data",
    "fileData": "fileUri",
    "executableCode": "code",
    "codeExecutionResult": "outcome",
    "toolCall": "",
    "toolResponse": "",
}
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")


class GeminiDialect(Dialect):
    """``models/NAME:streamGenerateContent?alt=sse``."""

    name: ClassVar[str] = NAME

    def can_enforce(
        self, model: str, tools: Sequence[ToolSpec], output: OutputFormat
    ) -> bool:
        version = _VERSION.search(model)
        # Before version 3, a response schema and tools exclude each other.
        return not tools or (version is not None and int(version[1]) >= 3)

    def fields(
        self, model: str, tools: Sequence[ToolSpec], options: Options, *, stream: bool
    ) -> dict[str, Any]:
        if options.parallel_tool_calls is False:
            raise ConfigurationError(
                "gemini models cannot be limited to one tool call at a time; leave "
                "parallel_tool_calls out"
            )
        fields: dict[str, Any] = {}
        if options.system:
            fields["systemInstruction"] = {"parts": [{"text": options.system}]}
        if tools:
            declarations = [
                without_none(
                    name=tool.name,
                    parametersJsonSchema=tool.parameters,
                    description=tool.description or None,
                )
                for tool in tools
            ]
            fields["tools"] = [{"functionDeclarations": declarations}]
            if options.tool_choice is not None:
                mode: dict[str, Any] = {"mode": _MODES.get(options.tool_choice, "ANY")}
                if options.tool_choice not in _MODES:
                    mode["allowedFunctionNames"] = [options.tool_choice]
                fields["toolConfig"] = {"functionCallingConfig": mode}
        config = _generation_config(model, options)
        if config:
            fields["generationConfig"] = config
        return fields

    def conversation(
        self, transcript: Transcript, options: Options
    ) -> tuple[str, list[Piece]]:
        encode = partial(encode_turn, origin=self.origin)
        pieces = transcript.encode(self.encoding, encode)
        if options.prefill:
            prefill = {"role": "model", "parts": [{"text": options.prefill}]}
            pieces += [b",", json_bytes(prefill)]
        return "contents", pieces

    is_end = staticmethod(response.is_end)

    def decode(
        self, stream: Iterable[ServerSentEvent], draft: Draft | None = None
    ) -> Iterator[Event]:
        return response.decode(stream, draft or Draft(self.origin))

    def decode_body(self, body: bytes, draft: Draft | None = None) -> Iterator[Event]:
        return response.decode_body(body, draft or Draft(self.origin))

    def explain(self, error: ProviderError) -> ProviderError:
        if isinstance(error, RequestRejected) and "API_KEY_INVALID" in error.body:
            return recast(error, AuthenticationFailed)
        return super().explain(error)


# -- options ---------------------------------------------------------------------------


def _generation_config(model: str, options: Options) -> dict[str, Any]:
    config = without_none(
        temperature=options.temperature,
        topP=options.top_p,
        maxOutputTokens=options.max_tokens,
        stopSequences=list(options.stop) or None,
        seed=options.seed,
    )
    budget = options.thinking_tokens
    if budget is None and options.effort is not None:
        budget = BUDGETS[options.effort]
        if "pro" in model.lower():
            budget = max(budget, _MIN_BUDGET)
    if budget is not None:
        config["thinkingConfig"] = {"thinkingBudget": budget}
        if budget:  # the provider rejects it where there are no thoughts to include
            config["thinkingConfig"]["includeThoughts"] = True
    if options.output is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = gemini_schema(options.output.schema)
    return config


# -- turns -----------------------------------------------------------------------------


def encode_turn(turn: Turn, origin: str) -> bytes:
    """Return a turn as JSON, or several values with commas between them."""
    if isinstance(turn, UserTurn):
        return json_bytes({"role": "user", "parts": _user(turn)})
    return json_bytes({"role": "model", "parts": _model(turn, origin)})


def _user(turn: UserTurn) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    attachments: list[Text | Image | File] = []
    for result in turn.results:
        values = [block.value for block in result.content if isinstance(block, Json)]
        if len(values) == len(result.content) == 1 and not result.is_error:
            output = values[0]
        else:
            output = "\n".join(map(text_of, result.content)) or "(no output)"
        function = {
            **_id(result.call_id),
            "name": tool_name_of(result, _MAX_NAME),
            "response": {"error" if result.is_error else "result": output},
        }
        results.append({"functionResponse": function})
        # A result holds values only; images and files follow all of them.
        attachments += [b for b in result.content if isinstance(b, (Image, File))]
    return results + [_part(block) for block in (*attachments, *turn.content)]


def _id(call_id: str) -> dict[str, str]:
    # Many models give calls no ids, and the ones we make up mean nothing to the
    # provider. It takes any other id that a call and its result share.
    return {} if call_id.startswith("call") else {"id": call_id}


def _part(block: Text | Image | File) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"text": block.text}
    if block.url:
        return {"fileData": {"fileUri": block.url, "mimeType": block.media_type}}
    return {"inlineData": {"mimeType": block.media_type, "data": base64_of(block)}}


def _model(turn: AssistantTurn, origin: str) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    calls = dict(turn.calls)
    for message in turn.messages:
        is_ours = message.provider == origin
        foreign_signature = _FOREIGN_SIGNATURE
        for block in message.content:
            if isinstance(block, ToolCall):
                # Of several calls with the same id only one has a result.
                call = calls.pop(block.call_id, None)
                if call is not None:
                    name, arguments = tool_name_of(call, _MAX_NAME), arguments_of(call)
                    function = {"name": name, "args": arguments}
                    parts.append({"functionCall": {**_id(call.call_id), **function}})
                    signature = foreign_signature
                    if is_ours and (not call.signature or _is_base64(call.signature)):
                        signature = call.signature
                    if signature:
                        parts[-1][SIGNATURE] = signature
                    foreign_signature = ""  # one for all parallel calls
            elif not isinstance(block, ProviderBlock):
                parts += _text(block, is_ours=is_ours)
            elif block.provider == origin:
                if block.data.keys() != {SIGNATURE}:
                    parts += _own_part(block.data)
                elif parts and _is_base64(block.data[SIGNATURE]):
                    parts[-1] = {**parts[-1], **block.data}  # of the image before it
    return parts or [{"text": "(nothing)"}]


def _own_part(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a part of the provider's own, in a list that is empty if it is invalid."""
    fields = [field for field in data if field in _OWN_PARTS]
    value = data[fields[0]] if len(fields) == 1 else None
    if not isinstance(value, dict):
        return []
    needed = _OWN_PARTS[fields[0]]
    if needed and not (isinstance(value.get(needed), str) and value[needed]):
        return []
    if fields[0] == "inlineData" and not _is_base64(value["data"]):
        return []
    part: dict[str, Any] = {fields[0]: value}
    if data.get("thought") is True:
        part["thought"] = True
    if _is_base64(data.get(SIGNATURE)):
        part[SIGNATURE] = data[SIGNATURE]
    return [part]


def _is_base64(value: object) -> bool:
    if not isinstance(value, str) or not _BASE64.fullmatch(value):
        return False
    return bool(value) and len(value.rstrip("=")) % 4 != 1


def _text(block: AssistantBlock, *, is_ours: bool) -> list[dict[str, Any]]:
    if isinstance(block, (Text, Thinking)) and is_ours and _is_base64(block.signature):
        thought = {"thought": True} if isinstance(block, Thinking) else {}
        return [{"text": block.text, **thought, SIGNATURE: block.signature}]
    if isinstance(block, (Text, Refusal)) and block.text.strip():
        return [{"text": block.text}]
    return [_part(block)] if isinstance(block, Image) else []
