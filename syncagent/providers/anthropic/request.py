"""Requests in the dialect of Anthropic's Messages API."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final

import msgspec

from ...events import Event, MessageStarted
from ...exceptions import ConfigurationError
from ...messages import (
    AssistantBlock,
    AssistantMessage,
    File,
    Image,
    Message,
    ProviderBlock,
    RedactedThinking,
    Refusal,
    ResultBlock,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserBlock,
    UserMessage,
)
from ...options import BUDGETS, Options, OutputFormat, ToolSpec
from ...sse import ServerSentEvent
from ...transcript.transcript import Piece, Transcript
from ...transcript.turns import AssistantTurn, Turn, UserTurn, turns
from ..blocks import arguments_of, base64_of, encoded, name_of, words_of
from ..dialect import Dialect, cut_off, given, read
from ..draft import Draft
from ..refusals import error_in_answer
from ..schemas import closed, parts
from .response import (
    NAME,
    Blocks,
    MessageBody,
    count,
    kind_of,
    read_event,
    replies,
    stop_reason,
)

#: How many tokens an answer may have if nobody says so; the provider wants a number.
_MAX_TOKENS: Final = 8192


_LEAST_BUDGET: Final = 1024


#: Models that were there before forms could be enforced.
_WITHOUT_FORMS: Final = re.compile(r"claude-(?:instant|[123]\b|\w+-4-(?:0\b|20))")


#: How many places of a form may have a choice of types.
_MAX_CHOICES: Final = 16


class AnthropicDialect(Dialect):
    """``/v1/messages``."""

    name: ClassVar[str] = NAME

    def build_payload(
        self,
        model: str,
        messages: Sequence[Message] | str,
        tools: Sequence[ToolSpec] = (),
        options: Options = Options(),  # noqa: B008 - it is frozen
        *,
        stream: bool = True,
    ) -> bytes:
        if options.prefill and options.output is not None:
            raise ConfigurationError(f"{NAME} models take no prefill beside output")
        transcript = (
            messages if isinstance(messages, Transcript) else Transcript(messages)
        )
        budget = (_thinking(options) or {}).get("budget_tokens", 0)
        if budget and not _may_think(transcript):
            _check(options, is_thinking=True, has_tools=bool(tools))
            options = msgspec.structs.replace(
                options,
                effort=None,
                thinking_tokens=None,
                max_tokens=options.max_tokens or budget + _MAX_TOKENS,
            )
        return super().build_payload(model, transcript, tools, options, stream=stream)

    def _enforces(
        self, model: str, tools: Sequence[ToolSpec], output: OutputFormat
    ) -> bool:
        form = None if _WITHOUT_FORMS.search(model) else closed(output.schema)
        if form is None:
            return False
        each = list(parts(form))
        choices = ["anyOf" in one or isinstance(one.get("type"), list) for one in each]
        # Nothing that contains itself, and not too much of that.
        return sum(choices) <= _MAX_CHOICES and not any("$ref" in one for one in each)

    def _head(
        self, model: str, tools: Sequence[ToolSpec], options: Options, *, stream: bool
    ) -> dict[str, Any]:
        thinking = _thinking(options)
        budget = (thinking or {}).get("budget_tokens", 0)
        _check(options, is_thinking=bool(budget), has_tools=bool(tools))
        tokens = options.max_tokens or budget + _MAX_TOKENS
        user = options.metadata.get("user_id")
        head = given(
            model=model,
            max_tokens=tokens,
            stream=stream,
            temperature=options.temperature,
            top_p=options.top_p,
            stop_sequences=list(options.stop) or None,
            thinking=thinking,
            metadata={"user_id": user} if user else None,
            system=_system(options),
        )
        if tools:
            head["tools"] = [_tool(tool) for tool in tools]
            if options.cache:
                head["tools"][-1]["cache_control"] = MARK
            choice = _choice(options)
            if choice is not None:
                head["tool_choice"] = choice
        if options.output is not None:
            form = closed(options.output.schema)
            wanted = {"type": "json_schema", "schema": form}
            head["output_config"] = {"format": wanted}
        return head

    def _body(
        self, transcript: Transcript, options: Options
    ) -> tuple[str, list[Piece]]:
        encode_last: Callable[[Turn], bytes] | None = None
        if options.cache:
            encode_last = encode_marked
        if not options.prefill and _is_paused(transcript):
            encode_last = encode_results
        # The last turn is not remembered, so that marks never get among the others.
        *settled, last = transcript.encode(self.name, encode, encode_last)
        pieces = [*settled, last.removesuffix(b",")]
        if options.prefill:
            begun = [{"type": "text", "text": options.prefill}]
            said = {"role": "assistant", "content": begun}
            pieces += [b",", encoded(said)]
        return "messages", pieces

    def is_end(self, event: ServerSentEvent) -> bool:
        if event.event == "message_stop":
            return True
        # The words may be a part of the answer; then it takes a closer look.
        return '"message_stop"' in event.data and kind_of(event) == "message_stop"

    def decode(
        self, stream: Iterable[ServerSentEvent], draft: Draft | None = None
    ) -> Iterator[Event]:
        draft = draft or Draft(self.name)
        finish, has_begun, is_done = "", False, False
        blocks, counts = Blocks(draft), dict[str, int]()
        for event in stream:
            said = read_event(event)
            kind = said.type or event.event
            if kind == "content_block_delta":
                if said.delta is not None:
                    more = blocks.delta(said.index, said.delta)
                    if more is not None:
                        yield more
            elif kind == "content_block_start":
                yield from blocks.start(said.index, said.content_block or {})
            elif kind == "content_block_stop":
                yield from blocks.stop(said.index)
            elif kind == "error" or said.error:
                raise error_in_answer(said.error or {})
            elif kind == "message_start" and not has_begun:
                has_begun = True
                start = said.message or MessageBody()
                draft.model = start.model or ""
                yield MessageStarted(draft.model, start.id or "")
                yield from count(draft, counts, start.usage)
            elif kind == "message_delta":
                if said.delta is not None:
                    finish = said.delta.stop_reason or finish
                yield from count(draft, counts, said.usage)
            elif kind == "message_stop":
                is_done = True
        if not is_done or not (has_begun or finish):
            raise cut_off()
        yield from blocks.stop_all()
        yield from draft.finish(stop_reason(draft, finish), finish)

    def decode_reply(self, body: bytes) -> Iterator[Event]:
        reply = read(replies, body)
        if reply.type == "error" or reply.error:
            raise error_in_answer(reply.error or {})
        if reply.content is None:
            raise cut_off()
        draft = Draft(self.name)
        draft.model = reply.model or ""
        yield MessageStarted(draft.model, reply.id or "")
        blocks = Blocks(draft)
        for number, block in enumerate(reply.content):
            yield from blocks.start(number, block)
            yield from blocks.stop(number)
        yield from count(draft, {}, reply.usage)
        finish = reply.stop_reason or ""
        yield from draft.finish(stop_reason(draft, finish), finish)


def _thinking(options: Options) -> dict[str, Any] | None:
    budget, limit = options.thinking_tokens, options.max_tokens
    if budget is None:
        if options.effort is None:
            return None
        budget = BUDGETS[options.effort]
        if not budget:
            return {"type": "disabled"}
        if limit is not None:  # an effort is no number: leave half for the answer
            budget = max(_LEAST_BUDGET, min(budget, limit // 2))
    if budget < _LEAST_BUDGET:
        raise ConfigurationError(
            f"{NAME} models think with at least {_LEAST_BUDGET} tokens; got {budget}"
        )
    if limit is not None and limit <= budget:
        raise ConfigurationError(
            f"max_tokens={limit} leaves nothing for an answer after {budget} tokens "
            "of thinking; give more, or have it think less"
        )
    return {"type": "enabled", "budget_tokens": budget}


def _check(options: Options, *, is_thinking: bool, has_tools: bool) -> None:
    """Refuse what the provider takes alone, but not together."""
    is_forced = has_tools and options.tool_choice not in (None, "auto", "none")
    for name, is_wrong in (
        ("a temperature other than 1", options.temperature not in (None, 1)),
        ("a top_p below 0.95", options.top_p is not None and options.top_p < 0.95),
        ("a tool_choice that forces a call", is_forced),
        ("prefill", options.prefill != ""),
    ):
        if is_thinking and is_wrong:
            raise ConfigurationError(
                f"{NAME} models that think take no {name}; leave out one of the two"
            )
    if options.temperature is not None and options.top_p is not None:
        raise ConfigurationError(
            f"{NAME} models take no top_p beside temperature; leave out one of the two"
        )
    if options.prefill != options.prefill.rstrip():
        raise ConfigurationError(
            f"{NAME} models take no prefill that ends with white space; the answer "
            "can begin with it instead"
        )


def _system(options: Options) -> Any:
    if not options.system.strip():
        return None
    if not options.cache:
        return options.system
    return [{"type": "text", "text": options.system, "cache_control": MARK}]


def _tool(tool: ToolSpec) -> dict[str, Any]:
    said: dict[str, Any] = {"name": tool.name, "input_schema": tool.parameters}
    if tool.description:
        said["description"] = tool.description
    return said


def _choice(options: Options) -> dict[str, Any] | None:
    is_single = options.parallel_tool_calls is False
    wanted = options.tool_choice or ("auto" if is_single else None)
    if wanted is None:
        return None
    if wanted == "none":
        return {"type": "none"}
    choice: dict[str, Any] = {"type": {"required": "any"}.get(wanted, wanted)}
    if wanted not in ("auto", "required"):
        choice = {"type": "tool", "name": wanted}
    if is_single:
        choice["disable_parallel_tool_use"] = True
    return choice


def _is_paused(transcript: Transcript) -> bool:
    """Is the provider in the middle of its own tools? Then nobody says "continue"."""
    last = transcript[-1] if len(transcript) else None
    if not isinstance(last, AssistantMessage) or last.is_cut or not last.content:
        return False
    end = last.content[-1]
    is_ours = isinstance(end, ProviderBlock) and end.provider == NAME
    return is_ours and last.stop_reason == "pause"


def _may_think(transcript: Transcript) -> bool:
    """Would the provider let a model think now?

    In the middle of tool calls only one that has begun them with thinking may go on
    with it, and has to. Calls that another provider's model has made, or whose thinking
    was cut, must be finished without.
    """
    begin, has_user = len(transcript), False
    for number in reversed(range(len(transcript))):
        message = transcript[number]
        if isinstance(message, AssistantMessage):
            # Without calls it is of an earlier turn, or the beginning of a joined one.
            is_before = has_user or begin == len(transcript)
            if is_before and not message.tool_calls:
                break
            begin, has_user = number, False
        elif isinstance(message, UserMessage):
            has_user = has_user or any(
                not isinstance(block, Text) or block.text.strip()
                for block in message.content
            )
    first = next(turns(transcript, begin, is_beginning=False))
    return not isinstance(first, AssistantTurn) or begins_with_thinking(first)


#: Asks the provider to keep all up to here in its cache.
MARK: Final = {"type": "ephemeral"}


_THINKING: Final = ("thinking", "redacted_thinking")


_PICTURES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def encode(turn: Turn) -> bytes:
    """Return a turn as JSON."""
    said = _user(turn) if isinstance(turn, UserTurn) else _assistant(turn)
    return encoded(said)


def encode_marked(turn: Turn) -> bytes:
    """Return the last turn, marked for the provider's cache."""
    assert isinstance(turn, UserTurn)
    said = _user(turn)
    said["content"][-1]["cache_control"] = MARK
    return encoded(said)


