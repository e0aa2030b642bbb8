"""The screen of lines, on a terminal without the extra and on a dumb one."""

import os
import signal
import sys

import pytest
from console import Console, chat

from syncagent import Agent
from syncagent.testing import Gate, ScriptedModel, Send, Stall, call, say

WORDS = "Once upon a time there was a thread that waited for a token. " * 3
CHOICES = "[y]es  [n]o  [a]lways  [e]dit "
DELETE = say("May I?", call("delete", {"path": "/a"}))


@pytest.fixture(params=["plain", "dumb"])
def start(request, server):
    """Return a function that begins a conversation on one of the two terminals."""
    consoles = []

    def begin(*arguments, **settings):
        if request.param == "dumb":
            settings["TERM"] = "dumb"
        console = chat(
            *("--plain", "--model", "vllm:test", "--tools", "typed_tools:ALL"),
            *arguments,
            VLLM_BASE_URL=server.base_url,
            VLLM_API_KEY="none",
            **settings,
        )
        consoles.append(console)
        console.wait_for_prompt()
        return console

    yield begin
    for console in consoles:
        console.close()


@pytest.fixture
def plain(server):
    """A conversation whose lines readline edits."""
    with chat(
        *("--plain", "--model", "vllm:test", "--tools", "typed_tools:ALL"),
        VLLM_BASE_URL=server.base_url,
        VLLM_API_KEY="none",
    ) as console:
        console.wait_for_prompt()
        yield console


def told(server):
    return [each["content"] for each in server.requests[-1].payload["messages"]]


def test_the_prompt_comes_back(start, server):
    """Promises 2, 5 and 8: Ctrl+C stops a response at once, and it is kept."""
    server.add("Hello.", say(WORDS, acts=[Send(12), Stall()]), "Well.")
    console = start()
    console.enter("hi")
    console.wait_for("Hello.")
    console.wait_for_prompt()
    console.enter("a story")
    console.wait_for("Once upon")
    console.press("ctrl-c")
    console.wait_for("(stopped; the text so far is kept")
    console.wait_for_prompt()
    server.wait_for_hang_up()
    console.enter("/nonsense")
    console.wait_for("unknown command /nonsense")
    console.wait_for_prompt()
    console.enter("and then?")
    console.wait_for("Well.")
    console.wait_for_prompt()
    assert "Once upon" in str(told(server)[3])
    console.press("ctrl-c")
    console.wait_for("(Ctrl+C again to leave)")
    console.press("ctrl-c")
    assert console.wait_for_end() == 0
    assert console.is_restored()


def test_a_dumb_terminal_gets_no_sequences(server):
    """Nothing but text and line ends."""
    server.add("Hello.")
    with chat(
        *("--model", "vllm:test"),
        VLLM_BASE_URL=server.base_url,
        VLLM_API_KEY="none",
        TERM="dumb",
    ) as console:
        console.wait_for_prompt()
        console.enter("hi")
        console.wait_for("Hello.")
        console.wait_for_prompt()
        assert b"\x1b" not in console.raw


@pytest.mark.parametrize("state", ["idle", "streaming", "tool"])
def test_ctrl_d_leaves(start, server, state):
    """At the prompt, and while a run is live, which is stopped."""
    reply = say(WORDS, acts=[Send(12), Stall()])
    server.add(say("Let me see.", call("wait")) if state == "tool" else reply)
    console = start()
    if state != "idle":
        console.enter("go")
        console.wait_for("Let me see." if state == "tool" else "Once upon")
    console.press("ctrl-d")
    assert console.wait_for_end() == 0
    assert console.is_restored()
    assert "Traceback" not in console.text


