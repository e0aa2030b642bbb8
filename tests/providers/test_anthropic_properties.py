"""What holds for every model of Claude, whatever goes in."""

import json

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.messages import MESSAGES, WORDS

from syncagent.exceptions import ConfigurationError
from syncagent.messages import AssistantMessage, ProviderBlock
from syncagent.options import CodeExecution, Options, OutputFormat, ToolSpec, WebSearch
from syncagent.providers.anthropic.request import AnthropicDialect
from syncagent.testing.providers.anthropic.rules import complaint
from syncagent.transcript import Transcript

TOOLS = [ToolSpec("weather", "Tell it."), ToolSpec("look")]
ISSUERS = ["anthropic", "vertex-anthropic", "bedrock-anthropic", "openai", "gemini"]
MODELS = [
    "claude-3-5-haiku-latest",
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "claude-opus-4-6",
    "claude-opus-4-8",
    "claude-sonnet-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "claude-opus-5-5",
    "claude-fable-5-2",
]
BLOCKS = [
    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
    {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
    {"type": "compaction", "content": None},
    {"type": "compaction", "content": "So far.", "encrypted_content": "e"},
]


@st.composite
def conversations(draw):
    """Messages of which each model's has an issuer, and maybe a block of its own."""
    messages = []
    for message in draw(st.lists(MESSAGES, max_size=8)):
        if isinstance(message, AssistantMessage):
            issuer = draw(st.sampled_from(ISSUERS))
            own = [
                ProviderBlock(issuer, data)
                for data in draw(st.lists(st.sampled_from(BLOCKS), max_size=2))
            ]
            message = msgspec.structs.replace(
                message,
                provider=issuer,
                content=(*message.content, *own),
                stop_reason=draw(st.sampled_from(["end_turn", "pause", "tool_calls"])),
            )
        messages.append(message)
    return messages


OPTIONS = st.fixed_dictionaries(
    {"system": WORDS, "cache": st.booleans()},
    optional={
        "effort": st.sampled_from(["none", "minimal", "low", "high", "xhigh", "max"]),
        "thinking_tokens": st.integers(1, 4000),
        "max_tokens": st.integers(1, 20_000),
        "temperature": st.sampled_from([0, 0.5, 1]),
        "top_p": st.sampled_from([0.5, 0.99, 1]),
        "tool_choice": st.sampled_from(["auto", "none", "required", "look"]),
        "parallel_tool_calls": st.booleans(),
        "prefill": st.just("Yes"),
        "output": st.just(OutputFormat({"type": "object", "properties": {}})),
        "server_tools": st.sampled_from([(WebSearch(),), (CodeExecution(),)]),
    },
)


@settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    max_examples=400,
)
@given(
    messages=conversations(),
    options=OPTIONS,
    model=st.sampled_from(MODELS),
    issuer=st.sampled_from(ISSUERS[:3]),
)
@pytest.mark.slow
def test_a_request_is_an_error_or_accepted(messages, options, model, issuer):
    """Promise 4: whatever was left behind, with whatever options."""
    dialect, transcript = AnthropicDialect(issuer), Transcript(messages)
    try:
        payload = dialect.build_payload(model, transcript, TOOLS, Options(**options))
    except ConfigurationError:
        return
    assert complaint(json.loads(payload)) is None


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=80)
@given(
    messages=conversations(),
    effort=st.sampled_from([None, "low", "high", "max"]),
    model=st.sampled_from(MODELS),
)
@pytest.mark.slow
def test_an_effort_is_never_an_error(messages, effort, model):
    """Each model is asked for the nearest that it has."""
    options = Options(effort=effort)
    payload = AnthropicDialect().build_payload(model, messages, TOOLS, options)
    assert complaint(json.loads(payload)) is None
