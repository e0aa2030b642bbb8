"""What is sent to the Responses API, which it never rejects."""

import json

import pytest
from responses_talk import CALL, DIALECT, HELLO, ITEM, NAME, REASONING

from syncagent.exceptions import ConfigurationError
from syncagent.messages import (
    AssistantMessage,
    File,
    Image,
    Json,
    ProviderBlock,
    RedactedThinking,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.options import Options, OutputFormat, ToolSpec
from syncagent.testing.providers.openai_responses.rules import complaint

ADD = ToolSpec("add", "Add numbers.", {"type": "object", "properties": {}})


def build(*messages, tools=(), **options):
    """Return a payload, which must be one that the provider accepts."""
    sent = DIALECT.build_payload("gpt", messages or [HELLO], tools, Options(**options))
    payload = json.loads(sent)
    assert complaint(payload) is None
    return payload


def sent_back(*blocks, provider=NAME):
    """Return the items that an assistant's message becomes."""
    said = AssistantMessage(blocks, provider=provider)
    results = [ToolResult(call.call_id, (Text("2"),)) for call in said.tool_calls]
    items = build(HELLO, said, ToolMessage(tuple(results)), HELLO)["input"]
    return [i for i in items[1:-1] if i.get("type") != "function_call_output"]


def test_nothing_is_kept_on_the_server():
    """Every payload says so."""
    payload = build()
    assert payload["store"] is False
    assert payload["include"] == ["reasoning.encrypted_content"]
    assert payload["input"] == [
        {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}
    ]


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        ({"system": "Be kind."}, "instructions", "Be kind."),
        ({"temperature": 0.0}, "temperature", 0.0),
        ({"top_p": 0.5}, "top_p", 0.5),
        ({"max_tokens": 100}, "max_output_tokens", 100),
        ({"effort": "low"}, "reasoning", {"effort": "low"}),
        (
            {"effort": "low", "extra": {"reasoning": {"summary": "auto"}}},
            "reasoning",
            {"effort": "low", "summary": "auto"},
        ),
        ({"metadata": {"a": "b"}}, "metadata", {"a": "b"}),
        ({"tool_choice": "none"}, "tool_choice", "none"),
        ({"tool_choice": "required"}, "tool_choice", "required"),
        ({"tool_choice": "add"}, "tool_choice", {"type": "function", "name": "add"}),
        ({"parallel_tool_calls": False}, "parallel_tool_calls", False),
        ({"extra": {"store": True}}, "store", True),
    ],
)
def test_each_option_has_its_word(options, field, value):
    """What is asked for is sent, in the provider's words."""
    assert build(tools=[ADD], **options)[field] == value


@pytest.mark.parametrize(
    "options", [{"stop": ("x",)}, {"prefill": "x"}, {"thinking_tokens": 9}]
)
def test_an_option_without_a_word_is_refused(options):
    """It is never left out in silence."""
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        build(**options)


def test_a_seed_is_only_a_hint():
    """There is no word for it, and no error."""
    assert "seed" not in build(seed=7)


def test_tools_are_flat():
    """Name and schema stand beside the type."""
    assert build(tools=[ADD])["tools"] == [
        {
            "type": "function",
            "name": "add",
            "description": "Add numbers.",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        }
    ]


def test_without_tools_there_is_no_choice():
    """A choice of tools that do not exist is left out."""
    assert not {"tools", "tool_choice"} & set(build(tool_choice="auto"))


def test_structured_output():
    """The schema goes into the format of the text."""
    wanted = build(output=OutputFormat({"type": "object"}, "age", False))["text"]
    form = {"type": "json_schema", "name": "age", "schema": {"type": "object"}}
    assert wanted == {"format": {**form, "strict": False}}


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (Image(b"i"), {"image_url": "data:image/png;base64,aQ=="}),
        (Image(url="https://x/y.png"), {"image_url": "https://x/y.png"}),
        (File(url="https://x/y.pdf"), {"file_url": "https://x/y.pdf"}),
        (File(b"i"), {"file_data": "data:application/pdf;base64,aQ=="}),
    ],
)
def test_pictures_and_files(block, part):
    """They are sent as they are given, by a user and by a tool."""
    asked = AssistantMessage((CALL,))
    result = ToolMessage((ToolResult("c1", (Text("See:"), block)),))
    items = build(UserMessage((block,)), asked, result)["input"]
    assert items[0]["content"][0].items() >= part.items()
    assert items[-1]["output"][0] == {"type": "input_text", "text": "See:"}
    assert items[-1]["output"][1].items() >= part.items()