@pytest.mark.parametrize(
    ("word", "told_to_model"),
    [("y", "deleted /a"), ("No", "said no"), ("always", "deleted /a")],
)
def test_a_question_is_answered_with_a_line(start, server, word, told_to_model):
    """Yes, no, always; the choices stand before the answer, also the second time."""
    server.add(DELETE, "So be it.")
    console = start()
    console.enter("delete it")
    console.wait_for(lambda: console.input == CHOICES)
    assert 'Allow delete(path="/a")? (for good)' in console.text
    console.enter("perhaps")
    console.wait_for("y: yes; n: no")
    console.wait_for(lambda: console.input == CHOICES)
    console.enter(word)
    console.wait_for("So be it.")
    console.wait_for_prompt()
    assert told_to_model in str(told(server))


def test_arguments_are_edited(start, server):
    """They stand in the line where readline edits it; Ctrl+C leaves them unchanged."""
    server.add(DELETE, "Gone.")
    console = start()
    console.enter("delete it")
    console.wait_for(lambda: console.input == CHOICES)
    console.enter("e")
    console.wait_for(lambda: console.typed.count("arguments: ") == 1)
    console.wait_for('{"path":"/a"}')
    console.press("ctrl-c")
    console.wait_for("(unchanged)")
    console.wait_for(lambda: console.input == CHOICES)
    console.enter("edit")
    console.wait_for(lambda: "arguments: " in console.input)
    console.press("ctrl-u")
    console.enter('{"path": 5}')
    console.wait_for("they do not fit")
    console.wait_for(lambda: "arguments: " in console.input)
    console.press("ctrl-u")
    console.enter('{"path": "/b"}')
    console.wait_for("Gone.")
    console.wait_for_prompt()
    assert told(server)[-1] == "deleted /b"


def test_ctrl_c_in_a_question_says_no_and_stops(start, server):
    """Nothing is called, and the model is not asked again."""
    server.add(DELETE)
    console = start()
    console.enter("delete it")
    console.wait_for(lambda: console.input == CHOICES)
    console.press("ctrl-c")
    console.wait_for("(denied; the run is stopped)")
    console.wait_for_prompt()
    assert len(server.requests) == 1


def test_credentials_are_not_shown(start, server):
    """Nor are they in the history."""
    server.add(say("Now.", call("push")), "Pushed.")
    console = start()
    console.enter("push")
    console.wait_for("(hidden)")
    console.type("hunter2\r")
    console.wait_for("Pushed.")
    console.wait_for_prompt()
    assert b"hunter2" not in console.raw
    assert told(server)[-1] == "pushed with 7 letters"
    console.press("up")
    console.type("x")
    console.wait_for(lambda: console.input.endswith("x"))
    assert b"hunter2" not in console.raw


def test_lines_typed_while_a_run_is_live_are_sent_afterwards(start, server):
    """In order; a line that was not sent can be edited at the prompt."""
    gate = Gate()
    server.add(say(WORDS, acts=[Send(12), Stall(gate), Send()]), "Two.", "Three.")
    console = start()
    console.enter("one")
    console.wait_for("Once upon")
    console.enter("two")
    console.type("thr")
    console.wait_for("thr")
    gate.open()
    console.wait_for("Two.")
    console.type("ee")
    console.press("enter")
    console.wait_for("Three.")
    console.wait_for_prompt()
    assert told(server)[::2] == ["one", "two", "three"]


def test_a_line_that_is_being_typed_is_no_answer(start, server):
    """It is set aside when a question comes, and stands at the prompt afterwards."""
    gate = Gate()
    acts = [Send(12), Stall(gate), Send()]
    server.add(say(WORDS, call("inquire"), acts=acts), "Good.", "Heard.")
    console = start()
    console.enter("go")
    console.wait_for("Once upon")
    console.type("happ")
    console.wait_for("happ")
    gate.open()
    console.wait_for(lambda: console.input == "answer: ")
    console.enter("main")
    console.wait_for("Good.")
    assert told(server)[-1] == "on main"
    is_dumb = "(copy from here: happ)" in console.text
    console.wait_for(lambda: console.input == ("> " if is_dumb else "> happ"))
    console.type("happy\r" if is_dumb else "y\r")
    console.wait_for("Heard.")
    assert told(server)[-1] == "happy"


