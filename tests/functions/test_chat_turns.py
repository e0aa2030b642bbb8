"""A chat as a function: whatever ends a turn, its history can be gone on with."""

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.threads import LONG, meanwhile, together
from workbench import Point, model

from syncagent import (
    AgentBusy,
    CancelToken,
    ConfigurationError,
    Image,
    RunFinished,
    llm_chat,
    tool,
)
from syncagent.cancel import live_runs
from syncagent.events import TextDelta
from syncagent.messages import AssistantMessage, Message, UserMessage
from syncagent.testing import Gate, ScriptedModel, call, complaints, say


def talk(message: Any, history: list[Message] | None = None) -> None:
    """You are a patient tutor."""


def chat_of(*script, **settings):
    return llm_chat(model(*script), **settings)(talk)


def check(history, chat):
    """See that all would take the history, and a chat goes on with it."""
    assert complaints(history) == {}
    assert isinstance(history[0], UserMessage)
    *_, last = chat.using(model=model("Gladly."))("Go on.", history)
    assert last.result.text == "Gladly."
    assert complaints(history) == {}


def test_a_turn_of_a_chat():
    """Events come, the last is RunFinished, and the list is longer."""
    chat, history = chat_of("Four.", "Five."), []
    events = list(chat("2 + 2?", history))
    assert isinstance(events[-1], RunFinished)
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Four."
    assert [type(each) for each in history] == [UserMessage, AssistantMessage]
    assert tuple(history) == events[-1].result.messages
    list(chat("2 + 3?", history))
    assert [each.content[0].text for each in history[2:]] == ["2 + 3?", "Five."]


def test_the_docstring_is_the_system_prompt():
    """It is not said in the conversation, where it would be said each time."""
    chat = chat_of("Hello.")
    assert chat.agent().system == "You are a patient tutor."
    with chat("Hi", history=[]) as stream:
        list(stream)
    assert stream.history[0].content[0].text == "Hi"


def test_the_history_is_there_before_the_last_event():
    """Who breaks at the last event has it."""
    chat, history = chat_of("Hello."), []
    for event in chat("Hi", history):
        if isinstance(event, RunFinished):
            assert len(history) == 2
            break
    assert len(history) == 2


@pytest.mark.parametrize("history", [None, (), []])
def test_a_new_conversation(history):
    """Nothing, and nothing in it, is the same; a tuple is left as it is."""
    with chat_of("Hello.")("Hi", history) as stream:
        assert stream.history == ()
        list(stream)
    assert len(stream.history) == 2
    assert history in (None, (), list(stream.history))


def test_a_history_that_cannot_be_changed():
    """A tuple is gone on with, and the new one is on the stream."""
    chat = chat_of("One.", "Two.")
    first = chat("Hi")
    list(first)
    second = chat("And?", first.history)
    list(second)
    assert len(first.history) == 2
    assert second.history[:2] == first.history
    assert len(second.history) == 4


def test_what_else_is_given_is_data():
    """It stands below what the user says; pictures are shown."""
    said = model("ok", "ok")

    @llm_chat(said)
    def teach(
        chat_history: list[Message], question: Any, level: int, at: Point
    ) -> Iterator[Any]:
        """Teach."""

    list(teach([], "What is a thread?", level=3, at=Point(1)))
    text = said.requests[0][0].content[0].text
    assert text.startswith("What is a thread?\n\nThe arguments of this call")
    assert '"level": 3' in text
    list(teach([], ["Look:", Image(b"1")], 3, Point(1)))
    words, picture, data = said.requests[1][0].content
    assert (words.text, picture) == ("Look:", Image(b"1"))
    assert '"level": 3' in data.text


@pytest.mark.parametrize("way", ["break", "close", "with", "drop"])
def test_a_turn_that_is_left(way):
    """Promise 4: what was said so far is kept, marked, and valid."""
    chat, history = chat_of("Once upon a time"), []
    stream = chat("A story!", history)
    for event in stream:
        if isinstance(event, TextDelta):
            break
    if way == "close":
        stream.close()
    elif way == "with":
        with stream:
            pass
    del stream
    assert [type(each) for each in history] == [UserMessage, AssistantMessage]
    assert history[1].is_cut
    assert history[1].text.startswith("Once ")
    check(history, chat)


def test_a_turn_in_a_loop_that_is_left():
    """The plainest way to stop: nobody holds the stream."""
    chat, history = chat_of("Once upon a time"), []
    for event in chat("A story!", history):
        if isinstance(event, TextDelta):
            break
    assert history[1].is_cut
    check(history, chat)


def test_a_turn_that_was_never_begun():
    """Nobody has heard it: the history is as it was, and free."""
    chat, history = chat_of("Hello."), []
    stream = chat("Hi", history)
    del stream
    gc.collect()
    assert history == []
    list(chat("Hi", history))
    assert len(history) == 2


def test_a_turn_that_is_closed_before_it_began():
    """What the user has said is kept."""
    chat, history = chat_of("never"), []
    chat("Hi", history).close()
    assert isinstance(history[0], UserMessage)
    check(history, chat)


@pytest.mark.parametrize("kind", [CancelToken, threading.Event, None])
def test_a_turn_that_is_cancelled_from_a_thread(kind):
    """Promise 2: the last event says so, nothing is raised, the history is valid."""
    gate = Gate()
    chat, history = chat_of(gate, "never said"), []
    stop = kind() if kind else None
    stream = chat("Hi", history, cancel=stop) if kind else chat("Hi", history)

    def cancel():
        gate.wait_reached()
        if kind is threading.Event:
            stop.set()
        else:
            assert (stop or stream).cancel("enough")

    with meanwhile(cancel):
        *_, last = stream
    assert last.result.stop_reason == "cancelled"
    assert last.result.messages == tuple(history) == stream.history
    check(history, chat)


