"""Thinking goes back to the provider that did it and wants it, and nowhere else."""

import pytest
from support.chat import TOOL, chunk, finished, payload_of, replied

from syncagent.messages import (
    AssistantMessage,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.models.endpoints import ENDPOINTS
from syncagent.models.names import dialect_of
from syncagent.providers.draft import Draft
from syncagent.sse import ServerSentEvent
from syncagent.testing.providers.played import PLAYED

PROMPT = UserMessage.of("How is the weather?")
RESULT = ToolMessage((ToolResult("c1", (Text("Sunny."),), name="weather"),))
CALL = ToolCall("c1", "weather", '{"city":"Oslo"}')
CALL_DELTA = {
    "index": 0,
    "id": "c1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city":"Oslo"}'},
}
WANT_TEXT = ["deepseek", "moonshot", "zai"]
wanting = pytest.mark.parametrize("endpoint", WANT_TEXT)


def thinker(provider, *blocks):
    return AssistantMessage((Thinking("hm"), *blocks), provider=provider)


def sent_assistant(endpoint, message, *more, **settings):
    """Return the assistant's message as *endpoint* gets it."""
    found = payload_of(endpoint, PROMPT, message, *more, tools=[TOOL], **settings)
    return next(each for each in found["messages"] if each["role"] == "assistant")


@wanting
def test_a_loop_of_tools_gets_its_thinking_back(endpoint):
    """B2: else the second request is rejected."""
    thought = finished(
        endpoint,
        chunk({"reasoning_content": "I need "}),
        chunk({"reasoning_content": "the tool."}),
        chunk({"tool_calls": [CALL_DELTA]}),
        chunk(finish="tool_calls"),
    ).message
    found = sent_assistant(endpoint, thought, RESULT)
    assert found["reasoning_content"] == "I need the tool."
    assert found["tool_calls"][0]["id"] == "c1"


@wanting
@pytest.mark.parametrize("provider", ["", "openai", "openrouter", "else"])
def test_calls_of_another_provider_have_empty_thinking(endpoint, provider):
    """The field must be there; the thinking of another provider stays with it."""
    found = sent_assistant(endpoint, thinker(provider, CALL), RESULT)
    assert found["reasoning_content"] == ""


@wanting
def test_a_turn_without_calls(endpoint):
    """Own thinking goes back; an empty field is not necessary."""
    own = sent_assistant(endpoint, thinker(endpoint, Text("Hello.")))
    assert own["reasoning_content"] == "hm"
    other = sent_assistant(endpoint, thinker("gemini", Text("Hello.")))
    assert "reasoning_content" not in other


@pytest.mark.parametrize("endpoint", ["openai-chat", "mistral", "groq", "openrouter"])
@pytest.mark.parametrize("provider", ["", "deepseek", "mistral", "groq"])
def test_others_do_not_get_the_field(endpoint, provider):
    """Mistral and Groq reject fields that they do not know."""
    found = sent_assistant(endpoint, thinker(provider, CALL), RESULT)
    assert found.keys() <= {"role", "content", "tool_calls"}


def test_another_address_is_another_origin():
    """A gateway may pass the request to another provider."""
    found = sent_assistant(
        "deepseek", thinker("deepseek", CALL), RESULT, base_url="http://gateway.test/v1"
    )
    assert found["reasoning_content"] == ""


def test_thinking_that_was_cut_is_dropped_and_its_field_stays():
    """A turn with calls needs the field, also after a cancel."""
    dialect = dialect_of(ENDPOINTS["deepseek"])
    draft = Draft(dialect.issuer)
    event = '{"choices":[{"index":0,"delta":{"reasoning_content":"half a th"}}]}'
    with pytest.raises(ConnectionError):
        list(dialect.decode([ServerSentEvent(event)], draft))
    assert draft.partial().thinking == ""
    cut = AssistantMessage((CALL,), provider="deepseek", is_cut=True)
    assert sent_assistant("deepseek", cut, RESULT)["reasoning_content"] == ""


# -- details of OpenRouter -------------------------------------------------------------

