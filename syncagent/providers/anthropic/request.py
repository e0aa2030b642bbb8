"""Requests in the dialect of Anthropic's Messages API."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import msgspec

from ...events import Event
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
from ..dialect import Dialect, without_none
from ..draft import Draft
from ..encoding import arguments_of, base64_of, json_bytes, text_of, tool_name_of
from ..strict_schemas import closed, subschemas
from . import response
from .response import NAME

#: Default for max_tokens, which the provider requires.
_MAX_TOKENS: Final = 8192
#: The smallest thinking budget that the provider takes.
_MIN_BUDGET: Final = 1024
#: Models that are older than structured output.
_WITHOUT_OUTPUT: Final = re.compile(r"claude-(?:instant|[123]\b|\w+-4-(?:0\b|20))")
#: How many places of a schema may have a choice of types.
_MAX_CHOICES: Final = 16
#: Asks the provider to cache everything up to here.
_CACHE_MARK: Final = {"type": "ephemeral"}
_THINKING: Final = ("thinking", "redacted_thinking")
_IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_MAX_NAME: Final = 128


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
            raise ConfigurationError(
                f"{NAME} models cannot have prefill and output together"
            )
        transcript = (
            messages if isinstance(messages, Transcript) else Transcript(messages)
        )
        budget = (_thinking(options) or {}).get("budget_tokens", 0)
        if budget and not _may_think(transcript, self.origin):
            _check(options, is_thinking=True, has_tools=bool(tools))
            options = msgspec.structs.replace(
                options,
                effort=None,
                thinking_tokens=None,
                max_tokens=options.max_tokens or budget + _MAX_TOKENS,
            )
        return super().build_payload(model, transcript, tools, options, stream=stream)

    def can_enforce(
        self, model: str, tools: Sequence[ToolSpec], output: OutputFormat
    ) -> bool:
        schema = None if _WITHOUT_OUTPUT.search(model) else closed(output.schema)
        if schema is None:
            return False
        each = list(subschemas(schema))
        choices = ["anyOf" in one or isinstance(one.get("type"), list) for one in each]
        # The provider rejects recursive schemas, and those with many choices.
        return sum(choices) <= _MAX_CHOICES and not any("$ref" in one for one in each)

    def fields(
        self, model: str, tools: Sequence[ToolSpec], options: Options, *, stream: bool
    ) -> dict[str, Any]:
        thinking = _thinking(options)
        budget = (thinking or {}).get("budget_tokens", 0)
        _check(options, is_thinking=bool(budget), has_tools=bool(tools))
        user = options.metadata.get("user_id")
        system: Any = options.system if options.system.strip() else None
        if system and options.cache:
            system = [{"type": "text", "text": system, "cache_control": _CACHE_MARK}]
        fields = without_none(
            model=model,
            max_tokens=options.max_tokens or budget + _MAX_TOKENS,
            stream=stream,
            temperature=options.temperature,
            top_p=options.top_p,
            stop_sequences=list(options.stop) or None,
            thinking=thinking,
            metadata={"user_id": user} if user else None,
            system=system,
        )
        if tools:
            fields["tools"] = [
                without_none(
                    name=tool.name,
                    input_schema=tool.parameters,
                    description=tool.description or None,
                )
                for tool in tools
            ]
            if options.cache:
                fields["tools"][-1]["cache_control"] = _CACHE_MARK
            fields |= without_none(tool_choice=_tool_choice(options))
        if options.output is not None:
            schema = closed(options.output.schema)
            fields["output_config"] = {
                "format": {"type": "json_schema", "schema": schema}
            }
        return fields

    def conversation(
        self, model: str, transcript: Transcript, options: Options
    ) -> tuple[str, list[Piece]]:
        encode = partial(encode_turn, origin=self.origin)
        encode_last: Callable[[Turn], bytes] | None = None
        if options.cache:
            encode_last = encode_marked
        if not options.prefill and _is_paused(transcript, self.origin):
            encode_last = encode_results
        # The last turn is not remembered, so no mark gets into the remembered ones.
        *settled, last = transcript.encode(self.encoding, encode, encode_last)
        pieces = [*settled, last.removesuffix(b",")]
        if options.prefill:
            content = [{"type": "text", "text": options.prefill}]
            pieces += [b",", json_bytes({"role": "assistant", "content": content})]
        return "messages", pieces

    is_end = staticmethod(response.is_end)

    def decode(
        self, stream: Iterable[ServerSentEvent], draft: Draft | None = None
    ) -> Iterator[Event]:
        return response.decode(stream, draft or Draft(self.origin))

    def decode_body(self, body: bytes, draft: Draft | None = None) -> Iterator[Event]:
        return response.decode_body(body, draft or Draft(self.origin))


# -- options ---------------------------------------------------------------------------


def _thinking(options: Options) -> dict[str, Any] | None:
    budget, limit = options.thinking_tokens, options.max_tokens
    if budget is None:
        if options.effort is None:
            return None
        budget = BUDGETS[options.effort]
        if not budget:
            return {"type": "disabled"}
        if limit is not None:  # an effort is no exact number: leave half for the text
            budget = max(_MIN_BUDGET, min(budget, limit // 2))
    if budget < _MIN_BUDGET:
        raise ConfigurationError(
            f"{NAME} models think with at least {_MIN_BUDGET} tokens; got {budget}"
        )
    if limit is not None and limit <= budget:
        raise ConfigurationError(
            f"max_tokens={limit} leaves no room for text after {budget} tokens of "
            "thinking; raise max_tokens or lower the thinking"
        )
    return {"type": "enabled", "budget_tokens": budget}


def _check(options: Options, *, is_thinking: bool, has_tools: bool) -> None:
    """Raise ConfigurationError for options that exclude each other."""
    is_forced = has_tools and options.tool_choice not in (None, "auto", "none")
    for name, is_wrong in (
        ("a temperature other than 1", options.temperature not in (None, 1)),
        ("a top_p below 0.95", options.top_p is not None and options.top_p < 0.95),
        ("a tool_choice that forces a call", is_forced),
        ("prefill", options.prefill != ""),
    ):
        if is_thinking and is_wrong:
            raise ConfigurationError(
                f"{NAME} models cannot think with {name}; leave out one of the two"
            )
    if options.temperature is not None and options.top_p is not None:
        raise ConfigurationError(
            f"{NAME} models cannot have temperature and top_p together; leave out one "
            "of the two"
        )
    if options.prefill != options.prefill.rstrip():
        raise ConfigurationError(
            f"prefill must not end with white space for {NAME} models; the response "
            "can begin with it instead"
        )


def _tool_choice(options: Options) -> dict[str, Any] | None:
    is_single = options.parallel_tool_calls is False
    name = options.tool_choice or ("auto" if is_single else None)
    if name is None:
        return None
    if name == "none":
        return {"type": "none"}
    choice: dict[str, Any] = {"type": {"required": "any"}.get(name, name)}
    if name not in ("auto", "required"):
        choice = {"type": "tool", "name": name}
    if is_single:
        choice["disable_parallel_tool_use"] = True
    return choice


def _is_paused(transcript: Transcript, origin: str) -> bool:
    """Return whether the provider is amid its own tools: then no user turn follows."""
    last = transcript[-1] if len(transcript) else None
    if not isinstance(last, AssistantMessage) or last.is_cut or not last.content:
        return False
    block = last.content[-1]
    is_ours = isinstance(block, ProviderBlock) and block.provider == origin
    return is_ours and last.stop_reason == "pause"


def _may_think(transcript: Transcript, origin: str) -> bool:
    """Return whether the provider lets the model think in this turn.

    Amid tool calls only a model that began them with thinking may continue to think,
    and then it must. Calls that another provider's model made, or whose thinking was
    cut, have to be finished without.
    """
    begin, has_user = len(transcript), False
    for number in reversed(range(len(transcript))):
        message = transcript[number]
        if isinstance(message, AssistantMessage):
            # Without calls it is an earlier turn, or the beginning of a joined one.
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
    if not isinstance(first, AssistantTurn):
        return True
    return _assistant(first, origin)["content"][0]["type"] in _THINKING


# -- turns -----------------------------------------------------------------------------


def encode_turn(turn: Turn, origin: str) -> bytes:
    """Return a turn as JSON."""
    if isinstance(turn, UserTurn):
        return json_bytes(_user(turn))
    return json_bytes(_assistant(turn, origin))


def encode_marked(turn: Turn) -> bytes:
    """Return the last turn, marked for the provider's cache."""
    assert isinstance(turn, UserTurn)
    message = _user(turn)
    message["content"][-1]["cache_control"] = _CACHE_MARK
    return json_bytes(message)


