"""Tools that Google runs on its side, alone and beside those of the agent."""

import pytest
from gemini_talk import HI, payload

from syncagent.exceptions import ConfigurationError
from syncagent.options import (
    CodeExecution,
    FileSearch,
    Options,
    OutputFormat,
    ToolSpec,
    WebSearch,
)
from syncagent.providers.gemini.request import GeminiDialect
from syncagent.providers.quirks import Quirks

LOOK = ToolSpec("look", "Look it up.", {"type": "object", "properties": {}})
SEARCH = {"googleSearch": {}}
VERTEX = GeminiDialect("vertex", Quirks(is_vertex=True))


@pytest.mark.parametrize("name", ["gemini-2.5-flash", "gemini-3.8-flash"])
@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        (WebSearch(), SEARCH),
        (CodeExecution(), {"codeExecution": {}}),
        (
            FileSearch(("fileSearchStores/a",)),
            {"fileSearch": {"fileSearchStoreNames": ["fileSearchStores/a"]}},
        ),
        (
            FileSearch(("a", "b"), max_results=3),
            {"fileSearch": {"fileSearchStoreNames": ["a", "b"], "topK": 3}},
        ),
        ({"urlContext": {}}, {"urlContext": {}}),
    ],
)
def test_alone(tool, expected, name):
    """Each has its entry; a dict is sent as it is."""
    sent = payload(server_tools=(tool,), name=name)
    assert sent["tools"] == [expected]
    assert "toolConfig" not in sent


def test_beside_tools_of_the_agent():
    """B14: both are there, and the provider is told that they are mixed."""
    sent = payload(tools=[LOOK], server_tools=(WebSearch(), {"urlContext": {}}))
    functions, *own = sent["tools"]
    assert functions["functionDeclarations"][0]["name"] == "look"
    assert own == [SEARCH, {"urlContext": {}}]
    assert sent["toolConfig"] == {"includeServerSideToolInvocations": True}


@pytest.mark.parametrize(
    ("choice", "mode"), [("auto", "VALIDATED"), ("none", "NONE"), ("required", "ANY")]
)
def test_a_choice_among_both(choice, mode):
    """It is about the agent's own; the mode for a free choice is another one here."""
    sent = payload(tools=[LOOK], server_tools=(WebSearch(),), tool_choice=choice)
    assert sent["toolConfig"]["functionCallingConfig"] == {"mode": mode}


@pytest.mark.parametrize("name", ["gemini-2.5-pro", "gemini-2.0-flash"])
def test_older_models_take_one_kind(name):
    """It is an error that says what to do."""
    with pytest.raises(ConfigurationError, match="Gemini 3 or later"):
        payload(tools=[LOOK], server_tools=(WebSearch(),), name=name)


def test_older_models_are_told_the_form_of_the_response():
    """They take no schema beside tools of any kind."""
    schema = OutputFormat({"type": "object", "title": "Odd"})
    options = {"server_tools": (WebSearch(),), "output": schema}
    sent = payload(name="gemini-2.5-flash", **options)
    assert "generationConfig" not in sent
    assert "Odd" in sent["systemInstruction"]["parts"][0]["text"]
    sent = payload(name="gemini-3.8-flash", **options)
    assert sent["generationConfig"]["responseJsonSchema"]


@pytest.mark.parametrize(
    "tool",
    [
        WebSearch(allowed_domains=("a.example",)),
        WebSearch(blocked_domains=("a.example",)),
        WebSearch(max_uses=3),
    ],
)
def test_limits_that_the_search_does_not_have(tool):
    """They are an error, and not left out in silence."""
    with pytest.raises(ConfigurationError, match="search without limits"):
        payload(server_tools=(tool,))


def test_vertex_has_other_fields():
    """It can block domains, has no file search, and needs no word about a mixture."""
    fields = VERTEX.fields(
        "gemini-3.8-flash",
        [LOOK],
        Options(server_tools=(WebSearch(blocked_domains=("a.example",)),)),
        stream=True,
    )
    assert fields["tools"][1] == {"googleSearch": {"excludeDomains": ["a.example"]}}
    assert "toolConfig" not in fields
    with pytest.raises(ConfigurationError, match="no FileSearch"):
        VERTEX.build_payload("m", [HI], (), Options(server_tools=(FileSearch(("a",)),)))
