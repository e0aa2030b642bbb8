"""What a tool returns, as the model gets to read it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from ..exceptions import Cancelled, ToolError
from ..messages import File, Image, Json, ResultBlock, Text

__all__ = ["RESULT_LIMIT", "content_of", "cut", "words_for"]

#: How many characters of a result the model is given.
RESULT_LIMIT: Final = 100_000
#: How many of an error's message.
_ERROR_LIMIT: Final = 4_000
_BLOCKS: Final = (Text, Json, Image, File)


def content_of(value: Any, limit: int = RESULT_LIMIT) -> tuple[ResultBlock, ...]:
    """Return what *value*, of a tool, is in a conversation.

    Words are words, blocks stay blocks, also several; of everything else JSON is made.

    :param limit: how many characters are given; the middle of more is left out.
    :raises ToolError: no JSON can be made of it.
    """
    if value is None:
        return (Text("(no result)"),)
    if isinstance(value, (list, tuple)) and any(isinstance(v, _BLOCKS) for v in value):
        blocks: Iterable[Any] = value
    else:
        blocks = (value,)
    content = tuple(_block(block, limit) for block in blocks)
    return content or (Text("(no result)"),)


def _block(value: Any, limit: int) -> ResultBlock:
    if isinstance(value, str):
        return Text(cut(value, limit))
    if isinstance(value, Text):
        return Text(cut(value.text, limit))
    if isinstance(value, (Image, File)):
        return value
    if isinstance(value, (bytes, bytearray)):
        raise ToolError(
            "the tool has run, but returned bytes; it should return text, or "
            "Image(data=...) or File(data=...)"
        )
    return _json(value.value if isinstance(value, Json) else value, limit)


def _json(value: Any, limit: int) -> Text | Json:
    try:
        encoded = msgspec.json.encode(value, enc_hook=_builtins)
        # Decoded again, so that it is what is sent, and nobody else can change it.
        plain = msgspec.json.decode(encoded)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise ToolError(
            f"the tool has run, but its result, of type {type(value).__name__}, cannot "
            f"be said in JSON ({error}); it should return text, numbers, lists, dicts "
            "or dataclasses"
        ) from None
    if len(encoded) > limit:
        return Text(cut(encoded.decode(), limit))
    if isinstance(plain, str):  # an enum, a date
        return Text(plain)
    return Json(plain)


def _builtins(value: Any) -> Any:
    """Make something of what msgspec does not know."""
    dump = getattr(value, "model_dump", None)  # pydantic's
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, Iterable) and hasattr(value, "__len__"):
        return list(value)
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
