"""Irregular ends of Gemini's responses: retried, refused or told, never silent."""

import json

import pytest
from gemini_talk import GEMINI

from syncagent import Agent
from syncagent.events import MessageFinished, MessageStarted, TextDelta, UsageUpdated
from syncagent.exceptions import ProviderUnavailable, StoppedByProvider
from syncagent.messages import AssistantMessage, Text
from syncagent.models import Gemini
from syncagent.sse import ServerSentEvent
from syncagent.testing import FakeServer, say
from syncagent.testing.script import ScriptedResponse
from syncagent.transport import Retries
from syncagent.usage import Usage

MISTAKES = ["MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"]
WHY = "Malformed function call: print(default_api.look("
TOKENS = {"promptTokenCount": 5}
#: As the provider has sent it.
MALFORMED = {
    "candidates": [
        {
            "content": {},
            "finishReason": "MALFORMED_FUNCTION_CALL",
            "index": 0,
            "finishMessage": WHY,
        }
    ],
    "usageMetadata": {"promptTokenCount": 57, "totalTokenCount": 57},
    "modelVersion": "gemini-2.5-flash",
}


def ended(reason, *parts):
    content = {"parts": list(parts), "role": "model"}
    candidate = {"content": content, "finishReason": reason, "finishMessage": WHY}
    return {"candidates": [candidate]}


def said(*parts):
    return {"candidates": [{"content": {"parts": list(parts)}}]}


def decode(*chunks):
    return GEMINI.decode(ServerSentEvent(json.dumps(chunk)) for chunk in chunks)


def decode_body(*chunks):
    return GEMINI.decode_body(json.dumps(list(chunks)).encode())


@pytest.mark.parametrize("read", [decode, decode_body])
@pytest.mark.parametrize(
    "chunks",
    [
        [MALFORMED],
        [{**said({"text": ""}), "usageMetadata": TOKENS}, MALFORMED],
        *([ended(reason, {"text": ""})] for reason in MISTAKES),
    ],
)
def test_a_mistake_before_any_word_is_an_error_that_may_pass(read, chunks):
    """B8: nothing was delivered, so the whole turn can be tried again."""
    events = read(*chunks)
    with pytest.raises(ProviderUnavailable, match="Malformed function call") as caught:
        next(events)
    assert caught.value.retryable
    assert caught.value.url == ""  # the model retries it, not the transport


@pytest.mark.parametrize("reason", MISTAKES)
def test_a_mistake_after_words_is_an_irregular_end(reason):
    """B8: what was delivered stays, and the explanation is kept."""
    *_, finished = decode(said({"text": "Hm"}), ended(reason))
    message = finished.message
    assert message.content == (Text("Hm"),)
    assert (message.stop_reason, message.raw_stop_reason) == ("other", reason)
    assert message.stop_detail == WHY


def test_a_call_of_a_tool_that_is_not_there_is_made():
    """The model is told so, which is better than a retry."""
    call = {"functionCall": {"name": "missing", "args": {}}}
    *_, finished = decode(ended("UNEXPECTED_TOOL_CALL", call))
    assert finished.message.stop_reason == "tool_calls"
    assert finished.message.tool_calls[0].name == "missing"


def test_the_first_events_wait_for_something_to_deliver():
    """They come in the same order, with the latest usage."""
    more = {"promptTokenCount": 5, "candidatesTokenCount": 1}
    first = {**said({"text": ""}), "modelVersion": "v", "responseId": "r"}
    stream = decode(
        {**first, "usageMetadata": TOKENS},
        {**ended("STOP", {"text": "a"}), "usageMetadata": more},
    )
    events = list(stream)
    assert [type(event) for event in events] == [
        *(MessageStarted, UsageUpdated, TextDelta, UsageUpdated, MessageFinished)
    ]
    assert events[0] == MessageStarted("v", "r")
    assert events[3].usage == Usage(5, 1)


def test_a_blocked_prompt_is_a_refusal_whatever_the_word():
    """Those of Vertex, and any that nobody knows."""
    for word in ("MODEL_ARMOR", "JAILBREAK", "IMAGE_SAFETY", "MALFORMED_RESPONSE"):
        *_, finished = decode({"promptFeedback": {"blockReason": word}})
        assert finished.message.stop_reason == "refusal"
        assert word in finished.message.refusal


# -- in a run --------------------------------------------------------------------------


def spoilt(reason="MALFORMED_FUNCTION_CALL", *content):
    blocks = tuple(map(Text, content))
    message = AssistantMessage(blocks, "other", reason, stop_detail=WHY)
    return ScriptedResponse(message)


@pytest.fixture(params=[True, False], ids=["stream", "body"])
def run(request):
    """Return a function that runs an agent on these responses."""

    def run(*script):
        with FakeServer(script) as server:
            model = Gemini(
                "gemini-3.8-flash",
                base_url=server.url_of("gemini"),
                api_key="any",
                stream=request.param,
                retries=Retries(limit=2, first_delay=0),
            )
            try:
                return Agent(model).run("Look."), len(server.requests)
            except ProviderUnavailable as error:
                return error, len(server.requests)

    return run


def test_a_run_tries_a_spoilt_turn_again(run):
    """B8: the second attempt counts, and nobody sees the first."""
    result, count = run(spoilt(), say("Here."))
    assert (result.text, result.stop_reason, count) == ("Here.", "end_turn", 2)


def test_a_run_gives_up_on_a_model_that_spoils_every_turn(run):
    """The error quotes the provider."""
    error, count = run(spoilt(), spoilt(), spoilt())
    assert isinstance(error, ProviderUnavailable)
    assert WHY in str(error)
    assert count == 3


@pytest.mark.parametrize("reason", ["OTHER", "NO_IMAGE", "SOMETHING_NEW"])
def test_a_run_never_takes_an_irregular_end_for_a_regular_one(run, reason):
    """B8: also if the response is empty."""
    result, count = run(spoilt(reason))
    assert (result.text, result.stop_reason, count) == ("", "other", 1)
    with pytest.raises(StoppedByProvider):
        result.raise_for_status()


def test_a_run_tells_the_explanation_of_an_irregular_end(run):
    """B8: the error quotes the provider's word and its message."""
    result, _ = run(spoilt("OTHER", "Hm"))
    with pytest.raises(StoppedByProvider, match=r"OTHER.*Malformed function call"):
        result.raise_for_status()
