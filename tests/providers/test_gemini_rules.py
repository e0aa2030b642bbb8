"""What the Gemini API rejects, and so do the rules of the testing kit."""

import pytest

from syncagent.testing.providers.gemini import speech
from syncagent.testing.providers.gemini.rules import complaint

WORDS = {"contents": [{"role": "user", "parts": [{"text": "a"}]}]}
CALL_PART = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln"}


def said(*parts, role="user"):
    return {"contents": [{"role": role, "parts": list(parts)}]}


def answered(*parts):
    called = {"role": "model", "parts": [CALL_PART]}
    answer = {"role": "user", "parts": list(parts)}
    return {"contents": [*WORDS["contents"], called, answer]}


def response(name="f", **fields):
    return {"functionResponse": {"name": name, "response": {}, **fields}}


def inline(kind, data):
    return {"inlineData": {"mimeType": kind, "data": data}}


def config(**fields):
    return {**WORDS, "generationConfig": fields}


def thinking(**fields):
    return config(thinkingConfig=fields)


def tools(*functions, **calling):
    sent = {**WORDS, "tools": [{"functionDeclarations": [*functions]}]}
    return {**sent, "toolConfig": {"functionCallingConfig": calling}}


def named(name, **fields):
    return {"name": name, **fields}


def mixed(**config):
    """Return a request with tools of both kinds."""
    kinds = [{"functionDeclarations": [named("a")]}, {"googleSearch": {}}]
    return {**WORDS, "tools": kinds, "toolConfig": config}


def at(name):
    return f"/v1beta/models/{name}:streamGenerateContent"


SHOWN = response(parts=[inline("image/png", "eA==")])
TOLD = {"includeServerSideToolInvocations": True}
VERTEX = "/v1/projects/p/locations/l/publishers/google/models/gemini-3.8-flash:"


@pytest.mark.parametrize(
    "sent",
    [
        answered(response()),
        answered(SHOWN),
        {"contents": [*answered(response())["contents"], *WORDS["contents"]]},
        mixed(**TOLD),
        thinking(thinkingLevel="low"),
        said(inline("image/webp", "eA==")),
        config(temperature=2, topP=1, thinkingConfig={"thinkingBudget": -1}),
        tools(named("a.b:c-d_1"), mode="ANY", allowedFunctionNames=["a.b:c-d_1"]),
    ],
)
def test_what_is_right_is_accepted(sent):
    """The rules do not invent any."""
    assert complaint(sent) is None


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({}, "contents is not specified"),
        ({"contents": []}, "contents is not specified"),
        ({**WORDS, "stream": True}, 'Unknown name "stream"'),
        (said({"text": "a"}, role="assistant"), "valid role"),
        (said({"text": "a"}, role="model"), "alternate"),
        ({"contents": WORDS["contents"] * 2}, "alternate"),
        (said(), "must not be empty"),
        (said({}), "oneof"),
        (said({"text": ""}), "oneof"),
        (said({"text": 1}), "TYPE_STRING"),
        (said({"text": "a", "fileData": {}}), "already set"),
        (said({"type": "text"}), 'Unknown name "type"'),
        (said({"text": "a", "thoughtSignature": "?"}), "Base64"),
        (said(inline("image/gif", "eA==")), "MIME"),
        (said(inline("image/png", "?")), "Base64"),
        (said(inline("image/png", "")), "empty"),
        (said(CALL_PART), "role model"),
        (said(response()), "immediately after"),
        ({"contents": answered()["contents"][:2]}, "followed by"),
        (answered({"text": "a"}), "number of function response parts"),
        (answered(response(), response()), "number of function response parts"),
        (answered(response(), {"text": "a"}), "ending with a model turn"),
        (answered({"text": "a"}, response()), "ending with a model turn"),
        (answered(response(parts=[{"text": "a"}])), "initialized field"),
        (answered(response(parts=[inline("audio/wav", "eA==")])), "MIME"),
        (answered(response(output=1)), 'Unknown name "output"'),
        (answered(response("g")), "The name of"),
        (answered(response(id="1")), "The id of"),
        (answered(response(response="x")), "response'"),
        (answered({"functionResponse": {"name": "f"}}), "must be set"),
        (answered(response("")), "Name cannot"),
        (answered(response("a b")), "Invalid function name"),
        (said({"functionCall": {"name": "1a"}}, role="model"), "functionCall.name"),
        (said({"functionCall": {"name": "a" * 65}}, role="model"), "function name"),
        ({**WORDS, "systemInstruction": {"parts": []}}, "system"),
        ({**WORDS, "systemInstruction": {"parts": [{"text": ""}]}}, "system"),
        (config(temperature=2.1), "range"),
        (config(topP=1.1), "range"),
        (config(maxOutputTokens=0), "range"),
        (config(maxOutputTokens=1.5), "Invalid value"),
        (config(seed=1 << 31), "range"),
        (config(stopSequences=list("abcdef")), "stop_sequences"),
        (config(top_p=1), "Unknown name"),
        (thinking(thinkingBudget=99_999), "budget"),
        (thinking(thinkingBudget=0, includeThoughts=True), "include_thoughts"),
        (thinking(thinkingBudget=1, thinkingLevel="LOW"), "only set one"),
        (thinking(thinkingLevel="ENORMOUS"), "TYPE_ENUM"),
        (thinking(thinkingLevel="XHIGH"), "XHIGH is not supported"),
        (thinking(thinkingLevel="MINIMAL"), "MINIMAL is not supported"),
        (mixed(), "include_server_side_tool_invocations"),
        (mixed(invocations=True), 'Unknown name "invocations"'),
        ({**WORDS, "tools": [{"webSearch": {}}]}, 'Unknown name "webSearch"'),
        ({**WORDS, "tools": [{"googleSearch": {"excludeDomains": []}}]}, "Unknown"),
        ({**WORDS, "tools": [{"fileSearch": {}}]}, "is required"),
        (config(responseJsonSchema={}), "response_mime_type"),
        (tools(), "tool_type"),
        (tools(named("1a")), "Invalid function name"),
        (tools(named("a" * 65)), "Invalid function name"),
        (tools(named("a"), named("a")), "Duplicate"),
        (tools(named("a", parametersJsonSchema={"type": "array"})), "OBJECT"),
        (tools(named("a", strict=True)), "Unknown name"),
        (tools(named("a"), mode="required"), "mode"),
        (tools(named("a"), mode="AUTO", allowedFunctionNames=["a"]), "mode is ANY"),
        (tools(named("a"), mode="ANY", allowedFunctionNames=["b"]), "not in the func"),
        ({**WORDS, "toolConfig": {"functionCallingConfig": {}}}, "without function"),
    ],
)
def test_what_is_wrong_is_rejected(sent, words):
    """Each rule has its sentence."""
    assert words in (complaint(sent) or "")


