"""Tools and agents as MCP tools: their definitions, and their results."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from ...agent import Agent
from ...exceptions import ConfigurationError
from ...messages import File, Image, Json, ResultBlock, Text
from ...tools.agent_tool import AgentTool
from ...tools.settings import ToolDefaults
from ...tools.tool import AnyTool, as_tool
from ..connection import Era

__all__ = ["ParameterHeader", "PublishedTool", "error_result", "publish", "result_of"]

_TYPES_IN_HEADERS: Final = ("string", "integer", "boolean")


class ParameterHeader(msgspec.Struct, frozen=True):
    """A parameter that a client repeats in a header, for proxies to read."""

    #: The names of the properties that lead to it.
    path: tuple[str, ...]
    #: The header, in lower case.
    header: str


class PublishedTool(msgspec.Struct, frozen=True):
    """A tool as the service offers it."""

    tool: AnyTool
    #: The agent that the tool asks, if it is one.
    agent: Agent | None
    #: Its entry in the list of tools.
    definition: dict[str, Any]
    headers: tuple[ParameterHeader, ...] = ()


def publish(
    candidates: Any, defaults: ToolDefaults | None = None
) -> dict[str, PublishedTool]:
    """Return tools by their names.

    :param candidates: functions, tools and agents, or one of them.
    :raises ConfigurationError: one cannot be a tool, or two have the same name.
    """
    if not isinstance(candidates, (list, tuple)):
        is_several = isinstance(candidates, Iterable) and not callable(candidates)
        candidates = list(candidates) if is_several else [candidates]
    published: dict[str, PublishedTool] = {}
    for candidate in candidates:
        entry = _publish(candidate, defaults)
        name = entry.tool.name
        if name in published:
            raise ConfigurationError(
                f"two tools of the service are called {name!r}; give one of them "
                "another name=..."
            )
        published[name] = entry
    if not published:
        raise ConfigurationError("a service needs at least one tool or agent")
    return published


def _publish(candidate: Any, defaults: ToolDefaults | None) -> PublishedTool:
    if isinstance(candidate, Agent):
        # Not its system prompt, which as_tool() takes for an agent of the same program:
        # a client is a stranger.
        name = candidate.name or "agent"
        candidate = candidate.as_tool(
            name, f"Ask {name}, an agent that works by itself with tools of its own."
        )
    tool = as_tool(candidate)
    if defaults is not None:
        tool = tool.with_defaults(defaults)
    spec = tool.spec
    definition: dict[str, Any] = {"name": spec.name}
    if spec.description:
        definition["description"] = spec.description
    definition["inputSchema"] = spec.parameters
    if tool.idempotent:
        definition["annotations"] = {"idempotentHint": True}
    agent = tool.agent if isinstance(tool, AgentTool) else None
    return PublishedTool(tool, agent, definition, tuple(_find_headers(spec.parameters)))


def _find_headers(schema: Any, path: tuple[str, ...] = ()) -> Iterator[ParameterHeader]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    for name, inner in (properties or {}).items():
        if not isinstance(inner, dict):
            continue
        header = inner.get("x-mcp-header")
        if isinstance(header, str) and inner.get("type") in _TYPES_IN_HEADERS:
            yield ParameterHeader((*path, name), f"mcp-param-{header.lower()}")
        yield from _find_headers(inner, (*path, name))


# -- results ---------------------------------------------------------------------------


def error_result(message: str) -> dict[str, Any]:
    """Return the result of a call that failed, which the client's model reads."""
    return {"content": [{"type": "text", "text": message}], "isError": True}


def result_of(
    blocks: Sequence[ResultBlock], era: Era, *, is_error: bool = False
) -> dict[str, Any]:
    """Return the result of a call."""
    result: dict[str, Any] = {"content": [_content(block) for block in blocks]}
    if is_error:
        result["isError"] = True
    first = blocks[0] if len(blocks) == 1 else None
    # Before 2026 it had to be an object.
    if isinstance(first, Json) and (era == "modern" or isinstance(first.value, dict)):
        result["structuredContent"] = first.value
    return result


def _content(block: ResultBlock) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if isinstance(block, Json):
        return {"type": "text", "text": json.dumps(block.value, ensure_ascii=False)}
    name = block.name if isinstance(block, File) else "image"
    if block.url:
        link = {"type": "resource_link", "uri": block.url, "name": name}
        return {**link, "mimeType": block.media_type}
    if isinstance(block, Image) or block.media_type.startswith(("image/", "audio/")):
        kind = "audio" if block.media_type.startswith("audio/") else "image"
        data = base64.b64encode(block.data).decode()
        return {"type": kind, "data": data, "mimeType": block.media_type}
    return {"type": "resource", "resource": _resource(block)}


def _resource(file: File) -> dict[str, Any]:
    uri = file.name if "://" in file.name else f"file:///{quote(file.name)}"
    resource: dict[str, Any] = {"uri": uri, "mimeType": file.media_type}
    if file.media_type.startswith("text/") or file.media_type == "application/json":
        try:
            return {**resource, "text": file.data.decode()}
        except UnicodeDecodeError:
            pass
    return {**resource, "blob": base64.b64encode(file.data).decode()}