def encode_results(turn: Turn) -> bytes:
    """Return the last turn if it has tool results, else nothing."""
    assert isinstance(turn, UserTurn)
    return json_bytes(_user(turn)) if turn.results else b""


def _user(turn: UserTurn) -> dict[str, Any]:
    content = [_result(result) for result in turn.results]
    for result in turn.results:
        if result.is_error:  # it takes text only; the user turn shows the rest
            content += [_part(b) for b in result.content if _is_attachment(b)]
    content += [_part(block) for block in turn.content]
    return {"role": "user", "content": content}


def _result(result: ToolResult) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for block in result.content:
        is_attachment = _is_attachment(block)
        if is_attachment and not result.is_error:
            parts.append(_part(block))
            continue
        if isinstance(block, (Image, File)) and not is_attachment:
            text = f"(something of type {block.media_type}, which cannot be shown)"
        else:
            text = text_of(block)
        parts += [{"type": "text", "text": text}] if text.strip() else []
    encoded: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": result.call_id,
        "content": parts or [{"type": "text", "text": "(no output)"}],
    }
    if result.is_error:
        encoded["is_error"] = True
    return encoded


def _is_attachment(block: object) -> bool:
    """Return whether it is an image or a document of a type that the provider takes."""
    if isinstance(block, Image):
        return block.url != "" or _media_type(block) in _IMAGE_TYPES
    return isinstance(block, File) and (
        block.url != "" or block.media_type == "application/pdf" or _is_plain(block)
    )