def encode_results(turn: Turn) -> bytes:
    """Return the results in the last turn, nothing if there are none."""
    return encode(turn) if isinstance(turn, UserTurn) and turn.results else b""


def begins_with_thinking(turn: AssistantTurn) -> bool:
    """Is thinking the first thing in *turn*, as the provider gets it?"""
    return _assistant(turn)["content"][0]["type"] in _THINKING


def _user(turn: UserTurn) -> dict[str, Any]:
    content = [_result(result) for result in turn.results]
    for result in turn.results:
        if result.is_error:  # it is words alone; the user shows the rest
            content += [_part(b) for b in result.content if _is_to_see(b)]
    content += [_part(block) for block in turn.content]
    return {"role": "user", "content": content}


def _result(result: ToolResult) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for block in result.content:
        if _is_to_see(block) and not result.is_error:
            parts.append(_part(block))
        else:
            words = _words(block)
            parts += [{"type": "text", "text": words}] if words.strip() else []
    said: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": result.call_id,
        "content": parts or [{"type": "text", "text": "(no output)"}],
    }
    if result.is_error:
        said["is_error"] = True
    return said


def _words(block: ResultBlock) -> str:
    if isinstance(block, (Image, File)) and not _is_to_see(block):
        return f"(something of type {block.media_type}, which cannot be shown)"
    return words_of(block)


