"""Payloads have the types of Mistral's own package, version 3."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.messages import MESSAGES
from vendor_talk import CONVERSATIONS, HELLO, OPTIONS, TOOLS, payload

pytest.importorskip("mistralai")

from mistralai.client.models import (
    ChatCompletionRequestTypedDict,
    ChatCompletionStreamRequestTypedDict,
)
from typed import strict

STREAMED = strict(ChatCompletionStreamRequestTypedDict)
WHOLE = strict(ChatCompletionRequestTypedDict)


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_conversations(name):
    """With and without tools, streamed and not."""
    for tools in ((), TOOLS):
        STREAMED(payload("mistral", CONVERSATIONS[name], tools))
        WHOLE(payload("mistral", CONVERSATIONS[name], tools, stream=False))


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name):
    """Each in the vendor's own words."""
    STREAMED(payload("mistral", [HELLO], TOOLS, **OPTIONS[name]))


def test_a_seed():
    """It has another name there."""
    STREAMED(payload("mistral", seed=7))


@pytest.mark.parametrize("effort", ["none", "low", "max"])
def test_efforts_and_a_prefill(effort):
    """Every word of ours becomes one of the vendor's; the prefill is marked."""
    STREAMED(payload("mistral", effort=effort, prefill="It is"))


@pytest.mark.slow
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(messages=st.lists(MESSAGES, max_size=6))
def test_any_conversation(messages):
    """Whatever was left behind."""
    STREAMED(payload("mistral", messages, TOOLS))
