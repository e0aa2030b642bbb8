"""A conversation moves from any endpoint to any other, also after a cancel."""

import json
from base64 import b64encode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syncagent.events import MessageFinished
from syncagent.messages import (
    AssistantMessage,
    Image,
    Json,
    RedactedThinking,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.models.endpoints import ENDPOINTS
from syncagent.models.names import dialect_of
from syncagent.options import ToolSpec
from syncagent.providers.draft import Draft
from syncagent.sse import EventDecoder
from syncagent.testing.providers.played import PLAYED
from syncagent.transcript import Transcript
from syncagent.usage import Usage

pytestmark = pytest.mark.slow

TOOLS = [ToolSpec("weather", "Tell it."), ToolSpec("look")]
DIALECTS = {name: dialect_of(ENDPOINTS[name]) for name in PLAYED}
patient = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=120
)


def secret(endpoint):
    """Return data that only *endpoint* may get back."""
    return b64encode(f"for {endpoint} only".encode()).decode()


def respond(endpoint, blocks, cut):
    """Return the message that *endpoint* sends, or as much as had come at a cancel.

    :param cut: the part of the events that arrives; ``None`` for all of them.
    """
    calls = any(isinstance(block, ToolCall) for block in blocks)
    sent = AssistantMessage(tuple(blocks), "tool_calls" if calls else "end_turn")
    body = "".join(PLAYED[endpoint].speech.frames(sent, Usage(1, 2)))
    events = list(EventDecoder().feed(body.encode()))
    dialect = DIALECTS[endpoint]
    draft = Draft(dialect.issuer)
    if cut is not None:
        events = events[: int(len(events) * cut)]
    try:
        for event in dialect.decode(events, draft):
            if isinstance(event, MessageFinished):
                return event.message
    except ConnectionError:
        pass
    return draft.partial()


@st.composite
def responses(draw):
    """Return a response of some endpoint, complete or cut off."""
    endpoint = draw(st.sampled_from(sorted(PLAYED)))
    sign = secret(endpoint)
    blocks = draw(
        st.lists(
            st.sampled_from(
                [
                    Text("Let me see."),
                    Thinking("hm", sign),
                    RedactedThinking(sign),
                    ToolCall("call_0", "weather", '{"city": "Oslo"}', sign),
                    ToolCall("call_1" * 9, "look", "{}"),
                ]
            ),
            min_size=1,
            max_size=4,
            unique_by=lambda block: getattr(block, "call_id", id(block)),
        )
    )
    return respond(endpoint, blocks, draw(st.none() | st.floats(0, 0.99)))


@st.composite
def conversations(draw):
    """Return a conversation with several endpoints, some of its runs cancelled."""
    messages = [UserMessage.of("hi")]
    for message in draw(st.lists(responses(), min_size=1, max_size=4)):
        if not message.content:
            continue
        messages.append(message)
        done = draw(st.integers(0, len(message.tool_calls)))
        results = [
            ToolResult(call.call_id, draw(RESULT_CONTENT), name=call.name)
            for call in message.tool_calls[:done]
        ]
        # A cancel in a tool round, a crash, or a limit: the rest has no result.
        messages += [ToolMessage(tuple(results))] if results else []
        messages += [UserMessage.of("and now?")] if draw(st.booleans()) else []
    return messages


RESULT_CONTENT = st.sampled_from(
    [
        (Text("fine"),),
        (Json({"a": 1}),),
        (Image(b"\x89PNG", "image/png"),),
        (),
    ]
)


@patient
@given(messages=conversations())
def test_any_conversation_is_accepted_by_every_endpoint(messages):
    """Promise 4: begun anywhere, cancelled anywhere, it continues anywhere."""
    transcript = Transcript(messages)
    transcript.repair()
    for name, dialect in DIALECTS.items():
        for conversation in (messages, transcript):
            payload = dialect.build_payload(
                ENDPOINTS[name].example, conversation, TOOLS
            )
            found = PLAYED[name].complaint(json.loads(payload), "")
            assert found is None, name


#: The endpoints without rules of their own, and the inventor of the dialect of each.
INVENTORS = {
    ENDPOINTS[name].dialect: name
    for name in ("openai", "openai-chat", "anthropic", "gemini")
}
OTHERS = sorted(ENDPOINTS.keys() - PLAYED.keys())


@pytest.mark.parametrize("name", OTHERS)
@settings(patient, max_examples=15)
@given(messages=conversations())
def test_endpoints_without_rules_of_their_own_keep_those_of_the_dialect(name, messages):
    """Promise 4: by the rules of the provider that invented their dialect."""
    endpoint = ENDPOINTS[name]
    payload = dialect_of(endpoint).build_payload(endpoint.example, messages, TOOLS)
    inventor = PLAYED[INVENTORS[endpoint.dialect]]
    assert inventor.complaint(json.loads(payload), "") is None


@patient
@given(messages=conversations())
def test_the_data_of_an_endpoint_goes_to_no_other(messages):
    """B13: signatures and encrypted reasoning return to their issuer only."""
    for name, dialect in DIALECTS.items():
        payload = dialect.build_payload(ENDPOINTS[name].example, messages, TOOLS)
        for other in PLAYED:
            assert other == name or secret(other).encode() not in payload
