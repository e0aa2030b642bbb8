"""Models of pydantic, wherever they stand."""

import dataclasses
import datetime
from typing import Annotated, TypedDict

import msgspec
import pytest

from syncagent.exceptions import ConfigurationError
from syncagent.schemas import Shape, ShapeError

pydantic = pytest.importorskip("pydantic")


class Price(pydantic.BaseModel):
    """What it costs."""

    model_config = pydantic.ConfigDict(extra="forbid")

    amount: float = pydantic.Field(ge=0)
    currency: str = "EUR"


class Tree(pydantic.BaseModel):
    name: str
    kids: "list[Tree]" = pydantic.Field(default_factory=list)


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    day: datetime.date
    price: Price


@dataclasses.dataclass
class Thing:
    price: Price


class Typed(TypedDict):
    price: Price


GOOD = {"amount": 3}
BAD = {"amount": "x"}
WRONG = 'expected a valid number, unable to parse string as a number, got str ("x")'


@pytest.mark.parametrize(
    ("hint", "wrap", "path"),
    [
        (Price, lambda value: value, "$"),
        (Price | None, lambda value: value, "$"),
        (list[Price], lambda value: [GOOD, value], "$[1]"),
        (dict[str, Price], lambda value: {"a": GOOD, "b": value}, "$.b"),
        (Thing, lambda value: {"price": value}, "$.price"),
        (Typed, lambda value: {"price": value}, "$.price"),
        (Strict, lambda value: {"day": "2024-05-01", "price": value}, "$.price"),
    ],
)
def test_models_are_found_wherever_they_stand(hint, wrap, path):
    """They are made, and what they say is told with the whole path."""
    shape = Shape(hint)
    assert "Price(amount=3.0, currency='EUR')" in repr(shape.convert(wrap(GOOD)))
    with pytest.raises(ShapeError) as caught:
        shape.convert(wrap(BAD))
    error = caught.value
    assert error.path == f"{path}.amount"
    if hint is not Strict:
        assert str(error) == f"at {path}.amount: {WRONG}"


def test_three_problems_are_told_at_once():
    """The first has the attributes, and others are in the message."""
    with pytest.raises(ShapeError) as caught:
        Shape(list[Price]).convert([{"amonut": 1, "currency": 3}])
    assert str(caught.value) == (
        "at $[0].amount: Field required (got nothing); "
        "at $[0].currency: expected a valid string, got int (3); "
        'at $[0]: Extra inputs are not permitted: "amonut" '
        '(got object ({"amonut": 1, "currency": 3})); '
        'known fields are "amount", "currency"; did you mean "amount"?'
    )
    assert caught.value.path == "$[0].amount"


def test_each_problem_has_its_key():
    """Which of many fields is wrong is told for all of them."""
    with pytest.raises(ShapeError) as caught:
        Shape(dict[str, Price]).convert({"a": GOOD, "b": {**BAD, "currency": 3}})
    assert "at $.b.amount: " in str(caught.value)
    assert "at $.b.currency: " in str(caught.value)


def test_null_is_nothing_where_nothing_may_be():
    """Those who must name every field say null for the default."""
    got = Shape(list[Price]).convert([{"amount": 1, "currency": None}])
    assert got == [Price(amount=1)]


def test_schemas_bring_their_own_references():
    """They are written in place, or moved to the top if they contain themselves."""
    schema = Shape(Strict).schema
    assert "$defs" not in schema
    assert schema["properties"]["price"]["required"] == ["amount"]
    both = Shape(dict[str, Tree] | list[Tree]).schema
    assert both["anyOf"][1]["items"] == {"$ref": "#/$defs/Tree"}
    assert both["$defs"].keys() == {"Tree"}
    assert Shape(Tree).schema["type"] == "object"


def test_two_of_one_name_are_kept_apart():
    """A reference leads to the one that is meant."""
    other = msgspec.defstruct("Tree", [("mine", Tree), ("more", "list[Tree]")])
    other.__annotations__["more"] = list[other]
    schema = Shape(other).schema
    assert len(schema["$defs"]) == 2
    mine = schema["properties"]["mine"]["$ref"].removeprefix("#/$defs/")
    assert schema["$defs"][mine]["properties"].keys() == {"name", "kids"}


def test_fields_of_pydantic_count_in_annotated():
    """A description and a limit are kept."""
    shape = Shape(Annotated[int, pydantic.Field(description="How many.", gt=0)])
    assert shape.schema["description"] == "How many."
    with pytest.raises(ShapeError):
        shape.convert(0)


def test_a_union_of_models_cannot_be():
    """Who wants one is told so at once."""
    with pytest.raises(ConfigurationError, match="use one type"):
        Shape(Price | Tree)
