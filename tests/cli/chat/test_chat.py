"""A conversation in a terminal: what is typed, what is shown, what is stopped."""

import os
import re
import socket

import pytest
from console import chat

from syncagent import Agent
from syncagent.testing import Gate, ScriptedModel, Send, Stall, Status, call, say

WORDS = "Once upon a time there was a thread that waited for a token. " * 3


def told(server, number=-1):
    """Return what the model was told, in words."""
    return [
        (message["role"], message["content"])
        for message in server.requests[number].payload["messages"]
    ]


def test_a_conversation(start, server):
    """What is said is answered, and the model is told all of it."""
    server.add("Hello to you.", "I remember.")
    console = start(is_fresh=True)
    console.enter("Good day")
    console.wait_for("Hello to you.")
    console.wait_for_prompt()
    console.enter("Do you remember?")
    console.wait_for("I remember.")
    console.wait_for_prompt()
    assert [words for _, words in told(server)] == [
        *("Good day", "Hello to you.", "Do you remember?"),
    ]
    assert console.text.count("Good day") == 1
    console.press("ctrl-c")
    console.wait_for("again to leave")
    console.press("ctrl-c")
    assert console.wait_for_end() == 0
    assert console.is_restored()
    assert "Good day" in console.text


@pytest.mark.parametrize("key", ["ctrl-c", "escape"])
def test_an_answer_is_stopped_and_kept(start, server, key):
    """Promises 2, 5 and 8: it ends at once, what was said stays, and it goes on."""
    server.add(say(WORDS, acts=[Send(12), Stall()]), "Well.")
    console = start()
    console.enter("Tell me a story")
    console.wait_for("Once upon")
    console.press(key)
    console.wait_for("stopped; the text so far is kept")
    console.wait_for_prompt()
    server.wait_for_hang_up()
    assert "Once upon" in console.text
    console.enter("And then?")
    console.wait_for("Well.")
    console.wait_for_prompt()
    _, words = told(server)[1]
    assert "Once upon" in str(words)
    assert "interrupted" in str(words)


def test_what_is_typed_meanwhile_is_said_afterwards(start, server):
    """--while-busy queue: one after the other, in order."""
    gate = Gate()
    server.add(say(WORDS, acts=[Send(12), Stall(gate), Send()]), "Two.", "Three.")
    console = start()
    console.enter("one")
    console.wait_for("Once upon")
    console.enter("two")
    console.wait_for("queued: two")
    console.enter("three")
    console.wait_for("queued: three")
    gate.open()
    console.wait_for("Three.")
    console.wait_for_prompt()
    users = [words for role, words in told(server) if role == "user"]
    assert users == ["one", "two", "three"]


def test_what_was_queued_comes_back_when_it_is_stopped(start, server):
    """Nothing typed is lost: whoever stops the answer decides anew."""
    server.add(say(WORDS, acts=[Send(12), Stall()]), "Yes.")
    console = start()
    console.enter("one")
    console.wait_for("Once upon")
    console.enter("two")
    console.wait_for("queued: two")
    console.type("thr")
    console.wait_for(lambda: console.input == "> thr")
    console.press("ctrl-c")
    console.wait_for(lambda: console.input == "  thr")
    assert "> two" in console.rows
    console.type("ee")
    console.press("enter")
    console.wait_for("Yes.")
    assert told(server)[-1] == ("user", "two\nthree")


def test_what_is_typed_steers(start, server):
    """--while-busy steer: it is heard when the tools of the round have ended."""
    server.add(say("I rest.", call("nap", {"seconds": 0.8})), "As you like.")
    console = start("--while-busy", "steer")
    console.enter("rest")
    console.wait_for("nap(seconds=0.8)  ")
    console.enter("use the other one")
    console.wait_for("passed on at the next safe point")
    console.wait_for("As you like.")
    console.wait_for_prompt()
    assert len(server.requests) == 2
    assert "use the other one" in str(told(server)[-1])


def test_what_is_typed_interrupts(start, server):
    """--while-busy interrupt: it takes the place of what goes on, which is kept."""
    server.add(say(WORDS, acts=[Send(12), Stall()]), "At once.")
    console = start("--while-busy", "interrupt")
    console.enter("one")
    console.wait_for("Once upon")
    console.enter("no, two")
    console.wait_for("At once.")
    console.wait_for_prompt()
    assert "Once upon" in str(told(server)[1])
    assert told(server)[-1] == ("user", "no, two")


