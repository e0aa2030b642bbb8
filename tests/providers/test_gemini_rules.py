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


@pytest.mark.parametrize(
    "sent",
    [
        answered(response()),
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


@pytest.mark.parametrize("status", [400, 401, 403, 404, 418, 429, 500, 503])
def test_an_error_is_told_in_the_form_of_the_provider(status):
    """Code, message and a word for it."""
    told = speech.error(status, "no")["error"]
    assert (told["code"], told["message"]) == (status, "no")
    assert told["status"].isupper()
