"""Functions as models see them."""

import dataclasses
import datetime
import functools
import time
from typing import Annotated, Any, Generic, Literal, TypeVar, Union

import msgspec
import pytest
import signatures_later as later

from syncagent.exceptions import ConfigurationError
from syncagent.schemas import ShapeError
from syncagent.schemas.signature import read_signature

T = TypeVar("T")


class Context:
    """What a tool gets from us."""


class Deps(Context, Generic[T]):
    """The same with something of the user's."""


def read(function):
    return read_signature(function, context_type=Context)


def weather(
    city: str,
    days: Annotated[int, "How many days.", msgspec.Meta(ge=1)] = 3,
    *,
    unit: Literal["c", "f"] = "c",
) -> str:
    """Tell the weather.

    It may be wrong.

    Args:
        city: Where.
        days: Not this one.
    """
    return f"{city} {days} {unit}"


def test_a_function_as_a_model_sees_it():
    """Name, description and schema come from the function alone."""
    signature = read(weather)
    assert signature.name == "weather"
    assert signature.description == "Tell the weather.\n\nIt may be wrong."
    assert signature.context_name is None
    assert signature.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where."},
            "days": {
                "type": "integer",
                "minimum": 1,
                "description": "How many days.",
                "default": 3,
            },
            "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"city": "Rome"}, "Rome 3 c"),
        ({"city": "Rome", "days": 2.0, "unit": "f"}, "Rome 2 f"),
        ({"city": "Rome", "days": None}, "Rome 3 c"),
    ],
)
def test_arguments_fit(arguments, expected):
    """What is bound can be called, and defaults are the function's."""
    args, kwargs = read(weather).bind(arguments)
    assert weather(*args, **kwargs) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "at $: Object missing required field `city` (got object ({}))"),
        ({"city": 3}, "at $.city: expected str, got int (3)"),
        ({"city": "", "days": 0}, "at $.days: expected int >= 1, got int (0)"),
        (
            {"city": "", "dayz": 0},
            "at $: Object contains unknown field `dayz` "
            '(got object ({"city": "", "dayz": 0})); '
            'known fields are "city", "days", "unit"; did you mean "days"?',
        ),
        ([], "at $: expected object, got array ([])"),
    ],
)
def test_arguments_that_do_not_fit(arguments, message):
    """The error tells a model how to call it."""
    with pytest.raises(ShapeError) as caught:
        read(weather).bind(arguments)
    assert str(caught.value) == message


def test_positional_only_parameters():
    """They are given by their place, with the defaults that are between."""

    def add(a: int, b: int = 2, /, c: int = 3):
        return a, b, c

    assert read(add).bind({"a": 1, "c": 5}) == ([1, 2], {"c": 5})
    assert read(add).bind({"a": 1}) == ([1, 2], {})


def test_no_parameters():
    """A function may take nothing."""
    assert read(lambda: 1).bind({}) == ([], {})
    with pytest.raises(ShapeError, match="unknown field `a`"):
        read(lambda: 1).bind({"a": 1})


@dataclasses.dataclass
class Place:
    name: str
    when: datetime.date = datetime.date(2024, 5, 1)


def test_arguments_are_converted():
    """What the hints say is what the function gets, and defaults are JSON."""

    def go(to: list[Place], by: Place = Place("x"), at: Any = object()):  # noqa: B008
        pass

    signature = read(go)
    assert signature.bind({"to": [{"name": "a"}]}) == ([], {"to": [Place("a")]})
    properties = signature.parameters["properties"]
    assert properties["by"]["default"] == {"name": "x", "when": "2024-05-01"}
    assert "default" not in properties["at"]


class Tree(msgspec.Struct):
    kids: "list[Tree]" = []


def test_what_contains_itself_is_at_the_top_of_the_schema():
    """References are found where JSON schema looks for them."""

    def plant(one: Tree, two: list[Tree], title: str = "a"):
        pass

    parameters = read(plant).parameters
    assert parameters["properties"]["one"] == {"$ref": "#/$defs/Tree"}
    assert parameters["$defs"].keys() == {"Tree"}
    assert "title" not in parameters


def annotated(x: int, talk: Context):
    pass


def named(x: int, ctx):
    pass


def optional(x: int, talk: Context | None = None):
    pass


def old_optional(x: int, *, talk: Union[Context, None] = None):  # noqa: UP007
    pass


def generic(talk: Deps[int], x: int):
    pass


def in_annotated(talk: Annotated[Context, "what"], x: int):
    pass


def as_string(talk: "Context", x: int):
    pass


@pytest.mark.parametrize(
    "function",
    [
        *[annotated, optional, old_optional, generic, in_annotated, as_string],
        named,
    ],
)
def test_context_is_hidden(function):
    """The parameter for the context is known by its type or as ``ctx``."""
    signature = read(function)
    assert signature.context_name == ("ctx" if function is named else "talk")
    assert list(signature.parameters["properties"]) == ["x"]
    assert signature.bind({"x": 1}) == ([], {"x": 1})


