"""Streams that are closed, full, asleep, of another encoding, or a terminal."""

import fcntl
import os
import signal

import pytest
from shell import in_shell, on_terminal, read_until, start_shell, without_colours
from support.commands import LIMIT, start

from syncagent import Agent
from syncagent.cli.plain_text import harmless, on_one_line
from syncagent.testing import FakeServer, ScriptedModel, Send, call, say

#: How to make a pipe small, on Linux; Python 3.10 knows the name as well.
F_SETPIPE_SZ = getattr(fcntl, "F_SETPIPE_SZ", 1031)

HOSTILE = "a\x1b[2Jb\x1b]0;title\x07c\x9bd\u202ee\rf"


@pytest.mark.parametrize(
    ("line", "expected", "complaint"),
    [
        ("$SYNCAGENT run -q Hi </dev/null | head -c 1", 0, b""),
        ("$SYNCAGENT run -q Hi </dev/null 2>&-", 0, b""),
        ("$SYNCAGENT run -q Hi </dev/null >&-", 0, b""),
        ("$SYNCAGENT run -q Hi <&-", 0, b""),
        ("$SYNCAGENT run -q Hi <&- >&- 2>&-", 0, b""),
        ("$SYNCAGENT run -q Hi </dev/null >/dev/full", 1, b"No space left on device"),
        ("$SYNCAGENT run Hi </dev/null 2>/dev/full", 0, b""),
    ],
)
def test_streams_that_are_not_what_one_hopes(line, expected, complaint):
    """There is at most one line about it, and no traceback."""
    with FakeServer(["Hello you. " * 2000]) as server:
        code, _, err = in_shell(line, server)
    assert code == expected
    assert complaint in err
    assert len(err.splitlines()) == bool(complaint)


#: Commands that print, and one with a defect in it: a module that cannot be a tool's.
PRINTING = {
    "models": "models",
    "demo": "demo",
    "doctor": "doctor",
    "run": "run -q Hi --model demo",
    "chat": "chat --model demo",
    "timeline": "timeline run.jsonl",
    "page": "timeline run.jsonl -o run.html",
    "usage": "run --no-such-option",
    "defect": "run Hi --model demo --tools defect:Defect",
}
#: These do all their work if they do not notice that their output is lost.
LONG = ("demo", "doctor")
#: Where output goes, and the exit codes that are documented for it.
LOST = {
    "closed": ("{} >&- 2>&-", 0),
    "gone": ("({}; echo $? >{name}) 2>&1 | true; exit $(cat {name})", 1),
    "full": ("{} >/dev/full 2>/dev/full", 1),
}
CODES = {"usage": 2, "defect": 1, "page": 0}
DEFECT = """
class Defect(list):
    def __iter__(self):
        raise RuntimeError("a defect")

Defect = Defect()
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", LOST)
def test_every_command_ends_with_a_documented_code(how, tmp_path, monkeypatch):
    """Whatever happens to its streams: never 120, which is Python's own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "defect.py").write_text(DEFECT)
    agent = Agent(ScriptedModel(["Hello."]))
    agent.run("Hi", record=tmp_path / "run.jsonl")
    line, code = LOST[how]
    started = {  # all at once: most of their time they wait
        name: start_shell(line.format(f"echo hi | $SYNCAGENT {each}", name=name))
        for name, each in PRINTING.items()
        if how == "gone" or name not in LONG
    }
    codes = {name: process.wait(LIMIT) for name, process in started.items()}
    assert codes == {name: CODES.get(name, code) for name in started}


def test_an_encoding_without_the_characters():
    """What cannot be written is a question mark, and no error."""
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    with FakeServer(["Grüße an alle \u2713"]) as server:
        line = "$SYNCAGENT run 'Grüß mich' </dev/null"
        code, out, err = in_shell(line, server, **env)
    assert (code, out) == (0, b"Gr??e an alle ?\n")
    assert b"Traceback" not in err


def test_a_reader_who_sleeps_keeps_nobody():
    """A cancel ends a run that cannot get rid of its words, such as one to a pager."""
    story = "Once upon a time. " * 1000  # more than this pipe takes
    with FakeServer([say(story, acts=[Send()])]) as server:
        with start("run", "-q", "A story", server=server) as process:
            fcntl.fcntl(process.stdout, F_SETPIPE_SZ, 4096)
            read_until(process.stdout, "Once")
            process.send_signal(signal.SIGINT)
            process.wait(timeout=30)  # before anything else is read
            assert process.returncode == 130
            process.communicate(timeout=30)


def test_a_model_cannot_command_the_terminal():
    """On a terminal control characters are pictures of themselves."""
    with FakeServer([HOSTILE]) as server:
        with on_terminal("run", "Hi", server=server) as terminal:
            assert terminal.finish() == 0
    assert "a\u241b[2Jb\u241b]0;title\u2407c\ufffddef" in terminal.screen
    assert "\x1b" not in terminal.screen


