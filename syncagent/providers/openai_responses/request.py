"""Requests in the dialect of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

from ...events import Event
from ...exceptions import ConfigurationError
from ...messages import Message
from ...options import (
    CodeExecution,
    FileSearch,
    Options,
    ServerTool,
    ToolSpec,
    WebSearch,
)
from ...sse import ServerSentEvent
from ...transcript.transcript import Piece, Transcript
from ..cache_keys import openai_cache_fields
from ..dialect import Dialect, without_none
from ..draft import Draft
from ..families import check_sampling
from ..strict_schemas import openai_format
from . import response
from .families import find_family
from .response import NAME
from .turns import encode_turn

_Data = dict[str, Any]


class OpenAIResponsesDialect(Dialect):
    """``/responses``."""

    name: ClassVar[str] = NAME
    unknown_options: ClassVar[frozenset[str]] = frozenset(
        {"stop", "prefill", "thinking_tokens"}
    )

    def fields(
        self, model: str, tools: Sequence[ToolSpec], options: Options, *, stream: bool
    ) -> _Data:
        family = find_family(model)
        can_stop = "none" in family.efforts
        check_sampling(
            model, family.sampling, options, options.effort, can_stop=can_stop
        )
        fields: _Data = {"model": model, "stream": stream, "store": False}
        if family.reasons:
            # The server stores nothing, so reasoning has to travel with us. A model
            # that does not reason rejects the field.
            fields["include"] = ["reasoning.encrypted_content"]
        effort = options.effort and family.word_for(model, options.effort)
        fields |= without_none(
            instructions=options.system or None,
            temperature=options.temperature,
            top_p=options.top_p,
            max_output_tokens=options.max_tokens,
            # Not every account may see a summary: extra= can ask for one.
            reasoning=effort and {"effort": effort},
            metadata=options.metadata or None,
        )
        own_tools = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,
            }
            for tool in tools
        ]
        if all_tools := own_tools + self.server_tools(model, options):
            fields["tools"] = all_tools
            if options.tool_choice is not None:
                named = {"type": "function", "name": options.tool_choice}
                is_mode = options.tool_choice in ("auto", "none", "required")
                fields["tool_choice"] = options.tool_choice if is_mode else named
            if options.parallel_tool_calls is not None:
                fields["parallel_tool_calls"] = options.parallel_tool_calls
        if options.output is not None:
            output = openai_format(options.output)
            fields["text"] = {"format": {"type": "json_schema", **output}}
        return fields

    def server_tool(self, model: str, tool: ServerTool) -> _Data:
        """Return a typed tool in the provider's own form.

        :raises ConfigurationError: the provider cannot count the uses of one tool.
        """
        if isinstance(tool, WebSearch):
            if tool.max_uses is not None:
                raise ConfigurationError(
                    f"{self.endpoint} models have no WebSearch(max_uses=); leave it "
                    "out, or limit the calls of all server tools with "
                    "extra={'max_tool_calls': ...}"
                )
            filters = self._named(
                allowed_domains=list(tool.allowed_domains),
                blocked_domains=list(tool.blocked_domains),
            )
            return {"type": "web_search", **self._named(filters=filters)}
        if isinstance(tool, CodeExecution):
            container = self._named(container={"type": "auto"})
            return {"type": "code_interpreter", **container}
        if isinstance(tool, FileSearch):
            stores, most = list(tool.stores), tool.max_results
            found = self._named(vector_store_ids=stores, max_num_results=most)
            return {"type": "file_search", **found}
        return super().server_tool(model, tool)

    def _named(self, **fields: Any) -> _Data:
        """Return the fields that have a value, by the provider's names for them."""
        names = self.quirks.field_names
        named = {names.get(name, name): value for name, value in fields.items()}
        return {name: value for name, value in named.items() if name and value}

    def cache_fields(
        self, transcript: Sequence[Message], options: Options
    ) -> dict[str, Any]:
        return openai_cache_fields(self.issuer, transcript, options)

    def conversation(
        self, model: str, transcript: Transcript, options: Options
    ) -> tuple[str, list[Piece]]:
        reasons = find_family(model).reasons
        encode = partial(
            encode_turn, issuer=self.issuer, quirks=self.quirks, reasons=reasons
        )
        return "input", transcript.encode((self.encoding, reasons), encode)

    is_end = staticmethod(response.is_end)

    def decode(
        self, stream: Iterable[ServerSentEvent], draft: Draft | None = None
    ) -> Iterator[Event]:
        return response.decode(stream, draft or Draft(self.issuer))

    def decode_body(self, body: bytes, draft: Draft | None = None) -> Iterator[Event]:
        return response.decode_body(body, draft or Draft(self.issuer))
