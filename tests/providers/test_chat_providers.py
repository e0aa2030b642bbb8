"""What Mistral, DeepSeek, Groq, Moonshot and OpenRouter want, and their rules."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.chat import TOOL, payload_of
from support.messages import MESSAGES, WORDS

from syncagent.exceptions import ConfigurationError
from syncagent.messages import (
    AssistantMessage,
    File,
    Image,
    Refusal,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.models.endpoints import ENDPOINTS
from syncagent.models.names import dialect_of
from syncagent.options import Options, OutputFormat, ToolSpec
from syncagent.testing.providers.played import PLAYED

NAMES = ["deepseek", "groq", "mistral", "moonshot", "openrouter"]
PROMPT = UserMessage.of("hi")
CALLED = AssistantMessage((ToolCall("c1", "weather"),))
RESULT = ToolMessage((ToolResult("c1", (Text("Sunny."),)),))
PICTURE = Image(b"x", "image/png")


def roles(payload):
    return [message["role"] for message in payload["messages"]]


# -- Mistral ---------------------------------------------------------------------------


def test_an_assistant_stands_between_results_and_the_user_at_mistral():
    """B4: a prompt after a cancel in a tool, or an image of a tool, is accepted."""
    prompted = payload_of("mistral", PROMPT, CALLED, RESULT, PROMPT)
    assert roles(prompted) == ["user", "assistant", "tool", "assistant", "user"]
    seen = ToolMessage((ToolResult("c1", (PICTURE,)),))
    pictured = payload_of("mistral", PROMPT, CALLED, seen)
    assert roles(pictured) == ["user", "assistant", "tool", "assistant", "user"]
    alone = payload_of("mistral", PROMPT, CALLED, RESULT)
    assert roles(alone) == ["user", "assistant", "tool"]
    other = payload_of("groq", PROMPT, CALLED, RESULT, PROMPT)
    assert roles(other) == ["user", "assistant", "tool", "user"]


def test_fields_of_mistral():
    """It has no others, and rejects those."""
    found = payload_of("mistral", seed=7, max_tokens=5, prefill="It is")
    assert found.items() >= {"random_seed": 7, "max_tokens": 5}.items()
    assert not found.keys() & {"seed", "stream_options", "max_completion_tokens"}
    last = {"role": "assistant", "content": "It is", "prefix": True}
    assert found["messages"][-1] == last


def test_files_at_mistral():
    """Documents are addresses, also those with the bytes inside."""
    file = File(b"x", name="a.pdf")
    (part,) = payload_of("mistral", UserMessage((file,)))["messages"][0]["content"]
    assert part == {
        "type": "document_url",
        "document_url": "data:application/pdf;base64,eA==",
        "document_name": "a.pdf",
    }


# -- all -------------------------------------------------------------------------------


@pytest.mark.parametrize("endpoint", NAMES)
def test_a_refusal_of_another_provider_is_text(endpoint):
    """B26: they have no field for it."""
    refused = AssistantMessage((Text("Well. "), Refusal("No."))), PROMPT
    message = payload_of(endpoint, PROMPT, *refused)["messages"][1]
    assert message == {"role": "assistant", "content": "Well. No."}
    own = payload_of("openai-chat", PROMPT, *refused)["messages"][1]
    assert own["refusal"] == "No."


@pytest.mark.parametrize(
    ("endpoint", "mark"),
    [("mistral", "prefix"), ("moonshot", "partial"), ("alibaba", "partial")],
)
def test_a_prefill_is_marked(endpoint, mark):
    """B24: else it would be answered, or rejected."""
    assert payload_of(endpoint, prefill="A")["messages"][-1][mark] is True


def test_a_prefill_that_is_rejected():
    """B24: DeepSeek continues one at another address only."""
    with pytest.raises(ConfigurationError, match="Say in the prompt"):
        payload_of("deepseek", prefill="A")


@pytest.mark.parametrize("endpoint", [*NAMES, "openai-chat"])
@pytest.mark.parametrize("length", [1, 40, 41, 46, 56, 100])
def test_ids_are_as_short_as_every_provider_wants(endpoint, length):
    """B25: those of xAI, vLLM and OpenRouter are longer than OpenAI takes."""
    ids = ["c" * length, "c" * (length - 1) + "d"]
    called = AssistantMessage(tuple(ToolCall(i, "weather") for i in ids))
    found = payload_of(endpoint, PROMPT, called, tools=[TOOL])["messages"]
    sent = [call["id"] for call in found[1]["tool_calls"]]
    assert [message["tool_call_id"] for message in found[2:4]] == sent
    assert len(set(sent)) == 2
    assert all(len(each) <= 40 for each in sent)
    if length <= 40 and endpoint != "mistral":
        assert sent == ids


@pytest.mark.parametrize("endpoint", [*NAMES, "openai-chat", "bedrock"])
def test_ids_that_begin_anew_in_every_response(endpoint):
    """Bedrock numbers calls from call_0 in each: every result stays with its call."""
    conversation = [PROMPT]
    for number in range(5):
        made = tuple(ToolCall(f"call_{n}", "weather") for n in range(2))
        results = tuple(
            ToolResult(f"call_{n}", (Text(f"{number} {n}"),)) for n in range(2)
        )
        conversation += [AssistantMessage(made), ToolMessage(results)]
    found = payload_of(endpoint, *conversation, tools=[TOOL])["messages"]
    calls = [call["id"] for m in found for call in m.get("tool_calls", ())]
    results = {m["tool_call_id"]: m["content"] for m in found if m["role"] == "tool"}
    assert [results[call] for call in calls] == [
        f"{number} {n}" for number in range(5) for n in range(2)
    ]


@pytest.mark.parametrize("endpoint", NAMES)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50)
@given(messages=st.lists(MESSAGES, max_size=8), system=WORDS)
@pytest.mark.slow
def test_any_conversation_is_accepted(endpoint, messages, system):
    """Promise 4: whatever was left behind, from wherever, can be sent."""
    dialect = dialect_of(ENDPOINTS[endpoint])
    tools = [ToolSpec("weather", "Tell it."), ToolSpec("look")]
    output = OutputFormat({"type": "object", "properties": {}, "required": []})
    for options in (Options(system=system), Options(output=output)):
        built = dialect.build_payload(
            ENDPOINTS[endpoint].example, messages, tools, options
        )
        assert PLAYED[endpoint].complaint(json.loads(built), "") is None


# -- rules -----------------------------------------------------------------------------

USER = {"role": "user", "content": "hi"}
FUNCTION = {"name": "weather", "arguments": "{}"}
ASSISTANT = {
    "role": "assistant",
    "tool_calls": [{"id": "abcdef123", "type": "function", "function": FUNCTION}],
}
TOOLED = {"role": "tool", "tool_call_id": "abcdef123", "content": "Sunny."}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
TOOLS[0]["function"]["parameters"] = {"type": "object", "properties": {}}
FORMAT = {"response_format": {"type": "json_object"}}
SCHEMA = {"response_format": {"type": "json_schema"}}


def long_id():
    call = {**ASSISTANT["tool_calls"][0], "id": "c" * 41}
    result = {**TOOLED, "tool_call_id": "c" * 41}
    return {"messages": [USER, {**ASSISTANT, "tool_calls": [call]}, result]}


@pytest.mark.parametrize(
    ("endpoint", "change", "complaint"),
    [
        (
            "mistral",
            {"messages": [USER, ASSISTANT, TOOLED, USER]},
            "Unexpected role 'user' after role 'tool'",
        ),
        (
            "mistral",
            {"messages": [USER, {"role": "assistant", "content": "A"}]},
            "Expected last role User or Tool",
        ),
        ("mistral", {"stream_options": {}}, "Extra inputs are not permitted"),
        ("mistral", {"seed": 7}, "Extra inputs are not permitted: body.seed"),
        (
            "mistral",
            {"messages": [{**USER, "refusal": "x"}]},
            "body.messages.0.user.refusal",
        ),
        ("mistral", long_id(), "length of 9"),
        (
            "mistral",
            {"messages": [USER, {"role": "assistant", "content": ""}, USER]},
            "either content or tool_calls",
        ),
        ("mistral", {"reasoning_effort": "low"}, "reasoning_effort"),
        (
            "deepseek",
            {"messages": [USER, ASSISTANT, TOOLED]},
            "in the thinking mode must be passed back to the API.",
        ),
        (
            "deepseek",
            {"tools": TOOLS, "tool_choice": "required"},
            "Thinking mode does not support this tool_choice",
        ),
        ("deepseek", SCHEMA, "This response_format type is unavailable now"),
        ("deepseek", {"reasoning_effort": "none"}, "reasoning_effort"),
        (
            "moonshot",
            {"messages": [USER, ASSISTANT, TOOLED]},
            "reasoning_content is missing in assistant tool call message at index 1",
        ),
        (
            "moonshot",
            {"tools": TOOLS, "tool_choice": "required"},
            "tool_choice 'required' is incompatible with thinking enabled",
        ),
        ("moonshot", {"reasoning_effort": "none"}, "reasoning_effort"),
        (
            "groq",
            {"messages": [USER, {**ASSISTANT, "refusal": "x"}, TOOLED]},
            "property 'refusal' is unsupported",
        ),
        (
            "groq",
            {"tools": TOOLS, **FORMAT},
            "json mode cannot be combined with tool/function calling",
        ),
        ("groq", {"reasoning_effort": "minimal"}, "`reasoning_effort` must be one of"),
        ("openrouter", {"tools": [{"type": "web_search"}]}, "tool type"),
        (
            "openrouter",
            {"messages": [{**USER, "reasoning_details": [{"type": "x"}]}]},
            "Invalid reasoning_details",
        ),
        ("openrouter", {"reasoning_effort": "max"}, "reasoning_effort"),
        ("openai-chat", long_id(), "string with maximum length 40"),
        (
            "openai-chat",
            {"tools": TOOLS},
            "Function tools with reasoning_effort are not supported",
        ),
        ("openai-chat", {"temperature": 0.5}, "Only the default (1) value"),
        ("openai-chat", {"reasoning_effort": "minimal"}, "does not support 'minimal'"),
        ("openai-chat", {"reasoning_effort": "max"}, "'max'"),
        ("openai-chat", {"tools": [{"type": "web_search"}]}, "tools[].type"),
    ],
)
def test_each_rule_can_be_broken(endpoint, change, complaint):
    """The message is the provider's own; without the change there is none."""
    right = {"model": ENDPOINTS[endpoint].example, "messages": [USER]}
    assert PLAYED[endpoint].complaint(right, "") is None
    assert complaint in str(PLAYED[endpoint].complaint({**right, **change}, ""))