@pytest.mark.parametrize("function", [later.with_context, later.with_optional_context])
def test_context_that_type_checkers_alone_know(function):
    """Its name is enough."""
    signature = read(function)
    assert signature.context_name == "talk"
    assert list(signature.parameters["properties"]) == ["count"]


def test_hints_that_are_strings():
    """They are looked up, those of parameters only."""
    properties = read(later.plain).parameters["properties"]
    assert properties["where"]["description"] == "A town."
    assert properties["count"] == {"type": "integer"}


def test_hints_that_the_closure_knows():
    """A class of an outer function is found through the function that uses it."""
    what = read(later.closure()).parameters["properties"]["what"]
    assert what["items"]["properties"] == {"count": {"type": "integer"}}


def test_a_parameter_may_default_to_none_without_saying_so():
    """Its description is not lost, on no Python."""

    def find(text: Annotated[str, "What."] = None):  # noqa: RUF013
        return text

    signature = read(find)
    assert signature.parameters["properties"]["text"]["description"] == "What."
    assert signature.bind({"text": None}) == ([], {})


class Shop:
    """A shop."""

    def buy(self, what: str) -> str:
        """Buy it."""
        return what

    @classmethod
    def open(cls, what: str) -> str:
        """Open it."""
        return what

    @staticmethod
    def close(what: str) -> str:
        """Close it."""
        return what

    def __call__(self, what: str) -> str:
        return what


def again(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


def sell(price: int, what: str) -> str:
    """Sell it."""
    return what


@pytest.mark.parametrize(
    ("function", "name", "description"),
    [
        (Shop().buy, "buy", "Buy it."),
        (Shop.open, "open", "Open it."),
        (Shop.close, "close", "Close it."),
        (Shop(), "Shop", "A shop."),
        (again(Shop().buy), "buy", "Buy it."),
        (functools.partial(sell, 3), "sell", "Sell it."),
        (functools.partial(sell, price=3), "sell", "Sell it."),
        (functools.partial(functools.partial(sell), price=3), "sell", "Sell it."),
        (functools.lru_cache(Shop.close), "close", "Close it."),
        (functools.partial(Shop()), "Shop", "A shop."),
    ],
)
def test_whatever_can_be_called(function, name, description):
    """Methods, partials, wrapped functions and objects are functions, too."""
    signature = read(function)
    assert (signature.name, signature.description) == (name, description)
    assert list(signature.parameters["properties"]) == ["what"]
    args, kwargs = signature.bind({"what": "milk"})
    assert (args, kwargs) == ([], {"what": "milk"})


def many(*args: int):
    pass


def any_name(**more: int):
    pass


def untyped(x: int, y=3):
    pass


async def later_on(x: int):
    pass


async def bit_by_bit(x: int):
    yield x


class Eventually:
    async def __call__(self, x: int):
        pass


def twice(ctx, talk: Context):
    pass


def by_place(ctx, /, x: int):
    pass


def odd(x: list[complex]):
    pass


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (many, r"^many: the parameter \*args takes anything"),
        (any_name, r"^any_name: the parameter \*\*more takes anything"),
        (untyped, "^untyped: the parameter y has no type; write for example y: str"),
        (Shop.buy, "^Shop.buy: the parameter self is not bound; use the method"),
        (later.unknown, "^unknown: the parameter what .*'Unknown' is not defined"),
        (later_on, "^later_on is asynchronous, and syncagent is synchronous: "),
        (bit_by_bit, "^bit_by_bit is asynchronous"),
        (Eventually(), r"^Eventually.__call__ is asynchronous"),
        (functools.partial(later_on, 3), "^later_on is asynchronous"),
        (twice, "^twice: the parameter talk must be the only one"),
        (by_place, "^by_place: the parameter ctx must be the only one"),
        (odd, "^odd: the parameter x has an unusable type: complex .* use float"),
        (Shop, "is not a function"),
        (3, "^3 is not a function"),
        (max, "^(max|the parameters of max)"),
    ],
)
def test_functions_that_a_model_cannot_call(function, message):
    """The error names the function, the parameter, and what to write."""
    with pytest.raises(ConfigurationError, match=message):
        read(function)


def test_binding_is_fast():
    """Three parameters take microseconds, not tens of them."""
    bind = read(weather).bind
    arguments = {"city": "Rome", "days": 2, "unit": "f"}
    best = min(_seconds(lambda: bind(arguments)) for _ in range(20))
    assert best < 20e-6


def _seconds(function, number=500):
    start = time.perf_counter()
    for _ in range(number):
        function()
    return (time.perf_counter() - start) / number
