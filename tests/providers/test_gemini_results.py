"""Results of tools as Gemini takes them: alone in a content, and signed before it."""

import pytest
from gemini_talk import CALL, GEMINI, HI, SIGNATURE, model, parts, payload

from syncagent.messages import (
    File,
    Image,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.transcript.transcript import Transcript

OLD = "gemini-2.5-flash"
NEW = "gemini-3.8-flash"
PLACEHOLDER = "skip_thought_signature_validator"
PICTURE = {"inlineData": {"mimeType": "image/png", "data": "cHg="}}
GO_ON = UserMessage.of("Go on.")


def kinds(content):
    return [next(iter(part)) for part in content["parts"]]


def after_results(*blocks, name, then=(GO_ON,)):
    """Return the contents after a call whose result has these blocks."""
    result = ToolMessage((ToolResult("c1", blocks),))
    return payload(HI, model(CALL), result, *then, name=name)["contents"][2:]


@pytest.mark.parametrize("name", [OLD, NEW, "m"])
def test_words_after_results_are_a_content_of_their_own(name):
    """B3: mixed with results they are rejected, or answered with nothing."""
    contents = after_results(Text("seen"), name=name)
    assert [content["role"] for content in contents] == ["user", "user"]
    assert [*map(kinds, contents)] == [["functionResponse"], ["text"]]


def test_results_alone_are_one_content():
    """Nothing is sent after them if nothing was said."""
    contents = after_results(Text("seen"), name=NEW, then=())
    assert [*map(kinds, contents)] == [["functionResponse"]]


def test_newer_models_get_the_images_of_a_result_inside_of_it():
    """B3: each result has its own."""
    (results,) = after_results(Image(b"px"), Text("seen"), name=NEW, then=())
    function = results["parts"][0]["functionResponse"]
    assert function["parts"] == [PICTURE]
    assert function["response"] == {"result": "(see the attachment)\nseen"}


def test_older_models_get_the_images_of_a_result_after_all_results():
    """B3: before the words, in the second content."""
    calls = [ToolCall(f"c{n}", "look") for n in range(3)]
    found = [ToolResult("c1", (Image(b"px"),)), ToolResult("c0")]
    said = [HI, model(*calls), ToolMessage(tuple(found)), GO_ON]
    results, others = payload(*said, name=OLD)["contents"][2:]
    assert kinds(results) == ["functionResponse"] * 3
    assert "parts" not in results["parts"][1]["functionResponse"]
    assert others["parts"] == [PICTURE, {"text": "Go on."}]


@pytest.mark.parametrize(
    "block",
    [
        Image(url="https://x.example/a.png"),
        Image(b"px", "image/heic"),
        File(b"la", "audio/wav"),
    ],
)
def test_media_that_no_result_may_hold_follow_it(block):
    """Addresses, sounds and rare images are rejected inside of a result."""
    results, others = after_results(block, name=NEW, then=())
    assert "parts" not in results["parts"][0]["functionResponse"]
    assert len(others["parts"]) == 1


def test_a_conversation_may_change_between_generations():
    """What was encoded for one is not sent to the other."""
    result = ToolMessage((ToolResult("c1", (Image(b"px"),)),))
    transcript = Transcript([HI, model(CALL), result, model(Text("ok")), GO_ON])
    sent = {}
    for name in (OLD, NEW, OLD, NEW):
        sent.setdefault(name, []).append(GEMINI.build_payload(name, transcript))
    for name, bodies in sent.items():
        assert bodies == [GEMINI.build_payload(name, list(transcript))] * 2
    assert sent[OLD] != sent[NEW]


# -- signatures ------------------------------------------------------------------------


def signatures(message, name=NEW):
    sent = parts(message, name=name)
    return [p.get("thoughtSignature") for p in sent if "functionCall" in p]


@pytest.mark.parametrize(
    ("signed", "expected"),
    [
        (["c2ln", ""], ["c2ln", None]),
        (["", "c2ln"], [PLACEHOLDER, "c2ln"]),
        (["", ""], [PLACEHOLDER, None]),
        (["?!", "?!"], [PLACEHOLDER, None]),
        (["c2ln", "c2ln"], ["c2ln", "c2ln"]),
    ],
)
def test_the_first_of_parallel_calls_is_always_signed(signed, expected):
    """With its own signature, or with the one that Google documents for the purpose.

    A message without any is from an older model of the same provider.
    """
    calls = [ToolCall(f"c{n}", "look", "{}", each) for n, each in enumerate(signed)]
    assert signatures(model(Text("So."), *calls)) == expected


@pytest.mark.parametrize("issuer", ["anthropic", "gemini@01234567", ""])
def test_calls_of_another_origin_are_marked(issuer):
    """Their signatures mean nothing here, whatever dialect they came in."""
    calls = [ToolCall("c1", "look", "{}", "c2ln"), ToolCall("c2", "look", "{}", "c2ln")]
    assert signatures(model(*calls, provider=issuer)) == [PLACEHOLDER, None]


@pytest.mark.parametrize("name", [OLD, "gemma-4-31b-it"])
def test_older_models_get_no_mark(name):
    """They do not ask for signatures; their own go back."""
    foreign = model(ToolCall("c1", "look"), provider="anthropic")
    assert signatures(foreign, name) == [None]
    assert signatures(model(CALL), name) == [CALL.signature]


def test_a_message_that_was_cut_keeps_its_signatures():
    """A cancel drops calls; signed thoughts and words stay as they came."""
    cut = model(Thinking("t", SIGNATURE), Text("a", (), SIGNATURE), is_cut=True)
    sent = payload(HI, cut, GO_ON, name=NEW)["contents"][1]["parts"]
    assert [part["thoughtSignature"] for part in sent] == [SIGNATURE] * 2


def test_invocations_on_the_side_of_the_server_go_back_as_they_came():
    """With their ids and signatures, and in their order."""
    invoked = {
        "toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"q": "a"}, "id": "s1"},
        "thoughtSignature": SIGNATURE,
    }
    found = {
        "toolResponse": {
            "toolType": "GOOGLE_SEARCH_WEB",
            "response": {"search_suggestions": "..."},
            "id": "s1",
        },
        "thoughtSignature": SIGNATURE,
    }
    blocks = [ProviderBlock("gemini", invoked), ProviderBlock("gemini", found)]
    assert parts(model(*blocks, CALL), name=NEW)[:2] == [invoked, found]
