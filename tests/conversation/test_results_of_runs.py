"""A result tells all about its run, however that has ended, and travels anywhere."""

import pickle
from types import SimpleNamespace

import msgspec
import pytest
from support.agents import SUM, add, check_usable, model, outcomes
from support.contents import json_of
from support.threads import meanwhile

from syncagent import (
    Agent,
    CancelPolicy,
    ConfigurationError,
    Image,
    LimitReached,
    Limits,
    OutputInvalid,
    RunCancelled,
    RunFinished,
    RunResult,
    ToolContext,
    tool,
)
from syncagent import events as all_events
from syncagent.events import TextDelta
from syncagent.exceptions import StoppedByProvider
from syncagent.messages import (
    AssistantMessage,
    Refusal,
    Text,
    Thinking,
    ToolMessage,
    UserMessage,
    encode_messages,
)
from syncagent.testing import Gate, call, say
from syncagent.usage import Usage

careful = tool(name="add", requires_approval=True)(add)


def cancel_in_tool(ctx: ToolContext) -> str:
    """Cancel the run that calls this."""
    held.agent.cancel("enough", "remote")
    return "done"


held = SimpleNamespace(agent=None)


def agent_for(script, **settings):
    held.agent = Agent(model(*script), **{"tools": [add, cancel_in_tool], **settings})
    return held.agent


REFUSAL = AssistantMessage((Refusal("No."),), "refusal")
LONG_ONE = AssistantMessage((Text("and so"),), "max_tokens")
ODD_END = AssistantMessage((Text("a"),), "other", "ODD", stop_detail="it tripped")
BOTH = say("Both.", call("cancel_in_tool"), *SUM.message.content)
ENDS = {
    # name: (script, settings, text, turns, outcomes, new messages)
    "end_turn": ([SUM, "done"], {}, "done", 2, ["done"], 4),
    "max_tokens": ([LONG_ONE], {}, "and so", 1, [], 2),
    "refusal": ([REFUSAL], {}, "", 1, [], 2),
    "other": ([ODD_END], {}, "a", 1, [], 2),
    "limit": ([SUM], {"limits": Limits(turns=1)}, "", 1, ["done"], 3),
    "interrupt": ([SUM], {"tools": [careful]}, "", 1, ["not_started"], 2),
    "cancelled": ([BOTH], {}, "Both.", 1, ["done", "not_started"], 3),
}


@pytest.mark.parametrize("end", ENDS)
def test_what_a_result_tells(end):
    """Each field, after every kind of end, in the second run of an agent."""
    script, settings, text, turns, became, added = ENDS[end]
    agent = agent_for(["before", *script], **settings)
    first = agent.run("Before.")
    result = agent.run("hi")
    assert (result.stop_reason, result.text, str(result)) == (end, text, text)
    assert (result.turns, outcomes(result)) == (turns, became)
    assert result.messages == agent.messages[: len(result.messages)]
    assert len(result.new_messages) == added
    assert result.new_messages[0] == UserMessage.of("hi")
    assert result.messages[:2] == first.messages
    assert result.usage == Usage(10 * turns, 5 * turns)
    assert result.run_id not in ("", first.run_id)
    assert result.cancelled is (end == "cancelled") is (result.cancellation is not None)
    assert bool(result.interrupts) is (end == "interrupt")
    assert result.limit == ("turns" if end == "limit" else None)
    assert (result.output, result.abandoned, result.cost) == (None, (), None)


@pytest.mark.parametrize("end", ENDS)
def test_a_result_travels(end):
    """As JSON and as a pickle; there and back it is the same."""
    script, settings, *_ = ENDS[end]
    result = agent_for(script, **settings).run("hi")
    data = msgspec.json.encode(result)
    assert msgspec.json.decode(data, type=RunResult) == result
    assert pickle.loads(pickle.dumps(result)) == result


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        ("cancelled", RunCancelled),
        ("limit", LimitReached),
        ("other", StoppedByProvider),
    ],
)
def test_an_error_for_a_run_that_did_not_come_to_its_end(end, kind):
    """It carries the result, says what happened, and travels too."""
    script, settings, *_ = ENDS[end]
    result = agent_for(script, **settings).run("hi")
    with pytest.raises(kind) as caught:
        result.raise_for_status()
    assert caught.value.result is result
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.result, str(copy)) == (result, str(caught.value))
    if kind is RunCancelled:
        assert "origin remote, phase tool" in str(copy)
        assert "enough" in str(copy)
    if kind is StoppedByProvider:
        assert result.raw_stop_reason == "ODD"
        assert "with 'ODD' (it tripped)" in str(copy)


def test_an_irregular_end_without_content_keeps_its_reason():
    """B8: the empty message is dropped, the provider's word and detail are not."""
    empty = AssistantMessage((), "other", "OTHER", stop_detail="because")
    result = agent_for([empty]).run("hi")
    assert (result.stop_reason, result.text) == ("other", "")
    assert (result.raw_stop_reason, result.stop_detail) == ("OTHER", "because")
    with pytest.raises(StoppedByProvider, match=r"'OTHER' \(because\)"):
        result.raise_for_status()


@pytest.mark.parametrize("end", ["end_turn", "max_tokens", "refusal", "interrupt"])
def test_no_error_for_a_run_that_did(end):
    """These are ends as good as any."""
    script, settings, *_ = ENDS[end]
    agent_for(script, **settings).run("hi").raise_for_status()


# -- cancels ---------------------------------------------------------------------------