TEXT = {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1"}
SECRET = {"type": "reasoning.encrypted", "data": "c2Vj", "id": "tool_1", "index": 0}
OTHER = {"type": "reasoning.encrypted", "data": "b3Ro", "id": "tool_2", "index": 0}
DELTAS = [
    chunk({"reasoning": "I ", "reasoning_details": [{**TEXT, "text": "I "}]}),
    chunk({"reasoning": "see.", "reasoning_details": [{**TEXT, "text": "see."}]}),
    chunk({"reasoning_details": [{**TEXT, "text": None, "signature": "c2ln"}]}),
    chunk({"reasoning_details": [SECRET]}),
    chunk({"reasoning_details": [OTHER]}),
    chunk({"tool_calls": [CALL_DELTA]}),
    chunk(finish="tool_calls"),
]
MERGED = [{**TEXT, "text": "I see.", "signature": "c2ln"}, SECRET, OTHER]


def test_details_are_merged_and_go_back():
    """B5: texts are joined by index, signatures and data are kept."""
    message = finished("openrouter", *DELTAS).message
    assert message.thinking == "I see."
    assert sent_assistant("openrouter", message, RESULT)["reasoning_details"] == MERGED


def test_openrouter_refuses_a_step_of_gemini_without_its_details():
    """B5: with them it goes on; those of earlier prompts may be missing."""
    model = "google/gemini-3.8-flash"
    message = finished("openrouter", *DELTAS).message
    step = (PROMPT, message, RESULT)
    payload = payload_of("openrouter", *step, model=model, tools=[TOOL])
    del payload["messages"][1]["reasoning_details"]
    complaint = PLAYED["openrouter"].complaint
    assert "reasoning details to be preserved" in complaint(payload, "")
    payload["messages"].append({"role": "user", "content": "Go on."})
    assert complaint(payload, "") is None


def test_details_of_a_whole_message_go_back_unchanged():
    """Unknown fields included."""
    details = [*MERGED, {"type": "reasoning.summary", "summary": "s", "new": [1]}]
    body = {"content": "Hi", "reasoning": "I see.", "reasoning_details": details}
    choice = {"message": body, "finish_reason": "stop"}
    message = replied("openrouter", {"id": "1", "choices": [choice]}).message
    assert (message.thinking, message.text) == ("I see.", "Hi")
    assert sent_assistant("openrouter", message)["reasoning_details"] == details


def test_thinking_that_is_only_in_details_is_shown():
    """In a stream and in a whole response."""
    detail = {"type": "reasoning.summary", "summary": "I see.", "index": 0}
    delta = chunk({"reasoning_details": [detail]})
    streamed = finished("openrouter", delta, chunk(finish="stop"))
    body = {"content": "Hi", "reasoning_details": [detail]}
    whole = replied("openrouter", {"choices": [{"message": body}]})
    assert streamed.message.thinking == whole.message.thinking == "I see."


@pytest.mark.parametrize(
    ("endpoint", "base_url"),
    [("deepseek", ""), ("vercel", ""), ("openrouter", "http://gateway.test/v1")],
)
def test_details_go_to_no_other_origin(endpoint, base_url):
    """They are encrypted for one, and rejected by the others."""
    message = finished("openrouter", *DELTAS).message
    found = sent_assistant(endpoint, message, RESULT, base_url=base_url)
    assert "reasoning_details" not in found


@pytest.mark.parametrize("odd", [7, "x", [7], [{"type": []}], [{"index": {}}], {}])
def test_odd_details_do_no_harm(odd):
    """The response is read as if they were absent."""
    message = finished(
        "openrouter",
        chunk({"content": "Hi", "reasoning_details": odd}),
        chunk(finish="stop"),
    ).message
    assert message.text == "Hi"


def test_blocks_of_others_are_no_details():
    """Whatever is in them."""
    odd = ProviderBlock("openrouter", {"reasoning_details": "x", "type": "y"})
    other = ProviderBlock("else", {"reasoning_details": MERGED})
    message = AssistantMessage((odd, other, Text("Hi")), provider="openrouter")
    assert sent_assistant("openrouter", message) == {
        "role": "assistant",
        "content": "Hi",
    }


# -- signatures of Google --------------------------------------------------------------

SIGNED = {"extra_content": {"google": {"thought_signature": "c2ln"}}}


@pytest.mark.parametrize(
    "deltas",
    [
        [{**CALL_DELTA, **SIGNED}],
        [CALL_DELTA, {"index": 0, **SIGNED}],
        [CALL_DELTA, {"index": 0, "id": "c1", "function": {"arguments": ""}, **SIGNED}],
    ],
)
def test_the_signature_of_a_call_goes_back(deltas):
    """B5: Google rejects a call without it; no other issuer gets it."""
    events = [chunk({"tool_calls": [delta]}) for delta in deltas]
    message = finished("vertex-chat", *events, chunk(finish="tool_calls")).message
    assert message.tool_calls == (ToolCall("c1", "weather", CALL.arguments, "c2ln"),)
    own = sent_assistant("vertex-chat", message, RESULT)["tool_calls"][0]
    assert own["extra_content"] == SIGNED["extra_content"]
    other = sent_assistant("openrouter", message, RESULT)["tool_calls"][0]
    assert "extra_content" not in other


def test_the_signature_in_a_whole_message():
    """The same in a response that is not streamed."""
    message = {"tool_calls": [{**CALL_DELTA, **SIGNED}, {**CALL_DELTA, "id": "c2"}]}
    found = replied("vertex-chat", {"choices": [{"message": message}]}).message
    assert [call.signature for call in found.tool_calls] == ["c2ln", ""]
