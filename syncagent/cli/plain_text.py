"""Text from models, tools and servers, made harmless for a terminal."""

from __future__ import annotations

from typing import Final

__all__ = ["harmless", "on_one_line"]

_REPLACEMENTS: Final[dict[int, str | None]] = {
    # Pictures of control characters; line ends and tabs stay.
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    # A carriage return is half a line end; alone it would hide the line.
    0x0D: None,
    0x7F: "\N{SYMBOL FOR DELETE}",
    # C1 control characters and surrogates.
    **dict.fromkeys(
        (*range(0x80, 0xA0), *range(0xD800, 0xE000)), "\N{REPLACEMENT CHARACTER}"
    ),
    # A change of the writing direction makes one command look like another.
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A))),
}


def harmless(text: str) -> str:
    """Return *text* without anything that a terminal would obey.

    Text of a model, a tool or a server could move the cursor, change the title, write
    to the clipboard or hide itself. Each control character becomes a picture of itself,
    one by one, so a sequence in two pieces is as harmless as a whole one. Line ends and
    tabs stay. The result can be encoded in UTF-8.
    """
    return text.translate(_REPLACEMENTS)


def on_one_line(text: str, limit: int = 0) -> str:
    """Return *text*, harmless, on one line, cut off after *limit* characters."""
    line = " ".join(harmless(text).split())
    return f"{line[: limit - 3]}..." if 0 < limit < len(line) else line
