"""The headers of modern requests: the method, the name, and chosen arguments."""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = [
    "HEADER_MISMATCH",
    "HeaderParameter",
    "ToolHeaders",
    "encode_value",
    "header_parameters",
    "request_headers",
]

_log = logging.getLogger("syncagent.mcp")

#: The error of a server whose tool wants other headers than those of the request.
HEADER_MISMATCH: Final = -32020

#: The parameter that ``Mcp-Name`` repeats, by method.
_NAMED_BY: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/result": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: Values that go over the wire as they are: visible, with blanks only inside.
_PLAIN: Final = re.compile(r"[!-~](?:[\t -~]*[!-~])?")
_ENCODED: Final = re.compile(r"=\?base64\?.*\?=")
_ALLOWED_TYPES: Final = frozenset({"string", "integer", "boolean"})
#: Tools whose headers are remembered; more is a mistake of the server.
_MOST_TOOLS: Final = 10_000

#: A place in the arguments, as the names on the way to it, and the name of its header.
HeaderParameter = tuple[tuple[str, ...], str]


def encode_value(text: str) -> str:
    """Return *text* as the value of a header."""
    if text == "" or (_PLAIN.fullmatch(text) and not _ENCODED.fullmatch(text)):
        return text
    encoded = base64.b64encode(text.encode("utf-8", "replace")).decode()
    return f"=?base64?{encoded}?="


def request_headers(method: str, params: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers by which servers and proxies route a modern request."""
    headers = {"Mcp-Method": method}
    name = params.get(_NAMED_BY.get(method, ""))
    if isinstance(name, str):
        headers["Mcp-Name"] = encode_value(name)
    return headers


def header_parameters(schema: Any) -> list[HeaderParameter]:
    """Return the arguments that a tool wants as headers, by its input schema.

    :raises ValueError: the schema breaks the rules for ``x-mcp-header``; such a tool
        cannot be called.
    """
    found = list(_annotated(schema, ()))
    names = [name.lower() for _, name in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"x-mcp-header has {sorted(twice)[0]!r:.80} twice")
    return found


def _annotated(schema: Any, path: tuple[str, ...]) -> Iterator[HeaderParameter]:
    """Yield the annotated properties; refuse an annotation anywhere else."""
    if not isinstance(schema, dict):
        return
    if path and "x-mcp-header" in schema:
        yield path, _checked_name(schema)
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            for name, inner in value.items():
                yield from _annotated(inner, (*path, name))
        elif key not in ("x-mcp-header", "default", "enum", "const", "examples"):
            _refuse_inside(value)


def _refuse_inside(schema: Any) -> None:
    """Raise if an annotation stands where no single argument can be meant."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        inner = node if isinstance(node, dict) else {}
        if isinstance(inner.get("x-mcp-header"), str):
            raise ValueError(  # noqa: TRY004 - it is about the place, not the type
                "x-mcp-header stands outside of plain properties"
            )
        waiting += node if isinstance(node, list) else inner.values()


def _checked_name(schema: dict[str, Any]) -> str:
    name, kind = schema["x-mcp-header"], schema.get("type")
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise ValueError(f"x-mcp-header {name!r:.80} cannot be the name of a header")
    if not isinstance(kind, str) or kind not in _ALLOWED_TYPES:
        raise ValueError(
            f"x-mcp-header {name:.80} is on a property that is not a string, integer "
            "or boolean"
        )
    return name


class ToolHeaders:
    """The arguments that tools want as headers, learned from their lists."""

    def __init__(self) -> None:
        self._wanted: dict[str, list[HeaderParameter]] = {}
        #: Tools that were complained about.
        self._broken: set[str] = set()

    def learn(self, result: Any, server: str = "") -> Any:
        """Take note of a page of ``tools/list``.

        Return it without the tools that break the rules: those cannot be called.

        :param server: its name in the log.
        """
        tools = result.get("tools") if isinstance(result, dict) else None
        if not isinstance(tools, list):
            return result
        return {**result, "tools": [tool for tool in tools if self._fits(tool, server)]}

    def _fits(self, tool: Any, server: str) -> bool:
        """Take note of a tool; return false if it breaks the rules."""
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or len(self._wanted) >= _MOST_TOOLS:
            return True
        try:
            self._wanted[name] = header_parameters(tool.get("inputSchema"))
        except (ValueError, RecursionError) as error:
            self._wanted.pop(name, None)
            if name not in self._broken:
                self._broken.add(name)
                _log.warning("%s: tool %.80r is left out: %s", server, name, error)
            return False
        return True

    def of_call(self, params: Mapping[str, Any]) -> dict[str, str]:
        """Return the headers for the arguments of a ``tools/call``."""
        headers = {}
        for path, name in self._wanted.get(str(params.get("name")), ()):
            value: Any = params.get("arguments")
            for key in path:
                value = value.get(key) if isinstance(value, Mapping) else None
            if isinstance(value, bool):
                value = "true" if value else "false"
            elif isinstance(value, float) and value.is_integer():
                value = int(value)  # models write 3.0 for 3
            if isinstance(value, (str, int)):
                headers[f"Mcp-Param-{name}"] = encode_value(str(value))
        return headers
