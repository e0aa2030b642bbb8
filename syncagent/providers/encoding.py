"""Encode content blocks and tool calls the way most providers take them."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Any, Final

import msgspec

from ..exceptions import ConfigurationError
from ..messages import File, Image, Json, ResultBlock, Text, ToolCall, ToolResult

#: Characters that are not allowed in the name of a tool.
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")
#: Errors of the encoder for a value that JSON cannot represent.
_ENCODE_ERRORS: Final = (
    *(TypeError, ValueError, OverflowError, RecursionError),
    msgspec.MsgspecError,
)
#: How deep to search for such a value; a value may contain itself.
_MAX_DEPTH: Final = 20


def json_bytes(value: Any, name: str = "") -> bytes:
    """Return *value* as JSON.

    :param name: the name of the value in an error; a message is named by its role.
    :raises ConfigurationError: something in it has no JSON form; the message says
        where it is.
    """
    try:
        return msgspec.json.encode(value)
    except _ENCODE_ERRORS as error:
        path, culprit = _find_unencodable(value)
        if not name:
            role = value.get("role") if isinstance(value, dict) else None
            name = f"the {role} message" if role else "a message"
        raise ConfigurationError(
            f"{name} cannot be sent: {path or 'its value'} is of type "
            f"{type(culprit).__name__}, which has no JSON form ({error})"
        ) from None


def _find_unencodable(value: Any) -> tuple[str, Any]:
    """Return the innermost value that cannot be encoded, and the path to it."""

    def can_encode(value: Any) -> bool:
        try:
            msgspec.json.encode(value)
        except _ENCODE_ERRORS:
            return False
        return True

    path = ""
    for _ in range(_MAX_DEPTH):
        if isinstance(value, dict):
            members = [(f".{key!s:.40}", member) for key, member in value.items()]
        elif isinstance(value, (list, tuple)):
            members = [(f"[{number}]", member) for number, member in enumerate(value)]
        else:
            break
        wrong = next((pair for pair in members if not can_encode(pair[1])), None)
        if wrong is None:  # a key
            break
        path, value = path + wrong[0], wrong[1]
    return path.removeprefix("."), value


def text_of(block: ResultBlock) -> str:
    """Return a block as text; images and files are replaced by a reference."""
    if isinstance(block, Text):
        return block.text
    if isinstance(block, Json):
        return json_bytes(block.value, "a Json block").decode()
    return "(see the attachment)"


def base64_of(block: Image | File) -> str:
    """Return the bytes of an image or a file in base64."""
    return b64encode(block.data).decode()


def url_of(block: Image | File) -> str:
    """Return the URL of an image or a file, or a data URL with its bytes."""
    if block.url:
        return block.url
    return f"data:{block.media_type};base64,{base64_of(block)}"


def arguments_of(call: ToolCall) -> msgspec.Raw:
    """Return the arguments of a call, or an empty object if they are invalid."""
    try:
        call.parse()
        # As the model wrote them: encoding them again could change a number.
        return msgspec.Raw(call.arguments.encode() or b"{}")
    except ValueError:
        return msgspec.Raw(b"{}")


def tool_name_of(call: ToolCall | ToolResult, max_length: int) -> str:
    """Return the name of the tool in characters that every provider accepts."""
    # Models make names up.
    name = _NOT_IN_NAMES.sub("_", call.name) or "unknown"
    # Some providers reject a name that begins with a digit or a dash.
    return (name if name[0].isalpha() or name[0] == "_" else f"_{name}")[:max_length]
