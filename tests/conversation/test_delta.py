"""A state saved in parts is the same state, and a part costs what is new."""

import msgspec
import pytest

from syncagent import Agent, ConfigurationError, ToolContext, tool
from syncagent.conversation.restored import join_state
from syncagent.conversation.saved import save_delta
from syncagent.events import RunFinished
from syncagent.exceptions import StateInvalid
from syncagent.hooks import Retry
from syncagent.messages import AssistantMessage
from syncagent.testing import ScriptedModel, call, say


@tool
def add(number: int) -> int:
    """Add a number."""
    return number


@tool(requires_approval=True)
def pay(number: int) -> int:
    """Pay a number."""
    return number


class Parts:
    """A store in memory: messages that are appended, and a tail."""

    def __init__(self):
        self.messages, self.tail, self.states = [], b"", []
        self.sizes = []

    def take(self, agent, **over):
        conversation = agent._conversation
        delta = save_delta(conversation, conversation.run, **over)
        self.messages[delta.first :] = delta.messages
        self.tail = delta.tail
        conversation.run.transcript.stored = delta.total
        self.sizes.append((len(delta.messages), len(delta.tail)))
        return join_state(self.tail, self.messages)


class Watching:
    """A hook that saves an agent both ways, with every event."""

    def __init__(self):
        self.parts, self.agent, self.pairs = Parts(), None, []

    def on_event(self, event):
        if isinstance(event, RunFinished):
            return  # it has ended: there is no run to save
        joined = self.parts.take(self.agent)
        self.pairs.append((type(event).__name__, joined, self.agent.save()))


def rounds(count, **fields):
    turns = [
        say(f"turn {n}", call("add", {"number": n}, f"c{n}")) for n in range(count)
    ]
    return ScriptedModel([*turns, "done"], **fields)


def watched(model, **settings):
    hook = Watching()
    hook.agent = Agent(model, tools=[add, pay], hooks=[hook], **settings)
    return hook


def as_restored(state):
    """Return a state as an agent has it that was restored from it."""
    agent = Agent(ScriptedModel([]), tools=[add, pay])
    agent.restore(state)
    return msgspec.json.decode(agent.save())


def test_the_parts_are_the_state():
    """After every event, the parts together are the state as a whole."""
    hook = watched(rounds(3))
    hook.agent.run("Go.")
    names = {name for name, _, _ in hook.pairs}
    assert {"TextDelta", "ToolStarted", "ToolFinished", "TurnFinished"} <= names
    for name, joined, whole in hook.pairs:
        assert as_restored(joined) == as_restored(whole), name


def test_the_parts_of_a_run_that_waits():
    """Open questions are in the tail."""
    hook = watched(ScriptedModel([say(call("pay", {"number": 1}))]))
    hook.agent.run("Go.")
    agent = Agent(ScriptedModel(["paid"]), tools=[add, pay])
    agent.restore(hook.pairs[-1][1])
    (question,) = agent.interrupts
    result = agent.resume({question.id: True})
    assert [each.outcome for each in result.tool_outcomes] == ["done"]


def test_a_part_costs_what_is_new():
    """Neither the messages nor the tail of a checkpoint grow with the conversation."""
    hook = watched(rounds(200))
    hook.agent.run("Go.")
    sizes = hook.parts.sizes
    assert max(count for count, _ in sizes) <= 2
    early = max(size for _, size in sizes[20:60])
    assert max(size for _, size in sizes[-60:]) < early + 20


def test_messages_that_change_are_replaced():
    """A hook that discards a turn takes its message out of the parts."""

    class Picky:
        def after_model(self, event):
            return Retry() if event.message.text == "bad" else None

    hook = Watching()
    hook.agent = Agent(ScriptedModel(["bad", "good"]), hooks=[Picky(), hook])
    hook.agent.run("Go.")
    joined = msgspec.json.decode(hook.pairs[-1][1])
    texts = [m["content"][0]["text"] for m in joined["messages"]]
    assert texts == ["Go.", "good"]


def test_a_restored_agent_stores_only_what_is_new():
    """The messages it was restored from are in the store already."""
    hook = watched(rounds(3))
    hook.agent.run("Go.")
    joined = hook.pairs[-1][1]
    agent = Agent(ScriptedModel(["more"]), tools=[add, pay])
    agent.restore(joined)
    assert agent._conversation.transcript.stored == len(agent.messages)


def test_the_outcomes_of_earlier_rounds_survive():
    """A run that is resumed from parts reports all its calls."""
    hook = watched(rounds(4))
    hook.agent.run("Go.")
    at = [n for n, (name, _, _) in enumerate(hook.pairs) if name == "ToolStarted"]
    agent = Agent(ScriptedModel(lambda messages: "done"), tools=[add, pay])
    agent.restore(hook.pairs[at[-1]][1])
    result = agent.resume()
    outcomes = [(each.call_id, each.outcome) for each in result.tool_outcomes]
    assert outcomes == [
        ("c0", "done"),
        ("c1", "done"),
        ("c2", "done"),
        ("c3", "interrupted"),
    ]
    assert isinstance(result.messages[-1], AssistantMessage)


@pytest.mark.parametrize("tail", [b"", b"{", b'{"run": 1}', b"[]", b"\xff"])
def test_a_damaged_tail_is_refused(tail):
    """A tail that cannot be read is an invalid state, not a crash."""
    with pytest.raises(StateInvalid):
        join_state(tail, [])


def test_an_agent_is_restored_once():
    """restore() is for new agents: it replaces no conversation."""
    state = Agent(ScriptedModel([])).save()
    agent = Agent(ScriptedModel(["hi"]))
    agent.run("Go.")
    with pytest.raises(ConfigurationError, match="its own messages"):
        agent.restore(state)


def test_a_run_has_the_id_that_it_is_given():
    """Logs, results and idempotency keys begin with the id of the caller."""
    keys = []

    @tool
    def note(ctx: ToolContext) -> str:
        """Note the key."""
        keys.append(ctx.idempotency_key)
        return "ok"

    def agent():
        return Agent(
            ScriptedModel([say(call("note", call_id="c1")), "ok"]), tools=[note]
        )

    assert agent().run("Go.", run_id="order-17").run_id == "order-17"
    with agent().stream("Go.", run_id="order-18") as stream:
        assert list(stream)[-1].result.run_id == "order-18"
    handle = agent().start("Go.", run_id="order-19")
    assert (handle.run_id, handle.result(10).run_id) == ("order-19", "order-19")
    assert [key.partition(":")[0] for key in keys] == [
        "order-17",
        "order-18",
        "order-19",
    ]


@pytest.mark.parametrize("run_id", ["", "a b", "x" * 65, 17, "a\n", "ä"])
def test_an_id_fits_into_a_header(run_id):
    """An id that could not be part of a key or a log line is refused."""
    with pytest.raises(ConfigurationError, match="run_id must be"):
        Agent(ScriptedModel(["hi"])).run("Go.", run_id=run_id)
