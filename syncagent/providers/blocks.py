"""What a user or a tool shows, and what a model calls, as most providers want it."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Any, Final

import msgspec

from ..exceptions import ConfigurationError
from ..messages import File, Image, Json, ResultBlock, Text, ToolCall, ToolResult

#: What is not in the name of a tool.
_ODD: Final = re.compile(r"[^a-zA-Z0-9_-]")
#: What cannot be said in JSON, as the encoder has it.
_UNSAYABLE: Final = (
    *(TypeError, ValueError, OverflowError, RecursionError),
    msgspec.MsgspecError,
)
#: How deep to look for it; a value may hold itself.
_DEPTH: Final = 20


def encoded(value: Any, name: str = "") -> bytes:
    """Return *value* as JSON.

    :param name: what an error calls it; a turn goes by its role.
    :raises ConfigurationError: something in it cannot be said in JSON; the message
        says where it is.
    """
    try:
        return msgspec.json.encode(value)
    except _UNSAYABLE as error:
        where, culprit = _culprit(value)
        if not name:
            role = value.get("role") if isinstance(value, dict) else None
            name = f"the {role} message" if role else "a message"
        raise ConfigurationError(
            f"{name} cannot be sent: {where or 'its value'} is of type "
            f"{type(culprit).__name__}, and no JSON can be made of it ({error})"
        ) from None


def _culprit(value: Any) -> tuple[str, Any]:
    """Return what cannot be encoded in *value*, and the way there."""
    where = ""
    for _ in range(_DEPTH):
        if isinstance(value, dict):
            inside = [(f".{key!s:.40}", found) for key, found in value.items()]
        elif isinstance(value, (list, tuple)):
            inside = [(f"[{number}]", found) for number, found in enumerate(value)]
        else:
            break
        wrong = next((pair for pair in inside if not _is_sayable(pair[1])), None)
        if wrong is None:  # a key
            break
        where, value = where + wrong[0], wrong[1]
    return where.removeprefix("."), value


def _is_sayable(value: Any) -> bool:
    try:
        msgspec.json.encode(value)
    except _UNSAYABLE:
        return False
    return True


def words_of(block: ResultBlock) -> str:
    """Return a block in words; they say where to look for what has none."""
    if isinstance(block, Text):
        return block.text
    if isinstance(block, Json):
        return encoded(block.value, "a Json block").decode()
    return "(see the attachment)"


def base64_of(block: Image | File) -> str:
    """Return the bytes of a picture or a file as text."""
    return b64encode(block.data).decode()


def url_of(block: Image | File) -> str:
    """Return the address of a picture or a file, which may hold all of it."""
    if block.url:
        return block.url
    return f"data:{block.media_type};base64,{base64_of(block)}"


def arguments_of(call: ToolCall) -> msgspec.Raw:
    """Return the arguments of a call, an empty object if they are none."""
    try:
        call.parse()
        # As they were written: to write them again could change a number.
        return msgspec.Raw(call.arguments.encode() or b"{}")
    except ValueError:
        return msgspec.Raw(b"{}")


def name_of(call: ToolCall | ToolResult, length: int) -> str:
    """Return the name of the tool in the letters that providers accept.

    :param length: how many of them there may be.
    """
    # Models make names up.
    name = _ODD.sub("_", call.name) or "unknown"
    # Not every provider takes one that begins with anything but a letter.
    return (name if name[0].isalpha() or name[0] == "_" else f"_{name}")[:length]
