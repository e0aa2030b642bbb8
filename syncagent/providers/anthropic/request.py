"""Requests in the dialect of Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import msgspec

from ...events import Event
from ...exceptions import ConfigurationError
from ...messages import AssistantMessage, Message, ProviderBlock, Text, UserMessage
from ...options import (
    CodeExecution,
    Options,
    OutputFormat,
    ServerTool,
    ToolSpec,
    WebSearch,
)
from ...sse import ServerSentEvent
from ...transcript.transcript import Piece, Transcript
from ...transcript.turns import AssistantTurn, Turn, turns
from ..dialect import Dialect, without_none
from ..draft import Draft
from ..encoding import json_bytes
from ..strict_schemas import closed, subschemas
from . import response
from .families import find_family
from .options import (
    MAX_TOKENS,
    check_options,
    max_tokens_of,
    output_config_of,
    thinking_of,
    tool_choice_of,
)
from .response import NAME
from .turns import (
    begins_with_thinking,
    cache_mark,
    encode_marked,
    encode_results,
    encode_turn,
    is_partial,
)

#: How many places of a schema may have a choice of types.
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
            raise ConfigurationError(
                f"{NAME} models cannot have prefill and output together"
            )
        transcript = (
            messages if isinstance(messages, Transcript) else Transcript(messages)
        )
        thinking = thinking_of(model, options) or {}
        budget = thinking.get("budget_tokens", 0)
        if budget and not _may_think(transcript, self.issuer):
            check_options(model, options, thinking, has_tools=bool(tools))
            options = msgspec.structs.replace(
                options,
                effort=None,
                thinking_tokens=None,
                max_tokens=options.max_tokens or budget + MAX_TOKENS,
            )
        return super().build_payload(model, transcript, tools, options, stream=stream)

    def can_enforce(
        self, model: str, tools: Sequence[ToolSpec], output: OutputFormat
    ) -> bool:
        schema = closed(output.schema) if find_family(model).has_formats else None
        if schema is None:
            return False
        each = list(subschemas(schema))
        choices = ["anyOf" in one or isinstance(one.get("type"), list) for one in each]
        # The provider rejects recursive schemas, and those with many choices.
        return sum(choices) <= _MAX_CHOICES and not any("$ref" in one for one in each)

    def server_tool(self, model: str, tool: ServerTool) -> dict[str, Any]:
        if isinstance(tool, CodeExecution):
            is_old = not find_family(model).words
            version = "20250825" if is_old else "20260521"
            return {"type": f"code_execution_{version}", "name": "code_execution"}
        if not isinstance(tool, WebSearch):
            return super().server_tool(model, tool)
        if tool.allowed_domains and tool.blocked_domains:
            raise ConfigurationError(
                f"{NAME} models search the web with allowed_domains or with "
                "blocked_domains; leave out one of the two"
            )
        # All models have this version, at all providers. Later versions filter the
        # results by code, in a container that the next request has to name.
        return without_none(
            type="web_search_20250305",
            name="web_search",
            max_uses=tool.max_uses,
            allowed_domains=list(tool.allowed_domains) or None,
            blocked_domains=list(tool.blocked_domains) or None,
        )

    def fields(
        self, model: str, tools: Sequence[ToolSpec], options: Options, *, stream: bool
    ) -> dict[str, Any]:
        thinking = thinking_of(model, options)
        check_options(model, options, thinking or {}, has_tools=bool(tools))
        user = options.metadata.get("user_id")
        system: Any = options.system if options.system.strip() else None
        if system and options.cache:
            mark = cache_mark(options)
            system = [{"type": "text", "text": system, "cache_control": mark}]
        # Without it, nothing but the defaults has passed the check.
        has_sampling = find_family(model).has_sampling
        version = self.quirks.anthropic_version
        return without_none(
            anthropic_version=version or None,
            model=None if version else model,
            max_tokens=options.max_tokens or max_tokens_of(model, options, thinking),
            stream=stream,
            temperature=options.temperature if has_sampling else None,
            top_p=options.top_p if has_sampling else None,
            stop_sequences=list(options.stop) or None,
            thinking=thinking,
            output_config=output_config_of(model, options) or None,
            metadata={"user_id": user} if user else None,
            system=system,
            **self._tool_fields(model, tools, options),
        )

    def _tool_fields(
        self, model: str, tools: Sequence[ToolSpec], options: Options
    ) -> dict[str, Any]:
        own = [
            without_none(
                name=tool.name,
                input_schema=tool.parameters,
                description=tool.description or None,
            )
            for tool in tools
        ]
        if own and options.cache:
            own[-1]["cache_control"] = cache_mark(options)
        # The mark covers everything before it: the agent's own tools come last.
        every = [*self.server_tools(model, options), *own]
        return {"tools": every, "tool_choice": tool_choice_of(options)} if every else {}

    def conversation(
        self, model: str, transcript: Transcript, options: Options
    ) -> tuple[str, list[Piece]]:
        encode = partial(encode_turn, issuer=self.issuer)
        encode_last: Callable[[Turn], bytes] | None = None
        if options.cache:
            encode_last = partial(encode_marked, mark=cache_mark(options))
        if not options.prefill and _is_paused(transcript, self.issuer):
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
        return response.decode(stream, draft or Draft(self.issuer))

    def decode_body(self, body: bytes, draft: Draft | None = None) -> Iterator[Event]:
        return response.decode_body(body, draft or Draft(self.issuer))


def _is_paused(transcript: Transcript, issuer: str) -> bool:
    """Return whether the provider paused amid its own tools: no user turn follows."""
    last = transcript[-1] if len(transcript) else None
    if not isinstance(last, AssistantMessage) or last.is_cut or not last.content:
        return False
    block = last.content[-1]
    if not isinstance(block, ProviderBlock) or block.provider != issuer:
        return False
    return last.stop_reason == "pause" and not is_partial(block, last)


def _may_think(transcript: Transcript, issuer: str) -> bool:
    """Return whether the provider lets the model think with a budget in this turn.

    Between tool calls, a model must think if the turn began with thinking, and must not
    otherwise. Calls of another provider's model, or calls whose thinking was cut off,
    are finished without thinking.
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
    return begins_with_thinking(first, issuer)
