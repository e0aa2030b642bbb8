"""Markdown as rows: without a terminal."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from syncagent.cli.chat.markdown import Markdown

SAMPLE = """\
# A title with *emphasis*

Here is **bold text that goes over the end of a row and further** and `code here`, then
[a link](https://example.com/a/path/that/is/longer/than/the/row/of/this/terminal?x=1).

- one item whose words go over the end of the one row there is
  - [ ] nested
1. first

> quoted

```python
def a_long_name(argument_one: int, argument_two: str, argument_three: float) -> None:
    '''A text
    over lines'''
```

| Name | Value |
|:-----|------:|
| `a`  | 1     |
| b    | **22** |

Done.
"""


def render(text, width=60, size=None):
    """Return the rows of *text*, fed in pieces of this size."""
    markdown, rows, rest = Markdown(), [], text
    while rest:
        piece, rest = rest[: size or len(rest)], rest[size or len(rest) :]
        rows += markdown.feed(piece, width)
        assert all(row.cell_len <= width for row in markdown.rest(width, 4))
    return [*rows, *markdown.end(width)]


def plain(text, width=60, size=None):
    return [row.plain for row in render(text, width, size)]


def style_of(row, words):
    """Return the style in which *words* are shown."""
    start = row.plain.index(words)
    styles = [
        Style.parse(str(span.style))
        for span in row.spans
        if span.start <= start and start + len(words) <= span.end
    ]
    return Style.combine(styles) if styles else Style()


def row_with(text, words):
    return next(row for row in render(text) if words in row.plain)


@pytest.mark.parametrize(
    ("text", "words", "attribute"),
    [
        ("# A title", "A title", "bold"),
        ("Now **this**.", "this", "bold"),
        ("Now __this__.", "this", "bold"),
        ("Now *this*.", "this", "italic"),
        ("Now _this_.", "this", "italic"),
        ("Now ***this***.", "this", "bold"),
        ("Now ~~this~~.", "this", "strike"),
        ("Now `this`.", "this", "color"),
        ("Now https://a.example/b.", "https://a.example/b", "underline"),
        ("Now <https://a.example>.", "https://a.example", "underline"),
        ("**bold `this`**", "this", "bold"),
        ("| head |\n|---|\n| x |", "head", "bold"),
        ("```python\nreturn 1\n```", "return", "color"),
    ],
)
def test_words_have_their_style(text, words, attribute):
    """And the marks around them are gone."""
    row = row_with(text, words)
    assert getattr(style_of(row, words), attribute)
    assert not {*"*`~#<"} & {*row.plain}


@pytest.mark.parametrize(
    "text",
    [
        *("2 * 3 * 4", "2*3*4", "snake_case_name", "a ** b", "**not closed", "`open"),
        *("# ", "#hashtag", "1999 was a year", "a < b > c", "[1] is a note", "x_1_"),
        *("~ about", "\\", "-not a list", "!", "| a row without a rule", "=== x"),
    ],
)
def test_text_without_markup_stays(text):
    """What only looks like a mark is not one."""
    assert plain(text) == [text.rstrip().rstrip("#") if text == "# " else text]


def test_marks_can_be_escaped():
    assert plain(r"\*not\* \`code\`") == ["*not* `code`"]


def test_blocks():
    """Lists, quotes, tables and fences, in the terminal's own signs."""
    rows = plain(SAMPLE)
    first = next(row for row in rows if row.startswith("• one item"))
    second = rows[rows.index(first) + 1]
    assert second.startswith("  ")
    whole = "• one item whose words go over the end of the one row there is"
    assert first + second[1:] == whole
    assert "  ☐ nested" in rows
    assert "1. first" in rows
    assert "│ quoted" in rows
    assert rows[rows.index("Name │ Value") + 1] == "─────┼──────"
    assert "a    │     1" in rows
    assert "b    │    22" in rows


def test_code_and_urls_are_never_broken():
    """A row that is too long is left to the terminal, which copies it as one line."""
    rows = plain(SAMPLE, 40)
    definition = SAMPLE[SAMPLE.index("def a_long") :].partition("\n")[0]
    assert definition in rows
    assert sum("https://example.com" in row for row in rows) == 1
    (url,) = [row for row in rows if "https://example.com" in row]
    assert "terminal?x=1" in url
    assert plain("Run `one two three four` now", 12) == [
        "Run",
        "one two three four",
        "now",
    ]


def test_code_keeps_its_spaces_and_no_more_than_these():
    """A block in a list loses the indentation of its fence."""
    text = "- so:\n  ```python\n  if x:\n\n      y = [*a, **b]\n  ```\nDone"
    assert plain(text)[1:] == [
        *("── python ──────────", "if x:", "", "    y = [*a, **b]", "─" * 20, "Done"),
    ]


def test_highlighting_knows_the_lines_before():
    """A line within a string is a string, also if it comes later than the first."""
    markdown, rows = Markdown(), []
    for line in (
        "```python",
        "x = '''",
        "def not_code(): pass",
        "'''",
        "def code(): 1",
    ):
        rows += markdown.feed(line + "\n", 60)
    inner, outer = rows[2], rows[4]
    assert style_of(inner, "def") == style_of(inner, "not_code")
    assert style_of(outer, "def") != style_of(outer, "code")


def test_much_code_is_highlighted_in_time_that_grows_with_it():
    """Only the last lines are read again with each new one, and no line is lost."""
    lines = [f"value_{number} = {number}  # comment" for number in range(300)]
    rows = plain("\n".join(["```python", *lines, "```"]), 60, size=7)
    assert rows[1:-1] == lines


def test_a_table_that_is_too_wide_is_a_list():
    """Its words stay whole."""
    url = "https://example.com/a/long/path"
    rows = plain(f"| Name | Place |\n|---|---|\n| it | {url} |\n| that | {url} |", 24)
    assert rows == [
        *("Name: it", "Place:", url, "─" * 20, "Name: that", "Place:", url),
    ]


def test_a_table_is_shown_while_it_comes():
    """Its lines wait above the input until the last one."""
    markdown = Markdown()
    assert markdown.feed("| a | b |\n|---|---|\n| 1 |", 40) == []
    assert [row.plain for row in markdown.rest(40, 8)] == [
        *("| a | b |", "|---|---|", "| 1 |"),
    ]
    assert [row.plain for row in markdown.feed(" 2 |\nDone\n", 40)] == [
        *("a │ b", "──┼──", "1 │ 2", "Done"),
    ]


def test_chinese_is_not_held_back():
    """A script without spaces is broken between any two letters."""
    markdown = Markdown()
    assert [row.plain for row in markdown.feed("汉" * 25, 20)] == ["汉" * 10] * 2


@pytest.mark.parametrize("width", [10, 40, 79])
def test_pieces_make_no_difference(width):
    """However the text arrives, its rows are the same."""
    whole = plain(SAMPLE, width)
    random.seed(width)
    for size in (1, 2, 3, 7, *random.sample(range(8, 60), 5)):
        assert plain(SAMPLE, width, size) == whole


@given(
    st.text(alphabet="ab1 \n漢é\t*_`#->|[](.)!<~", max_size=120),
    st.integers(4, 20),
    st.integers(1, 9),
)
def test_no_letter_is_lost(text, width, size):
    """Whatever a model writes, in pieces of any size."""
    shown = "".join(plain(text, width, size))
    letters = [each for each in text if each.isalpha()]
    names = {"a", "b", "漢", "é"}
    found = [each for each in shown if each in names]
    assert len(found) >= len(letters) - len("".join(fence_names(text)))
    assert "\n" not in shown


def fence_names(text):
    """Return what may stand for the language after a fence."""
    return [line for line in text.split("\n") if "```" in line or "~~~" in line]


def test_nothing_obeys_the_model():
    """Control characters are pictures, in code and in tables too."""
    shown = plain("a\x1b[2J\n```\n\x1b]0;x\x07\n```\n| \x1b |\n|--|\n")
    assert not any(ord(each) < 32 for row in shown for each in row)
