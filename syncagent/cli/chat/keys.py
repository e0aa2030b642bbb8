"""What somebody types, from bytes to keys."""

from __future__ import annotations

import codecs
from typing import Final, NamedTuple

__all__ = ["ESCAPE_SECONDS", "Key", "KeyReader"]

#: How long to wait for the rest after an ESC, which may be the key, or the first byte
#: of another key.
ESCAPE_SECONDS: Final = 0.05

_ESC: Final = "\x1b"
_PASTE_BEGINS: Final = "\x1b[200~"
_PASTE_ENDS: Final = "\x1b[201~"

_CONTROL: Final = {
    "\t": "tab",
    "\r": "enter",
    "\n": "newline",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x01": "home",
    "\x02": "ctrl-b",
    "\x03": "ctrl-c",
    "\x04": "ctrl-d",
    "\x05": "end",
    "\x06": "right",
    "\x0b": "kill-end",
    "\x0c": "redraw",
    "\x0e": "down",
    "\x10": "up",
    "\x15": "kill-begin",
    "\x17": "kill-word",
    "\x1a": "ctrl-z",
    "\x1c": "quit",
}
_FINAL: Final = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "F": "end",
    "H": "home",
}
_NUMBERED: Final = {"1": "home", "3": "delete", "4": "end", "7": "home", "8": "end"}


class Key(NamedTuple):
    """A key, or words that were typed or pasted."""

    #: ``text`` for words.
    name: str
    text: str = ""


class KeyReader:
    """Make keys of bytes, however they are cut.

    An ESC, of which nobody knows yet what it begins, is kept; :attr:`is_waiting` says
    so, and :meth:`flush` says that nothing more came in time.
    """

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._left = ""

    @property
    def is_waiting(self) -> bool:
        """May it be the ESC key? A paste has an end of its own."""
        return bool(self._left) and not self._left.startswith(_PASTE_BEGINS)

    def feed(self, data: bytes) -> list[Key]:
        """Return the keys that are complete by now."""
        self._left += self._decode(data)
        return self._take(is_over=False)

    def flush(self) -> list[Key]:
        """Return the rest, as nothing more will come."""
        return self._take(is_over=True) if self.is_waiting else []

    def _take(self, *, is_over: bool) -> list[Key]:
        keys: list[Key] = []
        while self._left:
            size, key = _next(self._left, is_over=is_over)
            if not size:
                break
            self._left = self._left[size:]
            is_more = key.name == "text" and keys and keys[-1].name == "text"
            if is_more:
                keys[-1] = Key("text", keys[-1].text + key.text)
            elif key.name:
                keys.append(key)
        return keys


def _next(text: str, *, is_over: bool) -> tuple[int, Key]:
    """Return the first key, and its size; nothing if it is not complete."""
    if text[0] != _ESC:
        return _plain(text)
    if len(text) == 1:
        return (1, Key("escape")) if is_over else (0, Key(""))
    if text.startswith(_PASTE_BEGINS):
        return _pasted(text)
    if text[1] not in "[O":
        return 1, Key("escape")  # and what follows was typed after it
    for size, character in enumerate(text[2:], 3):
        if text[1] == "O" or "\x40" <= character <= "\x7e":
            return size, _sequence(text[2:size])
        if not "\x20" <= character <= "\x3f":
            break  # no sequence of any terminal
    else:
        if not is_over:
            return 0, Key("")
    return 1, Key("escape")


def _plain(text: str) -> tuple[int, Key]:
    if not text[0].isprintable():
        return 1, Key(_CONTROL.get(text[0], ""))
    size = 1
    while size < len(text) and text[size].isprintable():
        size += 1
    return size, Key("text", text[:size])


def _pasted(text: str) -> tuple[int, Key]:
    end = text.find(_PASTE_ENDS)
    if end < 0:
        return 0, Key("")
    pasted = text[len(_PASTE_BEGINS) : end].replace("\r\n", "\n").replace("\r", "\n")
    return end + len(_PASTE_ENDS), Key("text", pasted)


def _sequence(body: str) -> Key:
    """Return the key of an escape sequence; one that nobody knows is none."""
    if body.endswith("~"):
        return Key(_NUMBERED.get(body[:-1].split(";")[0], ""))
    return Key(_FINAL.get(body[-1], ""))