@pytest.mark.parametrize(
    ("result", "output"),
    [
        (ToolResult("c1", (Text("a"), Json({"b": 1}))), 'a\n{"b":1}'),
        (ToolResult("c1", (Text("no"),), is_error=True), "Error: no"),
        (ToolResult("c1"), "(no output)"),
    ],
)
def test_results_are_words(result, output):
    """A result is a string, right after its call."""
    items = build(HELLO, AssistantMessage((CALL,)), ToolMessage((result,)))["input"]
    assert [item.get("type") for item in items[1:]] == [
        "function_call",
        "function_call_output",
    ]
    assert items[-1]["output"] == output


def test_reasoning_goes_back_where_it_was():
    """Verbatim, in front of the call that it came with; its summary does not."""
    other = ToolCall("c2", "add")
    items = sent_back(Thinking("hm"), REASONING, CALL, REASONING, other)
    assert [items[0], items[2]] == [ITEM, ITEM]
    assert [items[1]["call_id"], items[3]["call_id"]] == ["c1", "c2"]
    assert len(items) == 4


@pytest.mark.parametrize(
    "block",
    [
        Thinking("hm", "signed"),
        RedactedThinking("secret"),
        ProviderBlock("anthropic", {"type": "server_tool_use"}),
        ProviderBlock(NAME, {**ITEM, "encrypted_content": None}),
        Text(" "),
    ],
)
def test_what_the_server_cannot_read_is_left_out(block):
    """What is another provider's, empty, or only an id."""
    spoken = {"type": "output_text", "text": "Hi"}
    (item,) = sent_back(block, Text("Hi"))
    assert item == {"type": "message", "role": "assistant", "content": [spoken]}


def test_reasoning_that_nothing_has_come_of_is_left_out():
    """An answer that was cut off while the model was thinking can be sent."""
    (item,) = sent_back(REASONING)
    assert item["content"] == [{"type": "output_text", "text": "(nothing)"}]


def test_server_tools_go_back_verbatim():
    """What the provider ran itself stays between the words around it."""
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    items = sent_back(Text("a"), ProviderBlock(NAME, search), Refusal("no"))
    assert items[1] == search
    assert items[2]["content"] == [{"type": "refusal", "refusal": "no"}]


@pytest.mark.parametrize(("provider", "phase"), [(NAME, "commentary"), ("x", None)])
def test_a_phase_goes_back_to_its_provider_alone(provider, phase):
    """What a text is signed with is the phase of its message."""
    (item,) = sent_back(Text("Hm", signature="commentary"), provider=provider)
    assert item.get("phase") == phase


def test_calls_of_others_are_made_acceptable():
    """Long ids, names with odd letters, and ids that come twice."""
    odd, long = ToolCall("i" * 99, "my.tool"), ToolCall("c", "n" * 99)
    items = sent_back(odd, odd, long, provider="gemini")
    assert [item["name"] for item in items] == ["my_tool", "n" * 64]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{ "a" : 1.50 }', '{ "a" : 1.50 }'),
        ("", "{}"),
        ("[1]", "{}"),
        ('{"a": ', "{}"),
        ("\ud800", "{}"),
    ],
)
def test_arguments_are_an_object(arguments, expected):
    """One goes back as it was written; what is none becomes an empty one."""
    (item,) = sent_back(ToolCall("c1", "add", arguments))
    assert item["arguments"] == expected


@pytest.mark.parametrize(
    ("block", "where"),
    [(Text("\ud800"), "output is of type str"), (Json(object()), "Json block.*object")],
)
def test_what_no_json_can_be_made_of(block, where):
    """It is an error that says where it is."""
    result = ToolMessage((ToolResult("c1", (block,)),))
    with pytest.raises(ConfigurationError, match=where):
        build(HELLO, AssistantMessage((CALL,)), result)