UNSIGNED = {"role": "model", "parts": [{"functionCall": {"name": "f"}}]}
STEPS = [
    *WORDS["contents"],
    UNSIGNED,
    {"role": "user", "parts": [response()]},
]
PREFILLED = [*WORDS["contents"], {"role": "model", "parts": [{"text": "a"}]}]


@pytest.mark.parametrize(
    ("sent", "old", "new", "words"),
    [
        ({"contents": STEPS}, "gemini-2.5-pro", "gemini-3-pro", "thought_signature"),
        ({"contents": STEPS}, "gemma-4-31b-it", "fake", "thought_signature"),
        ({"contents": PREFILLED}, "gemini-3.1-pro", "m", "ending with a model turn"),
        (
            thinking(thinkingLevel="MINIMAL"),
            *("gemini-3.6-flash", "gemini-3.7-flash", "MINIMAL is not supported"),
        ),
        (
            thinking(thinkingLevel="MEDIUM"),
            *("gemini-3.1-pro", "gemini-3-pro", "MEDIUM is not supported"),
        ),
        (
            thinking(thinkingLevel="HIGH"),
            *("gemini-3-flash", "gemini-2.5-flash", "level is not supported"),
        ),
        (
            thinking(thinkingBudget=0),
            *("gemini-2.5-flash", "gemini-2.5-pro", "between 128 and 32768"),
        ),
        (
            thinking(thinkingBudget=1),
            *("gemini-3-flash", "gemma-4-31b-it", "budget is not supported"),
        ),
        (mixed(**TOLD), "gemini-3.8-flash", "gemini-2.5-flash", "is unsupported"),
        (answered(SHOWN), "gemini-3-flash", "gemini-2.5-flash", "Multimodal"),
    ],
)
def test_families_differ(sent, old, new, words):
    """One of the two takes it, the other does not."""
    assert complaint(sent, at(old)) is None
    assert words in (complaint(sent, at(new)) or "")


def test_vertex_differs():
    """It blocks domains, and does not know the word for a mixture."""
    path = f"{VERTEX}generateContent"
    blocking = {"googleSearch": {"excludeDomains": ["a.example"]}}
    assert complaint({**WORDS, "tools": [blocking]}, path) is None
    assert complaint(mixed(), path) is None
    assert "Cannot find field" in (complaint(mixed(**TOLD), path) or "")
    files = {"fileSearch": {"fileSearchStoreNames": ["a"]}}
    assert "Cannot find field" in (complaint({**WORDS, "tools": [files]}, path) or "")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 418, 429, 500, 503])
def test_an_error_is_told_in_the_form_of_the_provider(status):
    """Code, message and a word for it."""
    told = speech.error(status, "no")["error"]
    assert (told["code"], told["message"]) == (status, "no")
    assert told["status"].isupper()
