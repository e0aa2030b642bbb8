"""A few words with Anthropic's Messages, for the tests of that dialect."""

import json

from syncagent.messages import (
    AssistantMessage,
    Citation,
    ProviderBlock,
    RedactedThinking,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.options import Options
from syncagent.providers.anthropic.request import AnthropicDialect
from syncagent.testing.providers.anthropic.rules import complaint

DIALECT = AnthropicDialect()
#: A model of today, and one that thinks with a budget.
MODEL, OLD = "claude-sonnet-5-5", "claude-sonnet-4-5"
HELLO = UserMessage.of("Hello")
SEARCH = {
    "type": "server_tool_use",
    "id": "s1",
    "name": "web_search",
    "input": {"q": 1},
}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
MARK = {"type": "ephemeral"}


OWN = (
    Thinking("t", "sig"),
    RedactedThinking("r"),
    Text("w", (Citation("q", data={"cited_text": "q"}),)),
    ProviderBlock("anthropic", SEARCH),
    ProviderBlock("anthropic", FOUND),
    ToolCall("1", "add", "{}"),
)


def ours(*blocks, **more):
    return AssistantMessage(blocks, provider="anthropic", **more)


def payload(*messages, tools=(), model=MODEL, **options):
    """Return what is sent, which the provider must have no complaint about."""
    given = list(messages) or [HELLO]
    sent = DIALECT.build_payload(model, given, tools, Options(**options))
    sent = json.loads(sent)
    assert complaint(sent) is None
    return sent


def said(*messages, **options):
    """Return roles and contents of what is sent."""
    sent = payload(*messages, **options)["messages"]
    return [(message["role"], message["content"]) for message in sent]


def back(message, result="ok"):
    """Return how *message* goes back, with results for its calls."""
    results = [ToolResult(call.call_id, (Text(result),)) for call in message.tool_calls]
    return said(HELLO, message, ToolMessage(tuple(results)))[1][1]


def text(words):
    return {"type": "text", "text": words}
