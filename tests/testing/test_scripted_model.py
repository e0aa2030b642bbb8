"""A model without a network."""

import pytest
from support.threads import together

from syncagent import Agent, Cancelled, CancelToken
from syncagent.cli.demo.model import DemoModel
from syncagent.events import TextDelta, ToolCallReady
from syncagent.exceptions import ConfigurationError, RateLimited
from syncagent.messages import (
    AssistantMessage,
    Citation,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
)
from syncagent.testing import Gate, ScriptedModel, call, say

HELLO = [UserMessage.of("hello")]


def test_it_says_what_is_in_the_script():
    """One entry for each time that it is asked, in pieces."""
    model = ScriptedModel(["Hello there", say(Thinking("hm"), "yes")], piece=4)
    events = list(model.ask(HELLO))
    assert [e.text for e in events if isinstance(e, TextDelta)] == [
        "Hell",
        "o th",
        "ere",
    ]
    second = model.respond(HELLO).message
    assert (second.thinking, second.text) == ("hm", "yes")
    assert model.requests == [HELLO, HELLO]


def test_it_is_called_by_its_name_alone():
    """There is no provider that it comes from; who reads a log sees what it is."""
    model = ScriptedModel()
    assert (model.full_name, repr(model)) == ("scripted", "<ScriptedModel scripted>")
    assert DemoModel().full_name == "demo"
    assert "<ScriptedModel scripted>" in repr(Agent(model))


def test_it_calls_tools_and_refuses():
    """As any model does."""
    model = ScriptedModel([say(call("f", {"a": 1})), say(Refusal("no"))])
    events = list(model.ask(HELLO))
    [ready] = [event.call for event in events if isinstance(event, ToolCallReady)]
    assert (ready.name, ready.parse()) == ("f", {"a": 1})
    assert events[-1].message.stop_reason == "tool_calls"
    assert model.respond(HELLO).message.refusal == "no"


def test_it_raises_what_is_in_the_script():
    """And goes on afterwards."""
    model = ScriptedModel([RateLimited("slow down"), "ok"])
    with pytest.raises(RateLimited):
        model.respond(HELLO)
    assert model.respond(HELLO).message.text == "ok"


def test_a_message_comes_out_as_it_was_given():
    """With signatures and sources, its blocks apart, and where it is from."""
    blocks = (
        Thinking("hm", "s1"),
        Text("one", (Citation("quoted"),), "s2"),
        Text("two"),
        ToolCall("c", "f", "{}", "s3"),
        ToolCall("d", "f", "{}"),
    )
    given = AssistantMessage(blocks, "tool_calls", "raw", "gemini", "flash")
    events = list(ScriptedModel([given]).ask(HELLO))
    assert events[0].model == "flash"
    assert events[-1].message == given


def test_a_message_that_does_not_say_where_it_is_from():
    """Is the scripted model's."""
    message = ScriptedModel([AssistantMessage((Text("a"),))]).respond(HELLO).message
    assert (message.provider, message.model) == ("scripted", "scripted")


def test_a_string_is_a_whole_script():
    """And a string is what the user says."""
    model = ScriptedModel("Hello")
    assert model.respond("hello").message.text == "Hello"
    assert model.requests == [HELLO]


@pytest.mark.parametrize("wrong", [42, RateLimited, None, Text("hi")])
def test_an_entry_that_is_nothing_of_the_kind(wrong):
    """The error names it, before anybody asks."""
    with pytest.raises(ConfigurationError, match="entry 2") as raised:
        ScriptedModel(["ok", wrong])
    assert repr(wrong) in str(raised.value)


def test_a_gate_holds_it_up():
    """Until it is opened."""
    gate, found = Gate(), []
    model = ScriptedModel([gate, "at last"])

    def open_it():
        gate.wait_reached()
        assert not found
        gate.open()

    together(lambda: found.append(model.respond(HELLO)), open_it)
    assert found[0].message.text == "at last"


def test_a_cancel_ends_the_wait_at_a_gate():
    """At once."""
    gate, token = Gate(), CancelToken()
    model = ScriptedModel([gate, "never"])

    def ask():
        with pytest.raises(Cancelled):
            model.respond(HELLO, token=token)

    together(ask, lambda: (gate.wait_reached(), token.cancel()))


def test_a_script_that_is_over():
    """The error says which answer is missing."""
    with pytest.raises(ConfigurationError, match="no response 1"):
        ScriptedModel().respond(HELLO)
