"""The return values and errors of tools, as the model reads them."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from ..exceptions import Cancelled, ToolError
from ..messages import File, Image, Json, ResultBlock, Text
from ..schemas.paths import is_too_deep

__all__ = ["RESULT_LIMIT", "content_of", "cut", "error_text", "json_of"]

#: Characters of a result that the model gets.
RESULT_LIMIT: Final = 100_000
#: Characters of an error message that the model gets.
_ERROR_LIMIT: Final = 4_000
_BLOCKS: Final = (Text, Json, Image, File)
_INFINITIES: Final = {math.inf: "Infinity", -math.inf: "-Infinity"}


def content_of(value: Any, limit: int = RESULT_LIMIT) -> tuple[ResultBlock, ...]:
    """Return the result blocks for *value*, which a tool has returned.

    A string becomes text, blocks and lists of blocks stay as they are, and anything
    else becomes JSON.

    :param limit: the number of characters in all; the middle of a longer text is
        left out.
    :raises ToolError: *value* cannot be represented in JSON.
    """
    if value is None:
        return (Text("(no result)"),)
    is_list = isinstance(value, (list, tuple))
    try:
        has_blocks = is_list and any(isinstance(part, _BLOCKS) for part in value)
        blocks: list[ResultBlock] = []
        left_out = 0
        for part in value if has_blocks else (value,):
            block = _block(part, limit)
            if not isinstance(block, str):
                blocks.append(block)
            elif limit or not block:
                blocks.append(Text(cut(block, limit) or "(empty)"))
                limit -= min(limit, len(block))
            else:
                left_out += len(block)
        if left_out:
            blocks.append(Text(f"[... {left_out} characters left out ...]"))
        return tuple(blocks)
    except ToolError:
        raise
    except Exception as error:  # a user's class may raise anything
        raise ToolError(
            f"the tool has run, but its result, of type {type(value).__name__}, cannot "
            f"be converted to JSON ({error_text(error)}); it should return text, "
            "numbers, lists, dicts or dataclasses"
        ) from None


def _block(value: Any, limit: int) -> str | Json | Image | File:
    if isinstance(value, (Image, File)):
        fields = msgspec.structs.asdict(value).items()
        texts = {name: _utf8(each) for name, each in fields if isinstance(each, str)}
        return msgspec.structs.replace(value, **texts)
    if isinstance(value, Text):
        return value.text
    if isinstance(value, str):
        return str.__str__(value)  # a subclass may have its own __str__
    if isinstance(value, (bytes, bytearray)):
        raise ToolError(
            "the tool has run, but returned bytes; it should return text, "
            "Image(data=...) or File(data=...)"
        )
    plain = value.value if isinstance(value, Json) else value
    encoded = json_of(plain, "replace")
    if len(encoded) > limit:
        return encoded.decode()
    # Decoded again: the block must equal what is sent, and share nothing with the tool.
    plain = msgspec.json.decode(encoded)
    if isinstance(plain, str):  # an enum, a date
        return plain
    return encoded.decode() if is_too_deep(plain) else Json(plain)


def json_of(value: Any, errors: str = "strict") -> bytes:
    """Return *value* as JSON that a model can read.

    :param errors: what to do with strings that are not UTF-8, as for ``str.encode()``.
    :raises Exception: JSON cannot represent it, or a user's class raised.
    """
    try:
        encoded = msgspec.json.encode(value, enc_hook=_builtins)
        if b"null" not in encoded:  # it may stand for NaN, which JSON does not have
            return encoded
    except UnicodeEncodeError:  # such as the name of a file that is not UTF-8
        pass
    plain = msgspec.to_builtins(value, enc_hook=_builtins, str_keys=True)
    return msgspec.json.encode(_sendable(plain, errors))


def _sendable(value: Any, errors: str) -> Any:
    """Return plain data with strings in place of numbers that JSON does not have.

    Strings that are not UTF-8 are replaced, too.
    """
    if isinstance(value, str):
        return _utf8(value, errors)
    if isinstance(value, float) and not math.isfinite(value):
        return _INFINITIES.get(value, "NaN")
    if isinstance(value, dict):
        keys = [_utf8(key, errors) for key in value]
        if len(set(keys)) < len(keys):  # names that differ in what is replaced only
            keys = [_utf8(key, "backslashreplace") for key in value]
        values = (_sendable(each, errors) for each in value.values())
        return dict(zip(keys, values, strict=True))
    if isinstance(value, (list, tuple)):
        return [_sendable(each, errors) for each in value]
    return value


def _utf8(text: str, errors: str = "replace") -> str:
    """Return *text* without halves of surrogate pairs, which JSON cannot hold."""
    return text if text.isascii() else text.encode("utf-8", errors).decode("utf-8")


def _builtins(value: Any) -> Any:
    """Convert a value that msgspec does not support."""
    dump = getattr(value, "model_dump", None)  # pydantic's
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
        return float(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Iterable) and hasattr(value, "__len__"):
        keys = getattr(value, "keys", None)  # of a mapping, or of a row of sqlite3
        is_mapping = callable(keys)
        return dict(value) if is_mapping else list(value)
    raise TypeError(f"{type(value).__name__} has no JSON representation")


def cut(text: str, limit: int) -> str:
    """Return *text* without its middle if it is too long, and without surrogates."""
    text = _utf8(text)
    if len(text) <= limit:
        return text
    head, tail = -(-limit * 3 // 4), limit // 4
    left_out = len(text) - head - tail
    end = text[len(text) - tail :]
    return f"{text[:head]}\n[... {left_out} characters left out ...]\n{end}"


def error_text(error: BaseException) -> str:
    """Return the message of a tool's error, for the model."""
    try:
        message = str(error)
    except Exception:  # a user's __str__ may raise anything
        message = ""
    name = type(error).__name__
    if isinstance(error, (ToolError, Cancelled)):
        text = message or name
    else:
        text = f"{name}: {message}" if message else name
    return cut(text, _ERROR_LIMIT)
