"""DESIGN, section 6: what a cancel leaves behind, phase by phase.

Each row is run over a real socket, with ``run`` and with ``stream``, for models that
stream and models that do not, and with each policy for what was said.
"""

import threading

import pytest
from support.two_rounds import CLASSES, LAST, make_agent, on_server, told, words

from syncagent import Agent, CancelPolicy, ToolContext, tool
from syncagent.messages import AssistantMessage, Image, Thinking, ToolMessage
from syncagent.testing import (
    FakeServer,
    Gate,
    ScriptedModel,
    Send,
    Stall,
    Status,
    call,
    complaints,
    say,
)
from syncagent.transport import Retries, close_idle

MARKER = "<system>User interrupted this message</system>"
NOTICE = "Cancelled by user"
NOT_STARTED = "Interrupted: this call was not started."


@pytest.fixture(autouse=True)
def nothing_idle():
    """No connection outlives its test."""
    yield
    close_idle()


def consume(agent, prompt):
    """Run an agent as somebody does who reads its stream."""
    with agent.stream(prompt) as stream:
        for _ in stream:
            pass
    return stream.result


FACES = pytest.mark.parametrize("face", [Agent.run, consume], ids=["run", "stream"])
POLICIES = pytest.mark.parametrize("partial_text", ["keep", "discard", "rollback"])


def cancelled_when(reached, agent, face=Agent.run, prompt="Do it."):
    """Run *agent*, cancel it when *reached* returns, and return the result."""
    receipts = []

    def cancel():
        reached()
        receipts.append(agent.cancel("enough"))

    thread = threading.Thread(target=cancel)
    thread.start()
    result = face(agent, prompt)
    thread.join(20)
    assert receipts[0]
    assert receipts[0].wait(20)
    assert result.cancelled
    assert complaints(agent.messages) == {}
    return result


def left(partial_text, *kept):
    """Return what the answer should hold by policy: *kept*, or what stands for it."""
    return {"keep": list(kept), "discard": [NOTICE]}[partial_text]


@FACES
def test_before_the_first_request(face):
    """An event that is set already: only the user message is there."""
    model = ScriptedModel(["never said", LAST])
    agent, event = Agent(model), threading.Event()
    event.set()
    result = agent.run("Do it.", cancel=event)
    assert (result.stop_reason, result.turns, model.requests) == ("cancelled", 0, [])
    assert [words(message) for message in agent.messages] == [["Do it."]]
    assert result.usage.total_tokens == 0
    assert event.is_set()  # never cleared by us
    assert face(agent, "Now.").stop_reason == "end_turn"


@FACES
@POLICIES
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", CLASSES)
def test_before_the_first_token(face, partial_text, stream, kind):
    """User message, and a marker for the answer that never came."""
    script = [say("never", acts=[Stall()]), LAST]
    with FakeServer(script) as server:
        policy = CancelPolicy(partial_text=partial_text)
        agent = Agent(on_server(kind, server, stream=stream), cancel_policy=policy)
        result = cancelled_when(lambda: waits(server), agent, face)
        server.wait_for_hang_up()
        assert result.text == ""
        if partial_text == "rollback":
            assert agent.messages == ()
        else:
            said = [words(message) for message in agent.messages]
            assert said == [["Do it."], left(partial_text, MARKER)]
        assert result.usage.estimated
        assert face(agent, "Now.").text == LAST


def waits(server, number=1):
    """Block until the server has read so many requests."""
    with server._changed:
        assert server._changed.wait_for(lambda: len(server.requests) >= number, 20)


@POLICIES
@pytest.mark.parametrize("kind", CLASSES)
def test_in_the_middle_of_a_stream(partial_text, kind):
    """The text so far and the marker; every tool call of that message is dropped."""
    story = "Once upon a time there was a king who had a daughter. " * 3
    calls = call("look", {"what": "x"})
    reply = say(story, calls, acts=[Send(8), Stall()])
    with FakeServer([reply, LAST]) as server:
        policy = CancelPolicy(partial_text=partial_text)
        agent = make_agent(on_server(kind, server), cancel_policy=policy)
        heard = []
        with agent.stream("Do it.") as stream:
            for event in stream:
                if hasattr(event, "text"):
                    heard.append(event.text)
                    threading.Thread(target=stream.cancel, args=("enough",)).start()
        result = stream.result
        server.wait_for_hang_up()
        assert result.cancellation.phase == "stream"
        assert complaints(agent.messages) == {}
        if partial_text == "rollback":
            assert agent.messages == ()
        else:
            last = agent.messages[-1]
            assert words(last) == left(partial_text, "".join(heard), MARKER)
            assert (last.is_cut, last.tool_calls) == (True, ())
        assert result.text == "".join(heard)  # whatever stays in the conversation
        assert result.tool_outcomes == ()
        assert agent.run("Now.").text == LAST


def test_finished_thinking_is_kept_unfinished_is_not():
    """A signature that may be incomplete never goes back to the provider."""
    reply = say(Thinking("first", "sig"), "words", Thinking("second thoughts", "no"))
    agent = Agent(ScriptedModel([reply], piece=6))
    with agent.stream("Do it.") as stream:
        for event in stream:
            if getattr(event, "text", "") == "second":
                stream.cancel()
    kept = agent.messages[-1].content
    assert kept[0] == Thinking("first", "sig")
    assert [type(block) for block in kept[1:]] == [type(kept[1]), type(kept[1])]
    assert words(agent.messages[-1]) == ["words", MARKER]