def test_tools_are_shown_at_work(start, server):
    """With a timer that runs, with how far they are, and what they print."""
    server.add(say("Let me see.", call("chatter")), "Never.")
    console = start()
    console.enter("go")
    console.wait_for("printed by a tool")
    console.wait_for("half way")
    console.wait_for_timer("chatter()")
    console.wait_for("15 tokens")
    console.press("escape")
    console.wait_for("chatter()  interrupted")
    console.wait_for_prompt()
    assert console.text.count("Let me see.") == 1
    assert console.text.count("printed by a tool") == 1


@pytest.mark.parametrize("key", ["ctrl-c", "escape"])
@pytest.mark.parametrize("name", ["sleeper", "fetcher", "spinner", "cruncher"])
def test_a_plain_function_gives_the_prompt_back(start, server, name, key):
    """Item 4: at the first key, whatever it does, and the chat can be left at once."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        arguments = {"url": url} if name == "fetcher" else {}
        server.add(say("Hm.", call(name, arguments)), "Fine.")
        console = start()
        console.enter("go")
        console.wait_for(f"{name} has begun")
        console.press(key)
        console.wait_for("left running (abandoned)")
        console.wait_for("(stopped; the text so far is kept")
        console.wait_for_prompt()
        console.wait_for("1 tool left running")
        console.enter("are you there?")
        console.wait_for("Fine.")
        console.wait_for_prompt()
        console.press("ctrl-d")
        assert console.wait_for_end() == 0
    assert "Stopping" not in console.text
    assert "warning" not in console.text  # the line of the tool says it


def test_a_tool_that_wants_to_be_waited_for_is(start, server):
    """The prompt is there at once, and Ctrl+B has it go on without us."""
    server.add(say("Hm.", call("stubborn")), "Fine.")
    console = start()
    console.enter("go")
    console.wait_for(lambda: console.timer("stubborn()") is not None)
    console.press("ctrl-c")
    console.wait_for("stopping, ")
    console.press("ctrl-c")
    console.wait_for("forced to stop")
    console.press("ctrl-b")
    console.wait_for("as run 1")
    console.wait_for_prompt()
    console.enter("are you there?")
    console.wait_for("Fine.")
    console.wait_for("run 1 in the background was stopped")


def test_errors_are_words(start, server):
    """Never a traceback, and the conversation can be used."""
    server.add(
        say("no", acts=[Status(401, "the key is wrong")]),
        say("no", acts=[Status(400, "too many pictures")]),
        "Now it works.",
    )
    console = start()
    for wanted in ("Unauthorized", "answered 400", "Now it works."):
        console.enter("hello")
        console.wait_for(wanted)
        console.wait_for_prompt()
    assert "Traceback" not in console.text


def test_what_a_model_says_does_nothing_to_the_terminal(start, server):
    """Escape sequences, of a model or in a tool's arguments, are shown, not obeyed."""
    evil = "a\x1b]0;owned\x07b\x1b[2J\x1b[31mred\x9b5mc\rd\x1b[?2004h\x7f\u202eabc"
    server.add(say(evil, call("delete", {"path": evil})))
    console = start()
    console.enter("hello")
    console.wait_for("[y]es  [n]o  [a]lways")
    console.press("escape")
    console.wait_for_prompt()
    for sequence in (
        b"\x1b]0;",
        b"\x1b[31mred",
        b"\xc2\x9b",
        b"\x07",
        "\u202e".encode(),
    ):
        assert sequence not in console.raw
    assert "␛[2J" in console.text
    assert "hello" in console.text


def test_five_thousand_lines(start, server):
    """A long answer comes whole and in order, and keys are heard meanwhile."""
    lines = [f"line {number} of many" for number in range(5000)]
    server.add("\n".join(lines), "Yes.")
    console = start()
    console.enter("go")
    console.type("typed meanwhile")
    console.wait_for(lambda: "line 4999 of many" in console.rows)
    console.wait_for(lambda: console.input == "> typed meanwhile")
    shown = [row for row in console.text.splitlines() if row.startswith("line ")]
    assert shown == lines
    console.press("enter")
    console.wait_for("Yes.")


def test_wide_characters(start, server):
    """Letters of two columns, marks of none: typed, shown and wrapped."""
    server.add("漢字仮名交じり文" * 12 + " e\u0301nd")
    console = start(columns=41)
    console.enter("日本語 é")
    console.wait_for("nd")
    console.wait_for_prompt()
    assert "> 日本語 é" in console.text
    assert console.text.count("漢字仮名交じり文"[0]) == 12
    assert told(server)[0] == ("user", "日本語 é")
    console.type("漢字x")
    console.wait_for(lambda: console.screen.cursor.x == 7)
    console.press("left", "left")
    console.type("y")
    console.wait_for(lambda: "漢y字x" in console.text)


