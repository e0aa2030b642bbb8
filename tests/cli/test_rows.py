"""Streamed text in rows: without a terminal."""

from hypothesis import given
from hypothesis import strategies as st

from syncagent.cli.rows import RowBuffer, clip, columns, wrap


@given(st.text(alphabet="ab \n漢é\t", max_size=80), st.integers(2, 12), st.data())
def test_rows_lose_nothing(text, width, data):
    """However words come, they fit, and no letter is lost or changes its place."""
    buffer, rows, rest = RowBuffer(), [], text
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        rows += buffer.feed(rest[:size], width)
        rest = rest[size:]
    assert columns(buffer.rest) <= width
    rows += buffer.end()
    assert all(columns(row) <= width for row in rows)
    letters = "".join("".join(row.split()) for row in rows)
    assert letters == "".join(text.split())


def test_rows_are_broken_between_words():
    """If that is possible."""
    assert wrap("one two three", 8) == ["one two", "three"]
    assert wrap("abcdefghij", 4) == ["abcd", "efgh", "ij"]
    assert wrap("", 4) == [""]
    assert clip("abcdef", 5) == "ab..."
