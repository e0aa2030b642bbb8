"""resume() after a cancel: the same run goes on, and nothing is called twice.

DESIGN, section 16 ("Again") and section 6: what a cancel leaves behind is taken back.
"""

import threading

import pytest
from support.agents import SUM, add, model, outcomes
from support.threads import meanwhile
from support.two_rounds import AGAIN, CLASSES, FIRST, LAST, SECOND, on_server, reply

from syncagent import (
    Agent,
    AgentBusy,
    CancelPolicy,
    ConfigurationError,
    ToolContext,
    tool,
)
from syncagent.messages import AssistantMessage, ToolMessage
from syncagent.testing import (
    FakeServer,
    Gate,
    ScriptedModel,
    Send,
    Stall,
    call,
    cancel_everywhere,
    complaints,
    say,
)
from syncagent.transport import close_idle


@pytest.fixture(autouse=True)
def nothing_idle():
    """No connection outlives its test."""
    yield
    close_idle()


class Counted:
    """The two tools of the workshop, and how often each of their calls was made."""

    def __init__(self, **settings):
        self.made = []
        self.keys = []

        @tool(**settings)
        def look(what: str, ctx: ToolContext) -> str:
            """Look at something."""
            self.made.append(ctx.call_id)
            self.keys.append(ctx.idempotency_key)
            ctx.sleep(0.0005)
            return f"seen: {what}"

        @tool(requires_approval=True)
        def change(what: str, ctx: ToolContext) -> dict:
            """Change something."""
            self.made.append(ctx.call_id)
            return {"changed": what}

        self.tools = [look, change]

    def agent(self, model=None, **settings):
        settings = {"approve": lambda request: True, **settings}
        model = model or ScriptedModel(reply, piece=12)
        return Agent(model, tools=self.tools, **settings)


def swept(way="inside", **settings):
    """Cancel at every point, resume in place of the next prompt; yield all of it."""
    counts, first, resumed = [], [], []

    def make():
        counts.append(Counted(**settings))
        return counts[-1].agent()

    def run(agent, prompt):
        if prompt != "resume":
            first.append(agent.run(prompt))
            return first[-1]
        if not first[-1].cancelled:  # it was faster than the thread that cancels
            return agent.run(AGAIN)
        assert agent.can_resume
        assert not agent.is_paused
        resumed.append((counts[-1], first[-1], agent.resume()))
        return resumed[-1][-1]

    cancel_everywhere(make, "Do it.", way=way, run=run, again="resume")
    assert len(resumed) > 20
    return resumed


@pytest.mark.parametrize("way", ["inside", "thread", "meanwhile"])
def test_cancelled_anywhere_a_run_goes_on_to_its_end(way):
    """Every call is made once at most; the end is that of a run nobody cancelled."""
    for counted, first, result in swept(way):
        assert len(counted.made) == len(set(counted.made))
        assert (result.run_id, result.text) == (first.run_id, LAST)
        assert result.stop_reason == "end_turn"
        answers = [m for m in result.messages if isinstance(m, AssistantMessage)]
        assert [m.is_cut for m in answers] == [False] * 3
        assert len(result.tool_outcomes) == 4
        made = [o.call_id for o in result.tool_outcomes if o.outcome == "done"]
        assert set(made) <= set(counted.made)
        assert "not_started" not in outcomes(result)


def test_idempotent_tools_are_all_done_in_the_end():
    """One that was interrupted is called again, with the same idempotency key."""
    repeated = 0
    for counted, _, result in swept(idempotent=True):
        assert outcomes(result) == ["done"] * 4
        assert len(set(counted.keys)) == 3
        repeated += len(counted.keys) > 3
    assert repeated


