"""Types as schemas, and JSON as values of them."""

import contextlib
import dataclasses
import datetime
import decimal
import enum
import json
import pickle
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict, Union

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.processes import run_script

from syncagent.exceptions import ConfigurationError
from syncagent.schemas import Shape, ShapeError


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Item(TypedDict):
    price: float
    name: Annotated[str, "What it is."]


class Note(TypedDict, total=False):
    text: str
    stars: int


class Order(msgspec.Struct, forbid_unknown_fields=True):
    items: list[Item]
    colour: Colour = Colour.RED
    count: Annotated[int, msgspec.Meta(ge=1)] = 1


@dataclasses.dataclass
class Point:
    x: Annotated[int, "How far."]
    y: int = 0

    def __post_init__(self):
        if self.x == self.y:
            raise ValueError("x and y are the same")


class Pair(NamedTuple):
    first: Annotated[int, "The one."]
    second: str = "b"


class Node(msgspec.Struct):
    name: str
    kids: "list[Node]" = []


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    name: str


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (int, 3, 3),
        (float, 3, 3.0),
        (str, "a", "a"),
        (bool, True, True),
        (None, None, None),
        (Any, [1, "a"], [1, "a"]),
        (object, {"a": 1}, {"a": 1}),
        (Optional[int], None, None),  # noqa: UP045
        (Union[int, str], "a", "a"),  # noqa: UP007
        (int | None, 3, 3),
        (Literal["a", 1, None], 1, 1),
        (Literal["a", None], None, None),
        (Colour, "red", Colour.RED),
        (Size, 2, Size.LARGE),
        (list, [1, "a"], [1, "a"]),
        (list[int], [1], [1]),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2], (1, 2)),
        (set[str], ["a", "a"], {"a"}),
        (dict, {"a": 1}, {"a": 1}),
        (dict[str, float], {"a": 1}, {"a": 1.0}),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (Item, {"price": 1, "name": "a"}, {"price": 1.0, "name": "a"}),
        (Note, {}, {}),
        (Point, {"x": 1}, Point(1)),
        (Pair, [1], Pair(1)),
        (Node, {"name": "a", "kids": [{"name": "b"}]}, Node("a", [Node("b")])),
        (Cat | Dog, {"type": "dog", "name": "a"}, Dog("a")),
        (datetime.date, "2024-05-01", datetime.date(2024, 5, 1)),
        (uuid.UUID, "00000000-0000-0000-0000-000000000001", uuid.UUID(int=1)),
        (decimal.Decimal, "1.50", decimal.Decimal("1.50")),
        (bytes, "aGk=", b"hi"),
        (Annotated[list[Annotated[int, "one"]], "all", ["unhashable"]], [1], [1]),
    ],
)
def test_values(hint, value, expected):
    """What JSON has becomes what the hint says."""
    got = Shape(hint).convert(value)
    assert got == expected
    assert type(got) is type(expected)
    json.dumps(Shape(hint).schema)


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (int, {"type": "integer"}),
        (object, {}),
        (Colour, {"title": "Colour", "enum": ["blue", "red"], "type": "string"}),
        (Literal[1, 2], {"enum": [1, 2], "type": "integer"}),
        (Annotated[int, "How many."], {"description": "How many.", "type": "integer"}),
        (
            list[Annotated[int, msgspec.Meta(ge=1), "One."]],
            {
                "type": "array",
                "items": {"type": "integer", "minimum": 1, "description": "One."},
            },
        ),
        (
            Annotated[str, "Where."] | None,
            {"anyOf": [{"type": "string", "description": "Where."}, {"type": "null"}]},
        ),
        (
            Note,
            {
                "title": "Note",
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "stars": {"type": "integer"},
                },
                "required": [],
            },
        ),
        (
            Point,
            {
                "title": "Point",
                "type": "object",
                "properties": {
                    "x": {"type": "integer", "description": "How far."},
                    "y": {"type": "integer", "default": 0},
                },
                "required": ["x"],
            },
        ),
    ],
)
def test_schemas(hint, schema):
    """A schema says all that the hint says."""
    assert Shape(hint).schema == schema


def test_fields_stand_in_their_order_and_in_place():
    """What is nested is written where it is used."""
    schema = Shape(Order).schema
    assert "$defs" not in schema
    item = schema["properties"]["items"]["items"]
    assert list(item["properties"]) == item["required"] == ["price", "name"]
    assert item["properties"]["name"]["description"] == "What it is."
    assert schema["properties"]["colour"]["default"] == "red"
    assert schema["additionalProperties"] is False


def test_items_of_a_named_tuple_are_described():
    """The description of a field is found by its place."""
    first, _ = Shape(Pair).schema["prefixItems"]
    assert first == {"type": "integer", "description": "The one."}


