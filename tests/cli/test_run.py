"""``syncagent run``: streams, exit codes, and what it says when it cannot."""

import signal
import sys

import pytest
from shell import in_shell, read_until
from support.commands import KEY, finish, start

from syncagent.cli.main import main
from syncagent.cli.wording import error_line
from syncagent.events import RunFinished, TextDelta, ToolFinished, decode_event
from syncagent.testing import FakeServer, Send, Stall, Status, call, say

TOOLS = '''
import subprocess, sys
from syncagent import tool

@tool
def look(city: str) -> str:
    """Look out of the window."""
    print("a tool prints", flush=True)
    subprocess.run(["echo", "its program prints"])
    return f"rain in {city}"

@tool(requires_approval=True)
def launch() -> str:
    """Launch it."""
    return "launched"

@tool(on_cancel="kill")
def loop() -> None:
    """Look at nothing."""
    print("round and round", flush=True)
    while True:
        pass

number = 7
'''


@pytest.fixture
def shop(tmp_path):
    """A folder with tools of the user's."""
    (tmp_path / "shop.py").write_text(TOOLS)
    (tmp_path / "broken.py").write_text("import nonsense_that_is_not_there")
    (tmp_path / "leaving.py").write_text("raise SystemExit('bye')")
    yield tmp_path
    sys.modules.pop("shop", None)


def stuck(text="Once upon a time there was"):
    """Return an answer that ends in the middle, after some words."""
    return say(text * 3, acts=[Send(12), Stall()])


def test_the_answer_and_nothing_else_is_on_stdout():
    """Words go to stdout, with a line end; what it took goes to stderr; code 0."""
    with FakeServer(["Hello you."]) as server:
        code, out, err = finish("run", "Hello", server=server)
    assert (code, out) == (0, "Hello you.\n")
    assert "1 turn, 10 tokens in, 5 out" in err


def test_what_tools_print_is_not_in_the_answer(shop):
    """Tools, and programs that they start, print to stderr; turns are lines."""
    replies = [say("Let me see.", call("look", {"city": "Oslo"})), "It rains."]
    with FakeServer(replies) as server:
        # The prompt after --tools is not taken for another tool.
        line = ("run", "--tools", "shop:look", "Weather?")
        code, out, err = finish(*line, server=server, cwd=shop)
    assert (code, out) == (0, "Let me see.\nIt rains.\n")
    for said in ("a tool prints", "its program prints", 'look(city="Oslo")', "done"):
        assert said in err


def test_what_happens_is_recorded(tmp_path):
    """--record writes what syncagent timeline reads; a missing folder is told."""
    recorded = tmp_path / "run.jsonl"
    with FakeServer(["Hello you."]) as server:
        line = ("run", "Hello", "--record", str(recorded))
        assert finish(*line, server=server)[0] == 0
        code, _, err = finish(*line[:-1], str(tmp_path / "no" / "x"), server=server)
    assert code == 1
    assert "there is no folder" in err
    assert "Traceback" not in err
    code, out, _ = finish("timeline", str(recorded))
    assert code == 0
    assert "model call 1" in out


