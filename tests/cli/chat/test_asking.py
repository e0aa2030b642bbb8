"""What is asked in place: approvals, questions of tools, credentials."""

import pytest

from syncagent.testing import Gate, Send, Stall, call, say

DELETE = say("May I?", call("delete", {"path": "/tmp/a"}))
ASKED = "[y]es  [n]o  [a]lways  [e]dit"


def results(server):
    """Return what the model was told that its tools have said."""
    messages = server.requests[-1].payload["messages"]
    return [each["content"] for each in messages if each["role"] == "tool"]


@pytest.fixture
def asked(start, server):
    """A conversation that asks whether something may be deleted."""
    server.add(DELETE, "So be it.")
    console = start()
    console.enter("delete it")
    console.wait_for(ASKED)
    assert 'Allow delete(path="/tmp/a")? (for good)' in console.text
    return console


@pytest.mark.parametrize(
    ("word", "told"),
    [("yes", "deleted /tmp/a"), ("N", "said no"), ("always", "deleted /tmp/a")],
)
def test_an_answer_counts(asked, server, word, told):
    """Yes, no, always, however it is written."""
    asked.enter(word)
    asked.wait_for("So be it.")
    asked.wait_for_prompt()
    assert told in str(results(server))


def test_always_is_for_later_calls_too(asked, server):
    """The next call of the tool is not asked for."""
    asked.enter("a")
    asked.wait_for("So be it.")
    asked.wait_for_prompt()
    server.add(say("Again.", call("delete", {"path": "/tmp/b"})), "Both are gone.")
    asked.enter("the other one")
    asked.wait_for("Both are gone.")
    assert asked.text.count("Allow delete") == 1


def test_what_is_no_answer_is_asked_again(asked, server):
    """A sentence is neither yes nor no, and an empty line is none."""
    asked.press("enter")
    asked.wait_for("e: edit the arguments")
    asked.enter("yesterday")
    asked.wait_for(lambda: asked.text.count("e: edit the arguments") == 2)
    asked.enter("no")
    asked.wait_for("So be it.")


def test_arguments_are_changed_and_checked(asked, server):
    """They are shown as JSON; what does not fit is said, and can be mended."""
    asked.enter("edit")
    asked.wait_for('arguments: {"path":"/tmp/a"}')
    asked.type(" oops")
    asked.press("enter")
    asked.wait_for("not valid JSON")
    asked.press("ctrl-u")
    asked.enter('{"path": 5}')
    asked.wait_for("expected str, got int")
    asked.press("ctrl-u")
    asked.enter("[1]")
    asked.wait_for("arguments must be a JSON object")
    asked.press("escape")
    asked.wait_for("(unchanged)")
    asked.wait_for(lambda: asked.input == f"{ASKED} ")
    asked.enter("e")
    asked.wait_for(lambda: asked.input == 'arguments: {"path":"/tmp/a"}')
    asked.press("ctrl-u")
    asked.enter('{"path": "/tmp/c"}')
    asked.wait_for("So be it.")
    assert results(server) == ["deleted /tmp/c"]


def test_escape_says_no_and_stops(asked, server):
    """Nothing is called, the model is not asked again, and the prompt is back."""
    asked.press("escape")
    asked.wait_for("(denied; the run is stopped)")
    asked.wait_for("not started")
    asked.wait_for_prompt()
    assert len(server.requests) == 1
    asked.enter("so?")
    asked.wait_for("So be it.")
    assert "deleted" not in str(results(server))


def test_a_line_that_is_being_typed_is_no_answer(start, server):
    """Who types when the question comes goes on typing: it is said, not taken."""
    gate = Gate()
    reply = say(
        "May I, now?", call("delete", {"path": "/a"}), acts=[Stall(gate), Send()]
    )
    server.add(reply, "No.", "Heard.")
    console = start()
    console.enter("delete it")
    console.type("happ")
    console.wait_for(lambda: console.input == "> happ")
    gate.open()
    console.wait_for("a question waits: send or clear")
    console.type("y")
    console.press("enter")
    console.wait_for("queued: happy")
    console.wait_for(ASKED)
    console.enter("n")
    console.wait_for("Heard.")
    assert server.requests[-1].payload["messages"][-1]["content"] == "happy"