def test_what_contains_itself_is_referred_to():
    """Only then there is a reference, and never at the top."""
    schema = Shape(Node).schema
    reference = {"$ref": "#/$defs/Node"}
    assert schema["type"] == "object"
    assert schema["properties"]["kids"]["items"] == reference
    assert schema["$defs"]["Node"]["properties"]["kids"]["items"] == reference
    assert Shape(list[Node]).schema["items"] == reference


def test_nothing_stands_beside_a_reference():
    """Some providers take nothing there, not even a description."""
    items = Shape(list[Annotated[Node, "A tree."]]).schema["items"]
    assert items == {"anyOf": [{"$ref": "#/$defs/Node"}], "description": "A tree."}


def test_alternatives_are_told_apart_without_references():
    """Nothing in a schema speaks of references that are gone."""
    schema = Shape(Cat | Dog).schema
    assert [each["title"] for each in schema["anyOf"]] == ["Cat", "Dog"]
    assert schema.keys() == {"anyOf"}


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (int, "3", 'at $: expected int, got str ("3")'),
        (int, 3.5, "at $: expected int, got float (3.5)"),
        (int, True, "at $: expected int, got bool (true)"),
        (str, None, "at $: expected str, got null"),
        (list[int], [1, "a"], 'at $[1]: expected int, got str ("a")'),
        (dict[str, Any], '{"a": 1}', r'at $: expected object, got str ("{\"a\": 1}")'),
        (
            Order,
            {"items": [{"price": 1, "name": ""}, {"price": "abc"}]},
            'at $.items[1].price: expected float, got str ("abc")',
        ),
        (
            Order,
            {"items": [{"price": 1}]},
            "at $.items[0]: Object missing required field `name` "
            '(got object ({"price": 1}))',
        ),
        (
            Order,
            {"items": [], "color": "red"},
            "at $: Object contains unknown field `color` "
            '(got object ({"items": [], "color": "red"})); '
            'known fields are "items", "colour", "count"; did you mean "colour"?',
        ),
        (
            Order,
            {"items": [], "colour": "Red"},
            'at $.colour: expected one of "blue", "red", got str ("Red"); '
            'did you mean "red"?',
        ),
        (
            Order,
            {"items": [], "count": 0},
            "at $.count: expected int >= 1, got int (0)",
        ),
        (
            dict[str, dict[str, int]],
            {"a": {"x": 1, "y": 2}, "b c": {"z": "s"}, "d": {"x": "s"}},
            'at $["b c"].z: expected int, got str ("s")',
        ),
        (
            dict[str, dict[str, int]],
            {"a": {"x": 1, "y": "s"}, "b": {"x": "s"}},
            'at $.a.y: expected int, got str ("s")',
        ),
        (Point, {"x": None}, "at $.x: expected int, got null"),
        (
            dict[str, dict[int, int]],
            {"a": {"1": 1}, "b": {"2": 2, "x": 3}},
            'at $.b: expected int as the name of a field, got str ("x")',
        ),
        (tuple[int, str], [1], "at $: expected array of length 2, got array ([1])"),
        (
            Cat | Dog,
            {},
            "at $: Object missing required field `type` (got object ({}))",
        ),
        (
            Cat | Dog,
            {"type": "cow"},
            'at $.type: expected one of "cat", "dog", got str ("cow")',
        ),
        (
            Annotated[str, msgspec.Meta(pattern="^a$")],
            "b",
            "at $: expected str matching regex '^a$', got str (\"b\")",
        ),
        (
            list[datetime.date],
            ["today"],
            'at $[0]: Invalid RFC3339 encoded date (got str ("today"))',
        ),
        (
            list[Point],
            [{"x": 0}],
            'at $[0]: x and y are the same (got object ({"x": 0}))',
        ),
    ],
)
def test_what_is_wrong(hint, value, message):
    """An error names the path, what was expected, and what is there."""
    with pytest.raises(ShapeError) as caught:
        Shape(hint).convert(value)
    assert str(caught.value) == message
    assert message.startswith(f"at {caught.value.path}: ")
    assert caught.value.expected in message
    assert caught.value.got in message


def test_long_values_are_cut():
    """An error shows the beginning of what is wrong."""
    with pytest.raises(ShapeError) as caught:
        Shape(int).convert(["word"] * 1000)
    assert len(str(caught.value)) < 110
    assert caught.value.got.endswith("...)")


