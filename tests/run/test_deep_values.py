"""Arguments and results that are nested deeply never end a run."""

import io
import json

import pytest
from support.questions import outcomes, said_to_model

from syncagent import Agent, Approval, ConfigurationError, tool
from syncagent.events import decode_event, encode_event
from syncagent.exceptions import RecordingInvalid
from syncagent.hooks import Change
from syncagent.messages import ToolCall
from syncagent.testing import ScriptedModel, call, complaints, say
from syncagent.timeline.reading import parse_recording

#: Half of what Python's stack holds, about as much, and far more.
DEPTHS = [500, 900, 950, 985, 100_000]


def nested(depth):
    """Return JSON of so many levels."""
    return "[" * depth + "]" * depth


def deep(depth):
    """Return a value of so many levels."""
    value = []
    for _ in range(depth - 1):
        value = [value]
    return value


class Looks:
    """A hook that has arguments and results pass by."""

    def before_tool(self, event):
        return None

    def on_event(self, event):
        encode_event(event)


@tool
def take(value: list) -> str:
    """Take it."""
    return "taken"


@tool
def give(depth: int) -> list:
    """Give it."""
    return deep(depth)


KINDS = {
    "plain": {},
    "hook": {"hooks": [Looks()]},
    "approval": {"requires_approval": True, "approve": lambda _: True},
    "policy": {"requires_approval": lambda given, _: bool(given)},
}


def run(*calls, tools=(take, give), **settings):
    """Run an agent, as many observers as there are; return it, and the result."""
    settings.setdefault("approve", lambda _: True)
    agent = Agent(ScriptedModel([say(*calls), "Done."]), tools=tools, **settings)
    record = io.StringIO()
    result = agent.run("Go.", record=record)
    assert complaints(agent.messages) == {}
    for line in record.getvalue().splitlines():
        json.loads(line)
    Agent.load(agent.save(), ScriptedModel([]), tools=tools)
    return agent, result


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("raw", [False, True])
def test_arguments(depth, kind, raw):
    """S8: arguments 500 levels deep are a tool error, with a hook or without."""
    parameters = {"properties": {"value": {"type": "array"}}} if raw else None
    made = tool(name="take", parameters=parameters)(take.function)
    wanted = ToolCall("c1", "take", f'{{"value": {nested(depth)}}}')
    agent, result = run(wanted, tools=[made], **KINDS[kind])
    assert outcomes(result) == ["failed"]
    said = said_to_model(agent.messages)[0]
    assert "100 levels" in said or "not a JSON object" in said


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_too_deep(kind):
    """A hundred levels, the arguments themselves included, are enough."""
    wanted = ToolCall("c1", "take", f'{{"value": {nested(99)}}}')
    _, result = run(wanted, **KINDS[kind])
    assert outcomes(result) == ["done"]
    wanted = ToolCall("c1", "take", f'{{"value": {nested(100)}}}')
    _, result = run(wanted, **KINDS[kind])
    assert outcomes(result) == ["failed"]


@pytest.mark.parametrize("depth", [99, *DEPTHS])
@pytest.mark.parametrize("kind", KINDS)
def test_results(depth, kind):
    """S8: a deep result is told as text, or is a tool error."""
    agent, result = run(call("give", {"depth": depth}), **KINDS[kind])
    if depth < 900:
        assert outcomes(result) == ["done"]
        assert json.loads(said_to_model(agent.messages)[0]) == deep(depth)
    else:  # how much is too much depends on the stack
        assert outcomes(result)[0] in ("done", "failed")


@pytest.mark.parametrize("depth", [101, *DEPTHS])
def test_arguments_of_a_hook(depth):
    """S8: a hook that gives arguments too deep is told so."""

    class Deepens:
        def before_tool(self, event):
            return Change({"value": deep(depth)})

    with pytest.raises(ConfigurationError, match=r"(?s)a hook .*100 levels"):
        run(call("take", {"value": []}), hooks=[Deepens()])


@pytest.mark.parametrize("depth", [101, *DEPTHS])
def test_arguments_of_an_approval(depth):
    """S8: an approval that gives arguments too deep is told so."""
    answer = Approval(True, {"value": deep(depth)})
    with pytest.raises(ConfigurationError, match=r"(?s)the approval .*100 levels"):
        run(
            call("take", {"value": []}),
            requires_approval=True,
            approve=lambda _: answer,
        )


def test_arguments_that_contain_themselves():
    """A hook may give anything."""
    value = []
    value.append(value)

    class Loops:
        def before_tool(self, event):
            return Change({"value": value})

    with pytest.raises(ConfigurationError, match="100 levels"):
        run(call("take", {"value": []}), hooks=[Loops()])


def test_an_event_from_elsewhere():
    """S8: an event that is nested too deeply is an event that cannot be read."""
    line = f'{{"type": "tool_progress", "value": {nested(100_000)}}}'
    with pytest.raises(ValueError, match="nested too deeply"):
        decode_event(line)


def test_a_recording_from_elsewhere():
    """S8: so is a line of a recording."""
    record = io.StringIO()
    Agent(ScriptedModel(["Done."])).run("Go.", record=record)
    lines = [line.encode() for line in record.getvalue().splitlines(keepends=True)]
    lines.insert(1, f'{{"t": 0, "event": {nested(100_000)}}}\n'.encode())
    assert parse_recording(lines, "a file").unreadable == 1
    with pytest.raises(RecordingInvalid):
        parse_recording(lines[1:], "a file")