@pytest.mark.parametrize("partial_text", ["keep", "discard"])
@pytest.mark.parametrize("kind", CLASSES)
def test_a_response_that_was_cut_is_asked_for_again(kind, partial_text):
    """Over a socket: the settled end is gone, and the request is as it was."""
    policy = CancelPolicy(partial_text=partial_text)
    begun = say("One two and so on, up to ten", acts=[Send(8), Stall()])
    with FakeServer([begun, "One two three"]) as server:
        agent = Agent(on_server(kind, server), cancel_policy=policy)
        with agent.stream("Count.") as stream:
            next(event for event in stream if type(event).__name__ == "TextDelta")
            agent.cancel("enough", "remote")
            list(stream)
        cut = agent.messages[-1]
        assert (cut.is_cut, cut.cut_reason, cut.cut_origin) == (
            *(True, "enough"),
            "remote",
        )
        assert complaints(agent.messages) == {}
        result = agent.resume()
        assert (result.text, len(result.messages)) == ("One two three", 2)
        first, second = (request.body for request in server.requests)
        assert first == second
    assert complaints(agent.messages) == {}


def test_denied_stays_denied_and_done_stays_done():
    """Only the calls that were not started are made."""
    gate = Gate()
    calls = []

    @tool
    def slow(ctx: ToolContext) -> str:
        """Take long."""
        gate.stop_here(token=ctx.token)
        return "never"

    @tool(requires_approval=True)
    def note(what: str) -> str:
        """Write a note."""
        calls.append(what)
        return what

    script = say(
        *(call("note", {"what": w}, w) for w in ("a", "no")),
        *(call("slow", {}, "slow"), call("note", {"what": "b"}, "b")),
    )
    asked = []

    def approve(request):
        asked.append(request.call_id)
        return request.arguments["what"] != "no"

    agent = Agent(model(script), tools=[slow, note], approve=approve)
    with meanwhile(lambda: (gate.wait_reached(), agent.cancel())):
        result = agent.run("Go.")
    assert outcomes(result) == ["done", "denied", "interrupted", "not_started"]
    result = agent.resume()
    assert outcomes(result) == ["done", "denied", "interrupted", "done"]
    assert calls == ["a", "b"]
    assert asked == ["a", "no", "b", "b"], "after a cancel an approval counts no more"


def test_a_call_that_waited_for_its_approval_asks_again():
    """Cancelled while a person thinks, then resumed: the same question, one call."""
    counted = Counted()
    asked = []

    def approve(request):
        asked.append(request.id)
        return len(asked) > 1 or bool(agent.cancel())

    agent = counted.agent(approve=approve)
    result = agent.run("Do it.")
    assert (result.stop_reason, outcomes(result)[-2:]) == (
        "cancelled",
        ["not_started"] * 2,
    )
    done = agent.resume()
    assert (done.run_id, outcomes(done)) == (result.run_id, ["done"] * 4)
    assert asked[0] == asked[1]
    assert len(counted.made) == 4


def test_a_resumed_run_can_be_cancelled_and_resumed_again():
    """Promise 3: an idle agent has nothing to cancel; a resumed run is live."""
    counted = Counted()
    hits = []
    agent = counted.agent()
    for number in range(2):
        stream = agent.stream("Do it.") if not number else agent.resume_stream()
        with stream:
            for event in stream:
                if type(event).__name__ == "TurnFinished":
                    hits.append(agent.cancel(f"no. {number}"))
        assert stream.result.cancellation.reason == f"no. {number}"
        assert not agent.cancel()
        assert agent.can_resume
    result = agent.resume()
    assert all(hits)
    assert outcomes(result) == ["done"] * 4
    assert sorted(counted.made) == ["change_1", "look_1", "look_2", "look_3"]
    assert result.turns == 3
    assert result.usage == agent.usage


def test_usage_is_counted_once():
    """The result has that of the whole run, the agent that of all runs."""
    agent = Agent(model("first", SUM), tools=[add])
    first = agent.run("Hello.").usage
    with agent.stream("Add.") as stream:
        next(event for event in stream if type(event).__name__ == "TurnFinished")
        agent.cancel()
    cut = agent.usage
    result = agent.resume()
    assert agent.usage == first + result.usage
    assert cut.total_tokens < agent.usage.total_tokens


