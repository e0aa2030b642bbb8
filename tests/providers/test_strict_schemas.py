"""JSON schemas reduced to what providers can enforce."""

import pytest

from syncagent.options import OutputFormat
from syncagent.providers.strict_schemas import closed as closed_form
from syncagent.providers.strict_schemas import (
    gemini_schema,
    openai_format,
    reduced,
    strict,
)


def closed(properties, **more):
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        **more,
    }


TEXT = {"type": "string"}
LONGEST = {**TEXT, "description": "maxLength: 3"}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"type": "object", "properties": {"a": TEXT}, "required": ["a"]},
            closed({"a": TEXT}),
        ),
        (
            {"type": "object", "properties": {"a": TEXT}},
            closed({"a": {"type": ["string", "null"]}}),
        ),
        (
            {"type": "object", "properties": {"a": {"enum": ["x"]}}},
            closed({"a": {"anyOf": [{"enum": ["x"]}, {"type": "null"}]}}),
        ),
        (
            {"properties": {"a": {"$ref": "#/$defs/b"}}, "required": ["a"]},
            {
                "properties": {"a": {"$ref": "#/$defs/b"}},
                "required": ["a"],
                "additionalProperties": False,
            },
        ),
        (
            {"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}},
            {"type": "array", "items": closed({"a": {"type": ["string", "null"]}})},
        ),
        (
            {"$defs": {"b": {"type": "object", "properties": {}}}, "anyOf": [TEXT]},
            {"$defs": {"b": closed({})}, "anyOf": [TEXT]},
        ),
        (
            {"type": "object", "properties": {}, "additionalProperties": TEXT},
            {"type": "object", "properties": {}, "additionalProperties": TEXT},
        ),
        (closed({"a": TEXT}), closed({"a": TEXT})),
        ({"type": "object"}, closed({})),
    ],
)
def test_what_becomes_of_a_schema(schema, expected):
    """Every property is there, no other is, and what was optional may be null."""
    assert strict(schema) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (TEXT, TEXT),
        ({**TEXT, "format": "uuid"}, {**TEXT, "format": "uuid"}),
        ({**TEXT, "format": "decimal"}, {**TEXT, "description": 'format: "decimal"'}),
        (
            {**TEXT, "description": "A name.", "minLength": 1, "default": "x"},
            {**TEXT, "description": 'A name. (minLength: 1, default: "x")'},
        ),
        ({**TEXT, "default": None}, TEXT),
        ({"const": 3}, {"enum": [3]}),
        ({"oneOf": [{**TEXT, "maxLength": 3}]}, {"anyOf": [LONGEST]}),
        (
            {"type": "array", "items": {"const": 1}, "uniqueItems": True},
            {
                "type": "array",
                "items": {"enum": [1]},
                "description": "uniqueItems: true",
            },
        ),
        (closed({"default": TEXT}), closed({"default": TEXT})),
    ],
)
def test_what_cannot_be_enforced_is_described(schema, expected):
    """The words go where the model reads them; names of properties are no words."""
    assert reduced(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"description": "anything"},
        {"type": "object"},
        {"type": "object", "additionalProperties": TEXT},
        {"type": "array"},
        {"type": "array", "prefixItems": [TEXT], "items": False},
        {"allOf": [TEXT]},
        closed({"a": {}}),
        {"anyOf": [TEXT, {"type": "array"}]},
        {"$defs": {"a": {"type": "object"}}, "$ref": "#/$defs/a"},
    ],
)
def test_what_is_open_cannot_be_enforced(schema):
    """It is sent as it is, and not as something stricter."""
    assert closed_form(schema) is None
    form = openai_format(OutputFormat(schema))
    assert (form["schema"], form["strict"]) == (schema, False)


def test_a_form_is_closed_once():
    """The same schema has the same form, and an equal one is another."""
    schema = closed({"a": TEXT})
    assert closed_form(schema) is closed_form(schema)
    assert closed_form(dict(schema)) is not closed_form(schema)


def test_gemini_may_have_what_is_open():
    """Dicts and tuples stay, without words that it does not know."""
    pair = {"type": "array", "prefixItems": [TEXT], "items": False, "maxItems": 1}
    schema = {"type": "object", "additionalProperties": {**pair, "uniqueItems": True}}
    made = gemini_schema(schema)["additionalProperties"]
    assert made.pop("description") == "uniqueItems: true"
    assert made == {"type": "array", "prefixItems": [TEXT], "maxItems": 1}
