"""What the Responses API rejects, and so do the rules of the testing kit."""

import pytest
from responses_talk import ITEM, call_item, message_item

from syncagent.testing.providers.openai_responses.rules import complaint, error

USER = {"role": "user", "content": "Hi"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "2"}
TOOL = {"type": "function", "name": "add", "parameters": {"type": "object"}}


CUSTOM = {"type": "custom_tool_call", "call_id": "c9", "name": "x", "input": ""}
SAID = message_item("x")
MINIMAL = {"reasoning": {"effort": "minimal"}}
SEALED = "reasoning.encrypted_content"


def said_by_user(**part):
    return {"input": [{"role": "user", "content": [part]}]}


CLOSED = {"type": "object", "additionalProperties": False}


def formed(schema, strict=True):
    form = {"type": "json_schema", "name": "a", "schema": schema, "strict": strict}
    return {"text": {"format": form}}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": ""}, "model"),
        ({"input": []}, "'input'"),
        ({"messages": []}, "Unknown parameter: 'messages'"),
        ({"temperature": 3}, "temperature"),
        ({"top_p": "1"}, "top_p"),
        ({"max_output_tokens": 1}, "max_output_tokens"),
        ({"stream": "yes"}, "stream"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"reasoning": {"effort": "huge"}}, "Invalid value: 'huge'."),
        ({"tools": [{**TOOL, "name": "a b"}]}, "name"),
        ({"tools": [{**TOOL, "parameters": {}}]}, "schema"),
        ({"tools": [TOOL, TOOL]}, "unique"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "name": "x"}}, "'x'"),
        ({"tool_choice": "required"}, "required"),
        ({"tool_choice": "some"}, "'some'"),
        ({"text": {"format": {"type": "xml"}}}, "'xml'"),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "format.name"),
        ({"text": {"format": {"type": "json_schema", "name": "a"}}}, "format.schema"),
        (formed({"type": "object"}), "additionalProperties"),
        (formed({"$defs": {"a": {"type": ["object", "null"]}}}), "schema.$defs.a"),
        (formed({**CLOSED, "properties": {"a": {"type": "string"}}}), "Missing ['a']"),
        ({"input": ["hi"]}, "Invalid type"),
        ({"tools": ["f"]}, "Invalid type"),
        ({"tools": [{}], "text": 7}, "Invalid type"),
        ({"metadata": 7}, "Invalid type"),
        ({"reasoning": "high"}, "Invalid type"),
        ({"input": [{"role": "tool", "content": "x"}]}, "role"),
        ({"input": [{"role": "user", "content": ""}]}, "content"),
        (said_by_user(type="text", text="x"), "'text'"),
        (said_by_user(type="input_text", text=""), "empty"),
        (said_by_user(type="input_image", image_url="data:image/tiff;base64,x"), "ima"),
        (said_by_user(type="input_file", filename="x"), "source"),
        (said_by_user(type="input_file", file_data="x"), "filename"),
        ({"input": [USER, call_item()]}, "No tool output"),
        ({"input": [USER, call_item(), USER, OUTPUT]}, "No tool output"),
        ({"input": [USER, OUTPUT]}, "No tool call"),
        ({"input": [USER, call_item(), OUTPUT, OUTPUT]}, "No tool call"),
        ({"input": [USER, call_item(), call_item(), OUTPUT]}, "Duplicate"),
        ({"input": [USER, call_item(), {**OUTPUT, "output": None}]}, "output"),
        ({"input": [USER, call_item(name="a.b"), OUTPUT]}, "name"),
        ({"input": [USER, call_item(arguments={}), OUTPUT]}, "arguments"),
        ({"input": [USER, call_item(call_id="c" * 65)]}, "call_id"),
        ({"input": [USER, ITEM]}, "following"),
        ({"input": [ITEM, USER]}, "following"),
        ({"input": [{**ITEM, "summary": None}, message_item("x")]}, "summary"),
        ({"input": [{"type": "reasoning", "id": "r", "summary": []}]}, "not found"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "not persisted"),
        ({"input": [{**ITEM, "encrypted_content": "xai-x"}, SAID]}, "be verified"),
        ({"input": [USER, CUSTOM]}, "No tool output found for custom tool call c9."),
        ({"model": "gpt-6-luna", **MINIMAL}, "'gpt-6-luna' model. Supported values"),
        ({"model": "gpt-5.1", "reasoning": {"effort": "max"}}, "'medium', and 'high'."),
        ({"model": "gpt-4o", **MINIMAL}, "Unsupported parameter: 'reasoning.effort'"),
        ({"model": "gpt-4o", "include": [SEALED]}, "Encrypted content is not"),
        ({"model": "o3", "temperature": 1}, "'temperature' is not supported"),
        (
            {"model": "gpt-6-luna", "top_p": 1, "reasoning": {"effort": "low"}},
            "'top_p' is not supported",
        ),
    ],
)
def test_each_rule_can_be_broken(change, said):
    """The sentence says which it is; without the change all is well."""
    right = {"model": "gpt", "store": False, "input": [USER]}
    assert complaint(right) is None
    assert said in str(complaint({**right, **change}))


@pytest.mark.parametrize(
    "form", [formed({"type": "object"}, strict=False), formed(CLOSED)]
)
def test_a_form_that_is_accepted(form):
    """Closed, or not strict."""
    assert complaint({"model": "gpt", "input": [USER], **form}) is None


@pytest.mark.parametrize(
    ("change", "code", "param"),
    [
        ({"messages": []}, "unknown_parameter", "messages"),
        ({"model": "gpt-6-luna", **MINIMAL}, "unsupported_value", None),
        ({"model": "o3", "top_p": 1}, "unsupported_parameter", None),
        ({"input": [ITEM]}, None, None),
    ],
)
def test_an_error_has_the_codes_of_the_provider(change, code, param):
    """Its body is that which a client sees."""
    said = complaint({"model": "gpt", "input": [USER], **change})
    body = error(400, said)["error"]
    assert (body["message"], body["type"]) == (said, "invalid_request_error")
    assert (body["code"], body["param"]) == (code, param)