def test_a_pipe_gets_what_the_model_has_said():
    """What is no terminal gets every character as it was said."""
    with FakeServer([HOSTILE]) as server:
        code, out, _ = in_shell("$SYNCAGENT run -q Hi </dev/null", server)
    assert (code, out) == (0, f"{HOSTILE}\n".encode())


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("what?\ry\r", "would be on the way"),
        ("n\r", "The user said no"),
        ("\x04", "The user said no"),
    ],
    ids=["yes", "no", "end"],
)
def test_an_approval_is_asked_for_on_the_terminal(keys, said):
    """The call is shown, and yes is yes; everything else is asked again, or no."""
    with on_terminal("run", "order 2 apples", "--model", "demo") as terminal:
        terminal.see('Allow order(what="apples", number=2)? (it would cost money)')
        terminal.type(keys)
        assert terminal.finish() == 0
    assert said in terminal.screen


def test_a_question_of_a_tool_is_asked_on_the_terminal():
    """What the user types is what the tool gets."""
    with on_terminal("run", "book a table", "--model", "demo") as terminal:
        terminal.see("A table for how many? ")
        terminal.type("seven\r")
        assert terminal.finish() == 0
    assert "a table for seven" in terminal.screen


@pytest.mark.parametrize(
    ("lines", "said"),
    [(["Ann", "12", "", "g"], "booked"), (["Ann", "/decline"], "not booked")],
)
def test_a_form_is_filled_in_on_the_terminal(lines, said):
    """Each field is asked for, again if need be, with its default in brackets."""
    prompts = ["Name: ", "seats (1 to 9) [2]: ", "must be 1 to 9", "room (1 Red"]
    with (
        FakeServer([say(call("book")), "Done."]) as server,
        on_terminal(
            "run", "Go.", "--tools", "typed_tools:book", server=server
        ) as shown,
    ):
        shown.see("Which table?")
        for line, prompt in zip(lines, prompts, strict=False):
            shown.see(prompt)
            shown.type(f"{line}\r")
        assert shown.finish() == 0
        told = str(server.requests[-1].payload["messages"][-1])
    assert said in told
    assert ("'seats': 2, 'room': 'g'" in told) == (len(lines) == 4)


@pytest.mark.parametrize("prompt", ["order 2 apples", "book a table"])
def test_ctrl_c_at_a_question(prompt):
    """Nobody waits for an answer any more; the call is not made; code 130."""
    with on_terminal("run", prompt, "--model", "demo") as terminal:
        terminal.see("? ")
        terminal.type("\x03")
        assert terminal.finish() == 130
    assert "cancelled by SIGINT" in terminal.screen
    assert "Traceback" not in terminal.screen


def test_a_prompt_is_missed_on_a_terminal():
    """Nobody waits for what somebody does not know he should type."""
    with on_terminal("run") as terminal:
        assert terminal.finish() == 2
    assert "no prompt" in terminal.screen


def test_harmless_text():
    """What is left can be encoded, and does nothing."""
    shown = harmless(f"{HOSTILE}\udcff\0\x7f\n\t\u2066x\u2069")
    assert shown.encode()
    assert all(character.isprintable() or character in "\n\t" for character in shown)
    assert shown.endswith("\n\tx")


def test_on_one_line():
    """Line ends are spaces, and what is long is cut off."""
    assert on_one_line("a\n  b\x1b\n") == "a b\u241b"
    assert on_one_line("a" * 20, 10) == "aaaaaaa..."
    assert os.linesep not in on_one_line("a\r\nb", 10)


DEAF = '''
import hashlib, socket, time, requests
from syncagent import tool

def nap() -> None:
    """Sleep, and hear nothing."""
    print("falling asleep", flush=True)
    {work}
'''
WORK = {
    "sleeps": "time.sleep(3600)",
    "loops": "while True: pass",
    "crunches": "hashlib.pbkdf2_hmac('sha256', b'x', b'y', 1_000_000_000)",
    "fetches": """
    with socket.create_server(("127.0.0.1", 0)) as silent:
        requests.get(f"http://127.0.0.1:{silent.getsockname()[1]}/")
    """,
}


@pytest.mark.parametrize("work", WORK)
def test_the_first_ctrl_c_leaves_a_plain_function(tmp_path, monkeypatch, work):
    """Item 4: whatever it does; the line says that it is left running; code 130."""
    (tmp_path / "deaf.py").write_text(DEAF.replace("{work}", WORK[work]))
    monkeypatch.chdir(tmp_path)
    line = ("run", "nap", "--model", "demo", "--tools", "deaf:nap")
    with on_terminal(*line) as terminal:
        terminal.see("falling asleep")
        terminal.type("\x03")
        assert terminal.finish() == 130
    assert "tool nap left running (abandoned)" in without_colours(terminal.screen)
    assert "cancelled by SIGINT" in terminal.screen
    assert "Traceback" not in terminal.screen


@pytest.mark.slow
def test_a_second_ctrl_c_leaves_a_deaf_tool(tmp_path, monkeypatch):
    """One that wants to be waited for: the first says so, the second does not wait."""
    script = DEAF.replace("{work}", WORK["sleeps"])
    script = script.replace("def nap", '@tool(on_cancel="wait")\ndef nap')
    (tmp_path / "deaf.py").write_text(script)
    monkeypatch.chdir(tmp_path)
    line = ("run", "nap", "--model", "demo", "--tools", "deaf:nap")
    with on_terminal(*line) as terminal:
        terminal.see("falling asleep")
        terminal.type("\x03")
        terminal.see("Ctrl+C again does not wait for it")
        terminal.type("\x03")
        assert terminal.finish() == 130
    assert "syncagent: cancelled" in terminal.screen
    assert "Traceback" not in terminal.screen
