"""A cancel, an error or a save around a compaction: old or new, never half."""

import threading
from itertools import pairwise

import pytest
from support.contents import json_of
from support.every_line import STORY, Raiser, line_numbers, problem_with, some_lines

from syncagent import Agent, CancelPolicy, ClearResults, Summarize, tool
from syncagent.compaction.sizes import estimate
from syncagent.events import Compacted, InterruptRaised, RunFinished
from syncagent.exceptions import ConfigurationError, ContextTooLong
from syncagent.hooks import Replace
from syncagent.messages import AssistantMessage, ToolMessage, UserMessage
from syncagent.stores import RunStore
from syncagent.testing import Gate, ScriptedModel, call, cancel_everywhere, say
from syncagent.timeline import read_timeline
from syncagent.usage import Usage

WINDOW = 4000
BEGIN, END = "<record of earlier work>", "</record of earlier work>"


@tool
def look() -> str:
    """Look."""
    return "seen " * 500


@tool(requires_approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


def is_record(messages):
    text = getattr(messages[-1].content[-1], "text", "")
    return text.startswith("<conversation>")


def rounds_of(messages):
    """Return how many rounds of tools are left in the conversation."""
    return sum(isinstance(message, ToolMessage) for message in messages)


def has_record(messages):
    return BEGIN in json_of(messages[0])


def respond(messages):
    """Take rounds until there was a compaction, and one more round after it."""
    size = Usage(estimate(messages), 5)
    if is_record(messages):
        return say("The record.", usage=size)
    last = messages[-1]
    is_over = isinstance(last, UserMessage) and "Go on." in json_of(last)
    if is_over or (has_record(messages) and rounds_of(messages) > 1):
        return say("Done.", usage=size)
    return say(call("look"), usage=size)


def reject_long(messages):
    """Respond as above, but let the provider say that it is too long."""
    if not is_record(messages) and estimate(messages) > 2500:
        return ContextTooLong("prompt is too long", status=400)
    return respond(messages)


def make(script=respond, window=WINDOW, keep=1, **settings):
    model = ScriptedModel(script, piece=60, context_window=window)
    return Agent(
        model,
        tools=[look, pay],
        compaction=[ClearResults(keep=4), Summarize(keep=keep)],
        **settings,
    )


def check_whole(agent, policy):
    """See that there is a whole record in the conversation, or none."""
    text = json_of(agent.messages)
    assert text.count(BEGIN) == text.count(END) <= 1
    assert "<conversation>" not in text
    if policy == "rollback":
        assert BEGIN not in text


@pytest.mark.slow
@pytest.mark.parametrize("way", ["inside", "thread", "meanwhile"])
@pytest.mark.parametrize(
    ("script", "window", "policy"),
    [
        (respond, WINDOW, "keep"),
        (respond, WINDOW, "rollback"),
        (reject_long, None, "discard"),
    ],
)
def test_every_point_of_a_compaction(way, script, window, policy):
    """The sweep: a cancel anywhere leaves the old conversation or the new one."""

    def run(agent, prompt):
        result = agent.run(prompt)
        check_whole(agent, policy if result.cancelled else "keep")
        return result

    cancel_policy = CancelPolicy(partial_text=policy)
    swept = cancel_everywhere(
        lambda: make(script, window, cancel_policy=cancel_policy),
        "Do it.",
        way=way,
        run=run,
    )
    assert "compaction" in swept.phases
    assert len(swept.points) > 50


@pytest.mark.slow
@some_lines()
def test_ctrl_c_at_every_line_of_a_compaction(step):
    """Whatever is interrupted, the agent is of use and its conversation is whole."""
    problems, found = [], False
    places = (*STORY, "compaction/", "transcript/")
    for number in line_numbers(step):
        agent, raiser = make(), Raiser(number, places)
        went_up = raiser.call(lambda agent=agent: agent.run("Do it."))
        if raiser.where is None:
            break
        found = found or raiser.where.startswith("run/compacting")
        text = json_of(agent.messages)
        is_whole = text.count(BEGIN) == text.count(END) <= 1
        if not went_up or not is_whole:
            problems.append(f"{raiser.where}: {went_up=}, {is_whole=}")
        agent.model._script = []
        if problem_with(agent) is not None:
            agent.model._script = []
            problems.append(f"{raiser.where}: {problem_with(agent)}")
    assert problems == []
    assert found


def test_a_cancel_while_the_record_is_written():
    """It ends at once, in the phase ``compaction``; the conversation is the old one."""
    gate = Gate()
    writer = ScriptedModel([gate, "never"])
    model = ScriptedModel(respond, context_window=WINDOW)
    agent = Agent(model, tools=[look], compaction=Summarize(writer, keep=1))
    handle = agent.start("Do it.")
    gate.wait_reached()
    receipt = agent.cancel("enough")
    assert receipt.wait(10)
    result = handle.result(10)
    assert receipt.phase == result.cancellation.phase == "compaction"
    assert result.compactions == 0
    assert not has_record(result.messages)
    assert rounds_of(result.messages) == len(result.tool_outcomes) > 2
    assert agent.can_resume


@pytest.mark.parametrize("mode", ["after_tools", "after_turn"])
def test_a_deferred_cancel_while_the_record_is_written(mode):
    """The first ends the request for it, the second waits; no turn follows."""
    gate = Gate()
    writer = ScriptedModel([gate, "A record."])
    model = ScriptedModel(respond, context_window=WINDOW)
    agent = Agent(model, tools=[look], compaction=Summarize(writer, keep=1))
    handle = agent.start("Do it.")
    gate.wait_reached()
    turns = len(model.requests)
    assert agent.cancel(mode=mode)
    gate.open()
    assert handle.result(10).cancelled
    assert len(model.requests) == turns
    assert has_record(agent.messages) == (mode == "after_turn")


def test_resume_after_a_cancel_in_a_compaction():
    """The same run goes on, and its record is written again."""
    gate = Gate()
    writer = ScriptedModel([gate, "never", *["A record."] * 9])
    model = ScriptedModel(respond, context_window=WINDOW)
    agent = Agent(model, tools=[look], compaction=Summarize(writer, keep=1))
    handle = agent.start("Do it.")
    gate.wait_reached()
    agent.cancel()
    before = handle.result(10)
    result = agent.resume()
    assert (result.stop_reason, result.text) == ("end_turn", "Done.")
    assert result.run_id == before.run_id
    assert result.compactions == 1
    calls = [outcome.call_id for outcome in result.tool_outcomes]
    assert calls[: len(before.tool_outcomes)] == [
        outcome.call_id for outcome in before.tool_outcomes
    ]


def then_pay(messages):
    """Respond as above, and ask for an approval after the compaction."""
    entry = respond(messages)
    is_end = entry.message.text == "Done."
    if is_end and has_record(messages) and "paid" not in json_of(messages):
        return say(call("pay"), usage=Usage(estimate(messages), 5))
    return entry


def test_a_compacted_run_is_saved_and_loaded():
    """Its calls, counts and conversation are the same in another process."""
    agent = make(then_pay)
    paused = agent.run("Do it.")
    assert paused.compactions == 1
    other = Agent.load(
        agent.save(),
        ScriptedModel(then_pay, context_window=WINDOW),
        tools=[look, pay],
    )
    assert other.messages == agent.messages
    result = other.resume({paused.interrupts[0].id: True})
    assert result.text == "Done."
    assert result.compactions == 1
    assert len(result.tool_outcomes) == len(paused.tool_outcomes)
    assert result.usage.total_tokens > paused.usage.total_tokens


def test_a_loaded_run_can_be_rolled_back():
    """The messages before the run are saved, if the policy would restore them."""
    policy = CancelPolicy(partial_text="rollback")
    agent = make(then_pay, cancel_policy=policy)
    agent.run("Go on.")
    before = agent.messages
    agent.run("Do it.")

    def cancel(messages):
        other.cancel()
        return "never"

    model = ScriptedModel(cancel, context_window=WINDOW)
    other = Agent.load(agent.save(), model, tools=[look, pay], cancel_policy=policy)
    (question,) = other.interrupts
    assert other.resume({question.id: True}).cancelled
    assert other.messages == before


def test_a_stored_run_is_compacted(tmp_path):
    """Another worker goes on with the new conversation, and knows all calls."""

    def make_agent(run):
        return make(then_pay)

    url = f"sqlite:///{tmp_path}/runs.db"
    with RunStore(url, make_agent) as store:
        id = store.submit("Do it.")
        until_event(store, id, InterruptRaised)
        run = store.get(id)
        assert store.answer(id, {run.interrupts[0].id: True})
        until_event(store, id, RunFinished)
        ended = store.get(id)
    assert ended.result.text == "Done."
    assert ended.result.compactions == 1
    assert has_record(ended.result.messages)
    names = [outcome.name for outcome in ended.result.tool_outcomes]
    assert names.count("look") > rounds_of(ended.result.messages)
    assert names[-1] == "pay"
    assert all(outcome.outcome == "done" for outcome in ended.result.tool_outcomes)


def until_event(store, id, kind):
    """Follow a stored run until there is an event of this kind."""
    with store.events(id) as events:
        assert any(isinstance(event, kind) for event in events)


def test_recordings_and_timelines_show_it(tmp_path):
    """As a row of its own, with sizes and the record."""
    path = tmp_path / "run.jsonl"
    make().run("Do it.", record=path)
    rows = read_timeline(path).rows
    rows = [row for row in rows if row.title == "compacting the conversation"]
    (row,) = [row for row in rows if row.marks]
    assert "Summarize" in row.marks[0].text
    assert ("Summary", "The record.") in [(d.title, d.text) for d in row.details]


# -- hooks -----------------------------------------------------------------------------


class Hook:
    def __init__(self, act):
        self.before_model = act


def test_hooks_cannot_change_the_conversation_by_accident():
    """They get a view of it, for reading only."""
    seen = []

    def look_at(event):
        seen.append((len(event.messages), list(event.messages), event.messages[-1]))
        for name in ("append", "truncate", "replace", "clear", "__setitem__"):
            assert not hasattr(event.messages, name)

    agent = Agent(ScriptedModel(["Hi."]), hooks=[Hook(look_at)])
    agent.run("Hello.")
    hello = UserMessage.of("Hello.")
    assert seen == [(1, [hello], hello)]


def test_a_hook_replaces_the_conversation():
    """The model gets the new one, the next hook sees it, and it stays."""
    seen = []
    short = [UserMessage.of("Short.")]
    hooks = [
        Hook(lambda event: Replace(short)),
        Hook(lambda event: seen.append([*event.messages])),
    ]
    model = ScriptedModel(["Hi."])
    agent = Agent(model, hooks=hooks)
    with agent.stream("A long story.") as stream:
        (event,) = [event for event in stream if isinstance(event, Compacted)]
    assert model.requests == [short] == seen
    assert (event.cause, event.messages_before, event.messages_after) == ("hook", 1, 1)
    assert event.after < event.before
    assert stream.result.compactions == 1
    assert agent.messages[0] == short[0]


def test_what_a_hook_gives_is_repaired():
    """A call without a result is no reason for a rejected request."""
    half = [
        UserMessage.of("Hi."),
        AssistantMessage(say(call("look")).message.content, "tool_calls"),
    ]
    agent = Agent(ScriptedModel(["Hi."]), hooks=[Hook(lambda event: Replace(half))])
    assert agent.run("Hello.").text == "Hi."
    assert rounds_of(agent.messages) == 1


def test_a_replacement_after_a_cancel_is_ignored():
    """As all that hooks return then."""

    def act(event):
        agent.cancel()
        return Replace([UserMessage.of("Short.")])

    agent = Agent(ScriptedModel(["Hi."]), hooks=[Hook(act)])
    result = agent.run("Hello.")
    assert result.cancelled
    assert result.messages == (UserMessage.of("Hello."),)


def test_replace_belongs_to_before_model():
    """Elsewhere it is an error that says what may be returned."""
    hook = type("Late", (), {"after_model": lambda self, event: Replace([])})()
    agent = Agent(ScriptedModel(["Hi."]), hooks=[hook])
    with pytest.raises(ConfigurationError, match=r"after_model.*Retry"):
        agent.run("Hello.")


def test_another_thread_sees_the_old_or_the_new_conversation():
    """While a run is compacted again and again."""
    begun = []

    def script(messages):
        size = Usage(estimate(messages), 5)
        if is_record(messages):
            return say("The record.", usage=size)
        begun.append(size)
        return say("Done." if len(begun) > 120 else call("look"), usage=size)

    agent = make(script)
    seen, problems = set(), []

    def read():
        while not ended.is_set():
            messages = agent.messages
            text = json_of(messages)
            seen.add(text.count(BEGIN))
            if text.count(BEGIN) != text.count(END):
                problems.append(text)
            for before, after in pairwise(messages):
                if isinstance(after, ToolMessage):
                    calls = [each.call_id for each in before.tool_calls]
                    if calls != [each.call_id for each in after.content]:
                        problems.append((before, after))

    ended = threading.Event()
    reader = threading.Thread(target=read)
    reader.start()
    try:
        result = agent.run("Do it.")
    finally:
        ended.set()
        reader.join(30)
    assert result.compactions > 5
    assert problems == []
    assert seen <= {0, 1}
