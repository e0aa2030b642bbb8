"""Chat Completions, as OpenAI has it, and everything that imitates it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, ClassVar, Final

from ...events import Event, MessageStarted, UsageUpdated
from ...messages import File, Image, Refusal, Text, ToolCall, ToolResult, UserBlock
from ...options import Options, OutputFormat, ToolSpec
from ...sse import ServerSentEvent
from ...transcript.transcript import Piece, Transcript
from ...transcript.turns import AssistantTurn, Turn, UserTurn
from ..blocks import arguments_of, encoded, name_of, url_of, words_of
from ..dialect import Dialect, cut_off, given
from ..draft import Draft
from ..refusals import error_in_answer
from ..schemas import enforceable
from .response import (
    Calls,
    Choice,
    check,
    more,
    read_event,
    read_reply,
    rest,
    stop_reason,
    usage_of,
)

#: How long an id is where it must be short.
_SHORT: Final = 9


class OpenAIChatDialect(Dialect):
    """``/chat/completions``.

    :param words: what imitators call a field of OpenAI's; ``None`` if they have no word
        for it, and it is not needed.
    :param has_short_ids: must ids of calls be nine letters and digits?
    """

    name: ClassVar[str] = "openai-chat"
    unknown_options: ClassVar[frozenset[str]] = frozenset(
        {"thinking_tokens", "prefill"}
    )

    def __init__(
        self,
        words: Mapping[str, str | None] | None = None,
        *,
        has_short_ids: bool = False,
    ) -> None:
        self._words = words or {}
        self._has_short_ids = has_short_ids
        if self._words:  # OpenAI answers a prefill, imitators go on with it
            self.unknown_options = self.unknown_options - {"prefill"}  # type: ignore[misc]

    def _enforces(
        self, model: str, tools: Sequence[ToolSpec], output: OutputFormat
    ) -> bool:
        return self._words.get("response_format", "") is not None

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
        head = given(
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
        if self._has_short_ids:
            pieces = transcript.encode(f"{self.name}, short ids", _encode_short)
        else:
            pieces = transcript.encode(self.name, _encode)
        if options.system:
            said = {"role": "system", "content": options.system}
            pieces = [encoded(said), b",", *pieces]
        if options.prefill:
            begun = {"role": "assistant", "content": options.prefill}
            pieces += [b",", encoded(begun)]
        return "messages", pieces

    def is_end(self, event: ServerSentEvent) -> bool:
        # Inside of a string quotes are escaped, so this is the key itself.
        data = event.data
        return (
            'finish_reason":"' in data
            or 'finish_reason": "' in data
            or data == "[DONE]"
        )

    def decode(
        self, stream: Iterable[ServerSentEvent], draft: Draft | None = None
    ) -> Iterator[Event]:
        draft = draft or Draft(self.name)
        finish, has_begun, is_done = "", False, False
        calls = Calls(draft)
        for event in stream:
            if event.data == "[DONE]":
                is_done = True
                continue
            chunk = read_event(event.data)
            if chunk.error:
                raise error_in_answer(chunk.error)
            if not has_begun and (chunk.choices or chunk.model):
                has_begun = True
                for choice in chunk.choices or ():
                    check(choice)
                draft.model = chunk.model or ""
                yield MessageStarted(draft.model, chunk.id or "")
            for choice in chunk.choices or ():
                if choice.index:  # others than the first were not asked for
                    continue
                delta = choice.delta
                if delta is not None:
                    yield from more(draft, calls, delta)
                if choice.finish_reason or choice.error:
                    check(choice)
                    finish = choice.finish_reason or finish
                # Some repeat all that was said with every delta.
                if choice.message and (finish or not (delta and delta.content)):
                    yield from rest(draft, calls, choice.message)
            if chunk.usage:
                draft.usage = usage_of(chunk.usage)
                yield UsageUpdated(draft.usage)
        # "[DONE]" alone says nothing about the answer; but usage is told at its end.
        if not finish and not (is_done and draft.usage.output_tokens):
            raise cut_off()
        yield from calls.end()
        yield from draft.finish(stop_reason(draft, finish), finish)

    def decode_reply(self, body: bytes) -> Iterator[Event]:
        reply = read_reply(body)
        if reply.error:
            raise error_in_answer(reply.error)
        choice = reply.choices[0] if reply.choices else Choice()
        check(choice)
        draft = Draft(self.name)
        draft.model = reply.model or ""
        yield MessageStarted(draft.model, reply.id or "")
        if choice.message is None:
            raise cut_off()
        calls = Calls(draft)
        yield from rest(draft, calls, choice.message)
        yield from calls.end()
        if reply.usage:
            draft.usage = usage_of(reply.usage)
            yield UsageUpdated(draft.usage)
        finish = choice.finish_reason or "stop"
        yield from draft.finish(stop_reason(draft, finish), finish)


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
    return b",".join(map(encoded, said))


def _encode_short(turn: Turn) -> bytes:
    said = list(_user(turn) if isinstance(turn, UserTurn) else _assistant(turn))
    for message in said:
        if "tool_call_id" in message:
            message["tool_call_id"] = _short(message["tool_call_id"])
        for call in message.get("tool_calls", ()):
            call["id"] = _short(call["id"])
    return b",".join(map(encoded, said))


def _short(call_id: str) -> str:
    """Return an id of nine letters and digits, the same one for the same id."""
    if len(call_id) == _SHORT and call_id.isalnum():
        return call_id
    return sha256(call_id.encode()).hexdigest()[:_SHORT]


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
    if block.url and not block.url.startswith("data:"):
        # It takes bytes only; that there is such a file is still worth saying.
        return {"type": "text", "text": f"(a file, at {block.url})"}
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
    # Strict servers read the arguments of every call, in every request.
    arguments = bytes(arguments_of(call)).decode()
    function = {"name": name_of(call, 64), "arguments": arguments}
    return {"id": call.call_id, "type": "function", "function": function}
