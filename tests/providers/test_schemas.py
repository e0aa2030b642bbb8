"""JSON schemas with nothing left open."""

import pytest

from syncagent.providers.schemas import strict


def closed(properties, **more):
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        **more,
    }


TEXT = {"type": "string"}


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
