"""What real providers have sent comes out right, however it is cut."""

import json

import pytest
from recorded import decode, entries, expected, outcome

from syncagent.messages import UserMessage
from syncagent.options import Options
from syncagent.providers.anthropic.request import AnthropicDialect
from syncagent.providers.openai_chat.request import OpenAIChatDialect
from syncagent.providers.openai_responses.request import OpenAIResponsesDialect
from syncagent.testing.providers.anthropic import rules as anthropic
from syncagent.testing.providers.openai_chat import rules as openai_chat
from syncagent.testing.providers.openai_responses import rules as openai_responses

DIALECTS = {
    "openai-chat": OpenAIChatDialect(),
    "openai-responses": OpenAIResponsesDialect(),
    "anthropic-messages": AnthropicDialect(),
}
RULES = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic-messages": anthropic,
}
ENTRIES = [entry for entry in entries() if entry["api"] in DIALECTS]

pytestmark = pytest.mark.skipif(not ENTRIES, reason="no recorded bodies at hand")
each = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["id"])


@pytest.mark.parametrize("size", [1, 7, 61, 1 << 20])
@each
def test_a_recorded_answer(entry, size):
    """Text, thinking, tool calls, the reason to stop, and what it has cost."""
    events = decode(DIALECTS[entry["api"]], entry, size)
    assert outcome(events) == expected(entry)
    told = entry["expected"].get("usage") or {}
    tokens = told.get("output_tokens", told.get("completion_tokens", 0))
    assert events[-1].usage.output_tokens == tokens


@each
def test_a_recorded_answer_can_go_back(entry):
    """The provider has no reason to complain about its own words."""
    dialect = DIALECTS[entry["api"]]
    answer = decode(dialect, entry, 61)[-1].message
    said = [UserMessage.of("Hi"), answer, UserMessage.of("Go on")]
    sent = dialect.build_payload("m", said, (), Options())
    assert RULES[entry["api"]].complaint(json.loads(sent)) is None
