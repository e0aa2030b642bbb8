"""Text of others, made harmless for a terminal."""

from __future__ import annotations

from typing import Final

__all__ = ["harmless", "on_one_line"]


def _pictures() -> dict[int, str | None]:
    """Return what is shown in place of each character that does something."""
    shown: dict[int, str | None] = {
        code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"
    }
    shown[0x0D] = None  # the end of a line, for some; alone it would hide the line
    shown[0x7F] = "\N{SYMBOL FOR DELETE}"
    for code in (*range(0x80, 0xA0), *range(0xD800, 0xE000)):
        shown[code] = "\N{REPLACEMENT CHARACTER}"  # C1, and halves of characters
    # What turns the direction of writing makes a command look like another one.
    for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A)):
        shown[code] = None
    return shown


_SHOWN: Final = _pictures()


def harmless(text: str) -> str:
    """Return *text* without anything that a terminal would obey.

    What a model, a tool or a server says may move the cursor, change the title, write
    to the clipboard or hide what it says. Each control character becomes a picture of
    itself, one by one: a sequence that comes in two pieces is as harmless as a whole
    one. Line ends and tabs stay, and what is returned can be encoded in UTF-8.
    """
    return text.translate(_SHOWN)


def on_one_line(text: str, limit: int = 0) -> str:
    """Return *text*, harmless, on one line, and cut off after *limit* characters."""
    line = " ".join(harmless(text).split())
    return f"{line[: limit - 3]}..." if 0 < limit < len(line) else line
