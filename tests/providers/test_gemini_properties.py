"""Whatever a conversation holds and wherever it is from, every Gemini takes it."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.messages import BLOCKS, IDS, MESSAGES, NAMES, WORDS

from syncagent.messages import (
    AssistantMessage,
    File,
    Image,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
)
from syncagent.options import CodeExecution, Options, ToolSpec, WebSearch
from syncagent.providers.gemini.request import GeminiDialect
from syncagent.testing.providers.gemini.rules import complaint
from syncagent.transcript.transcript import Transcript

NAMED = ["gemini-2.5-pro", "gemini-3-pro-preview", "gemini-3.8-flash", "gemma-4-31b-it"]
TOOLS = [ToolSpec("weather", "Tell it."), ToolSpec("look")]
SIGNATURES = st.sampled_from(["", "c2ln", "?!", "skip_thought_signature_validator"])
OWN = st.sampled_from(
    [
        {"thoughtSignature": "c2ln"},
        {"thoughtSignature": "?!"},
        {
            "toolCall": {"toolType": "URL_CONTEXT", "id": "1"},
            "thoughtSignature": "c2ln",
        },
        {"toolResponse": {"toolType": "URL_CONTEXT", "id": "1", "response": {}}},
        {"executableCode": {"code": "1", "language": "PYTHON"}},
        {"somethingNew": {}},
    ]
)
OWN_BLOCKS = st.one_of(
    st.builds(Text, WORDS, st.just(()), SIGNATURES),
    st.builds(Thinking, WORDS, SIGNATURES),
    st.builds(
        ToolCall,
        IDS,
        NAMES,
        st.sampled_from(
            ["{}", '{"a": '],
        ),
        SIGNATURES,
    ),
    st.builds(ProviderBlock, st.just("gemini"), OWN),
    st.just(Image(b"px")),
)
MEDIA = st.sampled_from(
    [Image(b"px", "image/webp"), Image(url="https://x.example/a"), File(b"%PDF-1.4")]
)
OWN_MESSAGES = st.one_of(
    st.builds(
        AssistantMessage,
        st.lists(st.one_of(OWN_BLOCKS, BLOCKS), max_size=4).map(tuple),
        provider=st.sampled_from(["gemini", "gemini@01234567"]),
        is_cut=st.booleans(),
    ),
    st.builds(
        ToolMessage,
        st.lists(
            st.builds(ToolResult, IDS, st.lists(MEDIA, max_size=2).map(tuple)),
            max_size=3,
        ).map(tuple),
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED)
@settings(deadline=None, suppress_health_check=[*HealthCheck], max_examples=120)
@given(
    messages=st.lists(st.one_of(MESSAGES, OWN_MESSAGES), max_size=8),
    issuer=st.sampled_from(["gemini", "gemini@01234567"]),
)
def test_every_family_takes_any_conversation(name, messages, issuer):
    """Promise 4, also for what Gemini itself has said, to whichever issuer it goes."""
    dialect = GeminiDialect(issuer)
    body = dialect.build_payload(name, messages, TOOLS)
    assert complaint(json.loads(body), f"/models/{name}:generateContent") is None
    # Turn by turn it is the same as at once.
    transcript = Transcript()
    for message in messages:
        transcript.append(message)
        dialect.build_payload(name, transcript, TOOLS)
    if messages:
        assert dialect.build_payload(name, transcript, TOOLS) == body


@pytest.mark.parametrize("effort", ["minimal", "low", "medium", "high", "xhigh", "max"])
@pytest.mark.parametrize("server_tools", [(), (WebSearch(), CodeExecution())])
@pytest.mark.parametrize("name", NAMED)
def test_every_family_takes_its_options(name, effort, server_tools):
    """Each effort, with and without tools of the provider's."""
    options = Options(effort=effort, server_tools=server_tools)
    tools = TOOLS if "gemini-3" in name else ()
    body = GeminiDialect().build_payload(name, "hi", tools, options)
    assert complaint(json.loads(body), f"/models/{name}:generateContent") is None
