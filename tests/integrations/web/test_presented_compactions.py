"""Clients learn nothing from a record, or a switch of models, that is hidden."""

import pytest
from support.contents import json_of

from syncagent import Agent, Fallback, Summarize, tool
from syncagent.compaction.sizes import estimate
from syncagent.events import Compacted, ModelChanged, encode_event
from syncagent.exceptions import ProviderUnavailable
from syncagent.integrations.web.presentation import Presentation
from syncagent.testing import ScriptedModel, call, say
from syncagent.usage import Usage

SECRET = "secret.example.org"


@tool
def look() -> str:
    """Look."""
    return "seen " * 500


def compacted():
    """Return the events of a run with a record that names a host, and its messages."""

    def script(messages):
        is_done = SECRET in json_of(messages)
        usage = Usage(estimate(messages), 1)
        return say("Done." if is_done else call("look"), usage=usage)

    record = ScriptedModel(lambda messages: f"Failed: {SECRET} is down.")
    agent = Agent(
        ScriptedModel(script, context_window=4000),
        tools=[look],
        compaction=Summarize(record, keep=1),
    )
    return list(agent.stream("Look.")), agent.messages


@pytest.mark.parametrize("is_shown", [False, True])
def test_a_record_is_hidden_like_the_errors_of_tools(is_shown):
    """In the event, and in the messages of the conversation."""
    presentation = Presentation(show_tool_errors=is_shown)
    events, messages = compacted()
    found = [event for event in events if isinstance(event, Compacted)]
    assert found
    shown = b"".join(encode_event(presentation.event(each, None)) for each in found)
    assert (SECRET.encode() in shown) == is_shown
    text = str(presentation.messages(messages))
    assert (SECRET in text) == is_shown
    assert ("were summarized" in text) != is_shown
    assert "Look." in text


@pytest.mark.parametrize("is_shown", [False, True])
def test_the_error_of_a_model_is_hidden(is_shown):
    """It may name a gateway; that another model responds is shown."""
    down = ScriptedModel(
        lambda messages: ProviderUnavailable(f"http://{SECRET}: down", status=500)
    )
    agent = Agent(Fallback(down, ScriptedModel(["Hello."])))
    (event,) = [e for e in agent.stream("Hi.") if isinstance(e, ModelChanged)]
    shown = Presentation(show_tool_errors=is_shown).event(event, None)
    assert shown.to_model == event.to_model
    assert (SECRET in shown.error) == is_shown
