"""What a docstring says about a function and its parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["Docstring", "read_docstring"]

_PARAMETERS: Final = {
    *{"args", "arguments", "parameters", "params"},
    *{"keyword args", "keyword arguments", "other parameters"},
}
_OTHERS: Final = {
    *{"return", "returns", "raise", "raises", "yield", "yields", "receives"},
    *{"example", "examples", "note", "notes", "attributes", "see also"},
    *{"references", "warning", "warnings", "warns", "todo"},
}
_HEADING: Final = re.compile(r"([A-Za-z][A-Za-z ]*):\s*")
#: A section that has its text on the same line.
_SHORT: Final = re.compile(r"(Returns?|Raises?|Yields?): +\S.*")
_RULE: Final = re.compile(r"[-=]{3,}\s*")
_FIELD: Final = re.compile(
    r"[:@](param|parameter|arg|argument|key|keyword)\s+([^:]*):(.*)"
)
_OTHER_FIELD: Final = re.compile(
    r"[:@](type|returns?|rtype|raises?|except|exception|yields?|ytype|var|ivar|cvar|"
    r"vartype|meta)\b[^:]*:.*"
)
#: ``name (type): text``, perhaps with stars, a bullet or backticks.
_GOOGLE: Final = re.compile(
    r"(?:[-*+] )?[*`]{0,3}(\w+)[*`]{0,3}(?:\s*\(.*?\))?\s*:(?!:)\s*(.*)"
)
#: ``a, b : type``
_NUMPY: Final = re.compile(
    r"([*`]{0,3}\w+[*`]{0,3}(?:\s*,\s*[*`]{0,3}\w+[*`]{0,3})*)\s*(?::.*)?"
)


class Docstring(NamedTuple):
    """What a docstring says."""

    #: All before the first section.
    summary: str
    parameters: dict[str, str]


def read_docstring(text: str | None) -> Docstring:
    """Return what a docstring says, in the style of Google, NumPy or Sphinx.

    What is in none of these styles is all summary.
    """
    if not isinstance(text, str):
        return Docstring("", {})
    lines = inspect.cleandoc(text).splitlines()
    parameters: dict[str, str] = {}
    summary: list[str] | None = None
    at = 0
    while at < len(lines):
        end, found = _section(lines, at)
        if end > at and summary is None:
            summary = lines[:at]
        for names, words in found:
            for name in names:
                parameters.setdefault(name, " ".join(filter(None, words)))
        at = max(end, at + 1)
    said = lines if summary is None else summary
    return Docstring("\n".join(said).strip(), parameters)


_Entries = Iterator[tuple[list[str], list[str]]]


def _section(lines: list[str], at: int) -> tuple[int, _Entries]:
    """Return where the section ends that begins there, and the parameters in it.

    If none begins there that is its end, too.
    """
    line = lines[at]
    if _FIELD.fullmatch(line) or _OTHER_FIELD.fullmatch(line):
        end = _end_of_field(lines, at + 1)
        return end, _of_sphinx(lines[at:end])
    title = line.strip().lower()
    if at + 1 < len(lines) and _RULE.fullmatch(lines[at + 1]):
        if title in _PARAMETERS | _OTHERS:
            end = _end_of_numpy(lines, at + 2)
            is_wanted = title in _PARAMETERS
            return end, _of_numpy(lines[at + 2 : end] if is_wanted else [])
    elif heading := _HEADING.fullmatch(line):
        title = heading[1].strip().lower()
        if title in _PARAMETERS | _OTHERS:
            end = _end_of_block(lines, at + 1)
            return end, _of_google(lines[at + 1 : end] if title in _PARAMETERS else [])
    elif _SHORT.fullmatch(line):
        return _end_of_block(lines, at + 1), iter(())
    return at, iter(())


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _end_of_block(lines: list[str], at: int) -> int:
    """Return the first line that is not indented."""
    while at < len(lines) and (not lines[at].strip() or _indent(lines[at])):
        at += 1
    return at


def _end_of_field(lines: list[str], at: int) -> int:
    """Return the first line of another field or paragraph."""
    while at < len(lines) and (not lines[at].strip() or lines[at][0] not in ":@"):
        if not lines[at].strip():
            return _end_of_block(lines, at)
        at += 1
    return at


def _end_of_numpy(lines: list[str], at: int) -> int:
    """Return the next heading, which is the line above a rule."""
    while at < len(lines):
        if at + 1 < len(lines) and _RULE.fullmatch(lines[at + 1]):
            return at
        at += 1
    return at


def _of_sphinx(lines: list[str]) -> _Entries:
    found = _FIELD.fullmatch(lines[0])
    words = found[2].split() if found else []
    if found and words:  # the type comes before the name
        name = words[-1].strip("*\\`")
        yield [name], [found[3].strip(), *(line.strip() for line in lines[1:])]


def _of_google(lines: list[str]) -> _Entries:
    indents = [_indent(line) for line in lines if line.strip()]
    names: list[str] = []
    words: list[str] = []
    for line in lines:
        found = _GOOGLE.fullmatch(line.strip())
        if found and _indent(line) <= indents[0]:
            yield names, words
            names, words = [found[1]], [found[2]]
        else:
            words.append(line.strip())
    yield names, words


def _of_numpy(lines: list[str]) -> _Entries:
    names: list[str] = []
    words: list[str] = []
    for line in lines:
        found = None if _indent(line) else _NUMPY.fullmatch(line)
        if found:
            yield names, words
            names = [name.strip(" *`") for name in found[1].split(",")]
            words = []
        else:
            words.append(line.strip())
    yield names, words
