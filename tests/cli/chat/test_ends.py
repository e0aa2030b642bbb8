"""However it ends: the terminal is as it was, and nothing is left behind."""

import os
import signal
import subprocess
import sys
import termios

import pytest
from console import BOUND, HERE, Console
from support.commands import finish
from support.commands import start as start_command

from syncagent.testing import Send, Stall, call, say

WORDS = "Once upon a time there was a thread that waited for a token. " * 3


def children_of(pid):
    """Return the processes that a process has started and that are still there."""
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        timeout=BOUND,
    )
    return found.stdout.split()


@pytest.mark.parametrize(
    ("state", "signum"),
    [
        ("idle", signal.SIGTERM),
        ("streaming", signal.SIGHUP),
        ("tool", signal.SIGTERM),
    ],
)
def test_a_signal_ends_it(start, server, signum, state):
    """Whatever goes on ends with it, and the exit code is that of the signal."""
    server.add(
        say(WORDS, acts=[Send(12), Stall()])
        if state == "streaming"
        else say("I count.", call("endless"))
    )
    console = start(is_fresh=state == "tool")
    if state != "idle":
        console.enter("go")
        if state == "tool":
            console.wait_for_timer("endless()")
        console.wait_for("I count." if state == "tool" else "Once upon")
    workers = children_of(console.process.pid)
    console.process.send_signal(signum)
    assert console.wait_for_end() == 128 + signum
    assert console.is_restored()
    assert "Traceback" not in console.text
    if state == "tool":
        assert workers
        for worker in workers:
            with pytest.raises(ProcessLookupError):
                os.kill(int(worker), 0)


def test_ctrl_c_from_elsewhere_is_the_key(start, server):
    """``kill -INT`` stops the answer, and no more."""
    server.add(say(WORDS, acts=[Send(12), Stall()]))
    console = start()
    console.enter("go")
    console.wait_for("Once upon")
    console.process.send_signal(signal.SIGINT)
    console.wait_for("stopped; the text so far is kept")
    console.wait_for_prompt()


def test_the_terminal_is_gone(start, server):
    """Whoever closes the window ends it."""
    server.add(say(WORDS, acts=[Send(12), Stall()]))
    console = start(is_fresh=True)
    console.enter("go")
    console.wait_for("Once upon")
    console.hang_up()
    assert console.wait_for_end() in (0, 1, 128 + signal.SIGHUP)
    server.wait_for_hang_up()


def test_an_error_of_ours_restores_the_terminal():
    """A defect is shown as one, when the terminal is itself again."""
    script = (
        "import sys\n"
        "from syncagent.cli.chat import session\n"
        "def fail(self, text): raise RuntimeError('a defect')\n"
        "session.Session.submit = fail\n"
        "from syncagent.cli.main import main\n"
        "sys.exit(main(['chat', '--model', 'demo']))\n"
    )
    with Console(command=[sys.executable, "-c", script]) as console:
        console.wait_for_prompt()
        console.enter("hello")
        assert console.wait_for_end() == 1
        assert console.is_restored()
        assert "RuntimeError: a defect" in console.text


@pytest.mark.parametrize("is_key", [True, False], ids=["key", "signal"])
def test_it_is_suspended_and_goes_on(is_key):
    """Ctrl+Z gives the shell back; ``fg`` gives the conversation back."""
    with Console(command=["bash", "--norc", "-i"], PS1="shell$ ") as console:
        console.wait_for("shell$")
        arguments = " ".join(["-m", "syncagent", "chat", "--model", "demo"])
        console.type(f"{sys.executable} {arguments}\r")
        console.wait_for_prompt()
        console.type("half")
        console.wait_for(lambda: console.input == "> half")
        if is_key:
            console.press("ctrl-z")
        else:
            (child,) = children_of(console.process.pid)
            os.kill(int(child), signal.SIGSTOP)
        console.wait_for("Stopped")
        console.wait_for(lambda: console.input == "shell$ ")
        console.type("echo it is $((40 + 2))\r")
        console.wait_for("it is 42")
        console.type("fg\r")
        console.wait_for(lambda: console.input == "> half")
        console.type(" a line")
        console.wait_for(lambda: console.input == "> half a line")
        console.press("ctrl-c")
        console.wait_for(lambda: console.input == "> ")
        console.press("ctrl-d")
        console.wait_for(lambda: console.input == "shell$ ")
        console.type("exit\r")
        assert console.wait_for_end() == 0


