"""Values of a recording as text to read."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import msgspec

__all__ = [
    "MAX_TEXT",
    "blocks_text",
    "cut",
    "cut_line",
    "duration",
    "hint_of",
    "moment",
    "tokens",
    "value_text",
]

#: Number of characters of a text that are shown.
MAX_TEXT: Final = 8000
#: The same for a hint beside a title.
_MAX_HINT: Final = 60


def cut(text: str, longest: int = MAX_TEXT) -> str:
    """Return *text*, or its beginning and its end if it is long."""
    if len(text) <= longest:
        return text
    omitted = len(text) - longest
    head, tail = longest * 3 // 4, longest // 4
    return f"{text[:head]}\n[... {omitted:,} characters left out ...]\n{text[-tail:]}"


def cut_line(text: str, longest: int) -> str:
    """Return *text*, or its beginning if it is long."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def moment(wall: str) -> str:
    """Return a wall-clock time in ISO format as a person would write it."""
    try:
        return datetime.fromisoformat(wall).strftime("%Y-%m-%d %H:%M:%S %Z").strip()
    except ValueError:
        return wall


def value_text(value: Any) -> str:
    """Return a value, such as the arguments of a tool, as text."""
    if isinstance(value, str):
        return cut(value)
    try:
        text = msgspec.json.format(msgspec.json.encode(value, enc_hook=repr), indent=2)
    except Exception:
        return cut(repr(value))
    return cut(text.decode(errors="replace"))


def hint_of(arguments: dict[str, Any]) -> str:
    """Return the arguments of a tool in a few words."""
    values = (str(value)[:_MAX_HINT] for value in arguments.values() if value != "")
    return " ".join(", ".join(values).split())[:_MAX_HINT]


def blocks_text(blocks: Iterable[Any]) -> str:
    """Return the content of a message, or of a tool result, as text."""
    return cut("\n".join(filter(None, map(_block_text, blocks))))


def _block_text(block: Any) -> str:
    if not isinstance(block, dict):
        block = msgspec.to_builtins(block, builtin_types=(bytes,))
    if not isinstance(block, dict):
        return value_text(block)
    kind = str(block.get("type", ""))
    if kind == "tool_call":
        return f"{block.get('name', '')}({block.get('arguments', '')})"
    if kind in ("image", "file"):
        data = block.get("data", b"")
        size = len(data) * 3 // 4 if isinstance(data, str) else len(data)
        where = str(block.get("url", "")) or f"{size:,} bytes"
        return f"[{kind}: {block.get('media_type', '')}, {where}]"
    if kind == "thinking":
        return f"[thinking] {block.get('text', '')}"
    if "text" in block:
        return str(block["text"])
    return value_text({key: value for key, value in block.items() if key != "type"})


def duration(seconds: float) -> str:
    """Return a duration with its unit."""
    if seconds < 0.0005:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 0.00995:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def tokens(count: int) -> str:
    """Return a number of tokens in a short form."""
    return f"{count:,}" if count < 100_000 else f"{count / 1000:,.0f}k"
