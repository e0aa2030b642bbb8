"""What tools return, as the model gets to read it."""

import collections
import dataclasses
import datetime
import decimal
import enum
import math
import pathlib
import sqlite3
import types
import uuid

import msgspec
import pytest

from syncagent import File, Image, ToolError
from syncagent.messages import Json, Text, ToolResult
from syncagent.tools.results import RESULT_LIMIT, content_of, cut, error_text

PICTURE = Image(data=b"png")
PAPER = File(data=b"pdf")


class Colour(str, enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Word(str):
    """A string, and more."""


class Count(int):
    """A number, and more."""


class Part(float):
    """Another."""


@dataclasses.dataclass
class Point:
    x: int
    y: int = 2


def row():
    """Return what a database gives."""
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    try:
        return connection.execute("select 1 as one, 'b' as two").fetchone()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("words", "words"),
        (Word("words"), "words"),
        (Colour.RED, "red"),
        (datetime.date(2024, 1, 2), "2024-01-02"),
        (uuid.UUID(int=1), str(uuid.UUID(int=1))),
        (pathlib.PurePosixPath("/a/b"), "/a/b"),
        (decimal.Decimal("1.10"), "1.10"),
        (Text("words"), "words"),
        (" \n", " \n"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_words(value, text):
    """What has a text of its own is that text."""
    [block] = content_of(value)
    assert block == Text(text)
    assert type(block.text) is str


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (1, 1),
        (True, True),
        (1.5, 1.5),
        (2**200, 2**200),
        (Level.LOW, 1),
        ([], []),
        ({"a": [1, None]}, {"a": [1, None]}),
        ((1, "b"), [1, "b"]),
        ({1: "a"}, {"1": "a"}),
        (frozenset([1]), [1]),
        (Point(1), {"x": 1, "y": 2}),
        ([Word("a"), Count(1), Part(1.5)], ["a", 1, 1.5]),
        (collections.deque([1, 2]), [1, 2]),
        (collections.UserDict(a=1), {"a": 1}),
        (collections.ChainMap({"a": 1}), {"a": 1}),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        (range(3), [0, 1, 2]),
        (row(), {"one": 1, "two": "b"}),
        ([row()], [{"one": 1, "two": "b"}]),
        ({"path": pathlib.PurePosixPath("/a")}, {"path": "/a"}),
        ([math.nan, 1.0, None, math.inf], ["NaN", 1.0, None, "Infinity"]),
        ({"a": {"b": -math.inf}}, {"a": {"b": "-Infinity"}}),
        (Json({"a": math.nan}), {"a": "NaN"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values(value, plain):
    """Nothing of a value is lost: not its keys, and not what JSON has no word for."""
    assert content_of(value) == (Json(plain),)


def test_a_value_is_a_copy():
    """What a tool does to it later does not change the conversation."""
    value = {"a": [1]}
    [block] = content_of(value)
    value["a"].append(2)
    assert block == Json({"a": [1]})


@pytest.mark.parametrize("value", [None, "", Text(""), (), [], {}])
def test_nothing(value):
    """Promise 4: there is always one block, and it is not empty."""
    [block] = content_of(value)
    assert ToolResult("call", (block,))
    assert not isinstance(block, Text) or block.text


def test_blocks():
    """Pictures and files stay what they are, also among others."""
    assert content_of(PICTURE) == (PICTURE,)
    mixed = ["see", PICTURE, {"page": 1}, PAPER, Text("end")]
    found = (Text("see"), PICTURE, Json({"page": 1}), PAPER, Text("end"))
    assert content_of(mixed) == content_of(tuple(mixed)) == found


# -- what cannot be said -----------------------------------------------------------


class Angry:
    """Raises whatever is done to it."""

    def __repr__(self):
        raise RuntimeError("no repr")

    __str__ = __iter__ = __len__ = keys = __repr__


class AngryList(list):
    def __iter__(self):
        raise RuntimeError("no iter")


class Model:
    """Like one of pydantic's, which fails."""

    def model_dump(self, mode):
        raise RuntimeError("no dump")


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no str")


class Quiet:
    def __len__(self):
        return 1

    def __iter__(self):
        raise Mute


def recursive():
    value = []
    value.append(value)
    return value


def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


UNSPEAKABLE = {
    "object": object,
    "class": lambda: Angry,
    "angry": Angry,
    "angry inside": lambda: [Angry()],
    "angry list": lambda: AngryList([1]),
    "model": Model,
    "mute error": Quiet,
    "generator": lambda: (n for n in range(3)),
    "iterator": lambda: iter([1]),
    "recursive": recursive,
    "deep": deep,
    "digits": lambda: [10**5000],
    "keys": lambda: {(1, 2): 3},
    "bytes": lambda: b"\x00",
    "bytes among blocks": lambda: [PICTURE, b"\x00"],
    "function": lambda: len,
}


@pytest.mark.parametrize("name", UNSPEAKABLE)
@pytest.mark.slow
def test_what_cannot_be_said(name):
    """It is a tool error that says that the tool has run, and what to return."""
    with pytest.raises(ToolError, match="the tool has run, but") as error:
        content_of(UNSPEAKABLE[name]())
    assert "should return" in str(error.value)


def test_words_that_cannot_be_sent():
    """Halves of characters are replaced; the rest of the words is kept."""
    assert content_of("a\ud800b") == (Text("a?b"),)
    assert content_of([PICTURE, "\udfff"])[1] == Text("?")


# -- too much ----------------------------------------------------------------------


def test_a_megabyte_of_words():
    """The middle is left out, with a word about how much; both ends are there."""
    [block] = content_of("a" + "b" * 1_000_000 + "c")
    assert block.text[0] == "a"
    assert block.text[-1] == "c"
    assert "[... 900002 characters left out ...]" in block.text
    assert len(block.text) < RESULT_LIMIT + 100


def test_a_megabyte_of_values():
    """Too long for a value, it is words."""
    [block] = content_of({"a": "é" * 1_000_000})
    assert isinstance(block, Text)
    assert "characters left out" in block.text
    assert len(block.text) < RESULT_LIMIT + 100


def test_a_megabyte_in_pieces():
    """The limit is for all of it, and pictures are not cut."""
    content = content_of([Text("x" * 1000)] * 1000 + [PICTURE], 5500)
    words = [block.text for block in content if isinstance(block, Text)]
    assert sum(map(len, words)) < 6000
    assert words[5].count("[... 500 characters left out ...]") == 1
    assert words[-1] == "[... 994000 characters left out ...]"
    assert PICTURE in content


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 10, 99, 100, 101])
def test_every_limit(limit):
    """What is kept, and what is said to be left out, is all of it."""
    text = "".join(chr(ord("a") + number % 26) for number in range(100))
    said = cut(text, limit)
    if limit >= 100:
        assert said == text
        return
    head, _, rest = said.partition("\n[... ")
    number, _, tail = rest.partition(" characters left out ...]\n")
    assert len(head) + len(tail) == limit
    assert len(head) + int(number) + len(tail) == 100
    assert text.startswith(head)
    assert text.endswith(tail)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (KeyError("x"), "KeyError: 'x'"),
        (ValueError(), "ValueError"),
        (ToolError("plain"), "plain"),
        (Mute(), "Mute"),
        (ValueError("\ud800"), "ValueError: ?"),
    ],
)
def test_errors(error, words):
    """They are told by class and words, and an error in that is no error."""
    assert error_text(error) == words