def test_a_run_goes_on_in_the_background(start, server):
    """/background can be typed while it is live, and its end is told at the prompt."""
    gate = Gate()
    server.add(say(WORDS, acts=[Send(12), Stall(gate), Send()]), "Four.")
    console = start()
    console.enter("a story")
    console.wait_for("Once upon")
    console.enter("/background")
    console.wait_for("as run 1")
    console.wait_for_prompt()
    console.enter("two and two?")
    console.wait_for("Four.")
    console.wait_for_prompt()
    gate.open()
    console.wait_for("run 1 in the background is done")
    console.wait_for_prompt()


@pytest.mark.parametrize("name", ["sleeper", "spinner"])
def test_a_plain_function_is_left_running(start, server, name):
    """Item 4: one Ctrl+C ends the run, and the next line is sent at once."""
    server.add(say("Hm.", call(name)), "Fine.")
    console = start()
    console.enter("go")
    console.wait_for(f"{name} has begun")
    console.press("ctrl-c")
    console.wait_for("left running (abandoned)")
    console.wait_for("(stopped; the text so far is kept")
    console.wait_for_prompt()
    console.enter("are you there?")
    console.wait_for("Fine.")
    console.wait_for_prompt()
    console.press("ctrl-d")
    assert console.wait_for_end() == 0
    assert "warning" not in console.text


def test_a_tool_that_does_not_listen_gives_the_prompt_back(start, server, tmp_path):
    """After Ctrl+C; a line typed then is sent when the tool has ended."""
    server.add(say("Hm.", call("deaf", {"path": str(tmp_path / "end")})), "Fine.")
    console = start()
    console.enter("go")
    console.wait_for("deaf now")
    console.press("ctrl-c")
    console.wait_for_prompt()
    assert "stopped" not in console.text
    console.enter("are you there?")
    (tmp_path / "end").touch()
    console.wait_for("(stopped; the text so far is kept")
    console.wait_for("Fine.")


def test_help_tells_the_keys_of_this_screen(start):
    """With those that it does not have."""
    console = start()
    console.enter("/help")
    console.wait_for("No ESC, Ctrl+B, Ctrl+J or Tab here")
    console.wait_for_prompt()


def test_a_model_cannot_command_the_terminal(start, server):
    """Escape sequences, of a model or in a tool's arguments, are shown."""
    evil = "a\x1b]0;owned\x07b\x1b[2J\x1b[31mred\x9b5mc\rd\u202eabc"
    server.add(say(evil, call("delete", {"path": evil})))
    console = start()
    console.enter("hello")
    console.wait_for(lambda: console.input == CHOICES)
    for sequence in (b"\x1b]0;", b"\x1b[31mred", b"\xc2\x9b", "\u202e".encode()):
        assert sequence not in console.raw
    assert "␛[2J" in console.text


@pytest.mark.parametrize(
    ("state", "signum"),
    [
        ("idle", signal.SIGTERM),
        ("idle", signal.SIGHUP),
        ("typed", signal.SIGTERM),
        ("streaming", signal.SIGHUP),
        ("question", signal.SIGTERM),
    ],
)
def test_a_signal_ends_it(start, server, signum, state):
    """Also in the middle of a line; the exit code is that of the signal."""
    server.add(DELETE if state == "question" else say(WORDS, acts=[Send(12), Stall()]))
    console = start()
    if state == "typed":
        console.type("half")
        console.wait_for(lambda: console.input == "> half")
    elif state != "idle":
        console.enter("go")
        console.wait_for(CHOICES if state == "question" else "Once upon")
    console.process.send_signal(signum)
    assert console.wait_for_end() == 128 + signum
    assert console.is_restored()
    assert "Traceback" not in console.text


