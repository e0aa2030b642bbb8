"""What Chat Completions reject, and so do the rules of the testing kit."""

import pytest

from syncagent.testing.providers.openai_chat.rules import complaint

USER = {"role": "user", "content": "Hi"}
RIGHT = {"model": "gpt", "messages": [USER]}
OPEN = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
CLOSED = {**OPEN, "additionalProperties": False}
HALF = {**CLOSED, "required": []}


def formed(schema, **more):
    form = {"name": "a", "schema": schema, "strict": True, **more}
    return {"response_format": {"type": "json_schema", "json_schema": form}}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"metadata": {"a": "b"}, "store": True},
        {"metadata": None},
        {"response_format": {"type": "json_object"}},
        formed(CLOSED),
        formed(OPEN, strict=False),
        formed({**CLOSED, "properties": {"a": {"enum": [{"type": "object"}]}}}),
    ],
)
def test_what_is_right_is_accepted(change):
    """The rules do not invent any."""
    assert complaint({**RIGHT, **change}) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"metadata": {"a": "b"}}, "'store' is enabled"),
        ({"metadata": {"a": "b"}, "store": False}, "'store' is enabled"),
        (formed(OPEN), "In schema, 'additionalProperties'"),
        (formed({**OPEN, "additionalProperties": True}), "'additionalProperties'"),
        (formed(HALF), "Missing ['a']"),
        (formed({**CLOSED, "properties": {"a": OPEN}}), "In schema.properties.a,"),
        (formed({**CLOSED, "$defs": {"b": OPEN}}), "In schema.$defs.b,"),
        (formed({"type": "array", "items": HALF}), "In schema.items,"),
        (formed({"anyOf": [CLOSED, OPEN]}), "In schema.anyOf.1,"),
        (formed({**CLOSED, "default": {}}), "'default' is not permitted"),
        (formed({**CLOSED, "properties": {"a": {}}}), "'type' key"),
        (formed({"anyOf": [{"type": "array"}]}), "missing items"),
        (formed({"type": "string", "format": "decimal"}), "'decimal' is not"),
    ],
)
def test_each_rule_can_be_broken(change, said):
    """The sentence says which it is."""
    assert said in str(complaint({**RIGHT, **change}))


@pytest.mark.parametrize(
    "change",
    [
        {"messages": ["hi"]},
        {"messages": [{"role": "assistant", "tool_calls": [{}]}]},
        {"messages": [{"role": []}]},
        {"temperature": "hot"},
        {"tools": [{}]},
        {"tools": [{"function": None}]},
        {"tools": 7},
        {"reasoning_effort": {}},
        {"response_format": "json"},
        {"response_format": {"type": "json_schema"}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}},
        formed({"properties": 7}),
    ],
)
def test_what_has_a_wrong_form_is_rejected(change):
    """With a sentence, as everything else."""
    assert "Invalid" in complaint({**RIGHT, **change})
