"""Bytes to keys, keys to a line, words to rows: without a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncagent.cli.chat.editor import Editor
from syncagent.cli.chat.flow import Flow, clip, columns, wrap
from syncagent.cli.chat.keys import Key, KeyReader


def read(data, cut=None):
    """Return the keys of *data*, which comes in pieces of *cut* bytes."""
    reader = KeyReader()
    size = cut or len(data)
    keys = []
    for begin in range(0, len(data), size):
        keys += reader.feed(data[begin : begin + size])
    return keys + reader.flush()


@pytest.mark.parametrize("cut", [None, 1, 2, 3])
@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"\x1b", ["escape"]),
        (b"\x1b\x1b", ["escape", "escape"]),
        (b"\x1b[A", ["up"]),
        (b"\x1bOA", ["up"]),
        (b"\x1b[1;5C", ["right"]),
        (b"\x1b[3~", ["delete"]),
        (b"\x1b[15~", []),
        (b"\x1bx", ["escape", "text"]),
        (b"\x1b\x03", ["escape", "ctrl-c"]),
        (b"\x1b[", ["escape", "text"]),
        (b"\x1b[\x03", ["escape", "text", "ctrl-c"]),
        (b"\x03\x02\x04\r", ["ctrl-c", "ctrl-b", "ctrl-d", "enter"]),
        (b"\x00\x1d", []),
    ],
)
def test_keys(data, names, cut):
    """However the bytes are cut, an ESC that begins nothing is the key."""
    assert [key.name for key in read(data, cut)] == names


@pytest.mark.parametrize("cut", [None, 1, 2, 5])
def test_letters_and_pastes(cut):
    """UTF-8 that is cut, bytes that are none, and line ends in a paste."""
    keys = read(
        "é漢😀".encode() + b"\xff" + b"\x1b[200~a\r\nb\x1b[Ac\r\x1b[201~\r", cut
    )
    words = "".join(key.text for key in keys if key.name == "text")
    assert words == "é漢😀�a\nb\x1b[Ac\n"
    assert keys[-1].name == "enter"


def test_a_paste_without_end_waits():
    """It is no ESC, however long it takes."""
    reader = KeyReader()
    assert reader.feed(b"\x1b[200~half") == []
    assert not reader.is_waiting
    assert reader.flush() == []
    assert reader.feed(b"\x1b[201~") == [Key("text", "half")]


@given(st.binary(max_size=60), st.integers(1, 7))
def test_any_bytes_give_keys(data, cut):
    """Nothing that is typed breaks it, and it never waits for ever."""
    reader = KeyReader()
    for begin in range(0, len(data), cut):
        reader.feed(data[begin : begin + cut])
    reader.flush()
    assert not reader.is_waiting


def typed(*keys):
    """Return an editor after some keys; words are typed."""
    editor = Editor()
    names = {"left", "right", "home", "end", "backspace", "delete", "kill-begin"}
    names |= {"kill-end", "kill-word", "up", "down", "newline"}
    for key in keys:
        editor.press(Key(key) if key in names else Key("text", key))
    return editor


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        (["abc", "left", "x"], "abx|c"),
        (["abc", "home", "x"], "x|abc"),
        (["abc", "home", "right", "delete"], "a|c"),
        (["abc", "backspace", "backspace"], "a|"),
        (["one two", "kill-word"], "one |"),
        (["one two", "left", "kill-begin"], "|o"),
        (["one two", "home", "kill-end"], "|"),
        (["a", "newline", "b", "home", "x"], "a\nx|b"),
        (["a", "newline", "b", "left", "left", "end", "x"], "ax|\nb"),
        (["backspace", "left", "delete", "up", "down"], "|"),
    ],
)
def test_the_line(keys, wanted):
    """Keys that every terminal has do what they do everywhere."""
    editor = typed(*keys)
    text, cursor = editor.text, editor.cursor
    assert text[:cursor] + "|" + text[cursor:] == wanted


def test_what_was_typed_comes_back():
    """And the line that was being typed, too."""
    editor = Editor()
    for line in ("one", "two", "two", "  "):
        editor.remember(line)
    editor.set("half")
    seen = []
    for key in ("up", "up", "up", "down", "down", "down"):
        editor.press(Key(key))
        seen.append(editor.text)
    assert seen == ["two", "one", "one", "two", "half", "half"]


def test_the_cursor_is_where_it_is_typed():
    """In a row that is wrapped, after wide letters, in the second line."""
    assert typed("abcdef").picture("> ", 5) == (["> abc", "def"], 1, 3)
    assert typed("漢字").picture("> ", 5) == (["> 漢", "字"], 1, 2)
    assert typed("a\nbc", "left").picture("> ", 9) == (["> a", "  bc"], 1, 3)
    assert typed("s3cret").picture("> ", 9, is_secret=True) == (["> "], 0, 2)


@given(st.text(alphabet="ab \n漢é\t", max_size=80), st.integers(2, 12), st.data())
def test_rows_lose_nothing(text, width, data):
    """However words come, they fit, and no letter is lost or changes its place."""
    flow, rows, rest = Flow(), [], text
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        rows += flow.feed(rest[:size], width)
        rest = rest[size:]
    assert columns(flow.rest) <= width
    rows += flow.end()
    assert all(columns(row) <= width for row in rows)
    letters = "".join("".join(row.split()) for row in rows)
    assert letters == "".join(text.split())


def test_rows_are_broken_between_words():
    """If that is possible."""
    assert wrap("one two three", 8) == ["one two", "three"]
    assert wrap("abcdefghij", 4) == ["abcd", "efgh", "ij"]
    assert wrap("", 4) == [""]
    assert clip("abcdef", 5) == "ab..."