def test_only_its_output_goes_elsewhere(server, tmp_path):
    """Somebody types, and a file has the answers: all is asked, line by line."""
    log = tmp_path / "log"
    server.add(say("Now.", call("push")), "Pushed.", say("May I?", call("delete")))
    server.add(say(WORDS, acts=[Send(12), Stall()]))
    program = f"exec {sys.executable} -m syncagent chat --model vllm:test"
    command = ["sh", "-c", f"{program} --tools typed_tools:ALL >{tmp_path}/log"]
    with Console(
        command=command, VLLM_BASE_URL=server.base_url, VLLM_API_KEY="none"
    ) as console:
        console.wait_for("Ctrl+D leaves")
        console.type("push\r")
        console.wait_for("(hidden)")
        console.type("s3cret\r")
        console.wait_for("30 tokens)")
        assert b"s3cret" not in console.raw
        console.type("delete\r")
        console.wait_for("delete()  failed")
        console.wait_for(lambda: "Once upon" in log.read_text())
        console.press("ctrl-c")
        console.wait_for("the text so far is kept")
        console.press("ctrl-c")
        console.wait_for("again to leave")
        console.press("ctrl-c")
        assert console.wait_for_end() == 0
        assert termios.tcgetattr(console.slave) == console.modes
        assert log.read_text().startswith("Now.\nPushed.\nMay I?\nOnce upon")


def chat_in_pipes(*arguments, stdin="", environment=None):
    """Run ``syncagent chat`` without a terminal."""
    return finish("chat", *arguments, said=stdin, env=environment, cwd=HERE)


@pytest.fixture
def environment(server):
    return {"VLLM_BASE_URL": server.base_url, "VLLM_API_KEY": "none"}


def test_lines_from_a_pipe(server, environment):
    """Each is answered before the next is read; the answers alone go to stdout."""
    server.add("One.", say("Two.", call("delete", {"path": "/a"})), "Three.", "Four.")
    code, out, err = chat_in_pipes(
        *("--model", "vllm:test", "--tools", "typed_tools:ALL"),
        stdin="first\nsecond\n/usage\nyes",
        environment=environment,
    )
    assert code == 0
    assert out == "One.\nTwo.\nThree.\nFour.\n"
    assert "There is no terminal to ask on" in err
    assert "tokens (" in err
    assert "Traceback" not in err
    said = [each["content"] for each in server.requests[-1].payload["messages"]]
    assert "deleted" not in str(said)
    assert said[-1] == "yes"


def test_an_error_in_a_pipe_is_said_and_the_next_line_is_answered(environment, server):
    """And nothing to say is no error."""
    server.close()
    code, out, err = chat_in_pipes(
        "--model", "vllm:test", stdin="first\n", environment=environment
    )
    assert (code, out) == (0, "")
    assert "error: " in err
    assert "Traceback" not in err
    assert chat_in_pipes("--model", "demo")[0] == 0


def test_nobody_reads_it(server, environment):
    """A closed pipe ends it quietly."""
    server.add(say(WORDS * 3), "more")
    shell = f"{sys.executable} -m syncagent chat --model vllm:test | head -c 4"
    ended = subprocess.run(
        ["sh", "-c", f"(echo a; echo b) | {shell}"],
        capture_output=True,
        text=True,
        timeout=BOUND,
        env={**os.environ, **environment},
        check=False,
    )
    assert ended.stdout == "Once"
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_a_pipe(server, environment, signum):
    """It ends at once, with what there is."""
    server.add(say(WORDS, acts=[Send(12), Stall()]))
    line = ("chat", "--model", "vllm:test")
    with start_command(*line, env=environment, has_input=True) as process:
        process.stdin.write("go\n")
        process.stdin.flush()
        assert os.read(process.stdout.fileno(), 4) == b"Once"
        process.send_signal(signum)
        _, err = process.communicate()
    assert process.returncode == 128 + signum
    assert "Traceback" not in err


def test_a_missing_file_is_said():
    """--load of what is not there."""
    code, _, err = chat_in_pipes("--model", "demo", "--load", "/no/such/file")
    assert code == 1
    assert "No such file" in err
    assert "Traceback" not in err