def test_only_the_last_run_can_be_resumed():
    """Another prompt ends that; so does the end of the run itself."""
    agent = Agent(model(SUM), tools=[add])
    with pytest.raises(ConfigurationError, match="was not cut short"):
        agent.resume()
    with agent.stream("Add.") as stream:
        next(stream)
    assert agent.can_resume
    with pytest.raises(ConfigurationError, match="does not wait for answers"):
        agent.resume({"approval:1": True})
    agent.run("Another thing.")
    assert not agent.can_resume
    with pytest.raises(ConfigurationError, match="was not cut short"):
        agent.resume()


def test_a_rollback_leaves_nothing_to_resume():
    """The prompt was taken out with the run, and the error says so."""
    agent = Agent(model(), cancel_policy=CancelPolicy(partial_text="rollback"))
    with agent.stream("Hello.") as stream:
        next(stream)
    assert not agent.can_resume
    with pytest.raises(ConfigurationError, match="taken out of the conversation"):
        agent.resume()


def test_a_resume_that_is_cancelled_at_once_can_be_repeated():
    """Its event was set before: no request is made, and the run can still go on."""
    agent = Agent(ScriptedModel(lambda messages: "Hi."))
    with agent.stream("Hello.") as stream:
        next(stream)
    event = threading.Event()
    event.set()
    assert agent.resume(cancel=event).cancelled
    assert complaints(agent.messages) == {}
    assert agent.resume().text == "Hi."


@pytest.mark.parametrize("other", [Agent.resume, lambda agent: agent.run("Else.")])
def test_one_of_two_threads_gets_the_run(other):
    """The other one learns that the agent is busy, or that it came too late."""
    for _ in range(30):
        agent = Agent(model(SUM), tools=[add])
        with agent.stream("Add.") as stream:
            next(stream)
        start = threading.Barrier(2)
        ends = []

        def go(work, agent=agent, start=start, ends=ends):
            start.wait(10)
            try:
                ends.append(work(agent).stop_reason)
            except (AgentBusy, ConfigurationError) as error:
                ends.append(type(error))

        with meanwhile(lambda: go(Agent.resume)):
            go(other)
        assert "end_turn" in ends
        assert complaints(agent.messages) == {}
        prompts = [m for m in agent.messages if type(m).__name__ == "UserMessage"]
        assert len(prompts) <= 2


def test_a_cancel_that_races_a_resume_hits_it_or_nothing():
    """Promise 3: true means that the resumed run ended as cancelled."""
    for _ in range(50):
        agent = Counted().agent()
        with agent.stream("Do it.") as stream:
            next(stream)
        start = threading.Barrier(2)
        receipts = []

        def cancel(agent=agent, start=start, receipts=receipts):
            start.wait(10)
            receipts.append(agent.cancel("raced"))

        with meanwhile(cancel):
            start.wait(10)
            result = agent.resume()
        assert bool(receipts[0]) == result.cancelled
        assert complaints(agent.messages) == {}
        if result.cancelled:
            result = agent.resume()
        assert (result.text, len(result.tool_outcomes)) == (LAST, 4)


def test_what_was_said_after_the_tools_stays():
    """A round that was complete when the cancel came is not touched."""
    agent = Agent(ScriptedModel([FIRST, SECOND, LAST]), tools=Counted().tools)
    with agent.stream("Do it.") as stream:
        for event in stream:
            if type(event).__name__ == "TurnFinished":
                agent.cancel(mode="after_turn")
    kept = agent.messages
    assert isinstance(kept[-1], ToolMessage)
    result = agent.resume()
    assert result.messages[: len(kept)] == kept
    assert result.stop_reason == "interrupt", "the second round needs an approval"