@pytest.mark.parametrize("endpoint", ["deepseek", "moonshot"])
def test_without_thinking_those_rules_are_off(endpoint):
    """As at the real provider."""
    payload = {
        "model": ENDPOINTS[endpoint].example,
        "messages": [USER, ASSISTANT, TOOLED],
        "thinking": {"type": "disabled"},
        "tools": TOOLS,
        "tool_choice": "required",
    }
    assert PLAYED[endpoint].complaint(payload, "") is None


def test_errors_have_the_forms_of_their_providers():
    """A client that reads them can be tested."""
    order = PLAYED["mistral"].error(400, "Unexpected role 'user' after role 'tool'")
    assert order == {
        "object": "error",
        "message": "Unexpected role 'user' after role 'tool'",
        "type": "invalid_request_message_order",
        "param": None,
        "code": "3230",
    }
    extra = PLAYED["mistral"].error(422, "Extra inputs are not permitted: body.seed")
    (detail,) = extra["message"]["detail"]
    assert (detail["type"], detail["loc"]) == ("extra_forbidden", ["body", "seed"])
    assert PLAYED["openrouter"].error(402, "x") == {
        "error": {"message": "x", "code": 402}
    }
    assert PLAYED["groq"].error(401, "x")["error"]["code"] == "invalid_api_key"
    for name in ("deepseek", "moonshot"):
        assert PLAYED[name].error(400, "x")["error"]["message"] == "x"