def _is_to_see(block: object) -> bool:
    """Is it a picture or a document, of a kind that the provider takes?"""
    if isinstance(block, Image):
        return block.url != "" or _media_type(block) in _PICTURES
    return isinstance(block, File) and (
        block.url != "" or block.media_type == "application/pdf" or _is_plain(block)
    )


def _media_type(image: Image) -> str:
    return "image/jpeg" if image.media_type == "image/jpg" else image.media_type


def _is_plain(file: File) -> bool:
    return file.media_type.startswith(("text/", "application/json"))


def _part(block: UserBlock | ResultBlock) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if not isinstance(block, (Image, File)) or not _is_to_see(block):
        kind = getattr(block, "media_type", "json")
        raise ConfigurationError(
            f"{NAME} models take no {kind}; they take JPEG, PNG, GIF and WebP, PDF "
            "and plain text"
        )
    if isinstance(block, Image):
        return {"type": "image", "source": _source(block, _media_type(block))}
    said = {"type": "document", "source": _source(block, block.media_type)}
    return {**said, "title": block.name} if block.name else said


def _source(block: Image | File, media_type: str) -> dict[str, str]:
    if block.url:
        return {"type": "url", "url": block.url}
    if isinstance(block, File) and _is_plain(block):
        text = block.data.decode("utf-8", "replace")
        return {"type": "text", "media_type": "text/plain", "data": text}
    return {"type": "base64", "media_type": media_type, "data": base64_of(block)}


