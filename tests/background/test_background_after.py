"""What is so of a run after it was sent to the background."""

import gc
import threading

import pytest
from support.background import (
    FACES,
    Caller,
    check_finished,
    check_released,
    late_thread,
    said_after,
)
from support.threads import LONG, until

from syncagent import Agent, AgentBusy, ToolContext, tool
from syncagent.events import RunFinished, TextDelta, ToolStarted
from syncagent.exceptions import ProviderUnavailable
from syncagent.messages import UserMessage
from syncagent.testing import FakeClock, Gate, ScriptedModel, call, complaints, say

LAST = "All is done."


class Away:
    """A run in the background, whose tool stands at a gate."""

    def __init__(self, face="run", *script, settings=None, **given):
        self.gate = Gate()

        @tool(isolation="thread")
        def block(ctx: ToolContext) -> str:
            """Wait."""
            self.gate.stop_here(token=ctx.token)
            return "blocked"

        script = script or (LAST,)
        model = ScriptedModel([say("One.", call("block")), *script, *["ok"] * 9])
        self.agent = Agent(model, tools=[block], **(settings or {}))
        self.caller = Caller(self.agent, face, **given)
        self.gate.wait_reached()
        assert self.agent.background()
        self.result = self.caller.result()
        self.handle = check_released(self.result, self.agent)

    def finish(self):
        self.gate.open()
        return check_finished(self.handle, self.agent, LAST)


def check_cancelled(away, origin="user", stop="cancelled"):
    """See that the run was cancelled, and that the agent is of use after it."""
    result = away.handle.result(LONG)
    assert result.stop_reason == stop
    assert result.cancellation.origin == origin
    assert [each.outcome for each in result.tool_outcomes] == ["interrupted"]
    assert complaints(away.agent.messages) == {}
    assert away.agent.run("Go on.").stop_reason == "end_turn"
    return result


# -- ending it -------------------------------------------------------------------------


@pytest.mark.parametrize("face", FACES)
def test_a_cancel_of_the_foreground_spares_it(face):
    """Promise 3: nothing that it could have hit was live, and its receipt says so."""
    away = Away(face)
    for mode in ("now", "after_tools", "after_turn"):
        receipt = away.agent.cancel("enough", mode=mode)
        assert not receipt
        assert receipt.wait(0)
    assert not away.agent.cancel(force=True)
    assert not away.agent.cancel_signal.is_set()
    away.finish()


@pytest.mark.parametrize("face", FACES)
def test_a_cancel_that_means_the_background_hits_it(face):
    """Promise 3: and can be waited for, on the thread that was released too."""
    away = Away(face)
    receipt = away.agent.cancel("enough", background="cancel")
    assert receipt
    assert receipt.first
    assert receipt.wait(LONG)
    check_cancelled(away)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("how", ["cancel", "interrupt", "shutdown"])
def test_its_handle_ends_it(how, face):
    """Promise 3: by each of the three, with its own word for the end."""
    away = Away(face)
    receipt = getattr(away.handle, how)()
    assert receipt
    assert receipt.wait(LONG)
    stop = "shutdown" if how == "shutdown" else "cancelled"
    origin = "shutdown" if how == "shutdown" else "user"
    check_cancelled(away, origin, stop)
    away.handle.close()
    assert away.handle.done()


@pytest.mark.parametrize("face", FACES)
def test_a_deadline_still_counts(face):
    """Promise 2: the run has the time that it was given at its begin."""
    with FakeClock() as clock:
        away = Away(face, timeout=60)
        clock.advance(61)
        check_cancelled(away, "deadline")


@pytest.mark.parametrize("face", FACES)
def test_an_event_of_the_callers_own_still_counts(face):
    """Promise 2: it was given for the run, wherever that is; it is let go after it."""
    event = threading.Event()
    away = Away(face, cancel=event)
    event.set()
    result = check_cancelled(away)
    assert result.cancelled
    assert event.is_set()


@pytest.mark.parametrize("face", FACES)
def test_a_run_that_fails_later(face):
    """The caller is long gone: the handle raises it."""
    away = Away(face, ProviderUnavailable("busy"))
    away.gate.open()
    with pytest.raises(ProviderUnavailable, match="busy"):
        away.handle.result(LONG)
    until(away.handle.done)
    assert away.handle.state == "failed"
    assert complaints(away.agent.messages) == {}
    assert away.agent.run("Go on.").stop_reason == "end_turn"


# -- right after it --------------------------------------------------------------------


class Sudden:
    """A run that is sent to the background on this thread, by its own tool.

    The thread that is to go on with it has not made a step yet.
    """

    def __init__(self, face):
        def leave() -> str:
            """Ask for the background."""
            self.agent.background()
            return "left"

        model = ScriptedModel([say("One.", call("leave")), LAST, *["ok"] * 9])
        self.agent = Agent(model, tools=[leave])
        if face == "stream":
            *_, last = self.agent.stream("Do it.")
            self.result = last.result
        else:
            self.result = self.agent.run("Do it.")
        self.handle = check_released(self.result, self.agent)


@pytest.mark.parametrize("face", ["run", "stream"])
def test_the_caller_waits_for_its_cancel(face):
    """Promise 3: the thread that was released is no part of the run any more."""
    with late_thread() as gate:
        sudden = Sudden(face)
        receipt = sudden.agent.cancel(background="cancel")
        gate.open()
        assert receipt.wait(LONG)
    assert sudden.handle.result(LONG).cancelled


@pytest.mark.parametrize("face", ["run", "stream"])
def test_the_caller_stands_in_line(face):
    """It does not wait for itself, as it has left the run."""
    with late_thread() as gate:
        sudden = Sudden(face)
        threading.Timer(0, gate.open).start()
        result = sudden.agent.run("Next.", on_busy="queue")
    assert sudden.handle.result(0).text == LAST
    assert result.text == "ok"


