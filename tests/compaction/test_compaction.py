"""Conversations that become too long are shortened in the middle of a run."""

import pytest
from support.contents import json_of

from syncagent import Agent, CancelPolicy, ClearResults, Limits, Summarize, tool
from syncagent.compaction import Compaction
from syncagent.compaction.sizes import estimate
from syncagent.events import Compacted, TextDelta
from syncagent.exceptions import CompactionFailed, ConfigurationError, ContextTooLong
from syncagent.messages import (
    AssistantMessage,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from syncagent.models import OpenAIChat, Price
from syncagent.testing import (
    FakeServer,
    ScriptedModel,
    Status,
    call,
    complaints,
    say,
)
from syncagent.usage import Usage

WINDOW = 16_000
#: The provider counts so many tokens for each that is estimated.
FACTOR = 1.5


@tool
def look(number: int) -> str:
    """Look something up."""
    return f"result {number} " * 60


def is_record(messages):
    """Return whether a request asks for a record."""
    text = getattr(messages[-1].content[-1], "text", "")
    return text.startswith("<conversation>")


class Researcher:
    """A model that makes many rounds, and rejects what does not fit its window.

    :param rounds: the number of tool rounds.
    """

    def __init__(self, rounds, window=WINDOW, factor=FACTOR, fails=()):
        self.rounds, self.window, self.factor = rounds, window, factor
        self.fails = set(fails)
        self.sizes, self.records, self.begun = [], 0, 0

    def __call__(self, messages):
        size = int(estimate(messages) * self.factor)
        if is_record(messages):
            self.records += 1
            return say(f"Record {self.records}.", usage=Usage(size, 5))
        if size > self.window or self.begun in self.fails:
            self.fails.discard(self.begun)
            return ContextTooLong("prompt is too long", status=400)
        self.sizes.append(size)
        self.begun += 1
        if self.begun > self.rounds:
            return say("Done.", usage=Usage(size, 5))
        number = {"number": self.begun}
        return say(call("look", number), usage=Usage(size, 5))


def researcher(rounds, known=WINDOW, **settings):
    """Return a model and its script."""
    script = Researcher(rounds, **settings)
    return ScriptedModel(script, context_window=known), script


def compactions(events):
    return [event for event in events if isinstance(event, Compacted)]


STEPS = [ClearResults(), Summarize()]


def test_five_hundred_rounds_in_a_window_of_16k():
    """All are completed; no request is too long, and nothing is called twice."""
    model, script = researcher(500)
    agent = Agent(model, tools=[look], compaction=STEPS)
    events = list(agent.stream("Find out everything."))
    result = events[-1].result
    assert (result.stop_reason, result.text) == ("end_turn", "Done.")
    assert len(result.tool_outcomes) == 500
    assert max(script.sizes) < WINDOW
    assert result.compactions == len(compactions(events))
    assert 1 <= script.records <= 20
    assert result.turns == 501 + script.records
    assert complaints(agent.messages) == {}
    assert agent.messages[0].content[0] == Text("Find out everything.")
    assert "Record" in agent.messages[0].content[1].text


def test_without_a_compaction_it_does_not_fit():
    """The same run ends with the provider's error."""
    model, _ = researcher(500)
    with pytest.raises(ContextTooLong):
        Agent(model, tools=[look]).run("Find out everything.")


def test_cheap_steps_come_first():
    """No model is asked as long as clearing results is enough."""
    model, script = researcher(60)
    agent = Agent(model, tools=[look], compaction=STEPS)
    events = compactions(agent.stream("Go."))
    assert script.records == 0
    assert {event.steps for event in events} == {("ClearResults",)}
    assert all(event.after < event.before for event in events)
    assert all(event.cause == "window" for event in events)


def test_a_compaction_stays():
    """The next turns and the next run begin with the new conversation."""
    model, script = researcher(60)
    agent = Agent(model, tools=[look], compaction=STEPS)
    result = agent.run("Go.")
    assert result.compactions < 10
    script.rounds = script.begun
    assert agent.run("And?").compactions == 0
    assert sum("was removed" in json_of(m) for m in agent.messages) > 30


def test_the_measure_is_the_reported_usage():
    """An estimate that is wrong by a factor of three does no harm."""
    for factor in (0.4, 3.0):
        model, script = researcher(120, factor=factor)
        agent = Agent(model, tools=[look], compaction=STEPS)
        assert agent.run("Go.").stop_reason == "end_turn"
        assert max(script.sizes) < WINDOW
        assert max(script.sizes) > 0.5 * WINDOW  # and it is not compacted too early


def test_an_unknown_window_waits_for_the_provider():
    """The run is compacted once the provider says that it is too long."""
    model, script = researcher(80, known=None)
    agent = Agent(model, tools=[look], compaction=STEPS)
    events = list(agent.stream("Go."))
    assert events[-1].result.stop_reason == "end_turn"
    found = compactions(events)
    assert found
    assert {event.cause for event in found} == {"too_long"}
    assert len(script.sizes) == 81


def test_the_window_can_be_given():
    """In place of what is known about the model."""
    model, script = researcher(80, known=None)
    settings = Compaction(*STEPS, window=8000)
    Agent(model, tools=[look], compaction=settings).run("Go.")
    assert max(script.sizes) < 8000


def test_a_request_is_compacted_once():
    """If the provider still rejects it, its error ends the run, and says so."""
    model = ScriptedModel(lambda messages: ContextTooLong("too long", status=400))
    agent = Agent(model, tools=[look], compaction=ClearResults())
    with pytest.raises(ContextTooLong, match="compacted before"):
        agent.run("Go.")
    assert len(model.requests) == 2


def test_the_run_goes_on_after_that_error():
    """With resume(), as after every error."""
    model, script = researcher(3, fails=[2])
    agent = Agent(model, tools=[look])
    with pytest.raises(ContextTooLong):
        agent.run("Go.")
    assert agent.resume().stop_reason == "end_turn"
    assert script.begun == 4


def test_a_real_server_says_that_it_is_too_long():
    """Its status and code are understood, and the request is sent again."""
    with FakeServer([Status(400, "context_length_exceeded"), "Fine."]) as server:
        model = OpenAIChat("any", base_url=server.base_url, api_key="k")
        agent = Agent(model, compaction=ClearResults())
        assert agent.run("Go.").text == "Fine."
        assert len(server.requests) == 2


def test_nothing_is_compacted_after_the_first_word():
    """An error in the middle of a response is not hidden by another response."""

    class Breaks(ScriptedModel):
        def _play(self, response, scripted):
            for event in super()._play(response, scripted):
                yield event
                if isinstance(event, TextDelta):
                    raise ContextTooLong("too long", status=200)

    model = Breaks(["Hello there.", "never"])
    agent = Agent(model, compaction=ClearResults())
    with pytest.raises(ContextTooLong):
        agent.run("Go.")
    assert len(model.requests) == 1
    assert "Hello" in agent.messages[-1].text


def test_a_huge_result_is_shortened():
    """If no step helps, the longest results lose their middle."""

    @tool
    def read() -> str:
        """Read a page."""
        return "begin " + "x" * 60_000 + " end"

    def script(messages):
        size = estimate(messages)
        if size > 8000:
            return ContextTooLong("too long", status=400)
        last = messages[-1]
        if isinstance(last, ToolMessage):
            text = last.content[0].content[0].text
            assert text.startswith("begin ")
            assert text.endswith(" end")
            return say("Done.", usage=Usage(size, 1))
        return say(call("read"), usage=Usage(size, 1))

    for known in (8000, None):
        model = ScriptedModel(script, context_window=known)
        agent = Agent(model, tools=[read], compaction=[ClearResults(), Summarize()])
        assert agent.run("Go.").text == "Done."


def test_compactions_that_help_too_little_end_the_run():
    """It is not compacted for ever: codex#35669 counted 111 in a row."""

    class Timid:
        def compact(self, messages, room):
            made = list(messages)
            while room.size(made) > 0.72 * room.window:
                del made[1:3]
            return made

    @tool
    def read(number: int) -> str:
        """Read a page."""
        return "text " * 800

    def script(messages):
        number = {"number": len(model.requests)}
        return say(call("read", number), usage=Usage(estimate(messages), 5))

    model = ScriptedModel(script, context_window=12_000)
    agent = Agent(model, tools=[read], compaction=Timid())
    with pytest.raises(CompactionFailed, match="3 times"):
        agent.run("Go.")
    assert len(model.requests) < 40
    assert complaints(agent.messages) == {}
    assert agent.can_resume


@pytest.mark.parametrize("made", [[], "text", 7, [7]])
def test_a_step_that_makes_no_messages(made):
    """It ends the run, and the message names the step."""

    class Broken:
        def compact(self, messages, room):
            return made

    model, _ = researcher(100)
    agent = Agent(model, tools=[look], compaction=Broken())
    with pytest.raises(CompactionFailed, match="Broken"):
        agent.run("Go.")
    assert complaints(agent.messages) == {}


def test_a_step_of_ones_own():
    """It gets the messages and the room; the result is repaired."""
    seen = []

    class LastTwo:
        def compact(self, messages, room):
            seen.append((room.window, room.target, room.size(messages), room.start))
            room.token.checkpoint()
            return messages[-2:]

    model, _ = researcher(80)
    agent = Agent(model, tools=[look], compaction=LastTwo())
    assert agent.run("Go.").stop_reason == "end_turn"
    window, target, size, start = seen[0]
    assert (window, target, start) == (WINDOW, WINDOW // 2, 0)
    assert 0.8 * WINDOW <= size <= WINDOW
    assert complaints(agent.messages) == {}


def test_a_record_after_a_step_of_ones_own():
    """A step may have moved the prompt of the run: the next one still finds it."""

    class Drop:
        def compact(self, messages, room):
            return messages[-9:]

    model, script = researcher(8)
    agent = Agent(model, tools=[look], compaction=[Drop(), Summarize(keep=1)])
    agent.run("First.")
    script.rounds = script.begun + 200
    result = agent.run("Second.")
    assert result.stop_reason == "end_turn"
    assert complaints(agent.messages) == {}


def test_a_record_of_another_model():
    """It is charged by its own price, and counts in the limits."""
    model, _ = researcher(500)
    cheap = ScriptedModel(lambda _: "A record.", price=Price(1e6, 1e6))
    agent = Agent(model, tools=[look], compaction=Summarize(cheap, keep=2))
    result = agent.run("Go.")
    assert len(cheap.requests) >= 2
    assert result.cost is not None
    assert result.turns == 501 + len(cheap.requests)


def test_the_record_counts_in_the_limits():
    """A limit on tokens ends the run before the next turn."""
    model, _ = researcher(500)

    def write(messages):
        return say("A record.", usage=Usage(10_000_000, 5))

    limits = Limits(tokens=9_000_000)
    agent = Agent(
        model, tools=[look], compaction=Summarize(ScriptedModel(write)), limits=limits
    )
    result = agent.run("Go.")
    assert (result.stop_reason, result.limit) == ("limit", "tokens")
    assert result.compactions == 1


def test_an_earlier_record_becomes_part_of_the_new_one():
    """There is one record in the conversation, and the model gets the last one."""
    model, script = researcher(500)
    agent = Agent(model, tools=[look], compaction=Summarize(keep=2))
    agent.run("Go.")
    assert script.records >= 3
    text = "".join(block.text for block in agent.messages[0].content)
    assert text.count("<record of earlier work>") == 1
    asked = [r[-1].content[0].text for r in model.requests if is_record(r)]
    assert "Record 1." in asked[1]


def test_the_prompts_stay():
    """The first one and the newest one, word for word, with their images."""
    model, script = researcher(70)
    agent = Agent(model, tools=[look], compaction=Summarize(keep=2))
    agent.run("The first wish.")
    script.rounds = script.begun + 70
    agent.run("The second wish.")
    script.rounds = script.begun + 70
    agent.run("The third wish.")
    texts = [block.text for block in agent.messages[0].content]
    assert texts[0] == "The first wish."
    assert "The third wish." in texts
    assert "The second wish." not in texts


def test_a_model_that_writes_nothing():
    """The run ends with an error, and the conversation is the old one."""
    model, _ = researcher(500)
    agent = Agent(model, tools=[look], compaction=Summarize(ScriptedModel([" "])))
    with pytest.raises(CompactionFailed, match="no record"):
        agent.run("Go.")
    assert not any("record" in json_of(message) for message in agent.messages)
    assert complaints(agent.messages) == {}
    assert agent.can_resume


def test_the_request_for_a_record_may_be_too_long_itself():
    """It is halved until it fits."""
    lengths = []

    def write(messages):
        lengths.append(estimate(messages))
        if len(lengths) < 3:
            return ContextTooLong("too long", status=400)
        return "A record."

    model, _ = researcher(80)
    agent = Agent(model, tools=[look], compaction=Summarize(ScriptedModel(write)))
    assert agent.run("Go.").stop_reason == "end_turn"
    assert lengths[2] < 0.4 * lengths[0]


def test_rollback_takes_the_compaction_back_too():
    """A cancel leaves the conversation before the run, if the policy says so."""
    model, script = researcher(10)
    agent = Agent(
        model,
        tools=[look],
        compaction=Summarize(keep=1),
        cancel_policy=CancelPolicy(partial_text="rollback"),
    )
    agent.run("First.")
    before = agent.messages
    script.rounds = script.begun + 500
    with agent.stream("Second.") as stream:
        for event in stream:
            if isinstance(event, Compacted):
                agent.cancel()
    assert stream.result.cancelled
    assert agent.messages == before


def test_new_messages_of_a_compacted_run():
    """They are what is left of it, and begin at its prompt if that is still there."""
    model, script = researcher(30)
    agent = Agent(model, tools=[look], compaction=STEPS)
    agent.run("First.")
    script.rounds = script.begun + 30
    result = agent.run("Second.")
    assert result.compactions
    assert result.new_messages[0] == UserMessage.of("Second.")


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        (lambda: Compaction(), "needs a step"),
        (lambda: Compaction(ClearResults), r"write ClearResults\(\)"),
        (lambda: Compaction(ClearResults(), at=1.5), "at must be"),
        (lambda: Compaction(ClearResults(), at=0.4), "below at"),
        (lambda: Compaction(ClearResults(), window=0), "window"),
        (lambda: ClearResults(keep=-1), "keep"),
        (lambda: ClearResults(spare=[7]), "names of tools"),
        (lambda: Summarize(keep=0), "keep"),
        (lambda: Summarize(instructions=7), "instructions"),
        (lambda: Agent(ScriptedModel(), compaction=7), "must have the method"),
        (lambda: Agent(ScriptedModel(), compaction=[]), "needs a step"),
        (lambda: Agent(ScriptedModel(), compaction=Summarize("nowhere:x")), "nowhere"),
        (
            lambda: Agent(
                ScriptedModel(price=Price(1, 1)),
                compaction=Summarize(ScriptedModel()),
                limits=Limits(cost=1.0),
            ),
            "no price is known",
        ),
    ],
)
def test_settings_that_cannot_work(settings, match):
    """They are refused when the agent is made."""
    with pytest.raises(ConfigurationError, match=match):
        settings()


def test_what_clear_results_spares():
    """The last rounds, small results, errors' marks, and tools that are named."""
    messages = [UserMessage.of("Go.")]
    for number, name in enumerate(["keep_me", "look", "look", "look"]):
        call_id = f"c{number}"
        text = "short" if number == 2 else "long " * 100
        messages.append(AssistantMessage((ToolCall(call_id, name),), "tool_calls"))
        result = ToolResult(call_id, text, is_error=number == 1, name=name)
        messages.append(ToolMessage((result,)))
    made = ClearResults(keep=1, spare=["keep_me"]).compact(messages, None)
    changed = [a != b for a, b in zip(messages, made, strict=True)]
    assert changed == [False] * 4 + [True] + [False] * 4
    assert made[4].content[0].is_error
    assert ClearResults(keep=4).compact(messages, None) is None
