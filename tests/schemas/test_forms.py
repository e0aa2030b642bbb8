"""Forms: which schemas are one, which answers fit, and what a person types."""

import pytest

from syncagent.exceptions import ConfigurationError
from syncagent.schemas.forms import Form, has_format


def form(required=(), **properties):
    """Return the schema of a form."""
    return {"type": "object", "properties": properties, "required": list(required)}


#: A field of every kind.
FULL = form(
    ["name"],
    name={"type": "string", "title": "Your name", "minLength": 2, "maxLength": 5},
    age={"type": "integer", "minimum": 1, "maximum": 120},
    size={"type": "number", "default": 1.5},
    news={"type": "boolean", "default": False},
    colour={"enum": ["r", "g"], "enumNames": ["Red", "Green"]},
    taste={"type": "string", "oneOf": [{"const": "s", "title": "Sweet"}]},
    days={
        "type": "array",
        "items": {"anyOf": [{"const": "mo", "title": "Monday"}, {"const": "tu"}]},
        "minItems": 1,
        "maxItems": 1,
        "default": ["mo"],
    },
)
DEFAULTS = {"size": 1.5, "news": False, "days": ["mo"]}


def test_defaults_are_filled_in():
    """A field that is left out, or null, has its default, if it has one."""
    assert Form.of(FULL).check({"name": "Ann"}) == {"name": "Ann", **DEFAULTS}
    assert Form.of(FULL).check({"name": "Ann", "size": None, "age": None}) == {
        "name": "Ann",
        **DEFAULTS,
    }


def test_every_kind_has_its_values():
    """The answer is returned as it was given, whole numbers as integers."""
    given = {
        "name": "Ann",
        "age": 3.0,
        "size": 2,
        "news": True,
        "colour": "g",
        "taste": "s",
        "days": ["tu"],
    }
    checked = Form.of(FULL).check(given)
    assert checked == {**given, "age": 3}
    assert type(checked["age"]) is int


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "'name' is missing"),
        ({"name": "A"}, "'name' must have 2 to 5 characters; got 1"),
        ({"name": 3}, "'name' must be a text"),
        ({"name": "Ann", "age": 0}, "'age' must be 1 to 120"),
        ({"name": "Ann", "age": 1.5}, "'age' must be a whole number"),
        ({"name": "Ann", "age": True}, "'age' must be a whole number"),
        ({"name": "Ann", "size": "2"}, "'size' must be a number"),
        ({"name": "Ann", "size": float("nan")}, "'size' is too large"),
        ({"name": "Ann", "size": 2**63}, "'size' is too large"),
        ({"name": "Ann", "news": "yes"}, "'news' must be true or false"),
        ({"name": "Ann", "colour": "Red"}, "'colour' must be one of: r, g"),
        ({"name": "Ann", "days": "mo"}, "'days' must be a list of: mo, tu"),
        ({"name": "Ann", "days": ["we"]}, "'days' must be a list of: mo, tu"),
        ({"name": "Ann", "days": []}, "'days' must have 1 of its choices; got 0"),
        ({"name": "Ann", "nose": 1}, "the form has no field 'nose'"),
        (7, "must be a dict of its fields; got a int"),
        ("Ann", 'must be JSON, such as {"name": ...'),
    ],
)
def test_an_answer_that_does_not_fit(given, problem):
    """The error names the field."""
    with pytest.raises(ConfigurationError) as error:
        Form.of(FULL).check(given)
    assert problem in str(error.value)


def test_an_answer_may_be_json_text():
    """That is how a text box, or a command line, gives several fields."""
    assert Form.of(FULL).check('{"name": "Ann"}') == {"name": "Ann", **DEFAULTS}


@pytest.mark.parametrize(
    ("field", "typed", "value"),
    [
        ({"type": "string"}, " Ann ", " Ann "),
        ({"type": "string"}, '{"a": 1}', '{"a": 1}'),
        ({"type": "string"}, '{"field": "x"}', "x"),
        ({"type": "string", "format": "email"}, " a@b ", "a@b"),
        ({"type": "integer"}, " 12 ", 12),
        ({"type": "integer"}, "-3", -3),
        ({"type": "integer"}, "12.0", 12),
        ({"type": "number"}, "1e3", 1000.0),
        ({"type": "number"}, ".5", 0.5),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "n", False),
        ({"enum": ["2", "1"]}, "2", "2"),
        ({"enum": ["r", "g"], "enumNames": ["Red", "Green"]}, "green", "g"),
        ({"enum": ["r", "g"]}, "2", "g"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, "b, 1", ["b", "a"]),
    ],
)
def test_what_a_person_types(field, typed, value):
    """The text of a form with one field is read by the type of the field."""
    assert Form.of(form(["field"], field=field)).check(typed) == {"field": value}