def _media_type(block: Image | File) -> str:
    return "image/jpeg" if block.media_type == "image/jpg" else block.media_type


def _is_plain(file: File) -> bool:
    return file.media_type.startswith(("text/", "application/json"))


def _part(block: UserBlock | ResultBlock) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if not isinstance(block, (Image, File)) or not _is_attachment(block):
        kind = getattr(block, "media_type", "json")
        raise ConfigurationError(
            f"{NAME} models take no {kind}; they take JPEG, PNG, GIF and WebP, PDF "
            "and plain text"
        )
    if block.url:
        source = {"type": "url", "url": block.url}
    elif isinstance(block, File) and _is_plain(block):
        text = block.data.decode("utf-8", "replace")
        source = {"type": "text", "media_type": "text/plain", "data": text}
    else:
        data = base64_of(block)
        source = {"type": "base64", "media_type": _media_type(block), "data": data}
    if isinstance(block, Image):
        return {"type": "image", "source": source}
    document: dict[str, Any] = {"type": "document", "source": source}
    return {**document, "title": block.name} if block.name else document


def _assistant(turn: AssistantTurn, origin: str) -> dict[str, Any]:
    calls = dict(turn.calls)
    content: list[dict[str, Any]] = []
    for message in turn.messages:
        for block in message.content:
            if not isinstance(block, ToolCall):
                part = _own_part(block, message, origin)
                if part is not None:
                    content.append(part)
                elif isinstance(block, (Text, Refusal)) and block.text.strip():
                    content.append({"type": "text", "text": block.text})
            # Of several calls with the same id, the first is the one with a result.
            elif (call := calls.pop(block.call_id, None)) is not None:
                name, arguments = tool_name_of(call, _MAX_NAME), arguments_of(call)
                tool_use = {"type": "tool_use", "id": call.call_id, "name": name}
                content.append({**tool_use, "input": arguments})
    while content and content[-1]["type"] in _THINKING:
        content.pop()  # the provider wants something after it
    return {
        "role": "assistant",
        "content": content or [{"type": "text", "text": "(nothing)"}],
    }


def _own_part(
    block: AssistantBlock, message: AssistantMessage, origin: str
) -> dict[str, Any] | None:
    """Return a block that only this provider understands, if it made the block."""
    if isinstance(block, ProviderBlock):
        is_ours = block.provider == origin
        return block.data if is_ours and not _lacks_result(block, message) else None
    if message.provider != origin:
        return None
    if isinstance(block, Thinking) and block.signature:
        thinking = {"type": "thinking", "thinking": block.text}
        return {**thinking, "signature": block.signature}
    if isinstance(block, RedactedThinking) and block.data:
        return {"type": "redacted_thinking", "data": block.data}
    if isinstance(block, Text) and block.citations and block.text.strip():
        citations = [citation.data for citation in block.citations if citation.data]
        return {"type": "text", "text": block.text, "citations": citations}
    return None


def _lacks_result(block: ProviderBlock, message: AssistantMessage) -> bool:
    """Return whether it is a call of the provider's own whose result was cut off."""
    if not message.is_cut or "input" not in block.data:
        return False
    others = (b.data for b in message.content if isinstance(b, ProviderBlock))
    return all(other.get("tool_use_id") != block.data.get("id") for other in others)
