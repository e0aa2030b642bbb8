"""background() while the model is waited for: the same request goes on, on its own.

Each phase over a real socket, with two dialects, for each way to run an agent.
"""

import threading

import pytest
from support.background import (
    DIALECTS,
    FACES,
    WORDS,
    Caller,
    Phase,
    Replies,
    check_finished,
    check_released,
    connections,
    ends,
    model_on,
    phase_of,
    said_after,
    texts,
)
from support.threads import until

from syncagent import Agent
from syncagent.events import MessageStarted, RunFinished, TextDelta, TurnFinished
from syncagent.testing import (
    Comment,
    FakeServer,
    Send,
    Split,
    Stall,
    Status,
    call,
    complaints,
    say,
)
from syncagent.transport import Retries


def headers(phase):
    """Hold back the whole answer."""

    def reply():
        phase.first.stop_here()
        return say(WORDS, acts=[Send(6), Stall(phase.second), Send()])

    return [reply]


def first_event(phase):
    acts = [Stall(phase.first), Send(6), Stall(phase.second), Send()]
    return [say(WORDS, acts=acts)]


def keep_alives(phase):
    """Send what is no event."""
    acts = [Comment(times=20), *first_event(phase)[0].acts]
    return [say(WORDS, acts=acts)]


def silent(phase):
    acts = [Send(6), Stall(phase.first), Send(6), Stall(phase.second), Send()]
    return [say(WORDS, acts=acts)]


def split_event(phase):
    """Send an event byte by byte."""
    return [say(WORDS, acts=[Send(6), Split(), Split(7), *silent(phase)[0].acts])]


def back_off(phase):
    busy = Status(503, headers={"retry-after": "0.2"})
    return [say("x", acts=[busy]), *first_event(phase)]