@pytest.mark.parametrize(
    ("arguments", "said", "heard"),
    [
        ((), "from a pipe\n", "from a pipe"),
        (("-",), "from a pipe\n", "from a pipe"),
        (("Is it right?",), "a diff\n", "a diff\n\nIs it right?"),
        (("--system", "Be brief.", "\udcff\udcfe!"), "", "\ufffd\ufffd!"),
    ],
    ids=["piped", "dash", "both", "no-text"],
)
def test_where_the_prompt_comes_from(arguments, said, heard):
    """It is the argument, what is piped in, or both, in this order."""
    with FakeServer(["Yes."]) as server:
        ended = finish("run", "-q", *arguments, said=said, server=server)
        (request,) = server.requests
    assert ended == (0, "Yes.\n", "")  # quiet, as all is well
    assert request.payload["messages"][-1]["content"] == heard


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--timeout", "soon"], "must be a positive number of seconds; got 'soon'"),
        (["--timeout", "nan"], "got 'nan'"),
        (["--timeout", "0"], "seconds; got '0'"),
        (["--max-turns", "0"], "must be a positive integer; got '0'"),
        (["--approve", "ask"], "needs a terminal"),
        (["--approve", "maybe"], "invalid choice"),
    ],
)
def test_wrong_usage_of_run(arguments, complaint, capsys):
    """What is wrong with the command line is said, with code 2."""
    with pytest.raises(SystemExit) as ended:
        main(["run", "Hello", *arguments])
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def test_nothing_to_say():
    """An empty prompt is wrong usage."""
    code, out, err = finish("run", "-q", "--model", "demo", " ")
    assert (code, out) == (2, "")
    assert "no prompt; give it as an argument" in err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--model", "opnai:gpt"], "did you mean openai"),
        (["--model", "nope"], "no provider is called 'nope'; 'syncagent models'"),
        (["--model", "dmeo"], "did you mean demo?"),
        (["--model", "openai"], "write for example openai:"),
        (["--base-url", "http://127.0.0.1:9"], "need --model PROVIDER:NAME"),
        (["--tools", "bad"], "takes MODULE:NAME"),
        (["--tools", "missing:f"], "No module named 'missing'"),
        (["--model", "anthropic:x"], "set ANTHROPIC_API_KEY"),
        (["--tools", "broken:x"], "nonsense_that_is_not_there"),
        (["--tools", "leaving:x"], "SystemExit: bye"),
        (["--tools", "shop:nothing"], "shop has no 'nothing'"),
        (["--tools", "shop:number"], "must be a function, a tool, an agent or a"),
        (["--tools", "shop:"], "MODULE:NAME"),
    ],
)
def test_an_expected_error_is_one_line(arguments, complaint, shop, capsys, monkeypatch):
    """It says what is wrong, before the prompt is read, without a traceback; code 2.

    A key that is missing is no wrong usage.
    """
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("SYNCAGENT_MODEL", "demo")
    monkeypatch.chdir(shop)
    monkeypatch.syspath_prepend(shop)
    code = 1 if "ANTHROPIC" in complaint else 2
    assert main(["run", "-q", "-", *arguments]) == code
    out, err = capsys.readouterr()
    assert complaint in err
    assert (out, len(err.splitlines())) == ("", 1)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [("http://127.0.0.1:9", "could not connect"), ("no address", "no address")],
)
def test_a_server_that_is_not_there(url, complaint):
    """One line says so, without the key."""
    env = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url}
    code, out, err = finish("run", "-q", "Hello", "--model", "openai:x", env=env)
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert complaint in err
    assert KEY not in err


def test_an_error_of_the_provider_is_one_line():
    """What the provider has against it is said, with code 1."""
    with FakeServer([say("", acts=[Status(401)])]) as server:
        code, out, err = finish("run", "-q", "Hello", server=server)
    assert (code, out) == (1, "")
    assert "check the key in" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_of_an_answer(signum):
    """What had come is on stdout, stderr says what happened, 128 + the signal."""
    with FakeServer([stuck()]) as server:
        with start("run", "A story", server=server) as process:
            came = read_until(process.stdout, "time")
            process.send_signal(signum)
            out, err = process.communicate(timeout=30)
        server.wait_for_hang_up()
    assert process.returncode == 128 + signum
    assert (came + out).startswith("Once upon a time")
    assert out.endswith("\n")
    assert f"cancelled by {signum.name} (phase stream)" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_kills_a_tool_that_never_looks_up(signum, shop):
    """An endless loop is ended with the run, and told as interrupted."""
    line = ("run", "loop", "--model", "demo", "--tools", "shop:loop")
    with start(*line, cwd=shop) as process:
        read_until(process.stderr, "round and round")
        process.send_signal(signum)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + signum
    assert "tool loop interrupted" in err


@pytest.mark.slow
def test_a_deadline():
    """After --timeout seconds it ends with code 124 and the text so far."""
    with FakeServer([stuck()]) as server:
        line = ("run", "A story", "--timeout", "1")
        code, out, err = finish(*line, server=server)
    assert code == 124
    assert out.startswith("Once upon")
    assert "timeout (phase stream)" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "signum", "code"),
    [(["--timeout", "0.3"], None, 124), ([], signal.SIGINT, 130)],
)
def test_input_that_never_ends(arguments, signum, code):
    """Neither a deadline nor a signal waits for the end of a pipe."""
    with start("run", *arguments, has_input=True) as process:
        if signum is not None:
            read_until(process.stderr, "waiting for the end of standard input")
            process.send_signal(signum)
        process.wait(timeout=30)
        assert process.returncode == code
        assert "Traceback" not in process.stderr.read()


