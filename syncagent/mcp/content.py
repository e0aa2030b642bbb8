"""Content of a server as blocks that a model reads. All of it is a stranger's text."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ..exceptions import MCPProtocolError
from ..messages import (
    AssistantMessage,
    File,
    Image,
    Json,
    Message,
    ResultBlock,
    Text,
    UserMessage,
)
from ..tools.results import cut

__all__ = [
    "CallResult",
    "ResourceContent",
    "call_result",
    "content_block",
    "prompt_messages",
    "resource_contents",
    "shown",
]

#: Characters of content of an unknown type that are shown.
_UNKNOWN: Final = 2000
#: The media types of pictures that every provider takes; any other one would have it
#: refuse the whole conversation.
_PICTURES: Final = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})
#: The media types of files that models read.
_READABLE: Final = frozenset({"application/pdf"})


class CallResult(msgspec.Struct, frozen=True):
    """The result of a tool call."""

    #: The content, as a model reads it.
    content: tuple[ResultBlock, ...] = ()
    #: The same as a value, if the server has given one.
    structured: Any = None
    is_error: bool = False
    #: Further data of the server.
    meta: Mapping[str, Any] = {}

    @property
    def text(self) -> str:
        """The text of the content."""
        texts = (block.text for block in self.content if isinstance(block, Text))
        return "\n".join(texts)


class ResourceContent(msgspec.Struct, frozen=True):
    """The content of a resource, or of a part of it: text or bytes."""

    uri: str
    media_type: str = ""
    text: str | None = None
    data: bytes | None = None


def call_result(result: dict[str, Any], server: str) -> CallResult:
    """Return the result of ``tools/call`` as blocks.

    :raises MCPProtocolError: it has no content.
    """
    parts, structured = result.get("content"), result.get("structuredContent")
    if not isinstance(parts, list):
        if structured is None:
            raise MCPProtocolError(
                f"{server}: the result of a call has no content", server=server
            )
        parts = []
    blocks = tuple(content_block(part) for part in parts if _is_for_model(part))
    if not blocks and structured is not None:
        blocks = (Json(structured),)
    meta = result.get("_meta")
    return CallResult(
        blocks,
        structured,
        result.get("isError") is True,
        meta if isinstance(meta, dict) else {},
    )


def resource_contents(
    result: dict[str, Any], server: str
) -> tuple[ResourceContent, ...]:
    """Return the result of ``resources/read``.

    :raises MCPProtocolError: it has no contents.
    """
    parts = result.get("contents")
    if not isinstance(parts, list):
        raise MCPProtocolError(
            f"{server}: the result of a read has no contents", server=server
        )
    found = []
    for part in (one for one in parts if isinstance(one, dict)):
        text, data = part.get("text"), None
        if not isinstance(text, str):
            text = None
            try:
                data = base64.b64decode(part.get("blob", ""), validate=True)
            except (binascii.Error, TypeError, ValueError):
                raise MCPProtocolError(
                    f"{server}: a resource is not valid base64", server=server
                ) from None
        uri = str(part.get("uri", ""))
        found.append(ResourceContent(uri, _media_type(part), text, data))
    return tuple(found)


def prompt_messages(result: dict[str, Any]) -> list[Message]:
    """Return the messages of a prompt; a model can begin with them."""
    messages = result.get("messages")
    found: list[Message] = []
    for message in messages if isinstance(messages, list) else []:
        if not isinstance(message, dict):
            continue
        block = content_block(message.get("content"))
        if message.get("role") == "assistant":
            text = block.text if isinstance(block, Text) else ""
            found.append(AssistantMessage((Text(text or "(no text)"),)))
        else:
            kept = block if isinstance(block, (Text, Image)) else Text("(not shown)")
            found.append(UserMessage((kept,)))
    return found


def _is_for_model(part: Any) -> bool:
    """False for content that the server means for the user only."""
    notes = part.get("annotations") if isinstance(part, dict) else None
    audience = notes.get("audience") if isinstance(notes, dict) else None
    return not isinstance(audience, list) or "assistant" in audience or not audience


def content_block(part: Any) -> ResultBlock:
    """Return one piece of content as a block; nothing is fetched."""
    if not isinstance(part, dict):
        return _unknown(part)
    kind = part.get("type")
    if kind == "text" and isinstance(part.get("text"), str):
        return Text(part["text"])
    if kind in ("image", "audio"):
        return _binary(part.get("data"), _media_type(part), str(kind))
    if kind == "resource_link":
        names = ("uri", "name", "title", "mimeType", "description")
        told = (f"{name}: {part[name]}" for name in names if part.get(name))
        return Text("Resource link (not fetched)\n" + "\n".join(told))
    if kind == "resource" and isinstance(part.get("resource"), dict):
        resource = part["resource"]
        uri, text = resource.get("uri"), resource.get("text")
        if isinstance(text, str):
            return Text(f"Resource {uri}:\n{text}")
        if "blob" in resource:
            return _binary(resource["blob"], _media_type(resource), f"resource {uri}")
    return _unknown(part)


def _media_type(part: dict[str, Any]) -> str:
    value = part.get("mimeType")
    media_type = value.lower() if isinstance(value, str) else ""
    return "image/jpeg" if media_type == "image/jpg" else media_type


def _binary(data: Any, media_type: str, what: str) -> ResultBlock:
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return Text(f"[{what} of type {media_type or 'unknown'}: not valid base64]")
    if not decoded:
        return Text(f"[{what} of type {media_type or 'unknown'}: empty]")
    if media_type in _PICTURES:
        return Image(data=decoded, media_type=media_type)
    if media_type in _READABLE:
        return File(data=decoded, media_type=media_type)
    size = f"{len(decoded)} bytes"
    return Text(f"[{what} of type {media_type or 'unknown'}: {size}, not shown]")


def _unknown(part: Any) -> Text:
    return Text(cut(msgspec.json.encode(part).decode(), _UNKNOWN))


def shown(text: str, limit: int) -> str:
    """Return a stranger's text as people may see it: no control characters, and cut.

    Those could hide a part of it, or paint over what is around it.
    """
    kept = text[:limit].replace("\r\n", "\n").replace("\t", " ")
    return "".join(one if one.isprintable() or one == "\n" else "?" for one in kept)