def test_a_line_that_is_taken_back_lets_the_question_through(start, server):
    """An empty line is enough."""
    gate = Gate()
    reply = say(
        "May I, now?", call("delete", {"path": "/a"}), acts=[Stall(gate), Send()]
    )
    server.add(reply, "No.")
    console = start()
    console.enter("delete it")
    console.type("x")
    console.wait_for(lambda: console.input == "> x")
    gate.open()
    console.wait_for("a question waits: send or clear")
    console.type("\x7f")
    console.wait_for(ASKED)
    console.enter("n")
    console.wait_for("No.")


def test_a_tool_asks_the_user(start, server):
    """The words are what the tool gets, with what looks like a command, too."""
    server.add(say("Well.", call("inquire")), "Good.")
    console = start()
    console.enter("go")
    console.wait_for("inquire asks: Which branch?")
    console.enter("/main")
    console.wait_for("Good.")
    assert results(server) == ["on /main"]


def test_credentials_are_not_shown_and_may_be_refused(start, server):
    """An empty line is no credentials; what is given is nowhere on the screen."""
    server.add(say("Now.", call("push")), "Not pushed.", say("Now.", call("push")))
    server.add("Pushed.")
    console = start()
    console.enter("push")
    console.wait_for("push needs credentials for github.")
    console.press("enter")
    console.wait_for("Not pushed.")
    console.wait_for_prompt()
    console.enter("push again")
    console.wait_for(lambda: console.text.count("push needs") == 2)
    console.type("hunter2")
    console.wait_for_timer(
        "waiting for credentials,"
    )  # it is drawn, with what was typed
    console.wait_for_timer("waiting for credentials,")
    console.press("enter")
    console.wait_for("Pushed.")
    assert b"hunter2" not in console.raw
    assert results(server)[-1] == "pushed with 7 letters"


BOOK = say("Well.", call("book"))


def test_a_form_is_filled_in_field_by_field(start, server):
    """Defaults are in brackets; what is no value is said, and asked for again."""
    server.add(BOOK, "So be it.")
    console = start()
    console.enter("book")
    console.wait_for("Name: ")
    console.wait_for("book asks: Which table?")
    console.press("enter")
    console.wait_for("Name is required")
    console.enter("Ann")
    console.wait_for("seats (1 to 9) [2]: ")
    console.enter("twelve")
    console.wait_for("'seats' must be a whole number")
    console.press("enter")
    console.wait_for("room (1 Red, 2 Green; optional): ")
    console.enter("green")
    console.wait_for("So be it.")
    console.wait_for_prompt()
    assert results(server) == ["booked {'name': 'Ann', 'seats': 2, 'room': 'g'}"]


def test_a_form_is_declined(start, server):
    """One line says no, and the run goes on."""
    server.add(BOOK, "So be it.")
    console = start()
    console.enter("book")
    console.wait_for("Name: ")
    console.enter("Ann")
    console.wait_for("seats (1 to 9) [2]: ")
    console.enter("/decline")
    console.wait_for("So be it.")
    assert results(server) == ["not booked"]


def test_ctrl_c_in_a_form_stops_the_run(start, server):
    """As in every question; what was filled in goes to no one."""
    server.add(BOOK)
    console = start()
    console.enter("book")
    console.wait_for("Name: ")
    console.enter("Ann")
    console.wait_for("seats (1 to 9) [2]: ")
    console.press("ctrl-c")
    console.wait_for("(denied; the run is stopped)")
    console.wait_for_prompt()
    assert len(server.requests) == 1
