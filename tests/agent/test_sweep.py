"""The sweep: cancel at every point where a run looks or waits."""

import threading
from itertools import cycle
from typing import get_args

import pytest
from support.covering import each_pair, each_value
from support.two_rounds import AGAIN, CLASSES, LAST, change, make_agent, on_server

from syncagent import Agent, CancelPolicy, CancelToken, tool
from syncagent.cancel import Origin
from syncagent.exceptions import ProviderUnavailable
from syncagent.testing import (
    FakeClock,
    FakeServer,
    ScriptedModel,
    Status,
    call,
    cancel_everywhere,
    say,
)
from syncagent.testing.script import Send
from syncagent.transport import Retries, close_idle

pytestmark = pytest.mark.slow

WAYS = ["inside", "thread", "meanwhile"]
#: What the run of the workshop does, and can be cancelled in.
PHASES = {"begin", "model", "stream", "turn", "before tools", "approval", "tool"}


def consume(agent, prompt):
    """Run an agent as somebody does who reads its stream."""
    with agent.stream(prompt) as stream:
        for _ in stream:
            pass
    return stream.result


@each_pair("way, width, run", WAYS, [1, 3], [None, consume])
def test_every_point(way, width, run):
    """Promises 3 to 8 hold wherever a run is cancelled, and from wherever."""
    swept = cancel_everywhere(
        lambda: make_agent(parallel_tools=width), "Do it.", way=way, run=run
    )
    assert len(swept.points) > 50
    assert swept.phases == PHASES
    assert {point.stop_reason for point in swept.points} <= {"cancelled", "end_turn"}


@each_value("way, partial_text", WAYS, ["keep", "discard", "rollback"])
def test_every_point_with_every_policy(way, partial_text):
    """Promise 4: whatever the policy leaves can be sent to any provider."""
    policy = CancelPolicy(partial_text=partial_text)
    cancel_everywhere(lambda: make_agent(cancel_policy=policy), "Do it.", way=way)


ORIGINS = [
    pytest.param(get_args(Origin), id="in-turn"),
    *(
        pytest.param([origin], id=origin, marks=pytest.mark.stress)
        for origin in get_args(Origin)
    ),
]


@pytest.mark.parametrize("origins", ORIGINS)
def test_every_point_with_every_origin(origins):
    """Promise 5: the result names the origin of the cancel."""
    sent, seen = [], []
    turns = cycle(origins)

    def cancel(agent):
        sent.append(next(turns))
        return agent.cancel("because", sent[-1])

    def run(agent, prompt):
        result = agent.run(prompt)
        if result.cancelled:
            assert result.cancellation.reason == "because"
            seen.append(result.cancellation.origin)
        return result

    cancel_everywhere(make_agent, "Do it.", cancel=cancel, run=run)
    assert seen == sent
    assert set(seen) == set(origins)


@pytest.mark.parametrize("kind", [threading.Event, CancelToken])
def test_every_point_by_something_of_the_callers_own(kind):
    """Promise 3: an event or token that is brought along hits as exactly."""
    brought = []

    def run(agent, prompt):
        brought.append(kind())
        return agent.run(prompt, cancel=brought[-1])

    def cancel(agent):
        own = brought[-1]
        own.set() if isinstance(own, threading.Event) else own.cancel("mine")
        return agent.cancel()  # hit already, so this is only for its receipt

    cancel_everywhere(make_agent, "Do it.", cancel=cancel, run=run)


def test_every_point_by_a_deadline():
    """Promise 2: time that runs out ends a run wherever it is, as a cancel does."""
    seen = []
    with FakeClock() as clock:

        def run(agent, prompt):
            result = agent.run(prompt, timeout=60)
            if result.cancelled:
                seen.append(result.cancellation.origin)
            return result

        def pass_time(agent):
            clock.advance(61)
            assert agent._conversation.slot.live.token.cancelled
            return agent.cancel()  # hit already, so this is only for its receipt

        def make():
            return make_agent(tools=[noop, change], model=ScriptedModel(brisk))

        cancel_everywhere(make, "Do it.", cancel=pass_time, run=run)
    assert set(seen) == {"deadline"}


