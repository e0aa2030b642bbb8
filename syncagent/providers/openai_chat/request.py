"""Requests in the dialect of OpenAI's Chat Completions, and of compatible servers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from ...events import Event
from ...exceptions import ConfigurationError
from ...messages import Message
from ...options import Options, OutputFormat, ServerTool, ToolSpec, WebSearch
from ...sse import ServerSentEvent
from ...transcript.transcript import Piece, Transcript
from ..cache_keys import openai_cache_fields
from ..dialect import Dialect, without_none
from ..draft import Draft
from ..encoding import json_bytes
from ..families import check_sampling
from ..strict_schemas import openai_format
from . import response
from .families import (
    OPENAI_FAMILIES,
    effort_fields,
    find_family,
    possible_effort,
)
from .turns import TurnEncoder


class OpenAIChatDialect(Dialect):
    """``/chat/completions``."""

    name: ClassVar[str] = "openai-chat"
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
        )
        fields |= self._thinking_fields(model, tools, options)
        if tools or options.server_tools:
            fields |= self._tool_fields(model, tools, options)
        if options.output is not None:
            output = openai_format(options.output)
            fields["response_format"] = {"type": "json_schema", "json_schema": output}
        for official, name in self.quirks.field_names.items():
            value = fields.pop(official, None)
            if name is not None and value is not None:
                fields[name] = value
        return fields

    def _thinking_fields(
        self, model: str, tools: Sequence[ToolSpec], options: Options
    ) -> dict[str, Any]:
        asked = (options.effort, options.temperature, options.top_p)
        if not tools and asked == (None, None, None):
            return {}
        family = find_family(model, self.quirks.families or OPENAI_FAMILIES)
        effort = possible_effort(model, family, options, has_tools=bool(tools))
        check_sampling(
            model, family.sampling, options, effort, can_stop=family.can_stop
        )
        return {} if effort is None else effort_fields(model, family, effort)

    def _tool_fields(
        self, model: str, tools: Sequence[ToolSpec], options: Options
    ) -> dict[str, Any]:
        functions = (
            without_none(
                name=tool.name,
                parameters=tool.parameters,
                description=tool.description or None,
            )
            for tool in tools
        )
        own: list[dict[str, Any]] = [
            {"type": "function", "function": function} for function in functions
        ]
        choice: Any = options.tool_choice
        if choice is not None:
            is_mode = choice in ("auto", "none", "required")
            kind = choice if is_mode else "named"
            if kind not in ("auto", *self.quirks.tool_choices):
                raise ConfigurationError(
                    f"{self.endpoint} models do not take tool_choice={choice!r}; leave "
                    "it out"
                )
            if not is_mode:
                choice = {"type": "function", "function": {"name": choice}}
        return without_none(
            tools=own + self.server_tools(model, options),
            tool_choice=choice,
            parallel_tool_calls=options.parallel_tool_calls,
        )

    def server_tool(self, model: str, tool: ServerTool) -> dict[str, Any]:
        if not isinstance(tool, WebSearch) or not self.quirks.web_search:
            return super().server_tool(model, tool)
        parameters = without_none(
            allowed_domains=list(tool.allowed_domains) or None,
            excluded_domains=list(tool.blocked_domains) or None,
            max_uses=tool.max_uses,
        )
        search: dict[str, Any] = {"type": self.quirks.web_search}
        return {**search, "parameters": parameters} if parameters else search

    def cache_fields(
        self, transcript: Sequence[Message], options: Options
    ) -> dict[str, Any]:
        return openai_cache_fields(self.issuer, transcript, options)

    def conversation(
        self, model: str, transcript: Transcript, options: Options
    ) -> tuple[str, list[Piece]]:
        encode = TurnEncoder(self.issuer, self.quirks)
        pieces = transcript.encode(self.encoding, encode)
        if options.system:
            system = {"role": "system", "content": options.system}
            pieces = [json_bytes(system), b",", *pieces]
        if options.prefill:
            way = self.quirks.prefill
            if way == "answers":
                raise ConfigurationError(
                    f"{self.endpoint} models cannot continue a prefill; they would "
                    "answer it. Say in the prompt how the response begins"
                )
            prefill: dict[str, Any] = {"role": "assistant", "content": options.prefill}
            if way != "continues":
                prefill[way] = True
            pieces += [b",", json_bytes(prefill)]
        return "messages", pieces

    is_end = staticmethod(response.is_end)

    def decode(
        self, stream: Iterable[ServerSentEvent], draft: Draft | None = None
    ) -> Iterator[Event]:
        return response.decode(stream, draft or Draft(self.issuer))

    def decode_body(self, body: bytes, draft: Draft | None = None) -> Iterator[Event]:
        return response.decode_body(body, draft or Draft(self.issuer))