def test_a_limit_on_turns(shop):
    """The model is asked so often and no more: code 1, the text so far, a reason."""
    replies = [say("Let me see.", call("look", {"city": "Oslo"}))] * 3
    with FakeServer(replies) as server:
        line = ("run", "?", "--max-turns", "2", "--tools", "shop:look")
        code, out, err = finish(*line, server=server, cwd=shop)
        assert len(server.requests) == 2
    assert (code, out) == (1, "Let me see.\nLet me see.\n")
    assert "limit on turns was reached (--max-turns)" in err


@pytest.mark.parametrize(("rule", "outcome"), [("all", "done"), ("none", "denied")])
def test_approvals_by_rule(rule, outcome, shop):
    """--approve says it for all tools; without a terminal none is allowed."""
    replies = [say(call("launch")), "Well."]
    with FakeServer(replies) as server:
        line = ("run", "Launch!", "--json", "--approve", rule, "--tools", "shop:launch")
        code, out, err = finish(*line, server=server, cwd=shop)
    events = [decode_event(line) for line in out.splitlines()]
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert (code, finished.outcome) == (0, outcome)
    assert ("denied: launch()" in err) == (outcome == "denied")


def test_events_as_lines():
    """--json: each line is an event, the last one is the result."""
    with FakeServer(["Hello\u2028you."]) as server:
        code, out, _ = finish("run", "Hello", "--json", server=server)
    events = [decode_event(line) for line in out.strip("\n").split("\n")]
    assert [each for each in events if isinstance(each, RunFinished)] == events[-1:]
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert code == 0
    assert isinstance(events[-1], RunFinished)
    assert text == events[-1].result.text == "Hello\u2028you."


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["--model", "vllm:x", "--base-url", "http://127.0.0.1:9"],
            "could not connect",
        ),
        (["--model", "anthropic:x"], "set ANTHROPIC_API_KEY"),
        (["--model", "nope"], "no provider"),
        (["--timeout", "0.001", "-"], "timeout"),
    ],
)
def test_an_error_is_an_event_too(arguments, complaint):
    """--json: the last line says why there is no result."""
    line = ("run", "--json", "-q", *arguments)
    if "-" not in arguments:
        line = (*line, "--", "Hello")
    with start(*line, has_input="-" in arguments) as process:
        out, err = process.communicate(timeout=30)
    event = decode_event(out.splitlines()[-1])
    assert process.returncode in (1, 2, 124)
    assert (event.state, out.count("\n")) == ("failed", 1)
    assert complaint in err
    assert complaint in event.message or "deadline" in event.message


def test_another_address():
    """--base-url says where the provider is, for this command."""
    with FakeServer(["Hello you."]) as server:
        line = ("run", "-q", "Hello", "--model", "vllm:x", "--base-url")
        env = {"VLLM_API_KEY": "any"}
        code, out, err = finish(*line, server.base_url, env=env)
    assert (code, out, err) == (0, "Hello you.\n", "")


def test_errors_are_in_the_words_of_the_command_line():
    """They name options and not parameters, and say how to start a local server."""
    assert error_line("a key: set X_KEY in the environment, or pass api_key=") == (
        "a key: set X_KEY in the environment"
    )
    assert error_line("needs an address: set X, or pass base_url=") == (
        "needs an address: set X, or pass --base-url"
    )
    refused = "http://127.0.0.1:{}/v1: could not connect: [Errno 111] refused"
    assert error_line(refused.format(11434)).endswith("start it with: ollama serve")
    assert error_line(refused.format(5)).endswith("or name another with --base-url")
    assert error_line("http://10.0.0.1/: refused") == "http://10.0.0.1/: refused"


def test_nothing_is_glued_to_the_response(shop):
    """Where both streams go to one pipe, what a tool prints begins on its own line."""
    replies = [say("Let me see.", call("look", {"city": "Oslo"})), "It rains."]
    with FakeServer(replies) as server:
        line = 'cd "$SHOP" && $SYNCAGENT run -q "?" --tools shop:look </dev/null 2>&1'
        code, out, _ = in_shell(line, server, SHOP=str(shop))
    assert code == 0
    assert out == b"Let me see.\na tool prints\nits program prints\nIt rains.\n"


def test_events_of_a_cancelled_run():
    """All lines are whole, and the result says who has cancelled."""
    with FakeServer([stuck()]) as server:
        with start("run", "A story", "--json", server=server) as process:
            came = read_until(process.stdout, "text_delta")
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=30)
    events = [decode_event(line) for line in (came + out).splitlines()]
    assert process.returncode == 143
    assert events[-1].result.cancellation.origin == "shutdown"
