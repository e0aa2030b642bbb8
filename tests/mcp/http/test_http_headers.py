"""The headers of modern requests."""

import pytest

from syncagent.mcp.http.headers import (
    ToolHeaders,
    encode_value,
    header_parameters,
    request_headers,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("eu-west", "eu-west"),
        ("a b\tc", "a b\tc"),
        ("", ""),
        (" eu", "=?base64?IGV1?="),
        ("eu\n", "=?base64?ZXUK?="),
        ("Zürich", "=?base64?WsO8cmljaA==?="),
        ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
    ],
)
def test_values_that_a_header_cannot_carry_are_encoded(text, value):
    """Visible ASCII goes as it is, all else as base64."""
    assert encode_value(text) == value


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "add"}, "add"),
        ("prompts/get", {"name": "hello"}, "hello"),
        ("resources/read", {"uri": "file:///ä"}, "=?base64?ZmlsZTovLy/DpA==?="),
        ("tasks/get", {"taskId": "7"}, "7"),
        ("tools/list", {}, None),
    ],
)
def test_method_and_name_are_headers(method, params, name):
    """Mcp-Name repeats the name, the uri or the task of the request."""
    headers = request_headers(method, params)
    assert headers["Mcp-Method"] == method
    assert headers.get("Mcp-Name") == name


def tool(schema):
    return {"tools": [{"name": "t", "inputSchema": schema}]}


def test_annotated_arguments_become_headers():
    """Strings, integers and booleans go over, nested ones too; null and missing not."""
    headers = ToolHeaders()
    place = {"city": {"type": "string", "x-mcp-header": "City"}}
    properties = {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "gone": {"type": "string", "x-mcp-header": "Gone"},
        "none": {"type": "string", "x-mcp-header": "None"},
        "place": {"type": "object", "properties": place},
        "plain": {"type": "string"},
    }
    headers.learn(tool({"type": "object", "properties": properties}))
    arguments = {"region": "eu", "count": 3, "dry": False, "none": None, "plain": "x"}
    arguments["place"] = {"city": "Köln"}
    assert headers.of_call({"name": "t", "arguments": arguments}) == {
        "Mcp-Param-Region": "eu",
        "Mcp-Param-Count": "3",
        "Mcp-Param-Dry": "false",
        "Mcp-Param-City": "=?base64?S8O2bG4=?=",
    }
    assert headers.of_call({"name": "other", "arguments": arguments}) == {}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": "no blank"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": ""}}},
        {
            "properties": {
                "a": {"type": "string", "x-mcp-header": "Same"},
                "b": {"type": "string", "x-mcp-header": "same"},
            }
        },
        {
            "properties": {
                "a": {"items": {"type": "string", "x-mcp-header": "A"}},
            }
        },
        {"anyOf": [{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]},
    ],
)
def test_wrong_annotations_are_refused(schema):
    """A tool that breaks the rules is known as such, and sends no header."""
    with pytest.raises(ValueError, match="x-mcp-header"):
        header_parameters(schema)
    headers = ToolHeaders()
    assert headers.learn(tool(schema))["tools"] == []
    assert headers.of_call({"name": "t", "arguments": {"a": "x"}}) == {}


def test_one_wrong_tool_leaves_the_others(caplog):
    """It is left out of the list, with one warning however often the list is read."""
    right = tool({"properties": {"a": {"type": "string", "x-mcp-header": "A"}}})
    wrong = {"name": "w", "inputSchema": {"properties": {"a": {"x-mcp-header": ""}}}}
    page = {"tools": [wrong, *right["tools"]], "nextCursor": "2"}
    headers = ToolHeaders()
    for _ in range(2):
        assert headers.learn(page, "srv") == {**right, "nextCursor": "2"}
    (record,) = caplog.records
    assert "srv: tool 'w' is left out" in record.getMessage()


@pytest.mark.parametrize("result", [None, [], {}, {"tools": 3}, {"tools": [1, {}]}])
def test_odd_lists_teach_nothing(result):
    """A list of any shape is no reason to fail."""
    assert ToolHeaders().learn(result) == result
