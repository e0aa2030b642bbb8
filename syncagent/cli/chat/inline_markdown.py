"""Markdown within a line: emphasis, code, links."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

__all__ = ["IDEOGRAPHS", "Inline", "MAX_WORD", "Piece", "parse_inline"]

#: Letters of scripts without spaces between words, as a part of a pattern.
IDEOGRAPHS: Final = "\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60"
#: Characters of a word, after which it is broken all the same.
MAX_WORD: Final = 8_000

#: Characters within which a span must end; the rest of the line is plain text then.
MAX_SPAN: Final = 400


class Piece(NamedTuple):
    """Text in one style."""

    text: str
    #: As rich writes it, such as ``bold cyan``.
    style: str = ""
    #: True for text that is never broken in two, also if there are spaces in it.
    is_atomic: bool = False


class Inline(NamedTuple):
    """The beginning of a line, parsed."""

    pieces: list[Piece]
    #: The rest, whose meaning depends on what follows.
    rest: str
    #: The last character that was parsed.
    last: str


def _emphasis(mark: str, before_end: str, after: str) -> re.Pattern[str]:
    m = re.escape(mark)
    first = f"[^\\s{re.escape(mark[0])}]"
    return re.compile(f"{m}(?={first})(.{{1,{MAX_SPAN}}}?)(?<={before_end}){m}{after}")


#: The longest mark first.
_EMPHASIS: Final = (
    ("***", "bold italic", _emphasis("***", r"\S", r"(?!\*)")),
    ("**", "bold", _emphasis("**", r"\S", r"(?!\*)")),
    ("*", "italic", _emphasis("*", r"[^\s*]", r"(?!\*)")),
    ("__", "bold", _emphasis("__", r"\S", r"(?!\w)")),
    ("_", "italic", _emphasis("_", r"[^\s_]", r"(?!\w)")),
    ("~~", "strike", _emphasis("~~", r"\S", "")),
)
_CODE: Final = re.compile(rf"(`+)(?!`)(.{{1,{MAX_SPAN}}}?)(?<!`)\1(?!`)")
_LINK: Final = re.compile(
    r"!?\[((?:[^\[\]\\]|\\.){0,200})\]"
    r"\(\s*<?((?:[^()\s<>]|\([^()\s]*\)){1,2000})>?(?:\s+\"[^\"]*\")?\s*\)"
)
_AUTOLINK: Final = re.compile(r"<((?:https?|mailto):[^<>\s]+)>")
_URL: Final = re.compile(r"https?://[^\s<>\"`]*[^\s<>\"`.,:;!?'*_)\]}]")
_ESCAPE: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
#: Text in which no span begins, and a run of marks, which is literal as a whole.
_TEXT: Final = re.compile(r"[^\\`*_~\[<!h\s]+|\s+|h|([\\`*_~\[<!])\1*")
_WORDS: Final = re.compile(rf".*[\s{IDEOGRAPHS}]", re.DOTALL)
_LINK_STYLE: Final = "underline"


def parse_inline(
    source: str,
    *,
    style: str = "",
    before: str = "",
    is_complete: bool = True,
    has_marks: bool = False,
) -> Inline:
    """Return *source* as pieces, without the marks of Markdown.

    :param before: the character before *source*.
    :param is_complete: false if the line goes on: then the last word, and a span that
        is not closed, are left over.
    :param has_marks: keep the marks of code, where it has no colour.
    """
    pieces: list[Piece] = []
    stable = len(source)
    if not is_complete and stable <= MAX_WORD:
        words = _WORDS.match(source)
        stable = 0 if words is None else words.end()
    index = 0
    while index < stable:
        found = _span(source, index, before, style, has_marks)
        if found is None and not is_complete and len(source) - index <= MAX_SPAN:
            may_close = _WAITS.get(source[index])
            if may_close is not None and may_close(source[index:], before):
                break  # its end may still come
        if found is None:
            match = _TEXT.match(source, index)
            assert match is not None
            found = [Piece(match[0], style)], match.end()
        new, end = found
        pieces += new
        before = source[end - 1]
        index = end
    return Inline(pieces, source[index:], before)


def _span(
    source: str, index: int, before: str, style: str, has_marks: bool
) -> tuple[list[Piece], int] | None:
    """Return the pieces of the span that begins at *index*, and its end."""
    match: re.Match[str] | None
    character = source[index]
    if character == "h" and not before.isalnum():
        match = _URL.match(source, index)
        return match and ([_address(match[0], style)], match.end())
    if character == "\\" and (match := _ESCAPE.match(source, index)):
        return [Piece(match[1], style)], match.end()
    if character == "`" and (match := _CODE.match(source, index)):
        code = match[2]
        if code.strip() and code[0] == code[-1] == " ":
            code = code[1:-1]
        text = match[0] if has_marks else code
        return [Piece(text, _add(style, "cyan"), is_atomic=True)], match.end()
    if character == "<" and (match := _AUTOLINK.match(source, index)):
        return [_address(match[1], style)], match.end()
    if character in "![" and (match := _LINK.match(source, index)):
        label, url = match[1].strip(), match[2]
        address = _address(url, style)
        if label in ("", url):
            return [address], match.end()
        inner = parse_inline(label, style=style, has_marks=has_marks)
        parts = [Piece(" (", style), address, Piece(")", style)]
        return [*inner.pieces, *parts], match.end()
    if character not in "*_~" or _is_letter(before):
        return None  # 2*3*4, snake_case
    for mark, name, pattern in _EMPHASIS:
        if source.startswith(mark, index) and (match := pattern.match(source, index)):
            inner = parse_inline(
                match[1], style=_add(style, name), before=mark, has_marks=has_marks
            )
            return inner.pieces, match.end()
    return None


def _address(url: str, style: str) -> Piece:
    return Piece(url, _add(style, _LINK_STYLE), is_atomic=True)


def _add(style: str, name: str) -> str:
    return f"{style} {name}" if style else name


def _is_letter(character: str) -> bool:
    return character.isascii() and character.isalnum()


def _link_may_close(rest: str, before: str) -> bool:
    label, bracket, after = rest.removeprefix("!").partition("]")
    if not label.startswith("["):
        return False
    return not bracket or not after or (after[0] == "(" and ")" not in after)


def _emphasis_may_close(rest: str, before: str) -> bool:
    after = rest.lstrip(rest[0])[:1]
    if _is_letter(before) or after.isspace():
        return False
    return rest[0] != "~" or rest.startswith("~~")


_WAITS: Final[dict[str, Callable[[str, str], bool]]] = {
    "`": lambda rest, before: True,
    "[": _link_may_close,
    "!": _link_may_close,
    "<": lambda rest, before: bool(re.match(r"<(https?|mailto):\S*\Z", rest)),
    **dict.fromkeys("*_~", _emphasis_may_close),
}
