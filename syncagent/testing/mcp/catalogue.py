"""The tools, resources and prompts of a fake MCP server, and its plain answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from ...schemas import ShapeError
from ...schemas.signature import read_signature
from .exchange import MCPExchange
from .rules import META, MODERN_VERSION

__all__ = [
    "FakeCatalogue",
    "FakeMethodFailed",
    "as_result",
]

#: Method of each list: the name of the list in the result.
_LISTS: Final = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


class FakeMethodFailed(Exception):
    """A request that gets an error as its answer."""

    def __init__(
        self, code: int, message: str, data: Any = None, *, status: int | None = None
    ) -> None:
        super().__init__(code, message, data)
        self.status = status
        self.code = code
        self.message = message
        self.data = data


class FakeCatalogue:
    """Tools, resources and prompts; definitions as they go over the wire."""

    def __init__(self, page_size: int | None) -> None:
        self.page_size = page_size
        self.tools: dict[str, Any] = {}
        self.functions: dict[str, Callable[[MCPExchange], Any]] = {}
        self.resources: dict[str, Any] = {}
        self.contents: dict[str, list[dict[str, Any]]] = {}
        self.templates: list[Any] = []
        self.prompts: dict[str, Any] = {}
        self.prompt_functions: dict[str, Callable[..., Any]] = {}
        #: Completions by the name of the argument.
        self.completions: dict[str, list[str]] = {}
        self.instructions: str | None = None
        self.info: dict[str, Any] = {"name": "fake", "version": "1"}
        #: Replaces the capabilities that follow from what there is.
        self.capabilities: dict[str, Any] | None = None

    def add_function(
        self, function: Callable[..., Any], more: Mapping[str, Any]
    ) -> str:
        """Make a tool of a function, and return its name."""
        signature = read_signature(function, context_type=MCPExchange)
        definition = {
            "name": signature.name,
            "description": signature.description,
            "inputSchema": signature.parameters,
            **more,
        }

        def call(exchange: MCPExchange) -> Any:
            args, kwargs = signature.bind(exchange.arguments)
            if signature.context_name is not None:
                kwargs[signature.context_name] = exchange
            return function(*args, **kwargs)

        self.tools[definition["name"]] = definition
        self.functions[definition["name"]] = call
        return str(definition["name"])

    def result_of(self, exchange: MCPExchange) -> Any:
        """Return the result of a request.

        :raises FakeMethodFailed: the answer is an error.
        """
        method = exchange.method
        if method in _LISTS:
            return self._page(exchange, _LISTS[method])
        answer = _ANSWERS.get(method)
        if answer is None or method in _MISSING[exchange.era]:
            raise FakeMethodFailed(-32601, f"Method not found: {method}")
        return answer(self, exchange)

    def declared(self) -> dict[str, Any]:
        """Return the capabilities of the server."""
        if self.capabilities is not None:
            return self.capabilities
        declared: dict[str, Any] = {"tools": {"listChanged": True}, "logging": {}}
        if self.resources or self.templates:
            declared["resources"] = {"listChanged": True, "subscribe": True}
        if self.prompts:
            declared["prompts"] = {"listChanged": True}
        if self.completions:
            declared["completions"] = {}
        return declared

    def _page(self, exchange: MCPExchange, kind: str) -> dict[str, Any]:
        items: list[Any] = {
            "tools": list(self.tools.values()),
            "resources": list(self.resources.values()),
            "resourceTemplates": self.templates,
            "prompts": list(self.prompts.values()),
        }[kind]
        cursor = exchange.params.get("cursor", "page-0")
        try:
            begin = int(cursor.removeprefix("page-"))
        except ValueError:
            raise FakeMethodFailed(-32602, f"unknown cursor {cursor!r}") from None
        size = self.page_size or max(len(items), 1)
        result: dict[str, Any] = {kind: items[begin : begin + size]}
        if begin + size < len(items):
            result["nextCursor"] = f"page-{begin + size}"
        return self._cached(exchange, result)

    def _cached(self, exchange: MCPExchange, result: dict[str, Any]) -> dict[str, Any]:
        if exchange.era == "modern":
            result |= {"ttlMs": 0, "cacheScope": "private"}
        return result

    def initialize(self, exchange: MCPExchange) -> Any:
        more = {} if self.instructions is None else {"instructions": self.instructions}
        return {
            "protocolVersion": exchange.session.version,
            "capabilities": self.declared(),
            "serverInfo": self.info,
            **more,
        }

    def discover(self, exchange: MCPExchange) -> Any:
        more = {} if self.instructions is None else {"instructions": self.instructions}
        result = {
            "supportedVersions": [MODERN_VERSION],
            "capabilities": self.declared(),
            "_meta": {f"{META}serverInfo": self.info},
            **more,
        }
        return self._cached(exchange, result)

    def nothing(self, exchange: MCPExchange) -> Any:
        return {}

    def set_level(self, exchange: MCPExchange) -> Any:
        exchange.session.log_level = exchange.params.get("level")
        return {}

    def call(self, exchange: MCPExchange) -> Any:
        function = self.functions.get(exchange.name or "")
        if function is None:
            return _tool_error(f"Unknown tool: {exchange.name}")
        try:
            return as_result(function(exchange))
        except FakeMethodFailed:
            raise
        except ShapeError as error:
            return _tool_error(f"Invalid arguments: {error}")
        except Exception as error:
            return _tool_error(f"{type(error).__name__}: {error}")

    def read(self, exchange: MCPExchange) -> Any:
        found = self.contents.get(str(exchange.params.get("uri")))
        if found is None:
            code = -32602 if exchange.era == "modern" else -32002
            raise FakeMethodFailed(code, "Resource not found", {"uri": exchange.name})
        return self._cached(exchange, {"contents": found})

    def prompt(self, exchange: MCPExchange) -> Any:
        function = self.prompt_functions.get(exchange.name or "")
        if function is None:
            raise FakeMethodFailed(-32602, f"Unknown prompt: {exchange.name}")
        said = function(**exchange.arguments)
        if isinstance(said, dict):
            return said
        content = {"type": "text", "text": str(said)}
        return {"messages": [{"role": "user", "content": content}]}

    def complete(self, exchange: MCPExchange) -> Any:
        argument = exchange.params.get("argument") or {}
        known = self.completions.get(argument.get("name", ""), [])
        begin = argument.get("value", "")
        values = [value for value in known if value.startswith(begin)]
        return {"completion": {"values": values[:100], "total": len(values)}}


def as_result(value: Any) -> Any:
    """Return what a tool's function returned as a result for the wire."""
    if isinstance(value, dict) and ("content" in value or "resultType" in value):
        return value
    if isinstance(value, str):
        return {"content": [{"type": "text", "text": value}], "isError": False}
    plain = msgspec.to_builtins(value)
    text = msgspec.json.encode(plain).decode()
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": plain if isinstance(plain, dict) else {"result": plain},
        "isError": False,
    }


def _tool_error(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}


_ANSWERS: Final[dict[str, Callable[[FakeCatalogue, MCPExchange], Any]]] = {
    "initialize": FakeCatalogue.initialize,
    "server/discover": FakeCatalogue.discover,
    "ping": FakeCatalogue.nothing,
    "logging/setLevel": FakeCatalogue.set_level,
    "resources/subscribe": FakeCatalogue.nothing,
    "resources/unsubscribe": FakeCatalogue.nothing,
    "tools/call": FakeCatalogue.call,
    "resources/read": FakeCatalogue.read,
    "prompts/get": FakeCatalogue.prompt,
    "completion/complete": FakeCatalogue.complete,
}
#: The methods that the server does not have in an era.
_MISSING: Final = {
    "legacy": frozenset({"server/discover"}),
    "modern": frozenset(
        {
            "initialize",
            "ping",
            "logging/setLevel",
            "resources/subscribe",
            "resources/unsubscribe",
        }
    ),
}
