"""The rules that a client of MCP must keep; each mistake is a sentence."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Final

from .journal import ReceivedMessage

__all__ = [
    "LEGACY_VERSIONS",
    "META",
    "MODERN_VERSION",
    "find_modern_mistake",
    "is_modern",
    "mistakes_in_answer",
    "mistakes_in_message",
    "mistakes_in_post",
    "read_header",
]

MODERN_VERSION: Final = "2026-07-28"
#: Newest first.
LEGACY_VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
#: The prefix of the keys in ``_meta`` that belong to the protocol.
META: Final = "io.modelcontextprotocol/"

#: Methods that modern clients no longer have.
_GONE: Final = frozenset(
    {
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "notifications/initialized",
        "notifications/roots/list_changed",
        "notifications/progress",
    }
)
#: The parameter that the header ``Mcp-Name`` repeats.
_NAMED: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}


def mistakes_in_message(message: Any) -> Iterator[str]:
    """Yield what is wrong with a message in any era."""
    if isinstance(message, list):
        yield "a batch was sent; clients send one message at a time"
        return
    if not isinstance(message, dict):
        yield f"a message must be an object; got {message!r:.80}"
        return
    label = message.get("method", "a response")
    if message.get("jsonrpc") != "2.0":
        yield f"{label}: jsonrpc must be '2.0'; got {message.get('jsonrpc')!r}"
    id = message.get("id")
    if "id" in message and (isinstance(id, bool) or not isinstance(id, (int, str))):
        yield f"{label}: an id must be a string or an integer; got {id!r}"
    if "params" in message and not isinstance(message["params"], dict):
        yield f"{label}: params must be an object; got {message['params']!r:.80}"
    if "method" not in message and ("result" in message) == ("error" in message):
        yield "a response must have either a result or an error"
    if "method" not in message and "id" not in message:
        yield "a response must have the id of the request"


def mistakes_in_post(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with the headers of a POST in any era."""
    kind = headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/json":
        yield f"Content-Type must be application/json; got {kind!r}"
    accept = headers.get("accept", "")
    for needed in ("application/json", "text/event-stream"):
        if needed not in accept:
            yield f"Accept must name {needed}; got {accept!r}"
    if "origin" in headers:
        yield "Origin was sent; it is for browsers"


def is_modern(received: ReceivedMessage) -> bool:
    """True for a message that claims to be of the modern era."""
    if received.method == "initialize":
        return False
    meta = received.params.get("_meta")
    has_version = isinstance(meta, dict) and f"{META}protocolVersion" in meta
    header = received.headers.get("mcp-protocol-version", "")
    return has_version or received.method == "server/discover" or header >= "2026"


def find_modern_mistake(
    received: ReceivedMessage, tools: Mapping[str, Any]
) -> tuple[int, str] | None:
    """Return code and text of the first mistake in a modern request."""
    meta = received.params.get("_meta")
    if not isinstance(meta, dict):
        return -32602, f"{received.method}: params._meta is missing"
    if received.method in _GONE:
        return -32601, f"{received.method}: is no method of {MODERN_VERSION}"
    version = meta.get(f"{META}protocolVersion")
    if not isinstance(version, str):
        return -32602, f"{received.method}: _meta has no {META}protocolVersion"
    if not isinstance(meta.get(f"{META}clientCapabilities"), dict):
        return -32602, f"{received.method}: _meta has no {META}clientCapabilities"
    info = meta.get(f"{META}clientInfo", {"name": "", "version": ""})
    if not isinstance(info, dict) or not {"name", "version"} <= info.keys():
        return -32602, f"{received.method}: clientInfo needs a name and a version"
    if received.transport == "http":
        mistake = next(_wrong_headers(received, version, tools), None)
        return None if mistake is None else (-32020, mistake)
    return None


def _wrong_headers(
    received: ReceivedMessage, version: str, tools: Mapping[str, Any]
) -> Iterator[str]:
    params, headers = received.params, received.headers
    expected = {"MCP-Protocol-Version": version, "Mcp-Method": received.method}
    if received.method in _NAMED:
        expected["Mcp-Name"] = params.get(_NAMED[received.method])
    if received.method == "tools/call":
        tool = tools.get(str(params.get("name")))
        schema = tool.get("inputSchema") if isinstance(tool, dict) else None
        expected |= dict(_found_headers(schema, params.get("arguments")))
    for name, value in expected.items():
        got = read_header(headers.get(name.lower()))
        if got != value:
            yield f"{received.method}: header {name} must be {value!r}; got {got!r}"
    wanted = {name.lower() for name in expected}
    for name in headers:
        if name.startswith("mcp-param-") and name not in wanted:
            yield f"{received.method}: header {name} belongs to no argument"
    if "mcp-session-id" in headers:
        yield f"{received.method}: Mcp-Session-Id is for legacy sessions"


def _found_headers(schema: Any, values: Any) -> Iterator[tuple[str, str]]:
    """Yield the headers that ``x-mcp-header`` asks for."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or not isinstance(values, dict):
        return
    for name, part in properties.items():
        value = values.get(name)
        label = part.get("x-mcp-header") if isinstance(part, dict) else None
        if isinstance(value, dict):
            yield from _found_headers(part, value)
        elif label is not None and isinstance(value, (bool, int, str)):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            yield f"Mcp-Param-{label}", text


def read_header(value: str | None) -> str | None:
    """Return the value of a header, decoded if it says ``=?base64?...?=``."""
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return value


def mistakes_in_answer(method: str, params: Any, result: Any) -> Iterator[str]:
    """Yield what is wrong with an answer to a question of the server."""
    if not isinstance(result, dict):
        yield f"the answer to {method} must be an object; got {result!r:.80}"
    elif method == "elicitation/create":
        yield from _wrong_elicitation(params, result)
    elif method == "sampling/createMessage":
        missing = {"role", "content", "model"} - result.keys()
        if missing:
            yield f"the answer to {method} has no {', '.join(sorted(missing))}"
    elif method == "roots/list":
        roots = result.get("roots")
        if not isinstance(roots, list):
            yield f"the answer to {method} needs a list of roots; got {roots!r:.80}"
        elif not all(str(root.get("uri")).startswith("file://") for root in roots):
            yield f"the answer to {method} has a root without a file:// uri: {roots!r}"


def _wrong_elicitation(params: Any, result: dict[str, Any]) -> Iterator[str]:
    action, content = result.get("action"), result.get("content")
    if action not in ("accept", "decline", "cancel"):
        yield f"an elicitation cannot be answered with the action {action!r}"
    if action != "accept" and content is not None:
        yield f"the action {action!r} has no content; got {content!r:.80}"
    if action != "accept" or params.get("mode") == "url":
        return
    schema = params.get("requestedSchema") or {}
    if not isinstance(content, dict):
        yield f"an accepted form needs its content; got {content!r:.80}"
        return
    for name in schema.get("required", ()):
        if name not in content:
            yield f"the content of the form has no {name!r}, which is required"
    for name in content.keys() - schema.get("properties", {}).keys():
        yield f"the content of the form has {name!r}, which was not asked for"