@pytest.mark.parametrize("state", ["idle", "streaming"])
def test_the_terminal_is_gone(server, state):
    """Closing the window ends it with a documented code, never with Python's 120."""
    server.add(say(WORDS, acts=[Send(12), Stall()]))
    with chat(
        *("--plain", "--model", "vllm:test"),
        is_fresh=True,
        VLLM_BASE_URL=server.base_url,
        VLLM_API_KEY="none",
    ) as console:
        console.wait_for_prompt()
        if state == "streaming":
            console.enter("go")
            console.wait_for("Once upon")
        console.hang_up()
        assert console.wait_for_end() in (0, 1, 128 + signal.SIGHUP)


def test_a_line_is_edited_cleared_and_recalled(plain, server):
    """readline: arrow keys, history, and Ctrl+C for a line that is not wanted."""
    server.add("One.", "Two.")
    plain.enter("first")
    plain.wait_for("One.")
    plain.wait_for_prompt()
    plain.type("half a lne")
    plain.press("left", "left")
    plain.type("i")
    plain.wait_for("> half a line")
    plain.press("ctrl-c")
    plain.wait_for_prompt()
    assert "again to leave" not in plain.text
    plain.press("up")
    plain.wait_for(lambda: plain.input == "> first")
    plain.press("enter")
    plain.wait_for("Two.")
    assert told(server) == ["first", "One.", "first"]


def test_bytes_that_are_not_text(plain, server):
    """The rest of the line is sent."""
    server.add("Pardon?")
    os.write(plain.master, b"caf\xe9 au lait\r")
    plain.wait_for("Pardon?")
    assert "au lait" in told(server)[-1]


def test_lines_typed_before_it_runs_are_sent(server, tmp_path):
    """And a line that was not sent can be edited."""
    pipe = tmp_path / "talk.json"
    os.mkfifo(pipe)
    server.add("Hello.", "Good bye.")
    with chat(
        *("--plain", "--model", "vllm:test", "--load", str(pipe)),
        VLLM_BASE_URL=server.base_url,
        VLLM_API_KEY="none",
    ) as console:
        console.type("I am early\rand th")  # it waits for the file
        console.wait_for("and th")
        pipe.write_text(Agent(ScriptedModel([])).save())
        console.wait_for("Hello.")
        console.wait_for(lambda: console.input == "> and th")
        console.type("en?")
        console.press("enter")
        console.wait_for("Good bye.")
    assert told(server)[::2] == ["I am early", "and then?"]


def test_an_error_of_ours_restores_the_terminal():
    """A defect is shown as one, when the terminal is itself again."""
    script = (
        "import sys\n"
        "from syncagent.cli.chat import session\n"
        "def fail(self, text): raise RuntimeError('a defect')\n"
        "session.Session.submit = fail\n"
        "from syncagent.cli.main import main\n"
        "sys.exit(main(['chat', '--model', 'demo', '--plain']))\n"
    )
    with Console(command=[sys.executable, "-c", script]) as console:
        console.wait_for_prompt()
        console.enter("hello")
        assert console.wait_for_end() == 1
        assert console.is_restored()
        assert "RuntimeError: a defect" in console.text


def test_ctrl_z_gives_the_shell_back():
    """``fg`` gives the conversation back, with the line that was being typed."""
    with Console(command=["bash", "--norc", "-i"], PS1="shell$ ") as console:
        console.wait_for("shell$")
        console.type(f"{sys.executable} -m syncagent chat --model demo --plain\r")
        console.wait_for_prompt()
        console.type("half")
        console.wait_for(lambda: console.input == "> half")
        console.press("ctrl-z")
        console.wait_for("Stopped")
        console.wait_for(lambda: console.input == "shell$ ")
        console.type("fg\r")
        console.wait_for(lambda: console.input == "> half")
        console.press("ctrl-c")
        console.wait_for_prompt()
        console.press("ctrl-d")
        console.wait_for(lambda: console.input == "shell$ ")
        console.type("exit\r")
        assert console.wait_for_end() == 0
