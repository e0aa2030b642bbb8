"""What a user or a tool shows, and what a model calls, as most providers want it."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Final

import msgspec

from ..messages import File, Image, Json, ResultBlock, Text, ToolCall

#: What is not in the name of a tool.
_ODD: Final = re.compile(r"[^a-zA-Z0-9_-]")


def words_of(block: ResultBlock) -> str:
    """Return a block in words; they say where to look for what has none."""
    if isinstance(block, Text):
        return block.text
    if isinstance(block, Json):
        return msgspec.json.encode(block.value).decode()
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


def name_of(call: ToolCall, length: int) -> str:
    """Return the name of a call in the letters that providers accept.

    :param length: how many of them there may be.
    """
    # Models make names up.
    return _ODD.sub("_", call.name)[:length] or "unknown"