def test_errors_are_not_long():
    """Promise 4: whatever is in them."""
    assert len(error_text(ValueError("x" * 1_000_000))) < 5000
    msgspec.json.encode(error_text(ValueError("\udcff" * 10_000)))


# -- names that are not UTF-8 ------------------------------------------------------

#: A file name as os.listdir() gives it.
ODD = "caf\udce9.txt"


@dataclasses.dataclass
class Entry:
    name: str
    size: float


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([ODD, "b.txt"], ["caf?.txt", "b.txt"]),
        ({"names": [ODD]}, {"names": ["caf?.txt"]}),
        ({ODD: 1, "b": 2}, {"caf?.txt": 1, "b": 2}),
        ((ODD, None, math.nan), ["caf?.txt", None, "NaN"]),
        ({"a": {ODD}}, {"a": ["caf?.txt"]}),
        (Entry(ODD, math.inf), {"name": "caf?.txt", "size": "Infinity"}),
        ([pathlib.PurePath(ODD)], ["caf?.txt"]),
        ([Word(ODD)], ["caf?.txt"]),
        ({"deep": [{"er": [ODD]}]}, {"deep": [{"er": ["caf?.txt"]}]}),
        # Two names that look alike stay two.
        (
            dict(zip(["a\udce8", "a\udce9", "a?"], [1, 2, 3], strict=True)),
            {"a?": 3, "a\\udce8": 1, "a\\udce9": 2},
        ),
    ],
)
def test_names_that_are_not_utf_8(value, expected):
    """S9: a name that is not UTF-8 is told with a replacement, wherever it stands."""
    [block] = content_of(value)
    assert block == Json(expected)
    msgspec.json.encode(block)


@pytest.mark.parametrize("value", [ODD, Word(ODD), Text(ODD), pathlib.PurePath(ODD)])
def test_such_a_name_alone(value):
    """S9: and so alone."""
    assert content_of(value) == (Text("caf?.txt"),)


def test_such_a_name_of_a_file():
    """S9: and as the name of a file."""
    [_, block] = content_of(["see", File(data=b"x", name=ODD)])
    assert block == File(data=b"x", name="caf?.txt")


def test_many_of_them():
    """S9: a long list is cut like any other."""
    [block] = content_of([ODD] * 1000, 100)
    assert "caf?.txt" in block.text
    assert "characters left out" in block.text