def test_a_paste_is_one_message(start, server):
    """Line ends in a paste do not send it; Ctrl+J is a new line."""
    server.add("Seen.")
    console = start()
    console.type("\x1b[200~first\r\nsecond\n\x1b[201~third")
    console.press("ctrl-j")
    console.type("fourth")
    console.wait_for("  fourth")
    console.press("enter")
    console.wait_for("Seen.")
    assert told(server) == [("user", "first\nsecond\nthird\nfourth")]


def test_the_window_becomes_another_size(start, server):
    """While an answer comes and while one types; nothing is lost."""
    gate = Gate()
    server.add(say(WORDS, acts=[Send(20), Stall(gate), Send()]))
    console = start()
    console.enter("go")
    console.wait_for("Once upon")
    console.type("typed")
    console.wait_for(lambda: console.input == "> typed")
    console.resize(50, 12)
    console.type(" on")
    console.wait_for(lambda: console.input == "> typed on")
    gate.open()
    console.wait_for("15 tokens")
    console.resize(100, 30)
    console.type("!")
    console.wait_for(lambda: console.input == "> typed on!")


def test_the_arrow_keys_bring_back_what_was_said(start, server):
    """But no answers, and no secrets."""
    server.add("One.", say("Now.", call("push")), "Pushed.")
    console = start()
    console.enter("first")
    console.wait_for("One.")
    console.wait_for_prompt()
    console.enter("push")
    console.wait_for("(hidden)")
    console.type("s3cret")
    console.press("enter")
    console.wait_for("Pushed.")
    console.wait_for_prompt()
    assert "s3cret" not in console.text
    assert b"s3cret" not in console.raw
    assert "6 letters" in str(told(server))
    console.press("up")
    console.wait_for(lambda: console.input == "> push")
    console.press("up")
    console.wait_for(lambda: console.input == "> first")


def test_bytes_that_are_no_text(start, server):
    """They are said as signs for what cannot be read, and the line can be sent."""
    server.add("What?")
    console = start()
    os.write(console.master, b"caf\xe9 au lait")
    console.wait_for(lambda: "au lait" in console.input)
    console.press("enter")
    console.wait_for("What?")
    assert told(server)[-1] == ("user", "caf\N{REPLACEMENT CHARACTER} au lait")


@pytest.mark.parametrize("wish", ["", "1"])
def test_no_colour_if_somebody_wants_none(start, server, wish):
    """NO_COLOR counts for what is said, and for what is shown at work."""
    server.add(say("Let me see.", call("wait")))
    console = start(NO_COLOR=wish)
    console.enter("wait")
    console.wait_for_timer("wait()")
    console.press("ctrl-c")
    console.wait_for("(stopped")
    console.wait_for_prompt()
    styles = re.findall(rb"\x1b\[([0-9;]*)m", console.raw)
    numbers = {int(each or 0) for style in styles for each in style.split(b";")}
    assert not wish or numbers <= {0, 1, 2, 7}
    assert wish or numbers & {2, 90}  # dim, or grey


def test_what_is_typed_before_it_runs_is_said(start, server, tmp_path):
    """A line that was sent is said, and what was not sent can be typed on."""
    pipe = tmp_path / "talk.json"
    os.mkfifo(pipe)
    server.add("Hello.", "Good bye.")
    console = start("--load", str(pipe), is_waited_for=False)
    console.type("I am early\rand th")  # it waits for the file meanwhile
    console.wait_for("and th")
    pipe.write_text(Agent(ScriptedModel([])).save())
    console.wait_for("Hello.")
    console.wait_for(lambda: console.input == "> and th")
    console.type("en?")
    console.press("enter")
    console.wait_for("Good bye.")
    assert told(server, 0) == [("user", "I am early")]
    assert told(server)[-1] == ("user", "and then?")


def test_the_demo_model_has_the_name_that_model_takes():
    """And not that of the dialect in which it is scripted."""
    with chat("--model", "demo") as console:
        console.wait_for_prompt()
        console.enter("/model")
        console.wait_for("> /model\ndemo\n")
        console.press("ctrl-d")
        assert console.wait_for_end() == 0


def test_escape_counts_while_words_keep_coming():
    """They come faster than ESC is told from other keys, and do not put it off."""
    with chat("--model", "demo") as console:
        console.wait_for_prompt()
        console.enter("tell me a story")  # a word every 25 milliseconds
        console.wait_for("Once upon a time")
        console.press("escape")
        console.wait_for("(stopped; the text so far is kept")