def test_a_timeout_of_a_turn():
    """It ends as a cancel does."""
    chat, history = chat_of(Gate(), "never"), []
    *_, last = chat("Hi", history, timeout=0.05)
    assert last.result.cancellation.origin == "deadline"
    check(history, chat)


def test_an_error_in_the_middle():
    """It is raised where the next event would be; the history has what there was."""
    chat, history = chat_of(say(call("look", {})), TimeoutError("gone")), []
    seen = []
    with pytest.raises(TimeoutError, match="gone"):
        seen.extend(chat.using(tools=[look])("Hi", history))
    assert len(history) >= 3
    check(history, chat)


@tool
def look() -> str:
    """Look."""
    return "seen"


@tool(requires_approval=True)
def shoot() -> str:
    """Shoot."""
    raise AssertionError("nobody has allowed that")


def test_a_question_that_nobody_answers():
    """The turn ends with it, and the call is not left open in the history."""
    chat, history = chat_of(say(call("shoot", {})), tools=[shoot]), []
    *_, last = chat("Hi", history)
    assert last.result.stop_reason == "interrupt"
    assert [asked.tool for asked in last.result.interrupts] == ["shoot"]
    check(history, chat)


def test_a_tool_that_stops_its_own_turn():
    """Promise 1: from inside, and the tool's result is kept."""
    stop = CancelToken()

    @tool
    def halt() -> str:
        """Halt."""
        stop.cancel("halted")
        return "halted"

    chat, history = chat_of(say(call("halt", {})), tools=[halt]), []
    *_, last = chat("Hi", history, cancel=stop)
    assert last.result.cancelled
    assert history[2].content[0].content[0].text == "halted"
    check(history, chat)


def test_a_turn_that_goes_on_in_the_background():
    """The history is valid, with a tool that still runs; the handle has the rest."""
    gate = Gate()

    @tool(isolation="thread")
    def wait(ctx) -> str:
        """Wait."""
        gate.stop_here(token=ctx.token)
        return "done"

    def send_away():
        gate.wait_reached()
        live_runs()[0].token.request_background()

    chat, history = chat_of(say(call("wait", {})), "Done.", tools=[wait]), []
    with meanwhile(send_away):
        *_, last = chat("Hi", history)
    assert last.result.stop_reason == "backgrounded"
    assert complaints(history) == {}
    gate.open()
    with last.result.handle as handle:
        assert handle.result(LONG).text == "Done."
    check(history, chat)


def test_one_history_is_for_one_chat_at_a_time():
    """Two would write over each other's words; the second is refused, and may wait."""
    chat, history = chat_of("One.", "Two."), []
    first = chat("Hi", history)
    next(first)
    with pytest.raises(AgentBusy, match=r"talk: another chat .*list\(history\)"):
        chat("Ho", history)
    list(first)
    list(chat("Ho", history))
    assert len(history) == 4


def test_many_threads_have_their_own_chats():
    """Promise 9: one function, a history for each."""
    said = ScriptedModel(lambda messages: f"{len(messages)}")
    chat = llm_chat(said)(talk)
    histories = [[] for _ in range(20)]

    def converse(history):
        for number in range(3):
            for _ in chat(f"{number}", history):
                pass

    together(*(lambda h=h: converse(h) for h in histories))
    assert all(
        [m.content[0].text for m in h[1::2]] == ["1", "3", "5"] for h in histories
    )


@pytest.mark.parametrize("history", ["Hi", 7, [7], [{"role": "user"}], ["Hi"]])
def test_what_is_no_history(history):
    """It is said before anything happens."""
    with pytest.raises(
        ConfigurationError, match=r"talk: the history must be|not a message"
    ):
        chat_of("never")("Hi", history)


def test_what_is_no_message():
    """As for an agent; and the history can be used afterwards."""
    chat, history = chat_of("Hello."), []
    errors = []  # which may be kept for as long as somebody likes
    for wrong in (7, "", None):
        with pytest.raises(ConfigurationError, match="prompt") as caught:
            chat(wrong, history)
        errors.append(caught.value)
    list(chat("Hi", history))
    assert len(history) == 2


class Desk:
    """Somebody with a chat."""

    @llm_chat(ScriptedModel(lambda messages: "Yes."))
    def talk(self, message: str, history: list[Message]) -> None:
        """Be polite."""


def test_a_method_can_be_a_chat():
    """Its object is not said."""
    history = []
    *_, last = Desk().talk("Hi", history)
    assert last.result.text == "Yes."
    assert history[0].content[0].text == "Hi"


def test_an_agent_of_a_chat():
    """It goes on with the conversation, and has all that an agent has."""
    chat = chat_of("One.", "Two.")
    stream = chat("Hi")
    list(stream)
    agent = chat.agent(stream.history)
    with agent.start("And?") as handle:
        assert handle.result(LONG).text == "Two."
    assert len(agent.messages) == 4


def test_a_turn_that_another_thread_closes():
    """It ends at once, and whoever iterates keeps what was said."""
    gate = Gate()
    chat, history = chat_of(gate, "never"), []
    stream = chat("Hi", history)
    with meanwhile(lambda: (gate.wait_reached(), stream.close())):
        *_, last = stream
    assert last.result.cancellation.origin == "closed"
    check(history, chat)
