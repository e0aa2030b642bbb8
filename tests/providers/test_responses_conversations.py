"""Any conversation, from any issuer, is accepted by those who speak this API."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.messages import BLOCKS, MESSAGES, WORDS

from syncagent import Agent, tool
from syncagent.messages import AssistantMessage, ProviderBlock, Text, Thinking, ToolCall
from syncagent.models.endpoints import ENDPOINTS
from syncagent.models.names import dialect_of, find_model
from syncagent.options import Options, ToolSpec
from syncagent.testing import FakeServer, cancel_everywhere, say
from syncagent.testing.providers.played import PLAYED
from syncagent.transport import close_idle

pytestmark = pytest.mark.slow

NAMES = [name for name in PLAYED if ENDPOINTS[name].dialect == "openai-responses"]
each_name = pytest.mark.parametrize("name", NAMES)

#: The beginning of what each seals.
SEALS = {"openai": "gAAAA", "xai": "xai-", "azure": "gAAAA-of-azure"}
ISSUERS = st.sampled_from([*SEALS, "openai@0a1b2c3d", "openrouter", "anthropic"])
TOOLS = [ToolSpec("weather", "Tell it."), ToolSpec("look")]


def items_of(issuer):
    """Return items as a provider makes them."""
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    return st.sampled_from(
        [
            {**reasoning, "encrypted_content": SEALS.get(issuer, "other") + "x"},
            {**reasoning, "content": [{"type": "reasoning_text", "text": "Hm."}]},
            reasoning,
            {"type": "web_search_call", "id": "ws_1", "status": "completed"},
            {"type": "custom_tool_call", "call_id": "c", "name": "x", "input": ""},
            {"type": "shell_call", "call_id": "s", "action": {"commands": []}},
            {"type": "shell_call_output", "call_id": "s", "output": []},
            {"type": "image_generation_call", "id": "ig_1", "result": "aGk="},
            {"type": "compaction", "id": "cmp_1", "encrypted_content": "other"},
        ]
    )


def messages_of(issuer):
    """Return messages of one issuer, with blocks of its own."""
    own = st.builds(ProviderBlock, st.just(issuer), items_of(issuer))
    phases = st.sampled_from(["", "commentary", "final_answer"])
    text = st.builds(Text, WORDS, st.just(()), phases)
    content = st.lists(st.one_of(own, text, BLOCKS), max_size=5).map(tuple)
    return st.builds(AssistantMessage, content, provider=st.just(issuer))


MESSAGES_OF_ALL = st.one_of(MESSAGES, ISSUERS.flatmap(messages_of))


@each_name
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(messages=st.lists(MESSAGES_OF_ALL, max_size=8), system=WORDS)
def test_any_conversation_is_accepted(name, messages, system):
    """Promise 4: also with reasoning and items of others, and half-finished ones."""
    endpoint = ENDPOINTS[name]
    dialect = dialect_of(endpoint)
    options = Options(system=system)
    sent = dialect.build_payload(endpoint.example, messages, TOOLS, options)
    assert PLAYED[name].complaint(json.loads(sent), "") is None


@tool
def look(what: str) -> str:
    """Look at something."""
    return f"seen: {what}"


def reply(request):
    """Answer with one round of tools, and then be done."""
    items = request.payload["input"]
    is_new = items[-1].get("content") == [{"type": "input_text", "text": "Do it."}]
    if not is_new:
        return say(Thinking("So it is."), "Done.")
    calls = [ToolCall(f"call_{n}", "look", f'{{"what": "{n}"}}') for n in range(2)]
    return say(Thinking("What is there?"), "Let me see.", *calls)


@each_name
@pytest.mark.parametrize("stream", [True, False])
def test_a_cancel_anywhere_leaves_a_conversation_that_goes_on(name, stream):
    """Promises 3 to 8, with reasoning that belongs to the endpoint."""
    model = f"{name}:{ENDPOINTS[name].example}"
    with FakeServer(reply) as server:
        settings = {"base_url": server.url_of(name), "api_key": "k", "retries": 0}

        def make():
            return Agent(
                find_model(model, stream=stream, effort="low", **settings), tools=[look]
            )

        swept = cancel_everywhere(make, "Do it.", way="thread")
        close_idle()
    assert {"headers", "tool"} <= swept.phases
    assert len(swept.points) > 20
