"""Tools whose parameters are given as a JSON schema."""

import pytest

from syncagent import ConfigurationError, ToolContext, tool
from syncagent.schemas import ShapeError

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": ["integer", "null"]},
        "share": {"type": "number"},
        "is_metric": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "more": {"type": "object"},
        "any": {},
        "odd": True,
    },
    "required": ["city"],
    "additionalProperties": False,
}


def forecast(**given):
    """Tell the weather.

    And more about it.
    """
    return given


def bind(arguments, schema=SCHEMA):
    return tool(parameters=schema)(forecast).signature.bind(arguments)


def test_the_model_sees_the_schema_as_it_is():
    """Name and description come from the function, the rest is the given schema."""
    spec = tool(parameters=SCHEMA)(forecast).spec
    assert (spec.name, spec.parameters) == ("forecast", SCHEMA)
    assert spec.description.startswith("Tell the weather.")


def test_the_schema_is_a_copy():
    """What is done to it later is not seen."""
    schema = {"properties": {"a": {"type": "string"}}}
    made = tool(parameters=schema)(forecast)
    schema["properties"]["a"]["type"] = "integer"
    schema["properties"]["b"] = {}
    assert made.spec.parameters["properties"] == {"a": {"type": "string"}}


@pytest.mark.parametrize(
    "arguments",
    [
        {"city": "Bonn"},
        {"city": "", "days": 3, "share": 1, "is_metric": True},
        {"city": "Bonn", "days": None, "share": 0.5, "tags": [1], "more": {"a": 1}},
        {"city": "Bonn", "any": object, "odd": [1]},
    ],
)
def test_what_fits_is_passed_on_by_name(arguments):
    """As it came."""
    assert bind(arguments) == ([], arguments)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "'city'"),
        ({"city": 1}, r"\$\.city.*string.*int"),
        ({"city": "", "days": "3"}, r"\$\.days.*integer or null.*str"),
        ({"city": "", "days": True}, r"\$\.days.*bool"),
        ({"city": "", "share": False}, r"\$\.share.*bool"),
        ({"city": "", "is_metric": 1}, r"\$\.is_metric.*boolean"),
        ({"city": "", "tags": {}}, r"\$\.tags.*array"),
        ({"city": "", "more": []}, r"\$\.more.*object"),
        ({"city": "", "town": ""}, "'town'"),
    ],
)
def test_what_does_not_fit_is_told_by_path_expected_and_got(arguments, problem):
    """The model reads what is wrong where."""
    with pytest.raises(ShapeError, match=problem):
        bind(arguments)


def test_unknown_arguments_pass_unless_the_schema_says_no():
    """As JSON schema has it."""
    assert bind({"x": 1}, {"type": "object"}) == ([], {"x": 1})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": ["object"]},
        {"properties": ["a"]},
        {"properties": None},
        {"required": "city"},
        {"required": [1]},
        {"properties": {"a": {"default": object()}}},
        {"properties": {"a": {"default": "\ud800"}}},
    ],
)
def test_what_is_no_schema_is_refused_at_once(schema):
    """The programmer hears of it, and not a user in the middle of a run."""
    with pytest.raises(ConfigurationError, match="the parameters of a tool"):
        tool(parameters=schema)(forecast)


@pytest.mark.parametrize("given", [["a"], "a", 1])
def test_what_is_no_mapping_is_refused_at_once(given):
    """The same for what is no dict at all."""
    with pytest.raises(ConfigurationError, match="the parameters of a tool"):
        tool(parameters=given)(forecast)


def test_asynchronous_functions_are_refused_at_once():
    """Nobody would wait for what they return."""

    async def later(**given):
        """Do it later."""

    with pytest.raises(ConfigurationError, match="asynchronous"):
        tool(parameters={})(later)


def by_type(here: ToolContext, **given):
    """Have a context."""


def by_words(here: "ToolContext | None" = None, **given):
    """Have a context."""


def by_name(ctx, **given):
    """Have a context."""


@pytest.mark.parametrize(
    ("function", "name"),
    [(by_type, "here"), (by_words, "here"), (by_name, "ctx"), (forecast, None)],
)
def test_the_context_is_found(function, name):
    """By its type, or by its name if it has none."""
    assert tool(parameters={})(function).signature.context_name == name


def test_a_method_with_a_schema():
    """It is bound to its object."""

    class Weather:
        @tool(parameters={"properties": {"city": {"type": "string"}}})
        def of(self, city):
            """Tell the weather."""
            return self, city

    weather = Weather()
    assert weather.of(city="Bonn") == (weather, "Bonn")
    assert weather.of.name == "of"
