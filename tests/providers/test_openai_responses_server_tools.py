"""Tools that the provider runs, beside those of the agent."""

import json

import pytest
from responses_talk import HELLO

from syncagent.exceptions import ConfigurationError
from syncagent.models.endpoints import ENDPOINTS
from syncagent.models.names import dialect_of
from syncagent.options import (
    CodeExecution,
    FileSearch,
    Options,
    ToolSpec,
    WebSearch,
)
from syncagent.testing.providers.played import PLAYED

DOMAINS = ("a.example", "b.example")


def tools_of(endpoint, *server_tools, tools=(), **options):
    """Return the tools of a payload, which the provider accepts."""
    options = Options(server_tools=server_tools, **options)
    model = ENDPOINTS[endpoint].example
    dialect = dialect_of(ENDPOINTS[endpoint])
    payload = json.loads(dialect.build_payload(model, [HELLO], tools, options))
    assert PLAYED[endpoint].complaint(payload, "") is None
    return payload["tools"]


@pytest.mark.parametrize("endpoint", ["openai", "xai"])
def test_they_stand_beside_the_tools_of_the_agent(endpoint):
    """B14: none of them replaces the others."""
    tools = tools_of(
        endpoint,
        WebSearch(),
        {"type": "mcp", "server_label": "x", "server_url": "https://x.example"},
        tools=[ToolSpec("add")],
        extra={"tools": [{"type": "x_search"}]},
    )
    kinds = [tool["type"] for tool in tools]
    assert kinds == ["function", "web_search", "mcp", "x_search"]


@pytest.mark.parametrize(
    ("endpoint", "tool", "expected"),
    [
        ("openai", WebSearch(), {"type": "web_search"}),
        (
            "openai",
            WebSearch(allowed_domains=DOMAINS),
            {"type": "web_search", "filters": {"allowed_domains": [*DOMAINS]}},
        ),
        (
            "openai",
            WebSearch(blocked_domains=DOMAINS),
            {"type": "web_search", "filters": {"blocked_domains": [*DOMAINS]}},
        ),
        (
            "xai",
            WebSearch(blocked_domains=DOMAINS),
            {"type": "web_search", "filters": {"excluded_domains": [*DOMAINS]}},
        ),
        (
            "openai",
            CodeExecution(),
            {"type": "code_interpreter", "container": {"type": "auto"}},
        ),
        ("xai", CodeExecution(), {"type": "code_interpreter"}),
        (
            "openai",
            FileSearch(("vs_1",), 5),
            {
                "type": "file_search",
                "vector_store_ids": ["vs_1"],
                "max_num_results": 5,
            },
        ),
        (
            "xai",
            FileSearch(("collection_1",)),
            {"type": "file_search", "vector_store_ids": ["collection_1"]},
        ),
    ],
)
def test_each_has_the_words_of_its_provider(endpoint, tool, expected):
    """Fields without a value are left out."""
    assert tools_of(endpoint, tool) == [expected]


def test_a_number_of_searches_that_cannot_be_limited():
    """It is an error that says what can."""
    with pytest.raises(ConfigurationError, match="max_tool_calls"):
        tools_of("openai", WebSearch(max_uses=3))
