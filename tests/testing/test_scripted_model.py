"""A model without a network."""

import pytest
from crew import together

from syncagent import Cancelled, CancelToken
from syncagent.events import TextDelta, ToolCallReady
from syncagent.exceptions import ConfigurationError, RateLimited
from syncagent.messages import Refusal, Thinking, UserMessage
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
    second = model.reply(HELLO).message
    assert (second.thinking, second.text) == ("hm", "yes")
    assert model.asked == [HELLO, HELLO]


def test_it_calls_tools_and_refuses():
    """As any model does."""
    model = ScriptedModel([say(call("f", {"a": 1})), say(Refusal("no"))])
    events = list(model.ask(HELLO))
    [ready] = [event.call for event in events if isinstance(event, ToolCallReady)]
    assert (ready.name, ready.parse()) == ("f", {"a": 1})
    assert events[-1].message.stop_reason == "tool_calls"
    assert model.reply(HELLO).message.refusal == "no"


def test_it_raises_what_is_in_the_script():
    """And goes on afterwards."""
    model = ScriptedModel([RateLimited("slow down"), "ok"])
    with pytest.raises(RateLimited):
        model.reply(HELLO)
    assert model.reply(HELLO).message.text == "ok"


def test_a_gate_holds_it_up():
    """Until it is opened."""
    gate, found = Gate(), []
    model = ScriptedModel([gate, "at last"])

    def open_it():
        gate.wait_reached()
        assert not found
        gate.open()

    together(lambda: found.append(model.reply(HELLO)), open_it)
    assert found[0].message.text == "at last"


def test_a_cancel_ends_the_wait_at_a_gate():
    """At once."""
    gate, token = Gate(), CancelToken()
    model = ScriptedModel([gate, "never"])

    def ask():
        with pytest.raises(Cancelled):
            model.reply(HELLO, token=token)

    together(ask, lambda: (gate.wait_reached(), token.cancel()))


def test_a_script_that_is_over():
    """The error says which answer is missing."""
    with pytest.raises(ConfigurationError, match="answer number 1"):
        ScriptedModel().reply(HELLO)
