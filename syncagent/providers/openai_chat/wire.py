"""Events and responses of Chat Completions, as the wire brings them."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from ...exceptions import ProtocolError
from ..dialect import decode_json
from ..json_values import as_dicts, as_string, get_path

#: Half a character, escaped in JSON, which no encoder would write again.
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")

# Nearly all servers send data of these types, and msgspec decodes it at once. The rest
# is decoded again by read().


class Function(msgspec.Struct):
    """The name and the arguments of a tool call."""

    name: str | None = None
    arguments: Any = None


class CallDelta(msgspec.Struct):
    """A tool call, or more of it."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None
    #: Google's place for signatures.
    extra_content: Any = None


class ChoiceDelta(msgspec.Struct):
    """More of a message, or all of it."""

    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: str | None = None
    tool_calls: list[CallDelta] | None = None
    function_call: Function | None = None
    #: OpenRouter's thinking, which it wants back.
    reasoning_details: Any = None
    #: Citations.
    annotations: Any = None


class Choice(msgspec.Struct):
    """One of the alternative messages; the request asks for one."""

    index: int | None = None
    delta: ChoiceDelta | None = None
    message: ChoiceDelta | None = None
    finish_reason: str | None = None
    #: The word of the provider behind a gateway.
    native_finish_reason: Any = None
    error: Any = None
    #: Moonshot's place for the usage.
    usage: Any = None


class ChatChunk(msgspec.Struct):
    """An event of a stream, or a complete response."""

    id: str | None = None
    model: str | None = None
    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    #: Groq's place for usage and errors.
    x_groq: Any = None
    #: Perplexity's sources: addresses, and more about them.
    citations: Any = None
    search_results: Any = None


chunks: Final = msgspec.json.Decoder(ChatChunk)


def read(data: str | bytes) -> ChatChunk:
    """Return the content of an event or a response.

    :raises ProtocolError: it does not have the form that the provider documents.
    """
    try:
        return decode_json(chunks, data)
    except ProtocolError:
        chunk = _decode_leniently(data)
        if chunk is None:
            raise
        return chunk


def _decode_leniently(data: str | bytes) -> ChatChunk | None:
    """Return the usable fields of *data*, or None if it is not a response."""
    try:
        text = json.dumps(json.loads(data), ensure_ascii=False)
        content = json.loads(_LONE_SURROGATE.sub("\ufffd", text))
    except (ValueError, RecursionError):
        return None
    choices, error = get_path(content, "choices"), get_path(content, "error")
    is_chunk = isinstance(content, dict) and isinstance(choices, (list, type(None)))
    if not is_chunk and not error:
        return None
    usage = get_path(content, "usage")
    return ChatChunk(
        id=_id(get_path(content, "id")),
        model=as_string(get_path(content, "model")),
        choices=[
            Choice(
                index=_index(choice.get("index")),
                delta=_delta(choice.get("delta")),
                message=_delta(choice.get("message")),
                finish_reason=as_string(choice.get("finish_reason")),
                native_finish_reason=choice.get("native_finish_reason"),
                error=choice.get("error"),
                usage=choice.get("usage"),
            )
            for choice in as_dicts(choices)
        ],
        usage=usage if isinstance(usage, dict) else None,
        error=error,
        x_groq=get_path(content, "x_groq"),
        citations=get_path(content, "citations"),
        search_results=get_path(content, "search_results"),
    )


def _delta(delta: Any) -> ChoiceDelta | None:
    if not isinstance(delta, dict):
        return None
    calls = [
        CallDelta(
            _index(each.get("index")),
            _id(each.get("id")),
            _function(each.get("function")),
            each.get("extra_content"),
        )
        for each in as_dicts(delta.get("tool_calls"))
    ]
    return ChoiceDelta(
        content=delta.get("content"),
        reasoning_content=delta.get("reasoning_content"),
        reasoning=delta.get("reasoning"),
        refusal=as_string(delta.get("refusal")),
        tool_calls=calls,
        function_call=_function(delta.get("function_call")),
        reasoning_details=delta.get("reasoning_details"),
        annotations=delta.get("annotations"),
    )


def _function(function: Any) -> Function | None:
    if not isinstance(function, dict):
        return None
    return Function(as_string(function.get("name")), function.get("arguments"))


def _id(value: Any) -> str:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value)[:100] if is_number else as_string(value)


def _index(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number else None
