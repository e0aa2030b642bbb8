"""Tools that Anthropic runs, and blocks that belong to one endpoint."""

import json

import pytest
from anthropic_talk import DIALECT, HELLO, MARK, MODEL, OLD, OWN, payload, text

from syncagent import Agent
from syncagent.exceptions import ConfigurationError
from syncagent.messages import AssistantMessage, ProviderBlock, UserMessage
from syncagent.models import Anthropic
from syncagent.options import CodeExecution, FileSearch, Options, ToolSpec, WebSearch
from syncagent.providers.anthropic.request import AnthropicDialect
from syncagent.testing import FakeServer, Send
from syncagent.testing.providers.anthropic.rules import complaint
from syncagent.testing.script import ScriptedResponse
from syncagent.transport import close_idle
from syncagent.usage import Usage

ADD = ToolSpec("add")
OWN_TOOL = {"name": "add", "input_schema": ADD.parameters}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
CODE = {"type": "code_execution_20260521", "name": "code_execution"}
FETCH = {"type": "web_fetch_20260318", "name": "web_fetch"}


@pytest.mark.parametrize(
    ("tool", "model", "sent"),
    [
        (WebSearch(), MODEL, SEARCH),
        (WebSearch(), OLD, SEARCH),
        (
            WebSearch(allowed_domains=("a.org",), max_uses=3),
            MODEL,
            {**SEARCH, "allowed_domains": ["a.org"], "max_uses": 3},
        ),
        (
            WebSearch(blocked_domains=("a.org", "b.org")),
            MODEL,
            {**SEARCH, "blocked_domains": ["a.org", "b.org"]},
        ),
        (CodeExecution(), MODEL, CODE),
        (CodeExecution(), OLD, {**CODE, "type": "code_execution_20250825"}),
        (FETCH, MODEL, FETCH),
    ],
)
def test_tools_of_the_provider(tool, model, sent):
    """They are beside those of the agent, which come last, or alone."""
    both = payload(model=model, tools=[ADD], server_tools=(tool,))
    assert both["tools"] == [sent, OWN_TOOL]
    assert payload(model=model, server_tools=(tool,))["tools"] == [sent]


def test_the_mark_for_the_cache_is_after_all_tools():
    """It covers what comes before it, and is not put into what the caller passed."""
    tools = payload(tools=[ADD], server_tools=(FETCH,), cache=True)["tools"]
    assert tools == [FETCH, {**OWN_TOOL, "cache_control": MARK}]
    assert payload(server_tools=(FETCH,), cache=True)["tools"] == [FETCH]
    assert "cache_control" not in FETCH


def test_a_tool_in_extra_is_beside_those_of_the_agent():
    """The list of extra= is added to ours."""
    sent = payload(tools=[ADD], extra={"tools": [FETCH]})
    assert sent["tools"] == [OWN_TOOL, FETCH]


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        (FileSearch(("s",)), "no FileSearch"),
        (WebSearch(allowed_domains=("a",), blocked_domains=("b",)), "one of the two"),
    ],
)
def test_tools_that_the_provider_does_not_have(tool, words):
    """They are an error before anything is sent."""
    with pytest.raises(ConfigurationError, match=words):
        payload(server_tools=(tool,))


ISSUERS = ["anthropic", "anthropic@1a2b3c4d", "vertex", "bedrock", "azure", "deepseek"]


@pytest.mark.parametrize("issuer", ISSUERS)
def test_what_one_endpoint_made_goes_to_no_other(issuer):
    """Signatures, redacted thinking, citations and blocks of its own stay there."""
    own = [
        ProviderBlock(issuer, block.data) if isinstance(block, ProviderBlock) else block
        for block in OWN
    ]
    said = AssistantMessage(tuple(own), "tool_calls", provider=issuer)
    for other in ISSUERS:
        dialect = AnthropicDialect(other)
        sent = json.loads(dialect.build_payload(MODEL, [HELLO, said]))
        assert complaint(sent) is None
        kinds = [block["type"] for block in sent["messages"][1]["content"]]
        if other == issuer:
            assert kinds[:2] == ["thinking", "redacted_thinking"]
            assert "server_tool_use" in kinds
        else:
            assert kinds == ["text", "tool_use"]
            assert sent["messages"][1]["content"][0] == text("w")


SUMMARY = {
    "type": "compaction",
    "content": "So far: hello.",
    "encrypted_content": "e",
    "signature": "s",
    "tool_changes": [],
}


def test_a_summary_goes_back_as_it_came():
    """The conversation goes on from it, without a word from us."""
    block = ProviderBlock("anthropic", SUMMARY)
    paused = AssistantMessage((block,), "pause", "compaction", "anthropic")
    sent = payload(HELLO, paused)["messages"]
    assert sent[1:] == [{"role": "assistant", "content": [SUMMARY]}]
    followed = payload(HELLO, paused, UserMessage.of("Go on."))["messages"]
    assert followed[1]["content"] == [SUMMARY]


@pytest.mark.parametrize("content", [None, ""])
def test_a_summary_that_failed_or_was_cut_off_does_not(content):
    """Everything before it would be forgotten, or the request rejected."""
    block = ProviderBlock("anthropic", {**SUMMARY, "content": content})
    message = AssistantMessage((block,), "pause", "compaction", "anthropic")
    options = Options()
    sent = json.loads(DIALECT.build_payload(MODEL, [HELLO, message], (), options))
    assert complaint(sent) is None
    assert b"compaction" not in json.dumps(sent).encode()


def test_a_run_goes_on_after_a_summary():
    """It is the provider's to continue, and nothing is said in between."""
    block = ProviderBlock("anthropic", SUMMARY)
    paused = AssistantMessage((block,), "pause", "compaction")
    script = [ScriptedResponse(paused, Usage(10, 5), (Send(),)), "Done."]
    with FakeServer(script) as server:
        url = server.url_of("anthropic")
        result = Agent(Anthropic(MODEL, base_url=url, api_key="any")).run("Do it.")
        close_idle()
    assert (result.text, result.stop_reason) == ("Done.", "end_turn")
    last = server.requests[-1].payload["messages"][-1]
    assert last == {"role": "assistant", "content": [SUMMARY]}
