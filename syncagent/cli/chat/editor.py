"""The line that somebody types: words, a cursor, and what was typed before."""

from __future__ import annotations

from typing import Final, NamedTuple

from ..plain_text import harmless
from .flow import columns
from .keys import Key

__all__ = ["Editor", "Picture"]

#: How many letters before and behind the cursor are drawn.
_MOST: Final = 4000


class Picture(NamedTuple):
    """What a line looks like: rows, and where the cursor is."""

    rows: list[str]
    row: int
    column: int


class Editor:
    """One line, or several, under the keys that every terminal has."""

    def __init__(self) -> None:
        self.text = ""
        self.cursor = 0
        self._history: list[str] = []
        #: Which line of the past is shown, counted from the newest, and what was there.
        self._back = 0
        self._draft = ""

    def set(self, text: str) -> None:
        """Put *text* in place of what is there."""
        self.text, self.cursor = text, len(text)
        self._back = 0

    def remember(self, text: str) -> None:
        """Have *text* come back with the arrow keys."""
        if text.strip() and self._history[-1:] != [text]:
            self._history.append(text)
        self._back = 0

    def press(self, key: Key) -> None:
        """Do what a key does; others than those of an editor do nothing."""
        if key.name == "text":
            self._insert(key.text)
        elif key.name == "newline":
            self._insert("\n")
        elif key.name in ("up", "down"):
            self._recall(1 if key.name == "up" else -1)
        elif key.name in ("left", "right", "home", "end"):
            self._move(key.name)
        else:
            self._delete(key.name)

    def _insert(self, text: str) -> None:
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        self.cursor += len(text)

    def _move(self, where: str) -> None:
        begin = self.text.rfind("\n", 0, self.cursor) + 1
        end = self.text.find("\n", self.cursor)
        self.cursor = {
            "left": max(0, self.cursor - 1),
            "right": min(len(self.text), self.cursor + 1),
            "home": begin,
            "end": len(self.text) if end < 0 else end,
        }[where]

    def _delete(self, what: str) -> None:
        here, begin, end = self.cursor, self.cursor, self.cursor
        if what == "backspace":
            begin = max(0, here - 1)
        elif what in ("delete", "ctrl-d"):
            end = here + 1
        elif what == "kill-begin":
            begin = 0
        elif what == "kill-end":
            end = len(self.text)
        elif what == "kill-word":
            before = self.text[:here].rstrip()
            begin = max(before.rfind(" "), before.rfind("\n")) + 1
        self.text = self.text[:begin] + self.text[end:]
        self.cursor = begin

    def _recall(self, step: int) -> None:
        back = self._back + step
        if not 0 <= back <= len(self._history):
            return
        if self._back == 0:
            self._draft = self.text
        text = self._history[-back] if back else self._draft
        self.set(text)
        self._back = back

    def picture(self, label: str, width: int, *, is_secret: bool = False) -> Picture:
        """Return what it looks like behind *label*, in rows of *width* columns."""
        # Of very much, what is around the cursor: it is drawn with every key.
        first = max(0, self.cursor - _MOST)
        shown = "" if is_secret else self.text[first : self.cursor + _MOST]
        rows, used = [label], columns(label)
        place = (0, used)
        for number, character in enumerate(shown, first):
            if number == self.cursor:
                place = (len(rows) - 1, used)
            if character == "\n":
                rows.append("  ")
                used = 2
                continue
            drawn = " " if character == "\t" else harmless(character)
            size = columns(drawn)
            if used + size > width:
                rows.append("")
                used = 0
            rows[-1] += drawn
            used += size
        if is_secret or self.cursor >= first + len(shown):
            place = (len(rows) - 1, used)
        return Picture(rows, *place)