def cancelled_stream(**settings):
    """Return an agent, and the result of a run that was cancelled in its answer."""
    reply = say(Thinking("hm"), "Hello there, you all", usage=Usage(1000, 1000))
    agent = Agent(model(reply), **settings)
    for event in (stream := agent.stream("hi")):
        if isinstance(event, TextDelta):
            agent.cancel("enough")
    return agent, stream.result


def test_usage_of_a_cancelled_answer_is_a_guess():
    """Promise 5: it is there, is marked, and is not what would have been in the end."""
    _, result = cancelled_stream()
    assert result.usage.estimated
    assert 0 < result.usage.output_tokens < 1000
    assert result.turns == 1


def test_a_cancellation_tells_who_where_and_how_fast():
    """Promise 5: reason, origin, phase and latency."""
    _, result = cancelled_stream()
    how = result.cancellation
    assert (how.reason, how.origin, how.phase) == ("enough", "user", "stream")
    assert 0 <= how.latency < 5


def test_text_of_a_cancelled_answer():
    """Promise 5: the text without the marker; the marker is in the conversation."""
    agent, result = cancelled_stream()
    assert result.text == "Hello"
    assert agent.messages[-1].is_cut
    assert "interrupted" in agent.messages[-1].text
    check_usable(agent)


@pytest.mark.parametrize(("policy", "said"), [("discard", 2), ("rollback", 0)])
def test_what_other_policies_leave(policy, said):
    """Promise 4: the notice in place of the text, or nothing at all."""
    agent, result = cancelled_stream(cancel_policy=CancelPolicy(partial_text=policy))
    assert len(agent.messages) == len(result.new_messages) == said
    assert "Hello" not in json_of(agent.messages)
    assert result.usage.estimated
    check_usable(agent)


def test_a_rollback_after_a_run_that_failed():
    """What the second run has said is gone, and what the first has said stays."""
    gate = Gate()
    policy = CancelPolicy(partial_text="rollback")
    agent = Agent(model(ValueError("no"), gate), cancel_policy=policy)
    with pytest.raises(ValueError, match="no"):
        agent.run("one")
    with meanwhile(lambda: (gate.wait_reached(), agent.cancel())):
        agent.run("two")
    assert agent.messages == (UserMessage.of("one"),)


def test_new_messages_after_a_run_that_failed():
    """The prompt is among them."""
    agent = Agent(model(ValueError("no")))
    with pytest.raises(ValueError, match="no"):
        agent.run("one")
    said = agent.run("two").new_messages
    assert "two" in str(said)


def test_a_result_is_the_streams_too():
    """Not before the end; then it is that of the last event."""
    stream = Agent(model(SUM), tools=[add]).stream("hi")
    next(stream)
    with pytest.raises(ConfigurationError, match="no result yet"):
        _ = stream.result
    last = list(stream)[-1]
    assert isinstance(last, RunFinished)
    assert last.result is stream.result
    assert stream.result.run_id == stream.run_id


# -- events ----------------------------------------------------------------------------


@tool(isolation="thread")
def draw(ctx: ToolContext) -> list:
    """Draw a picture."""
    ctx.progress({"part": 0.5})
    return ["a picture", Image(b"\x89PNG\r\n\x1a\n", "image/png")]


def every_event():
    """Return the events of a run in which all kinds of them happen."""
    first = say(Thinking("hm"), "Look.", call("draw"), *SUM.message.content)
    agent = Agent(
        model(first, "done"), tools=[draw, careful], approve=lambda request: True
    )
    return list(agent.stream("hi"))


def test_events_travel():
    """Every kind of event can be said in JSON, with a tag of its own."""
    events = every_event()
    tags = {
        type(e): msgspec.json.decode(msgspec.json.encode(e))["type"] for e in events
    }
    assert len(set(tags.values())) == len(tags)
    elsewhere = {"BackgroundRequested", "Lagged", "MessageFinished", "Resumed"}
    elsewhere |= {"ModelChanged", "SubAgentEvent", "Compacted"}
    made = {cls for cls in _event_classes() if cls.__name__ not in elsewhere}
    assert set(tags) == made


def _event_classes():
    found = [getattr(all_events, name) for name in all_events.__all__]
    return [cls for cls in found if hasattr(cls, "__struct_config__")]


def test_no_two_events_have_one_tag():
    """Of those that there are, and not only of those that a run yields."""
    tags = [cls.__struct_config__.tag for cls in _event_classes()]
    assert len(tags) == len(set(tags))


def test_events_can_be_read_back():
    """By their tags, to the same values."""
    kinds = msgspec.json.Decoder(all_events.RunEvent | RunFinished)
    for event in every_event():
        assert kinds.decode(msgspec.json.encode(event)) == event


def test_the_conversation_can_be_saved_and_taken_up():
    """What an agent has said goes into another one, pictures too."""
    agent = Agent(model(say(call("draw")), "done"), tools=[draw])
    result = agent.run("hi")
    assert any(isinstance(message, ToolMessage) for message in result.messages)
    data = encode_messages(result.messages)
    other = Agent(model(), messages=msgspec.json.decode(data, type=list[_message()]))
    assert other.messages == agent.messages
    check_usable(other)


def _message():
    return UserMessage | AssistantMessage | ToolMessage


@pytest.mark.parametrize("error", [ValueError("no"), OutputInvalid("no")])
def test_an_error_carries_what_was_used(error):
    """Those of the package do; others are not touched."""
    agent = Agent(model(SUM, error), tools=[add])
    with pytest.raises(type(error)) as caught:
        agent.run("hi")
    usage = getattr(caught.value, "usage", None)
    assert (usage is not None) is isinstance(error, OutputInvalid)
    if usage is not None:
        assert usage.input_tokens >= 10
    assert agent.state == "failed"
    check_usable(agent)
    assert agent.state == "idle"