@FACES
@POLICIES
def test_while_an_approval_is_open(face, partial_text):
    """Nothing of the round runs; all calls have results, then comes the marker."""
    gate = Gate()
    ran = []

    @tool
    def harmless() -> str:
        """Do nothing."""
        ran.append("harmless")
        return "x"

    @tool(requires_approval=True)
    def dangerous() -> str:
        """Do something."""
        ran.append("dangerous")
        return "x"

    asked = say(call("harmless"), call("dangerous"))
    agent = Agent(
        ScriptedModel([asked, LAST]),
        tools=[harmless, dangerous],
        approve=lambda request: gate.stop_here() or True,
        cancel_policy=CancelPolicy(partial_text=partial_text),
    )
    result = cancelled_when(gate.wait_reached, agent, face)
    gate.open()  # the "yes" comes too late
    assert ran == []
    assert [each.outcome for each in result.tool_outcomes] == ["not_started"] * 2
    assert result.cancellation.phase == "approval"
    if partial_text != "rollback":
        _, _, results, marker = agent.messages
        assert told(results) == [NOT_STARTED] * 2
        assert words(marker) == [MARKER]
    assert face(agent, "Now.").text == LAST


@FACES
@pytest.mark.parametrize("width", [1, 3])
def test_while_a_tool_runs(face, width):
    """What runs ends by its policy, finished tools keep real results, images too."""
    gate = Gate()
    picture = Image(b"\x89PNG\r\n\x1a\n0123")

    @tool
    def draw() -> Image:
        """Draw."""
        return picture

    @tool
    def linger() -> str:
        """Take your time, whatever happens."""
        gate.stop_here()
        return "real"

    @tool(parallel=False)
    def never() -> str:
        """Never get your turn."""
        raise AssertionError

    asked = say(call("draw"), call("linger"), call("never"))
    agent = Agent(
        ScriptedModel([asked, LAST]),
        tools=[draw, linger, never],
        parallel_tools=width,
    )

    def reached():
        gate.wait_reached()
        agent._conversation.slot.live.token.on_cancel(gate.open)

    result = cancelled_when(reached, agent, face)
    outcomes = [each.outcome for each in result.tool_outcomes]
    assert outcomes == ["done", "done", "not_started"]
    drawn, lingered, _ = agent.messages[-1].content
    assert drawn.content == (picture,)
    assert lingered.content[0].text == "real"
    assert result.cancellation.phase == "tool"
    assert face(agent, "Now.").text == LAST


@FACES
@pytest.mark.parametrize("width", [1, 3])
def test_after_the_last_tool(face, width):
    """The results are real, and the model is not asked again."""

    @tool
    def stop(number: int, ctx: ToolContext) -> int:
        """Cancel the run that this is a part of."""
        if number == 2:
            agent.cancel("from inside")
        return number

    asked = say(call("stop", {"number": 1}, "a"), call("stop", {"number": 2}, "b"))
    model = ScriptedModel([asked, LAST])
    agent = Agent(model, tools=[stop], parallel_tools=width)
    result = face(agent, "Do it.")
    assert result.cancelled
    assert [each.outcome for each in result.tool_outcomes] == ["done", "done"]
    assert isinstance(agent.messages[-1], ToolMessage)
    assert len(model.requests) == 1
    assert face(agent, "Now.").text == LAST


@FACES
@pytest.mark.parametrize("kind", CLASSES)
def test_in_a_back_off(face, kind):
    """As before the first token; and no further attempt is made."""
    busy = say("x", acts=[Status(529, headers={"retry-after": "60"})])
    with FakeServer([busy, LAST]) as server:
        agent = Agent(on_server(kind, server, retries=Retries(limit=3)))

        def reached():
            while (
                agent._conversation.slot.live is None
                or agent._conversation.slot.live.phase != "retry"
            ):
                pass

        result = cancelled_when(reached, agent, face)
        assert result.cancellation.phase == "retry"
        assert [words(each) for each in agent.messages] == [["Do it."], [MARKER]]
        assert len(server.requests) == 1
        assert face(agent, "Now.").text == LAST


@FACES
def test_while_paused(face):
    """No run is live; a cancel lets the calls go, and the next plain prompt works."""

    @tool(requires_approval=True)
    def dangerous() -> str:
        """Do something."""
        raise AssertionError

    agent = Agent(ScriptedModel([say(call("dangerous")), LAST]), tools=[dangerous])
    result = face(agent, "Do it.")
    assert result.stop_reason == "interrupt"
    assert not agent.cancel()
    assert agent.interrupts == ()
    _, _, results, marker = agent.messages
    assert (told(results), words(marker)) == ([NOT_STARTED], [MARKER])
    assert complaints(agent.messages) == {}
    assert face(agent, "Now.").text == LAST
    assert complaints(agent.messages) == {}


def test_after_the_last_token():
    """It is honoured: cancelled, and the whole text is kept, not marked."""
    agent = Agent(ScriptedModel([LAST, LAST]), hooks=[_CancelsAtTheEnd()])
    agent._setup.hooks.after_model[0].__self__.agent = agent
    result = agent.run("Do it.")
    assert (result.stop_reason, result.text) == ("cancelled", LAST)
    assert words(agent.messages[-1]) == [LAST]
    assert not agent.messages[-1].is_cut


class _CancelsAtTheEnd:
    agent = None

    def after_model(self, event):
        assert isinstance(event.message, AssistantMessage)
        self.agent.cancel("at the last moment")


def test_markers_and_notices_are_yours():
    """What stands in the conversation can be said in one's own words."""
    policy = CancelPolicy(marker="[stopped]", partial_text="keep")
    agent = Agent(ScriptedModel(["one two three"]), cancel_policy=policy)
    with agent.stream("Do it.") as stream:
        next(stream)
        next(stream)
        next(stream)
    assert words(agent.messages[-1])[-1] == "[stopped]"
    assert stream.result.cancellation.origin == "closed"
