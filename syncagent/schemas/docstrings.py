"""The descriptions of a function and its parameters in a docstring."""

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
    """The content of a docstring."""

    #: The text before the first section.
    summary: str
    parameters: dict[str, str]


def read_docstring(text: str | None) -> Docstring:
    """Return the content of a docstring in the style of Google, NumPy or Sphinx.

    In any other style all of it is the summary.
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
        for names, texts in found:
            for name in names:
                parameters.setdefault(name, " ".join(filter(None, texts)))
        at = max(end, at + 1)
    summary = lines if summary is None else summary
    return Docstring("\n".join(summary).strip(), parameters)


_Entries = Iterator[tuple[list[str], list[str]]]


def _section(lines: list[str], at: int) -> tuple[int, _Entries]:
    """Return the end of the section that begins at a line, and its parameters.

    The end is the line itself if no section begins there.
    """
    line = lines[at]
    if _FIELD.fullmatch(line) or _OTHER_FIELD.fullmatch(line):
        end = at + 1
        while end < len(lines) and lines[end].strip() and lines[end][0] not in ":@":
            end += 1
        if end < len(lines) and not lines[end].strip():
            end = _end_of_block(lines, end)
        return end, _read_sphinx(lines[at:end])
    title = line.strip().lower()
    if at + 1 < len(lines) and _RULE.fullmatch(lines[at + 1]):
        if title in _PARAMETERS | _OTHERS:
            # The next heading is the line above a rule.
            after = range(at + 2, len(lines) - 1)
            end = next((n for n in after if _RULE.fullmatch(lines[n + 1])), len(lines))
            body = lines[at + 2 : end] if title in _PARAMETERS else []
            return end, _read_numpy(body)
    elif heading := _HEADING.fullmatch(line):
        title = heading[1].strip().lower()
        if title in _PARAMETERS | _OTHERS:
            end = _end_of_block(lines, at + 1)
            body = lines[at + 1 : end] if title in _PARAMETERS else []
            return end, _read_google(body)
    elif _SHORT.fullmatch(line):
        return _end_of_block(lines, at + 1), iter(())
    return at, iter(())


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _end_of_block(lines: list[str], at: int) -> int:
    """Return the number of the first line that is not indented."""
    while at < len(lines) and (not lines[at].strip() or _indent(lines[at])):
        at += 1
    return at


def _read_sphinx(lines: list[str]) -> _Entries:
    found = _FIELD.fullmatch(lines[0])
    words = found[2].split() if found else []
    if found and words:  # the type comes before the name
        name = words[-1].strip("*\\`")
        yield [name], [found[3].strip(), *(line.strip() for line in lines[1:])]


def _read_google(lines: list[str]) -> _Entries:
    indents = [_indent(line) for line in lines if line.strip()]
    names: list[str] = []
    texts: list[str] = []
    for line in lines:
        found = _GOOGLE.fullmatch(line.strip())
        if found and _indent(line) <= indents[0]:
            yield names, texts
            names, texts = [found[1]], [found[2]]
        else:
            texts.append(line.strip())
    yield names, texts


def _read_numpy(lines: list[str]) -> _Entries:
    names: list[str] = []
    texts: list[str] = []
    for line in lines:
        found = None if _indent(line) else _NUMPY.fullmatch(line)
        if found:
            yield names, texts
            names = [name.strip(" *`") for name in found[1].split(",")]
            texts = []
        else:
            texts.append(line.strip())
    yield names, texts
