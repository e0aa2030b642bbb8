"""Requests in the dialect of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from ...events import Event
from ...exceptions import ConfigurationError
from ...messages import (
    AssistantMessage,
    File,
    Image,
    ProviderBlock,
    Refusal,
    Text,
    ToolCall,
    UserBlock,
)
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
from ...transcript.turns import Turn, UserTurn
from ..dialect import Dialect, without_none
from ..draft import Draft
from ..encoding import arguments_of, json_bytes, text_of, tool_name_of, url_of
from ..json_values import as_string
from ..quirks import Quirks
from ..strict_schemas import openai_format
from . import response
from .families import find_family
from .items import call_fields, is_whole, waiting_calls
from .response import NAME

_Data = dict[str, Any]

_MAX_NAME: Final = 64


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
        family.check_sampling(model, options)
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

    def conversation(
        self, model: str, transcript: Transcript, options: Options
    ) -> tuple[str, list[Piece]]:
        encode = partial(encode_turn, origin=self.origin, quirks=self.quirks)
        return "input", transcript.encode(self.encoding, encode)

    is_end = staticmethod(response.is_end)

    def decode(
        self, stream: Iterable[ServerSentEvent], draft: Draft | None = None
    ) -> Iterator[Event]:
        return response.decode(stream, draft or Draft(self.origin))

    def decode_body(self, body: bytes, draft: Draft | None = None) -> Iterator[Event]:
        return response.decode_body(body, draft or Draft(self.origin))


# -- turns -----------------------------------------------------------------------------


def encode_turn(turn: Turn, origin: str, quirks: Quirks) -> bytes:
    """Return a turn as JSON, or several values with commas between them."""
    items: Iterable[_Data]
    if isinstance(turn, UserTurn):
        items = _user(turn)
    else:
        calls = dict(turn.calls)
        parts = (_items(message, calls, origin, quirks) for message in turn.messages)
        items = [item for part in parts for item in part]
        items = items or [_said({"type": "output_text", "text": "(nothing)"})]
    return b",".join(map(json_bytes, items))


def _user(turn: UserTurn) -> Iterable[_Data]:
    for result in turn.results:
        shown = [_part(b) for b in result.content if isinstance(b, (Image, File))]
        texts = [text_of(b) for b in result.content if not isinstance(b, (Image, File))]
        text = "Error: " * result.is_error + "\n".join(texts)
        output: str | list[_Data] = text or "(no output)"
        if shown:
            output = [_part(Text(text)), *shown] if text.strip() else shown
        item = {"type": "function_call_output", "call_id": result.call_id}
        yield {**item, "output": output}
    if turn.content:
        yield {"role": "user", "content": [_part(block) for block in turn.content]}


def _part(block: UserBlock) -> _Data:
    if isinstance(block, Text):
        return {"type": "input_text", "text": block.text}
    if isinstance(block, Image):
        return {"type": "input_image", "image_url": url_of(block), "detail": "auto"}
    if block.url:
        return {"type": "input_file", "file_url": block.url}
    return {"type": "input_file", "filename": block.name, "file_data": url_of(block)}


def _items(
    message: AssistantMessage, calls: dict[str, ToolCall], origin: str, quirks: Quirks
) -> list[_Data]:
    """Return *message* as items, and take those of its calls that it has from *calls*.

    Text and refusals become parts of one message item, as long as nothing is between
    them and they are of the same phase.
    """
    items: list[_Data] = []
    parts: list[_Data] | None = None
    last_phase = ""
    is_ours = message.provider == origin
    waiting = waiting_calls(message.content) if quirks.has_client_tools else set()
    for block in message.content:
        if isinstance(block, (Text, Refusal)) and block.text.strip():
            is_text = isinstance(block, Text)
            phase = block.signature if is_ours and isinstance(block, Text) else ""
            if parts is None or phase != last_phase:
                items.append(_said(phase=phase))
                parts, last_phase = items[-1]["content"], phase
            kind, field = ("output_text", "text") if is_text else ("refusal",) * 2
            parts.append({"type": kind, field: block.text})
        elif isinstance(block, ToolCall) and block.call_id in calls:
            items.append(_call(calls.pop(block.call_id), is_ours))
            parts = None
        elif isinstance(block, ProviderBlock) and block.provider == origin:
            if as_string(block.data.get("call_id")) in waiting:
                _drop_reasoning(items)
            elif block.data.get("type") != "reasoning" or is_whole(block.data):
                items.append(block.data)
                parts = None
    _drop_reasoning(items)
    return items


def _said(*parts: _Data, phase: str = "") -> _Data:
    item = {"type": "message", "role": "assistant", "content": [*parts]}
    return {**item, "phase": phase} if phase else item


def _call(call: ToolCall, is_ours: bool) -> _Data:
    name, arguments = tool_name_of(call, _MAX_NAME), arguments_of(call)
    function = {"name": name, "arguments": bytes(arguments).decode()}
    item = {"type": "function_call", "call_id": call.call_id, **function}
    return {**item, **call_fields(call.signature)} if is_ours else item


def _drop_reasoning(items: list[_Data]) -> None:
    """Remove reasoning from the end: the provider rejects it if nothing follows."""
    while items and items[-1].get("type") == "reasoning":
        items.pop()