@pytest.mark.parametrize(
    ("field", "typed"),
    [
        ({"type": "integer"}, "twelve"),
        ({"type": "integer"}, "1_000"),
        ({"type": "number"}, "inf"),
        ({"type": "boolean"}, "perhaps"),
        ({"enum": ["r"]}, "blue"),
        ({"type": "string"}, "  "),
    ],
)
def test_what_a_person_types_and_is_no_value(field, typed):
    """It is refused, and the error names the field."""
    with pytest.raises(ConfigurationError, match="'field'"):
        Form.of(form(["field"], field=field)).check(typed)


@pytest.mark.parametrize("typed", ["yes", {}, "{}"])
def test_a_form_without_fields_is_a_yes(typed):
    """It asks for nothing but agreement."""
    assert Form.of(form()).check(typed) == {}
    with pytest.raises(ConfigurationError):
        Form.of(form()).check("well")


@pytest.mark.parametrize(
    ("format", "right", "wrong"),
    [
        ("email", "a@b.example", "a b@c"),
        ("uri", "https://example.com/a?b=1", "example"),
        ("uri", "mailto:a@b", "https://exa mple.com"),
        ("date", "2026-02-28", "2026-02-30"),
        ("date", "2024-02-29", "20240229"),
        ("date-time", "2026-01-31T12:00:00Z", "2026-01-31"),
        ("date-time", "2026-01-31T12:00:00.123456789+01:00", "2026-01-31T25:00:00Z"),
        ("hostname", "anything", None),
    ],
)
def test_formats(format, right, wrong):
    """Those that elicitation names are checked, all others are not."""
    assert has_format(right, format)
    if wrong is not None:
        assert not has_format(wrong, format)
        with pytest.raises(ConfigurationError, match=r"'x' must be an? "):
            Form.of(form(x={"type": "string", "format": format})).check({"x": wrong})


def test_a_pattern_is_never_run():
    """A pattern from a server could take for ever."""
    schema = form(x={"type": "string", "pattern": "(a+)+$"})
    assert Form.of(schema).check({"x": "a" * 60 + "!"}) == {"x": "a" * 60 + "!"}
    assert Form.of(schema).schema == schema


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ([], "it must be a JSON schema"),
        ({"type": "string"}, '"type": "object"'),
        ({"type": "object"}, '"properties"'),
        ({"type": "object", "properties": {}, "required": ["x"]}, '"required"'),
        ({"type": "object", "properties": {}, "required": "x"}, '"required"'),
        (form(x=3), "'x' must be a JSON schema"),
        (form(x={"type": "object", "properties": {}}), "'x' must be a string, number"),
        (form(x={"type": ["string", "null"]}), "'x' must be a string, number"),
        (form(x={"type": "array", "items": {"type": "string"}}), "the list 'x'"),
        (form(x={"type": "array"}), "the list 'x'"),
        (form(x={"enum": [1, 2]}), "the choices of 'x'"),
        (form(x={"enum": []}), "the choices of 'x'"),
        (form(x={"enum": ["a", "a"]}), "the choices of 'x'"),
        (form(x={"type": "string", "oneOf": [{"title": "A"}]}), "the choices of 'x'"),
        (form(x={"type": "string", "minLength": "2"}), "the limits of 'x'"),
        (form(x={"type": "number", "maximum": True}), "the limits of 'x'"),
        (form(x={"type": "integer", "default": "1"}), "the default of 'x'"),
        (form(x={"enum": ["a"], "default": "b"}), "the default of 'x'"),
        (form(x={"type": "string", "title": object()}), "it is not JSON"),
        (form(**{f"f{n}": {"type": "string"} for n in range(101)}), "100 fields"),
        (form(x={"type": "string", "description": "x" * 300_000}), "bytes"),
    ],
)
def test_schemas_that_are_no_forms(schema, problem):
    """Each is refused, and the message says why."""
    with pytest.raises(ConfigurationError, match="the form cannot be used") as error:
        Form.of(schema)
    assert problem in str(error.value)


def test_a_form_does_not_change():
    """Neither its maker nor an answer can change what it asks for."""
    schema = form(x={"type": "array", "items": {"enum": ["a"]}, "default": ["a"]})
    made = Form.of(schema)
    schema["properties"].clear()
    made.check({})["x"].append("b")
    assert made.check({}) == {"x": ["a"]}
