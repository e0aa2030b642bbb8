"""What a tool returns, as the model gets to read it."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from ..exceptions import Cancelled, ToolError
from ..messages import File, Image, Json, ResultBlock, Text

__all__ = ["RESULT_LIMIT", "content_of", "cut", "json_of", "words_for"]

#: How many characters of a result the model is given.
RESULT_LIMIT: Final = 100_000
#: How many of an error's message.
_ERROR_LIMIT: Final = 4_000
_BLOCKS: Final = (Text, Json, Image, File)
_NO_NUMBERS: Final = {math.inf: "Infinity", -math.inf: "-Infinity"}


def content_of(value: Any, limit: int = RESULT_LIMIT) -> tuple[ResultBlock, ...]:
    """Return what *value*, of a tool, is in a conversation.

    Words are words, blocks stay blocks, also several; of everything else JSON is made.

    :param limit: how many characters are given; the middle of more is left out.
    :raises ToolError: no JSON can be made of it.
    """
    if value is None:
        return (Text("(no result)"),)
    try:
        return tuple(_blocks(_parts(value), limit))
    except ToolError:
        raise
    except Exception as error:  # whatever somebody's class does
        raise ToolError(
            f"the tool has run, but its result, of type {type(value).__name__}, cannot "
            f"be said in JSON ({words_for(error)}); it should return text, numbers, "
            "lists, dicts or dataclasses"
        ) from None


def _parts(value: Any) -> Iterable[Any]:
    is_list = isinstance(value, (list, tuple))
    if is_list and any(isinstance(part, _BLOCKS) for part in value):
        parts: Iterable[Any] = value
        return parts
    return (value,)


def _blocks(parts: Iterable[Any], limit: int) -> Iterator[ResultBlock]:
    """Yield blocks, whose words are together not longer than *limit*."""
    left_out = 0
    for part in parts:
        block = _block(part, limit)
        if not isinstance(block, str):
            yield block
        elif limit or not block:
            yield Text(cut(block, limit) or "(empty)")
            limit -= min(limit, len(block))
        else:
            left_out += len(block)
    if left_out:
        yield Text(f"[... {left_out} characters left out ...]")


def _block(value: Any, limit: int) -> str | Json | Image | File:
    if isinstance(value, (Image, File)):
        return value
    if isinstance(value, Text):
        return value.text
    if isinstance(value, str):
        return str.__str__(value)  # not what a class that is more says about itself
    if isinstance(value, (bytes, bytearray)):
        raise ToolError(
            "the tool has run, but returned bytes; it should return text, or "
            "Image(data=...) or File(data=...)"
        )
    return _json(value.value if isinstance(value, Json) else value, limit)


def json_of(value: Any) -> bytes:
    """Return what *value* is in JSON, as a model can read it.

    :raises Exception: it is nothing; somebody's class may raise whatever it likes.
    """
    encoded = msgspec.json.encode(value, enc_hook=_builtins)
    if b"null" in encoded:  # that may have been no number, for which JSON has no word
        plain = msgspec.to_builtins(value, enc_hook=_builtins, str_keys=True)
        encoded = msgspec.json.encode(_without_nan(plain))
    return encoded


def _json(value: Any, limit: int) -> str | Json:
    encoded = json_of(value)
    if len(encoded) > limit:
        return encoded.decode()
    # Decoded again, so that it is what is sent, and nobody else can change it.
    plain = msgspec.json.decode(encoded)
    return plain if isinstance(plain, str) else Json(plain)  # an enum, a date


def _without_nan(value: Any) -> Any:
    """Return plain data with words in place of what is no number."""
    if isinstance(value, float) and not math.isfinite(value):
        return _NO_NUMBERS.get(value, "NaN")
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(each) for each in value]
    return value


def _builtins(value: Any) -> Any:
    """Make something of what msgspec does not know."""
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
    raise TypeError(f"no JSON is known for {type(value).__name__}")


def cut(text: str, limit: int) -> str:
    """Return *text* without its middle if it is too long, and fit to be sent."""
    text = _sendable(text)
    if len(text) <= limit:
        return text
    head, tail = -(-limit * 3 // 4), limit // 4
    left_out = len(text) - head - tail
    end = text[len(text) - tail :]
    return f"{text[:head]}\n[... {left_out} characters left out ...]\n{end}"


def _sendable(text: str) -> str:
    """Return *text* without halves of characters, which no JSON can hold."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def words_for(error: BaseException) -> str:
    """Say what went wrong in a tool, for the model."""
    try:
        said = str(error)
    except Exception:  # somebody's __str__
        said = ""
    name = type(error).__name__
    if isinstance(error, (ToolError, Cancelled)):
        words = said or name
    else:
        words = f"{name}: {said}" if said else name
    return cut(words, _ERROR_LIMIT)
