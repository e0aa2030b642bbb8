"""What is sent to the Gemini API, which it never rejects."""

import pytest
from gemini_talk import CALL, HI, SIGNATURE, model, parts, payload, signed

from syncagent.exceptions import ConfigurationError
from syncagent.messages import (
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
from syncagent.options import OutputFormat, ToolSpec

TOOL = ToolSpec("look", "Look it up.", {"type": "object", "properties": {}})

PICTURE = {"inlineData": {"mimeType": "image/png", "data": "cHg="}}
NOTE = {"thoughtSignature": SIGNATURE}
CODE = {"executableCode": {"code": "1"}}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"temperature": 0.5}, {"temperature": 0.5}),
        ({"top_p": 0.9}, {"topP": 0.9}),
        ({"max_tokens": 10}, {"maxOutputTokens": 10}),
        ({"stop": ("a", "b")}, {"stopSequences": ["a", "b"]}),
        ({"seed": 7}, {"seed": 7}),
        (
            {"output": OutputFormat({"type": "object"})},
            {
                "responseMimeType": "application/json",
                "responseJsonSchema": {"type": "object"},
            },
        ),
    ],
)
def test_settings_have_their_word(options, expected):
    """Each option is said in generationConfig, and nothing else is."""
    assert payload(**options)["generationConfig"] == expected


def test_what_is_not_given_is_not_said():
    """Neither the model, nor the stream, nor a hint, nor an empty field."""
    sent = payload(metadata={"user": "u"}, cache=True, parallel_tool_calls=True)
    assert sent == {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}


def test_one_tool_at_a_time_cannot_be_asked_for():
    """It is an error, and not left out in silence."""
    with pytest.raises(ConfigurationError, match="parallel_tool_calls"):
        payload(tools=[TOOL], parallel_tool_calls=False)


def test_system_and_extra():
    """They go before and over the rest."""
    sent = payload(system="Be brief.", extra={"cachedContent": "c"})
    assert sent["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert sent["cachedContent"] == "c"


@pytest.mark.parametrize("name", ["gemini-2.5-flash", "models/gemini-3.1-pro-preview"])
def test_a_prefill_is_the_last_content(name):
    """Older models continue it."""
    sent = payload(prefill="Well", name=name)
    assert sent["contents"][-1] == {"role": "model", "parts": [{"text": "Well"}]}


@pytest.mark.parametrize(
    "name", ["gemini-3.5-flash-lite", "gemini-3.8-flash", "gemini-flash-latest", "m"]
)
def test_newer_models_continue_nothing(name):
    """The provider would reject it, so it is an error that says what to do."""
    with pytest.raises(ConfigurationError, match="does not continue a prefill"):
        payload(prefill="Well", name=name)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("look", {"mode": "ANY", "allowedFunctionNames": ["look"]}),
    ],
)
def test_tools_and_the_choice_among_them(choice, expected):
    """Declarations carry JSON schemas; a name is allowed as the only one."""
    sent = payload(tools=[TOOL], tool_choice=choice)
    declared = {
        "name": "look",
        "description": "Look it up.",
        "parametersJsonSchema": TOOL.parameters,
    }
    assert sent["tools"] == [{"functionDeclarations": [declared]}]
    assert sent["toolConfig"] == {"functionCallingConfig": expected}


def test_a_choice_without_tools_is_left_out():
    """There is nothing to choose from."""
    assert "toolConfig" not in payload(tool_choice="auto")


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (Image(b"px"), PICTURE),
        (
            Image(url="https://x/y.png"),
            {"fileData": {"fileUri": "https://x/y.png", "mimeType": "image/png"}},
        ),
        (File(b"%"), {"inlineData": {"mimeType": "application/pdf", "data": "JQ=="}}),
        (Text("words"), {"text": "words"}),
    ],
)
def test_what_a_user_shows(block, expected):
    """Bytes go inline, addresses as files."""
    sent = payload(UserMessage((block,)))
    assert sent["contents"][0]["parts"] == [expected]


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([Text("a"), Text(" ")], [{"text": "a"}]),
        ([Text("a", (), SIGNATURE)], [signed("a")]),
        ([Text("a"), Text("", (), SIGNATURE)], [{"text": "a"}, signed("")]),
        ([Thinking("t", SIGNATURE)], [signed("t", thought=True)]),
        ([Thinking("t"), Text("a")], [{"text": "a"}]),
        ([RedactedThinking("x"), Text("a")], [{"text": "a"}]),
        ([Refusal("no")], [{"text": "no"}]),
        ([Thinking("t")], [{"text": "(nothing)"}]),
        ([ProviderBlock("gemini", CODE)], [CODE]),
        ([ProviderBlock("anthropic", {"type": "x"}), Text("a")], [{"text": "a"}]),
        ([Image(b"px"), ProviderBlock("gemini", NOTE)], [{**PICTURE, **NOTE}]),
    ],
)
def test_what_a_model_said_goes_back(blocks, expected):
    """Signed parts unchanged, provider's own parts verbatim, nothing empty."""
    assert parts(model(*blocks)) == expected