def test_who_starts_one_can_wait_for_its_cancel():
    """Promise 3: from the first moment on, also if its thread has not begun."""
    agent = Agent(ScriptedModel(["x"]))
    with late_thread() as gate:
        handle = agent.start("Do it.")
        receipt = handle.cancel()
        gate.open()
        assert receipt.wait(LONG)
    assert handle.result(LONG).cancelled


@pytest.mark.parametrize("face", FACES)
def test_who_runs_it_next_waits_for_it(face):
    """on_busy="queue": the next run begins when it has ended, and knows all of it."""
    away = Away(face)
    following = Caller(away.agent, "run", "Next.", on_busy="queue")
    until(lambda: away.agent._conversation.line)
    away.gate.open()
    assert following.result().text == "ok"
    assert away.handle.result(0).text == LAST
    assert prompts(away.agent.messages) == ["Do it.", "Next."]


# -- beside it -------------------------------------------------------------------------


@pytest.mark.parametrize("face", FACES)
def test_a_fork_has_the_conversation_before_it(face):
    """The foreground can go on with what was settled, and neither sees the other."""
    away = Away(face)
    fork = away.agent.fork()
    assert fork.messages == ()
    assert not fork.is_running
    away.finish()
    assert fork.messages == ()


def test_a_fork_has_what_nobody_has_answered():
    """What was said before, and joined with what is said now, is not lost in it."""
    gate, ready = Gate(), threading.Event()
    ready.set()
    agent = Agent(ScriptedModel([gate, LAST, "ok", "ok"]))
    agent.run("Before.", cancel=ready)
    before = agent.messages
    assert len(before) == 1
    caller = Caller(agent, "backgroundable", "Now.")
    gate.wait_reached()
    assert agent.background()
    check_released(caller.result(), agent)
    assert agent.fork().messages == before
    gate.open()
    until(lambda: not agent.is_running)


@pytest.mark.parametrize("face", FACES)
def test_steering(face):
    """What is sent is heard after the tool round, in order, before the next turn."""
    away = Away(face)
    away.handle.send_input("One more.")
    away.handle.send_input("And one.")
    away.finish()
    asked = away.agent.model.requests[1]
    assert prompts(asked) == ["Do it.", "One more.", "And one."]
    with pytest.raises(ValueError, match="is over"):
        away.handle.send_input("Too late.")


def prompts(messages):
    """Return what the user has said."""
    said = [message for message in messages if isinstance(message, UserMessage)]
    return [block.text for message in said for block in message.content]


class Counts:
    """A hook that counts."""

    def __init__(self):
        self.events, self.ends = [], []

    def on_event(self, event):
        self.events.append(event)

    def on_finish(self, result):
        self.ends.append(result)


@pytest.mark.parametrize("face", FACES)
def test_hooks_see_it_once(face):
    """Every event, and the end, once: the hand-over is no end."""
    counts = Counts()
    away = Away(face, settings={"hooks": [counts]})
    assert counts.ends == []
    assert not any(isinstance(e, RunFinished) for e in counts.events)
    away.gate.open()
    result = away.handle.result(LONG)
    until(away.handle.done)
    assert counts.ends == [result]
    finished = [e for e in counts.events if isinstance(e, RunFinished)]
    assert [e.result for e in finished] == [result]
    said = "".join(e.text for e in counts.events if isinstance(e, TextDelta))
    assert said == f"One.{LAST}"
    assert sum(isinstance(e, ToolStarted) for e in counts.events) == 1


@pytest.mark.parametrize("how", ["closed", "dropped"])
def test_a_stream_that_is_let_go_after_it(how):
    """Promise 3: who has left the run does not cancel it any more."""
    gate = Gate()
    agent = Agent(ScriptedModel([say("One, two, three.", call("go")), gate, LAST]))
    stream = agent.stream("Do it.")
    for event in stream:
        if isinstance(event, TextDelta):
            agent.background()
        if isinstance(event, RunFinished):
            break
    handle = stream.result.handle
    gate.wait_reached()
    if how == "closed":
        stream.close()
    del stream
    gc.collect()
    assert agent.is_running
    gate.open()
    assert handle.result(LONG).text == LAST


def test_a_stream_that_is_closed_before_it_leaves():
    """What was asked for is not so yet: to close it is to cancel it."""
    agent = Agent(ScriptedModel(["One, two, three.", "ok"]))
    with agent.stream("Do it.") as stream:
        for event in stream:
            if isinstance(event, TextDelta):
                assert agent.background()
                break
    assert stream.result.cancelled
    assert stream.result.handle is None
    assert agent.run("Go on.").text == "ok"


def test_it_is_followed_from_the_hand_over_on():
    """Any number may follow, also later; each sees the end."""
    away = Away("stream")
    before = away.handle.subscribe()
    away.finish()
    assert said_after(away.handle) == list(before)
    [finished] = [e for e in said_after(away.handle) if isinstance(e, RunFinished)]
    assert finished.result == away.handle.result()


def test_a_tool_of_it_does_not_wait_for_itself():
    """handle.result() in a tool of the run raises, on whatever thread that is."""
    box, gate = [], Gate()

    def wait() -> str:
        """Wait for the run."""
        gate.stop_here()
        with pytest.raises(AgentBusy):
            box[0].result()
        return "could not"

    script = [say("One.", call("wait"), call("wait", {}, "c2")), LAST]
    agent = Agent(ScriptedModel(script), tools=[wait])
    caller = Caller(agent, "backgroundable")
    gate.wait_reached()
    agent.background()
    box.append(caller.result().handle)
    gate.open()
    assert [t.outcome for t in box[0].result(LONG).tool_outcomes] == ["done"] * 2
