"""Chat Completions, and what imitators make of it."""

import json

import pytest

from syncagent.exceptions import ConfigurationError
from syncagent.messages import (
    AssistantMessage,
    File,
    Image,
    Json,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.options import Options, OutputFormat, ToolSpec
from syncagent.providers.openai_chat.request import OpenAIChatDialect
from syncagent.providers.quirks import Quirks
from syncagent.sse import ServerSentEvent
from syncagent.testing.providers.openai_chat.rules import complaint

DIALECT = OpenAIChatDialect()
IMITATOR = OpenAIChatDialect("imitator", Quirks(prefill="continues"))
TOOL = ToolSpec("weather", "Tell it.")
SCHEMA = {
    "type": "object",
    "properties": {},
    "required": [],
    "additionalProperties": False,
}
PICTURE = Image(b"x", "image/png")
DATA_URL = "data:image/png;base64,eA=="


def payload(*messages, tools=(), stream=True, dialect=DIALECT, **options):
    built = dialect.build_payload(
        "m",
        messages or [UserMessage.of("hi")],
        tools,
        Options(**options),
        stream=stream,
    )
    found = json.loads(built)
    assert complaint(found) is None
    return found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"temperature": 0.5}, {"temperature": 0.5}),
        ({"top_p": 0.5}, {"top_p": 0.5}),
        ({"max_tokens": 5}, {"max_completion_tokens": 5}),
        ({"stop": ("a", "b")}, {"stop": ["a", "b"]}),
        ({"seed": 7}, {"seed": 7}),
        ({"effort": "low"}, {"reasoning_effort": "low"}),
        ({"tool_choice": "required"}, {"tool_choice": "required"}),
        (
            {"tool_choice": "weather"},
            {"tool_choice": {"type": "function", "function": {"name": "weather"}}},
        ),
        ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
        (
            {"output": OutputFormat(SCHEMA, "form")},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "form", "schema": SCHEMA, "strict": True},
                }
            },
        ),
        ({"extra": {"logprobs": True, "seed": 1}, "seed": 2}, {"seed": 1}),
        (
            {"extra": {"stream_options": {"x": 1}}},
            {"stream_options": {"include_usage": True, "x": 1}},
        ),
    ],
)
def test_options(options, expected):
    """Each in the provider's words; what is extra counts most."""
    found = payload(tools=[TOOL], **options)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("option", [{"thinking_tokens": 1024}, {"prefill": "A"}])
def test_what_it_has_no_word_for_is_an_error(option):
    """And is not left out in silence."""
    with pytest.raises(ConfigurationError, match=next(iter(option))):
        payload(**option)


def test_nothing_is_said_that_was_not_asked_for():
    """The rest is the provider's to choose."""
    assert payload(stream=False, metadata={"a": "b"}) == {
        "model": "m",
        "stream": False,
        "messages": [{"role": "user", "content": "hi"}],
    }
    assert payload()["stream_options"] == {"include_usage": True}


def test_a_conversation():
    """System, words, pictures, calls, results and a beginning of the answer."""
    found = payload(
        UserMessage.of(["what is this?", PICTURE]),
        AssistantMessage(
            (Thinking("hm", "sig"), Text("Let me see."), ToolCall("c1", "look")),
        ),
        ToolMessage((ToolResult("c1", (Json({"a": 1}), PICTURE)),)),
        system="Be brief.",
        prefill="It is",
        dialect=IMITATOR,
    )
    picture = {"type": "image_url", "image_url": {"url": DATA_URL}}
    function = {"name": "look", "arguments": "{}"}
    assert found["messages"] == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "what is this?"}, picture],
        },
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": '{"a":1}\n(see the attachment)',
        },
        {"role": "user", "content": [picture]},
        {"role": "assistant", "content": "It is"},
    ]


def test_failed_and_empty_results():
    """Both are said in words, as there is no other way."""
    found = payload(
        UserMessage.of("hi"),
        AssistantMessage((ToolCall("1", "a"), ToolCall("2", "b"))),
        ToolMessage(
            (ToolResult("1", (Text("no disk"),), is_error=True), ToolResult("2")),
        ),
    )
    said = [m["content"] for m in found["messages"] if m["role"] == "tool"]
    assert said == ["Error: no disk", "(no output)"]


@pytest.mark.parametrize(
    ("made_up", "name", "arguments"),
    [
        (ToolCall("1", "a.b c", '{"x": 1.0 }'), "a_b_c", '{"x": 1.0 }'),
        (ToolCall("1", "", "not json"), "unknown", "{}"),
        (ToolCall("1", "f" * 70, "[1]"), "f" * 64, "{}"),
        (ToolCall("1", "f", ""), "f", "{}"),
    ],
)
def test_what_a_model_made_up_is_sent_back_so_that_it_is_accepted(
    made_up, name, arguments
):
    """Or no later turn would be; what is fine stays as it was written."""
    results = ToolMessage((ToolResult("1"),))
    found = payload(UserMessage.of("hi"), AssistantMessage((made_up,)), results)
    function = found["messages"][1]["tool_calls"][0]["function"]
    assert function == {"name": name, "arguments": arguments}


def test_files():
    """Their bytes are sent; an address is an error before anything is."""
    said = payload(UserMessage.of(File(b"x", name="a.pdf")))["messages"][0]["content"]
    data = "data:application/pdf;base64,eA=="
    assert said[0]["file"] == {"filename": "a.pdf", "file_data": data}
    named = payload(UserMessage.of(File(url="https://x.example/a.pdf")))["messages"]
    assert named[0]["content"] == "(a file, at https://x.example/a.pdf)"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ('{"choices":[{"finish_reason":"stop"}]}', True),
        ('{"choices": [{"finish_reason": "stop"}]}', True),
        ('{"choices":[{"finish_reason":null}]}', False),
        (json.dumps({"content": 'finish_reason":"stop'}), False),
        ("[DONE]", True),
    ],
)
def test_what_is_the_end(data, expected):
    """Not what only looks like it, inside of a text."""
    assert DIALECT.is_end(ServerSentEvent(data)) is expected