PHASES = {
    "headers": (headers, "headers"),
    "first_event": (first_event, "first_event"),
    "keep_alives": (keep_alives, "first_event"),
    "silent": (silent, "stream"),
    "split_event": (split_event, "stream"),
    "back_off": (back_off, "retry"),
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", PHASES)
@pytest.mark.slow
def test_the_same_request_goes_on(name, dialect, face):
    """One request on one connection; no token is lost and none comes twice."""
    script, doing = PHASES[name]
    phase = Phase()
    with FakeServer(Replies(*script(phase))) as server:
        agent = Agent(model_on(server, dialect, retries=Retries(limit=1)))
        caller = Caller(agent, face)
        until(lambda: phase_of(agent) == doing or phase.first._reached.is_set())
        assert agent.background()
        if face != "backgroundable":
            phase.first.open()
        result = caller.result()
        handle = check_released(result, agent)
        phase.open()
        final = check_finished(handle, agent, WORDS)
        attempts = 2 if name == "back_off" else 1
        assert len(server.requests) == attempts + 1  # and the one that came after it
        assert server.hang_ups == []
        assert connections(server) == 1
    assert final.turns == 1
    if face == "stream":
        seen = [*caller.events, *said_after(handle)]
        assert texts(seen) == WORDS
        assert ends(seen) == ["backgrounded", "end_turn"]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_that_flows(dialect, face):
    """The hand-over happens between two events, without a pause of the server."""
    phase = Phase()
    acts = [Send(30), Stall(phase.second), Send()]
    wish = Wishes(TextDelta, 5)
    with FakeServer(Replies(say(WORDS, acts=acts))) as server:
        agent = wish.agent = Agent(model_on(server, dialect), hooks=[wish])
        caller = Caller(agent, face)
        result = caller.result()
        handle = check_released(result, agent)
        phase.open()
        check_finished(handle, agent, WORDS)
        assert (len(server.requests), connections(server)) == (2, 1)
    assert wish.granted
    assert texts(wish.events[: wish.count_of(RunFinished)]) == WORDS
    if face == "stream":
        assert texts([*caller.events, *said_after(handle)]) == WORDS
        assert result.text == texts(caller.events)


class Wishes:
    """A hook that asks for the background at one event, and writes all events down."""

    def __init__(self, kind, number):
        self.agent = None
        self.granted = None
        self.events = []
        self._kind, self._number = kind, number

    def on_event(self, event):
        self.events.append(event)
        if isinstance(event, self._kind) and self.granted is None:
            self._number -= 1
            if not self._number:
                self.granted = self.agent.background()

    def count_of(self, kind):
        """Return the place after the first such event."""
        return 1 + next(n for n, e in enumerate(self.events) if isinstance(e, kind))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("number", range(1, 12))
def test_no_event_is_lost_wherever_a_stream_is_left(dialect, number):
    """What the stream and the handle have seen is what a run says that stays."""
    answer = say("One, two, three, four.")
    with FakeServer(Replies(answer, answer)) as server:
        whole = [*Agent(model_on(server, dialect)).stream("Do it.")]
        agent = Agent(model_on(server, dialect))
        stream, seen = agent.stream("Do it."), []
        for event in stream:
            seen.append(event)
            if len(seen) == number:
                agent.background()
        rest = [] if ends(seen) == ["end_turn"] else said_after(stream.result.handle)
    got = [event for event in [*seen, *rest] if is_of_the_model(event)]
    assert got == [event for event in whole if is_of_the_model(event)]
    assert complaints(agent.messages) == {}
    until(lambda: not agent.is_running)


def is_of_the_model(event):
    return not isinstance(event, RunFinished) and "State" not in type(event).__name__


@pytest.mark.parametrize("face", FACES)
def test_what_the_caller_is_told(face):
    """Promise 5: what this run has added by then, and nothing that is not so."""
    phase = Phase()
    with FakeServer(Replies(say("Hello."), *silent(phase))) as server:
        agent = Agent(model_on(server, DIALECTS[0]))
        agent.run("Before.")
        caller = Caller(agent, face, "Count.")
        until(lambda: phase_of(agent) == "stream")
        agent.background()
        if face != "backgroundable":
            phase.first.open()
        result = caller.result()
        assert len(result.messages) == 3
        assert [words(message) for message in result.new_messages] == ["Count."]
        assert WORDS.startswith(result.text)
        phase.open()
        check_finished(result.handle, agent, WORDS)


def words(message):
    return message.content[0].text


@pytest.mark.parametrize("face", FACES)
def test_an_answer_that_is_no_stream(face):
    """With ``stream=False`` the answer is one event, and goes on as well."""
    phase = Phase()
    with FakeServer(Replies(*headers(phase))) as server:
        agent = Agent(model_on(server, DIALECTS[0], stream=False))
        caller = Caller(agent, face)
        phase.first.wait_reached()
        assert agent.background()
        phase.open()
        result = caller.result()
        if result.stop_reason == "backgrounded":
            result = result.handle.result(20)
        assert result.text == WORDS
        until(lambda: not agent.is_running)
        assert agent.run("Go on.").text == "ok"
        assert connections(server) == 1


def test_a_second_turn():
    """A run that has left takes its later turns on the handle's thread."""
    seen = []

    def where() -> str:
        """Say where this runs."""
        seen.append(threading.current_thread().name)
        return "here"

    phase = Phase()
    first = say("Wait.", call("where"), acts=[Send(2), Stall(phase.first), Send()])
    with FakeServer(Replies(first, say("Done."))) as server:
        agent = Agent(model_on(server, DIALECTS[0]), tools=[where])
        caller = Caller(agent)
        phase.first.wait_reached()
        agent.background()
        phase.open()
        handle = caller.result().handle
        final = check_finished(handle, agent, "Done.")
        assert (len(server.requests), connections(server)) == (3, 1)
    assert [tool.outcome for tool in final.tool_outcomes] == ["done"]
    assert seen[0].startswith("syncagent-run-")
    kinds = [type(event) for event in said_after(handle)]
    assert kinds.count(TurnFinished) == 2
    assert MessageStarted in kinds