def test_signatures_go_back_to_their_own_provider_only():
    """Of a foreign message the words and calls are left; its first call is marked."""
    blocks = [Thinking("t", SIGNATURE), Text("a", (), SIGNATURE)]
    calls = [ToolCall("call_7", "look", "{}", SIGNATURE), ToolCall("t2", "see")]
    sent = parts(model(*blocks, *calls, provider="anthropic"))
    assert sent == [
        {"text": "a"},
        {
            "functionCall": {"name": "look", "args": {}},
            "thoughtSignature": "skip_thought_signature_validator",
        },
        {"functionCall": {"id": "t2", "name": "see", "args": {}}},
    ]


def test_a_call_goes_back_as_it_came():
    """With its id and signature; one whose id was made up goes without."""
    made_up = ToolCall("call_0", "look", "[1]")
    assert parts(model(CALL, made_up)) == [
        {
            "functionCall": {"id": "c1", "name": "look", "args": {"a": 1}},
            "thoughtSignature": "c2lnbmVk",
        },
        {"functionCall": {"name": "look", "args": {}}},
    ]


@pytest.mark.parametrize(
    ("content", "is_error", "expected"),
    [
        ((Text("a"), Text("b")), False, {"result": "a\nb"}),
        ((Json({"x": [1]}),), False, {"result": {"x": [1]}}),
        ((Json([1]), Text("b")), False, {"result": "[1]\nb"}),
        ((), False, {"result": "(no output)"}),
        ((Text("oh"),), True, {"error": "oh"}),
        ((Json([1]),), True, {"error": "[1]"}),
    ],
)
def test_a_result_is_an_object(content, is_error, expected):
    """It has the id and the name of its call, though nobody has given the name."""
    result = ToolResult("c1", content, is_error=is_error)
    sent = payload(HI, model(CALL), ToolMessage((result,)))
    said = {"id": "c1", "name": "look", "response": expected}
    assert sent["contents"][2]["parts"] == [{"functionResponse": said}]


def test_an_effort_that_nobody_knows():
    """It is an error that says so, and no other."""
    with pytest.raises(ConfigurationError, match="effort"):
        payload(effort="enormous")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("my tool!", "my_tool_"), ("n" * 99, "n" * 64), ("", "unknown")],
)
def test_names_that_models_make_up(name, expected):
    """A call and its result have the same, in letters that the provider takes."""
    asked = model(ToolCall("c1", name), provider="anthropic")
    sent = payload(HI, asked, ToolMessage((ToolResult("c1"),)))["contents"]
    assert sent[1]["parts"][0]["functionCall"]["name"] == expected
    assert sent[2]["parts"][0]["functionResponse"]["name"] == expected


@pytest.mark.parametrize(
    ("block", "where"),
    [
        (Text("\ud800"), r"user message.*functionResponse.response.result"),
        (Json(object()), r"user message.*functionResponse.response.result.*object"),
    ],
)
def test_what_no_json_can_be_made_of(block, where):
    """It is an error that says where it is."""
    with pytest.raises(ConfigurationError, match=where):
        payload(HI, model(CALL), ToolMessage((ToolResult("c1", (block,)),)))


def test_a_prefill_that_no_json_can_be_made_of():
    """It is an error that says where it is."""
    with pytest.raises(ConfigurationError, match="model message"):
        payload(prefill="\ud800", name="gemini-2.5-flash")