def test_an_error_can_cross_a_process():
    """Message and attributes survive pickling."""
    with pytest.raises(ShapeError) as caught:
        Shape(Order).convert({"items": [], "color": "red"})
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert vars(again) == vars(caught.value)


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (int, 3.0, 3),
        (dict[str, int | str], {"a": 3.0, "b": 4.0}, {"a": 3, "b": 4}),
        (Size, 1.0, Size.SMALL),
        (Point, {"x": 1, "y": None}, Point(1)),
        (list[Note], [{"text": None}, {"stars": 2.0}], [{}, {"stars": 2}]),
    ],
)
def test_what_can_mean_one_thing_only(hint, value, expected):
    """3.0 is an integer, and null is nothing where nothing may be."""
    before = json.dumps(value)
    got = Shape(hint).convert(value)
    assert got == expected
    assert type(got) is type(expected)
    assert json.dumps(value) == before


@pytest.mark.parametrize(
    ("hint", "value"), [(int, 1e300), (Point, {"x": None}), (Note, {"text": 3})]
)
def test_nothing_else_is_guessed(hint, value):
    """A float that may be another integer, or null for what must be there, is wrong."""
    with pytest.raises(ShapeError):
        Shape(hint).convert(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", 10**400])
def test_odd_values_are_wrong(value):
    """What JSON can hardly have is an error like any other, and can be printed."""
    with pytest.raises(ShapeError) as caught:
        Shape(list[Size]).convert([value])
    assert str(caught.value).encode()


@pytest.mark.slow
def test_what_is_too_deep_is_wrong():
    """A value without end does no more than another wrong one."""
    value = {"name": "a"}
    for _ in range(100_000):
        value = {"name": "a", "kids": [value]}
    with pytest.raises(ShapeError, match="nested too deeply"):
        Shape(Node).convert(value)


class Careless(msgspec.Struct):
    x: dict[str, int]

    def __post_init__(self):
        self.x["a"]


def test_checks_that_fail_themselves():
    """Whatever a class raises about a value is told, and its cause is kept."""
    with pytest.raises(ShapeError, match=r"at \$: KeyError: 'a'") as caught:
        Shape(list[Careless]).convert([{"x": {}}])
    assert isinstance(caught.value.__cause__, KeyError)


def test_the_same_type_has_the_same_shape():
    """Asking again costs nothing."""
    assert Shape(list[int]) is Shape(list[int])
    assert Shape(Order) is Shape(Order)
    assert repr(Shape(list[int])) == "Shape(list[int])"


class Nowhere(TypedDict):
    what: "Missing"  # noqa: F821


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (complex, "complex has no JSON schema; use float"),
        (list[Path], "Path has no JSON schema; use str"),
        (Iterable[int], "Iterable has no JSON schema; use list"),
        (Callable[[int], str], "Callable has no JSON schema; use a dataclass"),
        (Nowhere, "names 'Missing', which is not defined; define it"),
        (Point | dict, "more than one dict-like type .*; use one type"),
        (enum.Enum("Half", {"A": 0.5}), "Half.* all str or all int .*; use strings"),
        (Annotated[int, msgspec.Meta(min_length=1)], "min_length"),
    ],
)
def test_types_that_cannot_be(hint, message):
    """The error names the type and what to use in its place."""
    with pytest.raises(ConfigurationError, match=message):
        Shape(hint)


class Said:
    """What pydantic's Field and annotated_types look like."""

    def __init__(self, **said):
        vars(self).update(said)


def test_constraints_in_the_words_of_others_count():
    """What pydantic and annotated_types say in Annotated is kept, not lost."""
    field = Said(description="How many.", metadata=[Said(ge=1), Said(le=9)])
    shape = Shape(Annotated[int, field])
    assert shape.schema == {
        "description": "How many.",
        "type": "integer",
        "minimum": 1,
        "maximum": 9,
    }
    with pytest.raises(ShapeError, match="expected int >= 1"):
        shape.convert(0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["items", "price", "name", "x", "type", "kids"])
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
HINTS = [
    *[int, Order, Point, Pair, Node, Cat | Dog, Note, Size, Colour, decimal.Decimal],
    *[dict[int, dict[str, int]], tuple[int, str], datetime.datetime, bytes, uuid.UUID],
    *[Literal["a", 1], list[Point] | int | None, datetime.timedelta, set[int]],
]


@pytest.mark.parametrize("hint", HINTS, ids=str)
@settings(max_examples=40)
@given(value=JSON)
def test_no_other_error(hint, value):
    """Any JSON is converted, or it is a ShapeError."""
    with contextlib.suppress(ShapeError):
        Shape(hint).convert(value)


def test_pydantic_is_not_imported():
    """Who does not use it does not pay for it."""
    script = (
        "import sys; from syncagent.schemas import Shape; Shape(dict[str, int]).schema;"
        "assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=20)


@pytest.mark.slow
def test_threads_that_use_a_type_for_the_first_time_at_once():
    """Runs of one process call the same tool; msgspec alone crashes the process."""
    ran = run_script("schemas/first_use_script", 100)
    assert (ran.returncode, ran.stdout) == (0, "well\n"), ran.stderr
