"""The events of sub-agents in the outer run, marked with their call, on request."""

import pytest
from support.threads import until
from support.tools import LONG, agent_for, model, outcomes

from syncagent import Agent, ConfigurationError, ToolContext, tool
from syncagent.events import (
    InterruptRaised,
    RunFinished,
    SubAgentEvent,
    TextDelta,
    ToolFinished,
    ToolStarted,
    decode_event,
    encode_event,
)
from syncagent.integrations.web.presentation import Presentation
from syncagent.testing import Gate, call
from syncagent.timeline import read_timeline


@tool
def job() -> str:
    """Do it."""
    return "did"


def nested(**settings):
    """Return an agent with an agent with an agent that calls a tool."""
    isolation = settings.pop("isolation", None)
    inner = Agent(model(call("job", call_id="c3")), tools=[job], name="inner")
    inner = inner.as_tool(isolation=isolation)
    middle = Agent(
        model(call("inner", {"prompt": "go"}, call_id="c2")), tools=[inner], name="mid"
    )
    calls = [call("mid", {"prompt": "go"}, call_id="c1")]
    return agent_for(middle.as_tool(isolation=isolation), calls=calls, **settings)


def events_of(agent):
    """Return the events of a run."""
    with agent.stream("Do it.") as stream:
        return list(stream)


def shown(events):
    """Return the path, the agent and the event of each that is of a sub-agent."""
    found = []
    for event in events:
        path, name = [], ""
        while isinstance(event, SubAgentEvent):
            path.append(event.call_id)
            name, event = event.agent, event.event
        if path:
            found.append((tuple(path), name, event))
    return found


@pytest.mark.parametrize("isolation", [None, "thread"])
def test_every_level_is_marked(isolation):
    """An event three deep is wrapped twice, and the path is that of cancel_call()."""
    found = shown(events_of(nested(sub_agent_events=True, isolation=isolation)))
    tools = [each for each in found if isinstance(each[2], ToolStarted)]
    assert [(path, name, event.call_id) for path, name, event in tools] == [
        (("c1",), "mid", "c2"),
        (("c1", "c2"), "inner", "c3"),
    ]
    ends = [each[0] for each in found if isinstance(each[2], RunFinished)]
    assert ends == [("c1", "c2"), ("c1",)]
    assert {each[0] for each in found if isinstance(each[2], TextDelta)} == set(ends)


def test_only_on_request():
    """Without it a stream has the events that it always had."""
    assert shown(events_of(nested())) == []


def test_subscribers_and_hooks_get_them():
    """A handle's subscribers and the on_event of hooks, in the order of the stream."""

    class Hook:
        def __init__(self):
            self.events = []

        def on_event(self, event):
            self.events.append(event)

    hook = Hook()
    with nested(sub_agent_events=True, hooks=[hook]).start("Do it.") as handle:
        handle.result(LONG)
        handle.shutdown()
        seen = list(handle.subscribe())
    assert len(shown(seen)) > 10
    assert [each[:2] for each in shown(seen)] == [
        each[:2] for each in shown(hook.events)
    ]


def test_they_survive_json():
    """Every one of them is the same after a trip, however deep."""
    for event in events_of(nested(sub_agent_events=True)):
        if isinstance(event, SubAgentEvent):
            assert decode_event(encode_event(event)) == event


def test_a_recording_has_each_event_once(tmp_path):
    """A sub-agent is recorded by itself: the wrapped events are left out."""
    files = []
    for is_shown in (True, False):
        agent = nested(sub_agent_events=is_shown)
        path = tmp_path / f"{is_shown}.jsonl"
        agent.run("Do it.", record=path)
        text = path.read_text()
        assert "sub_agent_event" not in text
        files.append(text.count("\n"))
        assert read_timeline(path)
    assert files[0] == files[1]


def test_a_question_is_not_wrapped():
    """It is the run's own, as ever, and answered there."""

    @tool(requires_approval=True)
    def risky() -> str:
        """Do it."""
        return "did"

    inner = Agent(model(call("risky")), tools=[risky], name="inner")
    agent = agent_for(
        inner, calls=[call("inner", {"prompt": "go"})], sub_agent_events=True
    )
    with agent.start("Do it.") as handle:
        [question] = until(lambda: handle.interrupts)
        question.approve()
        assert outcomes(handle.result(LONG)) == ["done"]
        handle.shutdown()
        seen = list(handle.subscribe())
    raised = [each for each in seen if isinstance(each, InterruptRaised)]
    assert [each.interrupts[0].tool for each in raised] == ["risky"]
    assert not [each for each in shown(seen) if isinstance(each[2], InterruptRaised)]


def test_a_sub_agent_that_was_left_behind_is_silent():
    """Its events go nowhere, and not into the next run."""
    gate = Gate()

    @tool
    def deaf() -> str:
        """Hear nothing."""
        gate.stop_here()
        return "late"

    inner = Agent(model(call("deaf")), tools=[deaf], name="inner")
    agent = agent_for(
        inner.as_tool(on_cancel="abandon", grace=0.0),
        calls=[call("inner", {"prompt": "go"})],
        sub_agent_events=True,
    )
    with agent.start("Do it.") as handle:
        gate.wait_reached()
        assert handle.cancel_call("call_inner")
        assert outcomes(handle.result(LONG)) == ["abandoned"]
        before = handle.event_count
        gate.open()
        until(lambda: not inner.is_running)
        assert handle.event_count == before


def test_clients_see_no_private_details():
    """The page of a run hides the errors of sub-agents as it hides its own."""

    @tool
    def broken() -> str:
        """Fail."""
        raise ValueError("secret.example.org is down")

    inner = Agent(model(call("broken")), tools=[broken], name="inner")
    calls = [call("inner", {"prompt": "go"})]
    presentation = Presentation()
    agent = agent_for(inner, calls=calls, sub_agent_events=True)
    shown_text = b"".join(
        encode_event(presentation.event(event, None))
        for event in events_of(agent)
        if isinstance(event, SubAgentEvent)
        if isinstance(event.event, (ToolFinished, RunFinished))
    )
    assert b"The tool failed." in shown_text
    assert b"secret.example.org" not in shown_text


@pytest.mark.parametrize("wrong", [1, "yes", None])
def test_a_wrong_setting(wrong):
    """It is refused when the agent is made."""
    with pytest.raises(ConfigurationError, match="sub_agent_events"):
        agent_for(job, sub_agent_events=wrong)


def test_the_context_of_a_sub_agent_s_tool():
    """A tool that runs an agent without a name shows an empty one."""
    nameless = Agent(model(call("job", call_id="c3")), tools=[job])

    @tool
    def outer(ctx: ToolContext) -> str:
        """Ask it."""
        return ctx.agent(nameless, "go").text

    found = shown(events_of(agent_for(outer, sub_agent_events=True)))
    assert {name for _, name, _ in found} == {""}
