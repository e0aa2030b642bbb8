"""Payloads have the types of OpenAI's own package, version 3."""

import json
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.messages import MESSAGES
from vendor_talk import CONVERSATIONS, HELLO, OPTIONS, TOOLS, payload

from syncagent.messages import ProviderBlock, ToolMessage, ToolResult
from syncagent.options import CodeExecution, Effort, FileSearch, WebSearch
from syncagent.providers.openai_responses.request import OpenAIResponsesDialect

pytest.importorskip("openai", minversion="3")

from openai.types.chat.completion_create_params import (
    CompletionCreateParams,
)
from openai.types.responses.response_create_params import (
    ResponseCreateParams,
)
from typed import strict

#: Messages of the model may go without the ids and notes that the server gave them.
RESPONSES = strict(ResponseCreateParams, optional=("id", "status", "annotations"))
CHAT = strict(CompletionCreateParams)
CHECKS = {"openai": RESPONSES, "xai": RESPONSES, "openai-chat": CHAT}

each_endpoint = pytest.mark.parametrize("endpoint", CHECKS)


@each_endpoint
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_conversations(endpoint, name):
    """With and without tools, streamed and not."""
    for tools in ((), TOOLS):
        for stream in (True, False):
            sent = payload(endpoint, CONVERSATIONS[name], tools, stream=stream)
            CHECKS[endpoint](sent)


@each_endpoint
@pytest.mark.parametrize("name", OPTIONS)
def test_options(endpoint, name):
    """Each in the vendor's own words."""
    CHECKS[endpoint](payload(endpoint, [HELLO], TOOLS, **OPTIONS[name]))


@each_endpoint
@pytest.mark.parametrize("model", ["gpt-6-luna", "gpt-5.6-sol", "anything"])
@pytest.mark.parametrize("effort", get_args(Effort))
def test_efforts(endpoint, model, effort):
    """Every word of ours becomes one of the vendor's."""
    CHECKS[endpoint](payload(endpoint, model=model, effort=effort))


@pytest.mark.parametrize(
    "tool",
    [
        WebSearch(),
        WebSearch(allowed_domains=("a.example",)),
        CodeExecution(),
        FileSearch(("vs_1",), 5),
    ],
)
def test_server_tools(tool):
    """Beside the tools of the agent."""
    RESPONSES(payload("openai", [HELLO], TOOLS, server_tools=(tool,)))


OWN_ITEMS = [
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Hm."}],
        "encrypted_content": "gAAAAx",
    },
    {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    },
    {
        "type": "message",
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "phase": "commentary",
        "content": [{"type": "output_text", "text": "Hm.", "annotations": []}],
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "add",
        "namespace": "crm",
        "arguments": "{}",
    },
]


def test_a_response_that_goes_back():
    """Reasoning, server tools, phases and namespaces are items of the vendor's."""
    body = json.dumps({"status": "completed", "output": OWN_ITEMS}).encode()
    *_, finished = OpenAIResponsesDialect("openai").decode_body(body)
    assert any(isinstance(b, ProviderBlock) for b in finished.message.content)
    result = ToolMessage((ToolResult("call_1"),))
    sent = payload("openai", [HELLO, finished.message, result], TOOLS)
    assert len(sent["input"]) == len(OWN_ITEMS) + 2
    RESPONSES(sent)


@pytest.mark.slow
@each_endpoint
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(messages=st.lists(MESSAGES, max_size=6))
def test_any_conversation(endpoint, messages):
    """Whatever was left behind."""
    CHECKS[endpoint](payload(endpoint, messages, TOOLS))


@pytest.mark.parametrize(
    "change",
    [
        {"unheard_of": 1},
        {"input": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
        {"input": [{"role": "user", "content": "x", "unheard_of": 1}]},
        {"reasoning": {"effort": "huge"}},
        {"tools": [{"type": "function", "name": "x", "params": {}}]},
    ],
)
def test_a_payload_that_is_wrong_is_found(change):
    """The check looks into everything."""
    right = payload("openai")
    RESPONSES(right)
    with pytest.raises(ValueError, match="validation error"):
        RESPONSES({**right, **change})
