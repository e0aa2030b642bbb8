"""Requests in the dialect of Gemini."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final

from ...events import Event
from ...exceptions import (
    AuthenticationFailed,
    ConfigurationError,
    ProtocolError,
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
    ToolResult,
)
from ...options import BUDGETS, Options, OutputFormat, ToolSpec
from ...sse import ServerSentEvent
from ...transcript.transcript import Piece, Transcript
from ...transcript.turns import AssistantTurn, Turn, UserTurn
from ..blocks import arguments_of, base64_of, encoded, name_of, words_of
from ..dialect import Dialect, given, read
from ..draft import Draft
from ..refusals import retold
from ..schemas import described
from .response import NAME, SIGNATURE, GeminiReader, chunks, is_last, split

#: What models that cannot do without thinking take for next to none.
_LEAST_BUDGET: Final = 128


_VERSION: Final = re.compile(r"gemini-(\d+)")


_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


class GeminiDialect(Dialect):
    """``models/NAME:streamGenerateContent?alt=sse``."""

    name: ClassVar[str] = NAME

    def _enforces(
        self, model: str, tools: Sequence[ToolSpec], output: OutputFormat
    ) -> bool:
        version = _VERSION.search(model)
        # Before the third, a form and tools exclude each other.
        return not tools or (version is not None and int(version[1]) >= 3)

    def _head(
        self, model: str, tools: Sequence[ToolSpec], options: Options, *, stream: bool
    ) -> dict[str, Any]:
        if options.parallel_tool_calls is False:
            raise ConfigurationError(
                "gemini models cannot be told to call one tool at a time; leave "
                "parallel_tool_calls out"
            )
        head: dict[str, Any] = {}
        if options.system:
            head["systemInstruction"] = {"parts": [{"text": options.system}]}
        if tools:
            head["tools"] = [{"functionDeclarations": [_tool(tool) for tool in tools]}]
            if options.tool_choice is not None:
                mode: dict[str, Any] = {"mode": _MODES.get(options.tool_choice, "ANY")}
                if options.tool_choice not in _MODES:
                    mode["allowedFunctionNames"] = [options.tool_choice]
                head["toolConfig"] = {"functionCallingConfig": mode}
        config = _config(model, options)
        if config:
            head["generationConfig"] = config
        return head

    def _body(
        self, transcript: Transcript, options: Options
    ) -> tuple[str, list[Piece]]:
        contents = transcript.encode(self.name, encode)
        if options.prefill:
            begun = {"role": "model", "parts": [{"text": options.prefill}]}
            contents += [b",", encoded(begun)]
        return "contents", contents

    def is_end(self, event: ServerSentEvent) -> bool:
        # Arguments are no strings here, and may have such keys too: look twice.
        data = event.data
        if 'finishReason"' not in data and 'blockReason"' not in data:
            return False
        try:
            found = [is_last(read(chunks, piece)) for piece in split(data)]
        except ProtocolError:
            return False
        return any(found)

    def decode(
        self, stream: Iterable[ServerSentEvent], draft: Draft | None = None
    ) -> Iterator[Event]:
        answer = GeminiReader(draft)
        for event in stream:
            if event.data.startswith("["):
                for piece in split(event.data):
                    yield from answer.take(piece)
            else:
                yield from answer.take(event.data)
        yield from answer.finish()

    def decode_reply(self, body: bytes) -> Iterator[Event]:
        answer = GeminiReader()
        for piece in split(body.strip()):
            yield from answer.take(piece)
        yield from answer.finish()

    def explain(self, error: ProviderError) -> ProviderError:
        if isinstance(error, RequestRejected) and "API_KEY_INVALID" in error.body:
            return retold(error, AuthenticationFailed)
        return super().explain(error)


def _config(model: str, options: Options) -> dict[str, Any]:
    config = given(
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
            budget = max(budget, _LEAST_BUDGET)
    if budget is not None:
        config["thinkingConfig"] = {"thinkingBudget": budget}
        if budget:  # an error where there are none to include
            config["thinkingConfig"]["includeThoughts"] = True
    if options.output is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = described(options.output.schema)
    return config


def _tool(tool: ToolSpec) -> dict[str, Any]:
    said: dict[str, Any] = {"name": tool.name, "parametersJsonSchema": tool.parameters}
    if tool.description:
        said["description"] = tool.description
    return said


#: Newer models reject a call without a signature. This is Google's own word for one
#: that no Gemini has made.
_FOREIGN: Final = "skip_thought_signature_validator"


_LONGEST_NAME: Final = 64


def encode(turn: Turn) -> bytes:
    """Return a turn as JSON."""
    if isinstance(turn, UserTurn):
        return encoded({"role": "user", "parts": _user(turn)})
    return encoded({"role": "model", "parts": _model(turn)})


def _user(turn: UserTurn) -> list[dict[str, Any]]:
    results = []
    shown: list[Text | Image | File] = []
    for result in turn.results:
        named = {**_id(result.call_id), "name": name_of(result, _LONGEST_NAME)}
        results.append({"functionResponse": {**named, "response": _response(result)}})
        # Results are values; what is to be seen follows them.
        shown += [b for b in result.content if isinstance(b, (Image, File))]
    return results + [_part(block) for block in (*shown, *turn.content)]


def _id(call_id: str) -> dict[str, str]:
    # Many models give calls no ids; what stands for them is of no use to the provider.
    # Any other id may go there, as long as a call and its result have the same.
    return {} if call_id.startswith("call") else {"id": call_id}


def _response(result: ToolResult) -> dict[str, Any]:
    values = [block.value for block in result.content if isinstance(block, Json)]
    if len(values) == len(result.content) == 1 and not result.is_error:
        return {"result": values[0]}
    text = "\n".join(map(words_of, result.content)) or "(no output)"
    return {"error": text} if result.is_error else {"result": text}


def _part(block: Text | Image | File) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"text": block.text}
    if block.url:
        return {"fileData": {"fileUri": block.url, "mimeType": block.media_type}}
    return {"inlineData": {"mimeType": block.media_type, "data": base64_of(block)}}


def _model(turn: AssistantTurn) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    calls = dict(turn.calls)
    for message in turn.messages:
        is_ours = message.provider == NAME
        foreign = _FOREIGN
        for block in message.content:
            if isinstance(block, ToolCall):
                # Of several with the same id only one has a result.
                call = calls.pop(block.call_id, None)
                if call is not None:
                    parts.append(_call(call, call.signature if is_ours else foreign))
                    foreign = ""  # one for all that are called at once
            elif isinstance(block, ProviderBlock):
                if block.provider == NAME:
                    _add_back(parts, block.data)
            else:
                parts += _said(block, is_ours=is_ours)
    return parts or [{"text": "(nothing)"}]


def _call(call: ToolCall, signature: str) -> dict[str, Any]:
    function = {"name": name_of(call, _LONGEST_NAME), "args": arguments_of(call)}
    part: dict[str, Any] = {"functionCall": {**_id(call.call_id), **function}}
    if signature:
        part[SIGNATURE] = signature
    return part


def _said(block: AssistantBlock, *, is_ours: bool) -> list[dict[str, Any]]:
    if is_ours and isinstance(block, (Text, Thinking)) and block.signature:
        thought = {"thought": True} if isinstance(block, Thinking) else {}
        return [{"text": block.text, **thought, SIGNATURE: block.signature}]
    if isinstance(block, (Text, Refusal)) and block.text.strip():
        return [{"text": block.text}]
    return [_part(block)] if isinstance(block, Image) else []


def _add_back(parts: list[dict[str, Any]], data: dict[str, Any]) -> None:
    if data.keys() != {SIGNATURE}:
        parts.append(data)
    elif parts:  # the note that an image was signed
        parts[-1] = {**parts[-1], **data}
