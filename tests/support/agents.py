"""What tests of agents share: models that do not run dry, and a look afterwards."""

from syncagent.testing import ScriptedModel, call, complaints, say

#: A round with one call, of the tool below.
SUM = say(call("add", {"a": 1, "b": 2}))


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def model(*script):
    """Return a model with this script, and "ok" for whatever it is asked later."""
    return ScriptedModel([*script, *["ok"] * 30])


def check_usable(agent):
    """See that nothing runs, that all would take the conversation, and it goes on."""
    assert not agent.is_running
    assert not agent.cancel_signal.is_set()
    assert complaints(agent.messages) == {}
    result = agent.run("Go on.")
    assert result.stop_reason == "end_turn"
    assert complaints(agent.messages) == {}


def outcomes(result):
    """Return what became of the calls, in a word each."""
    return [tool.outcome for tool in result.tool_outcomes]


def told(agent):
    """Return what the model was told about calls, as one text."""
    return " ".join(
        str(block)
        for message in agent.messages
        if type(message).__name__ == "ToolMessage"
        for block in message.content
    )
