"""Work that goes on in the background, and how it comes back."""

import pytest

from syncagent.testing import Gate, Send, Stall, call, say

WORDS = "Once upon a time there was a thread that waited for a token. " * 3


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def moved(start, server, gate):
    """A conversation whose first answer goes on in the background."""
    server.add(say(WORDS, acts=[Send(12), Stall(gate), Send()]))
    console = start()
    console.enter("a story")
    console.wait_for("Once upon")
    console.press("ctrl-b")
    console.wait_for("as run 1")
    console.wait_for_prompt()
    yield console
    gate.open()


def told(server):
    return [str(each["content"]) for each in server.requests[-1].payload["messages"]]


def test_it_is_said_when_it_is_done_and_the_conversation_goes_on(moved, server, gate):
    """Where nothing was said meanwhile, the answer is a part of the conversation."""
    gate.open()
    moved.wait_for("run 1 in the background is done")
    moved.wait_for("the conversation continues from there")
    server.add("A nice one.")
    moved.enter("did you like it?")
    moved.wait_for("A nice one.")
    assert told(server) == ["a story", WORDS, "did you like it?"]


def test_the_foreground_goes_on_without_it(moved, server, gate):
    """What was said meanwhile knows nothing of it, and hears of it afterwards."""
    server.add("Four.")
    moved.enter("two and two?")
    moved.wait_for("Four.")
    moved.wait_for_prompt()
    assert told(server) == ["two and two?"]
    gate.open()
    moved.wait_for("the model learns it with your next message")
    server.add("Fine.")
    moved.enter("and now?")
    moved.wait_for("Fine.")
    assert told(server)[:2] == ["two and two?", "Four."]
    assert WORDS.strip() in told(server)[-1]
    assert "and now?" in told(server)[-1]


def test_runs_are_listed_shown_and_stopped(moved, server, gate):
    """/runs, /runs N, /runs N stop; Ctrl+C has nothing to do with them."""
    moved.enter("/runs")
    moved.wait_for("run 1: running, ")
    moved.enter("/runs 1")
    moved.wait_for(lambda: moved.text.count("Once upon") == 2)
    moved.enter("/runs 7")
    moved.wait_for("no run 7")
    moved.press("ctrl-c")
    moved.wait_for("1 in the background will be stopped")
    moved.enter("/runs 1 stop")
    moved.wait_for("run 1 in the background was stopped")
    server.wait_for_hang_up()
    moved.enter("/runs")
    moved.wait_for("run 1: stopped, ")


def test_a_run_that_has_ended_cannot_be_stopped(moved, server, gate):
    """The chat says so, and says when it stops one."""
    gate.open()
    moved.wait_for("run 1 in the background is done")
    moved.enter("/runs 1 stop")
    moved.wait_for("error: run 1 has already ended")


def test_a_question_in_the_background_waits(start, server):
    """Nothing is approved by that, and it is asked when somebody wants it to be."""
    server.add(say("May I?", call("delete", {"path": "/a"})), "Gone.")
    console = start()
    console.enter("delete it")
    console.wait_for("[y]es  [n]o  [a]lways  [e]dit")
    console.press("ctrl-b")
    console.wait_for("as run 1")
    console.wait_for_prompt()
    console.enter("/runs")
    console.wait_for("run 1: waits for your answer")
    console.enter("/runs 1")
    console.wait_for("[run 1] [y]es  [n]o  [a]lways  [e]dit")
    console.enter("yes")
    console.wait_for("run 1 in the background is done")
    console.wait_for("Gone.")


def test_a_question_that_comes_up_there_is_announced(start, server, gate):
    """It does not take over the line."""
    reply = say("May I?", call("delete", {"path": "/a"}), acts=[Stall(gate), Send()])
    server.add(reply, "Gone.")
    console = start()
    console.enter("delete it")
    console.wait_for("waiting for the model")
    console.enter("/background")
    console.wait_for("as run 1")
    gate.open()
    console.wait_for("run 1 in the background waits for your answer: /runs 1")
    console.wait_for_prompt()


def test_an_error_there_is_said(start, server, gate):
    """In words, once, and the conversation is the one before."""
    server.add(say("cut", acts=[Stall(gate)]))
    console = start()
    console.enter("go")
    console.wait_for("waiting for the model")
    console.press("ctrl-b")
    console.wait_for("as run 1")
    gate.open()
    console.wait_for("run 1 in the background failed")
    server.add("Fine.")
    console.enter("hello")
    console.wait_for("Fine.")
    assert told(server) == ["hello"]