def _assistant(turn: AssistantTurn) -> dict[str, Any]:
    calls = dict(turn.calls)
    content: list[dict[str, Any]] = []
    for message in turn.messages:
        for block in message.content:
            if isinstance(block, ToolCall):
                # Of several with the same id, the first is the one that has a result.
                call = calls.pop(block.call_id, None)
                part = _call(call) if call is not None else None
            else:
                part = _own(block, message) or _common(block)
            if part is not None:
                content.append(part)
    while content and content[-1]["type"] in _THINKING:
        content.pop()  # the provider wants something to follow it
    return {
        "role": "assistant",
        "content": content or [{"type": "text", "text": "(nothing)"}],
    }


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": call.call_id,
        "name": name_of(call, 128),
        "input": arguments_of(call),
    }


def _common(block: AssistantBlock) -> dict[str, Any] | None:
    """Return words that may be from anybody, None if there are none."""
    if isinstance(block, (Text, Refusal)) and block.text.strip():
        return {"type": "text", "text": block.text}
    return None


def _own(block: AssistantBlock, message: AssistantMessage) -> dict[str, Any] | None:
    """Return a block that only this provider understands, if it is from there."""
    if isinstance(block, ProviderBlock):
        is_ours = block.provider == NAME
        return block.data if is_ours and not _is_half(block, message) else None
    if message.provider != NAME:
        return None
    if isinstance(block, Thinking) and block.signature:
        said = {"type": "thinking", "thinking": block.text}
        return {**said, "signature": block.signature}
    if isinstance(block, RedactedThinking) and block.data:
        return {"type": "redacted_thinking", "data": block.data}
    if isinstance(block, Text) and block.citations and block.text.strip():
        found = [citation.data for citation in block.citations if citation.data]
        return {"type": "text", "text": block.text, "citations": found}
    return None


def _is_half(block: ProviderBlock, message: AssistantMessage) -> bool:
    """Is it a call of the provider's own whose result was cut off?"""
    if not message.is_cut or "input" not in block.data:
        return False
    others = (b.data for b in message.content if isinstance(b, ProviderBlock))
    return all(other.get("tool_use_id") != block.data.get("id") for other in others)