def brisk(messages):
    """Answer with a round of tools that take no time, and then be done."""
    is_new = len(messages) == 1
    calls = (call("noop"), call("change", {"what": "it"}))
    return say("Let me see.", *calls) if is_new else LAST


@each_value("mode, width", ["after_tools", "after_turn"], [1, 3])
def test_every_point_for_later(mode, width):
    """Promise 3: a cancel for later is honoured too, and never lost."""

    def cancel(agent):
        return agent.cancel(mode=mode)

    # Tools may begin after such a cancel, so "meanwhile" looks at all but that.
    swept = cancel_everywhere(
        lambda: make_agent(parallel_tools=width),
        "Do it.",
        way="meanwhile",
        cancel=cancel,
    )
    assert {point.stop_reason for point in swept.points} <= {"cancelled", "end_turn"}


def test_every_point_of_a_retry():
    """Promise 6: a back-off that is cancelled makes no further attempt."""
    asked = []

    def reply(messages):
        asked.append(messages)
        is_next = messages[-1].content[-1].text == AGAIN
        return LAST if is_next or len(asked) > 1 else ProviderUnavailable("busy")

    def make():
        asked.clear()
        return Agent(_Retrying(reply))

    swept = cancel_everywhere(make, "Do it.")
    assert "retry" in swept.phases


class _Retrying(ScriptedModel):
    """A scripted model that tries again, after a while that can be cancelled."""

    def _respond(self, answer, said, token, on_phase):
        try:
            yield from super()._respond(answer, said, token, on_phase)
        except ProviderUnavailable:
            on_phase("retry")
            token.sleep(0.001)
            yield from super()._respond(answer, said, token, on_phase)


@pytest.mark.parametrize(
    ("kind", "stream"), [*((kind, True) for kind in CLASSES), (CLASSES[0], False)]
)
def test_every_point_over_a_socket(kind, stream):
    """Promise 9: real connections, a retry and a tool round, streaming or not."""
    turns = {}

    def reply(request):
        number = turns[""] = turns.get("", 0) + 1
        if number == 1:
            return say("x", acts=[Status(503, headers={"retry-after": "0"})])
        if number == 2:
            return say("Let me see.", call("noop", {}, "call_1"), acts=[Send()])
        return LAST

    with FakeServer(reply) as server:

        def make():
            turns.clear()
            retries = Retries(limit=3, first_delay=0.001)
            model = on_server(kind, server, stream=stream, retries=retries)
            return Agent(model, tools=[noop])

        swept = cancel_everywhere(make, "Do it.", way="thread")
        close_idle()
    assert {"connect", "headers", "retry", "tool"} <= swept.phases


@tool
def noop() -> str:
    """Do nothing."""
    return "nothing"


def test_a_sweep_finds_what_ignores_a_cancel():
    """The sweep can fail: a run that begins something after a cancel is found."""

    class Deaf(ScriptedModel):
        def _respond(self, answer, said, token, on_phase):
            yield from super()._respond(answer, said, CancelToken(), None)

    def make():
        agent = Agent(Deaf(lambda messages: LAST))
        agent._setup.hooks.on_finish = ()
        return agent

    def lie(agent):
        receipt = agent.cancel()
        agent._conversation.slot.live.token._generation.stop.clear()  # forget it again
        return receipt

    with pytest.raises(AssertionError, match="point 1"):
        cancel_everywhere(make, "Do it.", cancel=lie)


def test_a_sweep_has_an_end():
    """A run with more points than were expected is a mistake, and said to be one."""
    with pytest.raises(ValueError, match="more than 3 points"):
        cancel_everywhere(make_agent, "Do it.", max_points=3)
