"""Requests in the dialect of Google's Gemini API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from ...events import Event
from ...exceptions import ConfigurationError
from ...options import (
    CodeExecution,
    FileSearch,
    Options,
    OutputFormat,
    ServerTool,
    ToolSpec,
    WebSearch,
)
from ...sse import ServerSentEvent
from ...transcript.transcript import Piece, Transcript
from ..dialect import Dialect, without_none
from ..draft import Draft
from ..encoding import json_bytes
from ..strict_schemas import gemini_schema, with_format_in_system
from . import response
from .families import find_family
from .response import NAME
from .thinking import thinking_config
from .turns import encode_turn

_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


class GeminiDialect(Dialect):
    """``models/NAME:streamGenerateContent?alt=sse``."""

    name: ClassVar[str] = NAME

    def can_enforce(
        self, model: str, tools: Sequence[ToolSpec], output: OutputFormat
    ) -> bool:
        # Before version 3, a response schema and tools exclude each other.
        return not tools or find_family(model).is_current

    def fields(
        self, model: str, tools: Sequence[ToolSpec], options: Options, *, stream: bool
    ) -> dict[str, Any]:
        family = find_family(model)
        if options.parallel_tool_calls is False:
            raise ConfigurationError(
                "gemini models cannot be limited to one tool call at a time; leave out "
                "parallel_tool_calls"
            )
        if options.prefill and not family.takes_prefill:
            raise ConfigurationError(
                f"{model} does not continue a prefill: Google removed it with Gemini "
                "3.5; leave it out, and say in the system prompt how to begin"
            )
        own = self.server_tools(model, options)
        config = self._tool_config(model, options, bool(tools), bool(own))
        if own and options.output is not None and not family.is_current:
            options = with_format_in_system(options)
        fields: dict[str, Any] = {}
        if options.system:
            fields["systemInstruction"] = {"parts": [{"text": options.system}]}
        declared = [
            without_none(
                name=tool.name,
                parametersJsonSchema=tool.parameters,
                description=tool.description or None,
            )
            for tool in tools
        ]
        if declared:
            own = [{"functionDeclarations": declared}, *own]
        if own:
            fields["tools"] = own
        if config:
            fields["toolConfig"] = config
        generation = _generation_config(model, options)
        if generation:
            fields["generationConfig"] = generation
        return fields

    def server_tool(self, model: str, tool: ServerTool) -> dict[str, Any]:
        is_vertex = self.quirks.is_vertex
        if isinstance(tool, CodeExecution):
            return {"codeExecution": {}}
        if isinstance(tool, WebSearch):
            blocked = list(tool.blocked_domains)
            if tool.allowed_domains or tool.max_uses or (blocked and not is_vertex):
                raise ConfigurationError(
                    f"{self.endpoint} models search without limits; leave out "
                    "allowed_domains and max_uses of WebSearch, and except on Vertex "
                    "blocked_domains"
                )
            return {"googleSearch": {"excludeDomains": blocked} if blocked else {}}
        if isinstance(tool, FileSearch) and not is_vertex:
            stores = list(tool.stores)
            search = without_none(fileSearchStoreNames=stores, topK=tool.max_results)
            return {"fileSearch": search}
        return super().server_tool(model, tool)

    def _tool_config(
        self, model: str, options: Options, has_tools: bool, has_server_tools: bool
    ) -> dict[str, Any]:
        config: dict[str, Any] = {}
        is_mixed = has_tools and has_server_tools
        if is_mixed and not find_family(model).is_current:
            raise ConfigurationError(
                f"{model} cannot have tools and server_tools in one request; use "
                "Gemini 3 or later, or leave out one of the two"
            )
        choice = options.tool_choice
        if has_tools and choice is not None:
            mode: dict[str, Any] = {"mode": _MODES.get(choice, "ANY")}
            if choice not in _MODES:
                mode["allowedFunctionNames"] = [choice]
            elif choice == "auto" and is_mixed:
                mode["mode"] = "VALIDATED"  # the mode of both kinds together
            config["functionCallingConfig"] = mode
        if is_mixed and not self.quirks.is_vertex:
            config["includeServerSideToolInvocations"] = True
        return config

    def conversation(
        self, model: str, transcript: Transcript, options: Options
    ) -> tuple[str, list[Piece]]:
        is_current = find_family(model).is_current
        encode = partial(encode_turn, issuer=self.issuer, is_current=is_current)
        pieces = transcript.encode((self.encoding, is_current), encode)
        if options.prefill:
            prefill = {"role": "model", "parts": [{"text": options.prefill}]}
            pieces += [b",", json_bytes(prefill)]
        return "contents", pieces

    is_end = staticmethod(response.is_end)

    def decode(
        self, stream: Iterable[ServerSentEvent], draft: Draft | None = None
    ) -> Iterator[Event]:
        return response.decode(stream, draft or Draft(self.issuer))

    def decode_body(self, body: bytes, draft: Draft | None = None) -> Iterator[Event]:
        return response.decode_body(body, draft or Draft(self.issuer))


def _generation_config(model: str, options: Options) -> dict[str, Any]:
    config = without_none(
        temperature=options.temperature,
        topP=options.top_p,
        maxOutputTokens=options.max_tokens,
        stopSequences=list(options.stop) or None,
        seed=options.seed,
        thinkingConfig=thinking_config(model, options),
    )
    if options.output is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = gemini_schema(options.output.schema)
    return config
