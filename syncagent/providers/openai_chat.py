"""Chat Completions, as OpenAI has it, and everything that imitates it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from ..events import Event, MessageStarted, UsageUpdated
from ..messages import (
    File,
    Image,
    Refusal,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    UserBlock,
)
from ..options import Options, ToolSpec
from ..sse import ServerSentEvent
from ..transcript import AssistantTurn, Piece, Transcript, Turn, UserTurn
from ..usage import Usage
from .blocks import url_of, words_of
from .dialect import Dialect, cut_off, read
from .draft import Draft
from .refusals import error_in_answer
from .schemas import enforceable
from .values import at, integer

_STOPS: Final[dict[str, StopReason]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refusal",
    "": "end_turn",
}


class OpenAIChatDialect(Dialect):
    """``/chat/completions``.

    :param words: what imitators call a field of OpenAI's; ``None`` if they have no word
        for it, and it is not needed.
    """

    name: ClassVar[str] = "openai-chat"
    unknown_options: ClassVar[frozenset[str]] = frozenset({"thinking_tokens"})

    def __init__(self, words: Mapping[str, str | None] | None = None) -> None:
        self._words = words or {}

    def _head(
        self, model: str, tools: Sequence[ToolSpec], options: Options, *, stream: bool
    ) -> dict[str, Any]:
        head = self._official_head(model, tools, options, stream=stream)
        for official, word in self._words.items():
            value = head.pop(official, None)
            if word is not None and value is not None:
                head[word] = value
        return head

    def _official_head(
        self, model: str, tools: Sequence[ToolSpec], options: Options, *, stream: bool
    ) -> dict[str, Any]:
        head: dict[str, Any] = {"model": model, "stream": stream}
        if stream:
            head["stream_options"] = {"include_usage": True}
        for name, value in (
            ("temperature", options.temperature),
            ("top_p", options.top_p),
            ("max_completion_tokens", options.max_tokens),
            ("stop", list(options.stop) or None),
            ("seed", options.seed),
            ("reasoning_effort", options.effort),
            ("metadata", options.metadata or None),
        ):
            if value is not None:
                head[name] = value
        if tools:
            head["tools"] = [_tool(tool) for tool in tools]
            if options.tool_choice is not None:
                head["tool_choice"] = _choice(options.tool_choice)
            if options.parallel_tool_calls is not None:
                head["parallel_tool_calls"] = options.parallel_tool_calls
        if options.output is not None:
            form = enforceable(options.output)
            head["response_format"] = {"type": "json_schema", "json_schema": form}
        return head

    def _body(
        self, transcript: Transcript, options: Options
    ) -> tuple[str, list[Piece]]:
        pieces = transcript.encode(self.name, _encode)
        if options.system:
            said = {"role": "system", "content": options.system}
            pieces = [msgspec.json.encode(said), b",", *pieces]
        if options.prefill:
            begun = {"role": "assistant", "content": options.prefill}
            pieces += [b",", msgspec.json.encode(begun)]
        return "messages", pieces

    def is_end(self, event: ServerSentEvent) -> bool:
        # Inside of a string quotes are escaped, so this is the key itself.
        data = event.data
        return (
            'finish_reason":"' in data
            or 'finish_reason": "' in data
            or data == "[DONE]"
        )

    def decode(self, stream: Iterable[ServerSentEvent]) -> Iterator[Event]:
        draft, finish, has_begun, is_done = Draft(self.name), "", False, False
        for event in stream:
            if event.data == "[DONE]":
                is_done = True
                continue
            chunk = read(_chunks, event.data)
            if chunk.error:
                raise error_in_answer(chunk.error)
            if not has_begun and (chunk.choices or chunk.model):
                has_begun = True
                draft.model = chunk.model or ""
                yield MessageStarted(draft.model, chunk.id or "")
            for choice in chunk.choices or ():
                if choice.index:  # others than the first were not asked for
                    continue
                if choice.delta is not None:
                    yield from _deltas(draft, choice.delta)
                finish = choice.finish_reason or finish
            if chunk.usage:
                draft.usage = _usage(chunk.usage)
                yield UsageUpdated(draft.usage)
        # "[DONE]" alone says nothing about the answer; but usage is told at its end.
        if not finish and not (is_done and draft.usage.output_tokens):
            raise cut_off()
        yield from draft.finish(_stop(draft, finish), finish)

    def decode_reply(self, body: bytes) -> Iterator[Event]:
        reply = read(_replies, body)
        if reply.error:
            raise error_in_answer(reply.error)
        draft = Draft(self.name)
        draft.model = reply.model or ""
        yield MessageStarted(draft.model, reply.id or "")
        if not reply.choices or reply.choices[0].message is None:
            raise cut_off()
        choice = reply.choices[0]
        assert choice.message is not None
        yield from _deltas(draft, choice.message)
        if reply.usage:
            draft.usage = _usage(reply.usage)
            yield UsageUpdated(draft.usage)
        finish = choice.finish_reason or "stop"
        yield from draft.finish(_stop(draft, finish), finish)


# -- to the provider -------------------------------------------------------------------


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "parameters": tool.parameters}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": function}


def _choice(choice: str) -> Any:
    if choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}


def _encode(turn: Turn) -> bytes:
    said = _user(turn) if isinstance(turn, UserTurn) else _assistant(turn)
    return b",".join(map(msgspec.json.encode, said))


def _user(turn: UserTurn) -> Iterator[dict[str, Any]]:
    pictures: list[UserBlock] = []
    for result in turn.results:
        yield {
            "role": "tool",
            "tool_call_id": result.call_id,
            "content": _result(result),
        }
        # Results are words here; what is to be seen follows as if the user showed it.
        pictures += [b for b in result.content if isinstance(b, (Image, File))]
    content = [_part(block) for block in (*pictures, *turn.content)]
    if len(content) == 1 and content[0]["type"] == "text":
        yield {"role": "user", "content": content[0]["text"]}
    elif content:
        yield {"role": "user", "content": content}


def _result(result: ToolResult) -> str:
    words = "\n".join(words_of(block) for block in result.content)
    return f"Error: {words}" if result.is_error else words or "(no output)"


def _part(block: UserBlock) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if isinstance(block, Image):
        return {"type": "image_url", "image_url": {"url": url_of(block)}}
    file = {"filename": block.name, "file_data": url_of(block)}
    return {"type": "file", "file": file}


def _assistant(turn: AssistantTurn) -> Iterator[dict[str, Any]]:
    words: list[str] = []
    refusals: list[str] = []
    for message in turn.messages:
        for block in message.content:
            if isinstance(block, Text):
                words.append(block.text)
            elif isinstance(block, Refusal):
                refusals.append(block.text)
    calls = [_call(call) for call in turn.calls.values()]
    said: dict[str, Any] = {"role": "assistant"}
    text = "".join(words)
    if text.strip() or not (calls or refusals):
        said["content"] = text if text.strip() else "(nothing)"
    if refusals:
        said["refusal"] = "".join(refusals)
    if calls:
        said["tool_calls"] = calls
    yield said


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.call_id, "type": "function", "function": function}


# -- from the provider -----------------------------------------------------------------


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class _ToolCall(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: Any = None
    reasoning_content: str | None = None
    reasoning: Any = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None
    function_call: _Function | None = None


class _Choice(msgspec.Struct):
    index: int | None = None
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


_chunks: Final = msgspec.json.Decoder(_Chunk)
_replies: Final = _chunks


def _deltas(draft: Draft, delta: _Delta) -> Iterator[Event]:
    thinking = delta.reasoning_content or delta.reasoning
    if thinking and isinstance(thinking, str):
        yield draft.thinking(thinking)
    content = delta.content
    if content:
        text = content if isinstance(content, str) else _text_of(content)
        if text:
            yield draft.text(text)
    if delta.refusal:
        draft.refusal(delta.refusal)
    if delta.tool_calls:
        for call in delta.tool_calls:
            yield from _call_delta(draft, call)
    if delta.function_call is not None:
        yield from _call_delta(draft, _ToolCall(0, None, delta.function_call))


def _text_of(parts: Any) -> str:
    """Return the words of content that comes in parts, as some imitators send it."""
    if not isinstance(parts, list):
        return ""
    found = (part.get("text") for part in parts if isinstance(part, dict))
    return "".join(text for text in found if isinstance(text, str))


def _call_delta(draft: Draft, call: _ToolCall) -> Iterator[Event]:
    function = call.function or _Function()
    key = _key(draft, call, function)
    if key is None:
        return
    if not draft.has_call(key):
        yield draft.start_call(key, call.id or "", function.name or "")
    arguments = function.arguments
    if isinstance(arguments, str):
        if arguments:
            yield draft.arguments(key, arguments)
    elif arguments is not None:  # sent whole, and not as text
        yield draft.arguments(key, msgspec.json.encode(arguments).decode())


def _key(draft: Draft, call: _ToolCall, function: _Function) -> object:
    """Return what a call goes by.

    That is its index. Where there is none, an id that is new, or a name, begins a call,
    and anything else goes on with the last.
    """
    if call.index is not None:
        return call.index
    if call.id:
        return call.id
    if function.name:
        return ("unnamed", len(draft.calls))
    return next(reversed(draft.calls), None)


def _stop(draft: Draft, finish: str) -> StopReason:
    stop = _STOPS.get(finish, "other")
    # Some say "stop", or a word of their own, though there are calls.
    if draft.has_calls and stop in ("end_turn", "other"):
        return "tool_calls"
    return stop


def _usage(usage: dict[str, Any]) -> Usage:
    cached = at(usage, "prompt_tokens_details", "cached_tokens")
    reasoning = at(usage, "completion_tokens_details", "reasoning_tokens")
    return Usage(
        integer(usage.get("prompt_tokens")),
        integer(usage.get("completion_tokens")),
        integer(cached),
        reasoning_tokens=integer(reasoning),
    )
