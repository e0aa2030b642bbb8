"""Long pastes: each is one character of the input, shown as ``[200 lines]``."""

from __future__ import annotations

from typing import Final

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.layout.processors import (
    Processor,
    Transformation,
    TransformationInput,
)
from prompt_toolkit.layout.utils import explode_text_fragments

__all__ = ["Pastes"]

#: Lines and characters of a paste that is shown as it is.
_MAX_LINES: Final = 10
_MAX_CHARACTERS: Final = 2_000
#: The first of the characters that stand for pastes, in the last private use area.
_FIRST: Final = 0x100000
#: The number of such characters.
_COUNT: Final = 0xFFFD


class Pastes(Processor):
    """Remembers long pastes; the input has a character in place of each."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def add(self, text: str) -> str:
        """Return what to insert for a paste of *text*."""
        is_long = text.count("\n") >= _MAX_LINES or len(text) > _MAX_CHARACTERS
        if not is_long or len(self._texts) >= _COUNT:
            return text
        mark = chr(_FIRST + len(self._texts))
        self._texts[mark] = text
        return mark

    def unfold(self, text: str) -> str:
        """Return *text* with the pastes."""
        return "".join(self._texts.get(each, each) for each in text)

    def fold(self, text: str) -> str:
        """Return *text* with a character for each paste, to be edited again."""
        for mark, pasted in self._longest_first():
            text = text.replace(pasted, mark)
        return text

    def describe(self, text: str) -> str:
        """Return *text* with a note such as ``[200 lines]`` for each paste."""
        for _, pasted in self._longest_first():
            text = text.replace(pasted, _note(pasted))
        return text

    def _longest_first(self) -> list[tuple[str, str]]:
        return sorted(self._texts.items(), key=lambda item: -len(item[1]))

    def apply_transformation(
        self, transformation_input: TransformationInput
    ) -> Transformation:
        """Show the notes."""
        fragments = transformation_input.fragments
        line = fragment_list_to_text(fragments)
        notes = {
            index: _note(self._texts[character])
            for index, character in enumerate(line)
            if character in self._texts
        }
        if not notes:
            return Transformation(fragments)
        shown: StyleAndTextTuples = []
        places = [0]  # in the shown line, by the place in the real one
        for index, fragment in enumerate(explode_text_fragments(fragments)):
            note = notes.get(index)
            shown.append(
                (fragment[0], fragment[1]) if note is None else ("class:paste", note)
            )
            places.append(places[-1] + (1 if note is None else len(note)))

        def to_shown(index: int) -> int:
            beyond = max(0, index - len(places) + 1)
            return places[min(index, len(places) - 1)] + beyond

        def to_real(place: int) -> int:
            return max(i for i, each in enumerate(places) if each <= max(0, place))

        return Transformation(shown, to_shown, to_real)


def _note(text: str) -> str:
    lines = text.count("\n") + (not text.endswith("\n"))
    if lines > 1:
        return f"[{lines:,} lines]"
    return f"[{len(text):,} characters]"
