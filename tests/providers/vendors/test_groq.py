"""Payloads have the types of Groq's own package, version 1."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vendor_talk import CONVERSATIONS, HELLO, OPTIONS, TOOLS, WITHOUT_FILES, payload

pytest.importorskip("groq", minversion="1")

from groq.types.chat.completion_create_params import CompletionCreateParams
from typed import strict

TYPED = strict(CompletionCreateParams)


def check(*args, **options):
    """Build a payload and check it, except a field that is only in Groq's API."""
    sent = payload("groq", *args, **options)
    sent.pop("stream_options", None)
    TYPED(sent)


@pytest.mark.parametrize("name", [name for name in CONVERSATIONS if name != "files"])
def test_conversations(name):
    """With and without tools, streamed and not."""
    for tools in ((), TOOLS):
        for stream in (True, False):
            check(CONVERSATIONS[name], tools, stream=stream)


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name):
    """Each in the vendor's own words."""
    check([HELLO], TOOLS, **OPTIONS[name])


@pytest.mark.parametrize("effort", ["low", "medium", "high", "max"])
def test_efforts(effort):
    """Every word of ours becomes one of the vendor's."""
    check(effort=effort)


@pytest.mark.slow
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(messages=st.lists(WITHOUT_FILES, max_size=6))
def test_any_conversation(messages):
    """Whatever was left behind."""
    check(messages, TOOLS)
