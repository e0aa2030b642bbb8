"""``syncagent mcp``, and ``--mcp`` of run and chat: the servers of a file."""

import json
import re
import signal

import pytest
from shell import on_terminal, read_until
from support.commands import finish, start

from syncagent.testing import FakeMCPServer, FakeServer, call, say

#: Text of a server that would take over a terminal.
HOSTILE = "x\x1b]0;owned\x07\x9b2J\u202ey"
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


@pytest.fixture
def fake():
    with FakeMCPServer() as fake:

        @fake.tool
        def add(a: int, b: int) -> str:
            """Add two numbers.

            More about it.
            """
            return str(a + b)

        @fake.tool
        def echo(text: str) -> str:
            """Return the text."""
            return text

        @fake.tool
        def fail() -> str:
            """Fail."""
            raise ValueError("out of order")

        yield fake


@pytest.fixture
def state(tmp_path):
    """Return the environment of a user without a history."""
    return {"XDG_STATE_HOME": str(tmp_path / "state"), "NO_COLOR": "1"}


@pytest.fixture
def file(tmp_path, fake):
    """Return the path of a file with the fake server."""
    path = tmp_path / "mcp.json"
    entry = {"command": fake.command[0], "args": fake.command[1:]}
    path.write_text(json.dumps({"mcpServers": {"calc": entry}}))
    return path


@pytest.fixture
def mcp(state, file):
    """Return a function that runs an action of ``syncagent mcp`` to its end."""

    def mcp(action, *arguments, options=("--trust-mcp",)):
        options = ("--config", str(file), *options)
        return finish("mcp", action, *options, *arguments, env=state)

    return mcp


# -- list ----------------------------------------------------------------------------


def test_servers_and_tools_are_listed(mcp):
    """One line each: the protocol of servers, the first line about tools."""
    code, out, err = mcp("list")
    assert (code, err) == (0, "")
    servers, tools = out.split("\n\n")
    assert servers.split()[5:8] == ["calc", "modern", "2026-07-28"]
    assert [line.split(None, 2) for line in tools.splitlines()[1:]] == [
        ["calc", "add", "Add two numbers."],
        ["calc", "echo", "Return the text."],
        ["calc", "fail", "Fail."],
    ]


def test_the_list_as_json(mcp):
    """A line for each server, with the definitions as the server sent them."""
    (line,) = mcp("list", "--json")[1].splitlines()
    found = json.loads(line)
    assert (found["name"], found["era"]) == ("calc", "modern")
    assert found["tools"][0]["inputSchema"]["required"] == ["a", "b"]


def test_a_server_by_its_command(fake, state):
    """After --, or as one line: what the user types needs no trust."""
    code, out, _ = finish("mcp", "list", "--", *fake.command, env=state)
    assert code == 0
    assert "server  add" in out
    line = " ".join(map(repr, fake.command))
    code, out, _ = finish("mcp", "list", "--command", line, env=state)
    assert code == 0
    code, out, _ = finish(
        "mcp", "call", "--command", line, "add", "a=1", "b=2", env=state
    )
    assert (code, out) == (0, "3\n")


def test_a_server_that_does_not_start_is_listed_as_failed(mcp, file):
    """Code 7; the others are listed, and standard error has the reason."""
    data = json.loads(file.read_text())
    data["mcpServers"]["bad"] = {"command": "sh", "args": ["-c", "echo no key >&2"]}
    file.write_text(json.dumps(data))
    code, out, err = mcp("list")
    assert code == 7
    assert "calc    modern" in out
    assert "bad     failed" in out
    assert "no key" in err
    assert mcp("list", "--server", "calc")[0] == 0


def test_a_server_by_its_address(fake, state, tmp_path):
    """With a header, whose value can come from the environment."""
    fake.require_token = "s3cret"
    env = state | {"XDG_CONFIG_HOME": str(tmp_path), "KEY": "s3cret"}
    line = ("mcp", "call", "--url", fake.url, "add", "a=1", "b=2")
    header = "Authorization: Bearer ${KEY}"
    assert finish(*line, "--header", header, env=env) == (0, "3\n", "")
    code, out, err = finish(*line, env=env)
    assert (code, out) == (1, "")
    assert "syncagent mcp login" in err
    line = ("mcp", "doctor", "--url", fake.url)
    code, out, _ = finish(*line, env=env)
    assert code == 1
    assert f"log in: syncagent mcp login {fake.url}" in out


def test_a_file_with_an_address(fake, file, state, tmp_path):
    """The header of the file reaches the server; a closed port is code 7."""
    fake.require_token = "s3cret"
    headers = {"Authorization": "Bearer ${KEY}"}
    entry = {"type": "http", "url": fake.url, "headers": headers}
    file.write_text(json.dumps({"servers": {"calc": entry}}))
    line = ("mcp", "call", "--config", str(file), "--trust-mcp", "calc", "echo")
    env = state | {"KEY": "s3cret"}
    assert finish(*line, "text=hi", env=env) == (0, "hi\n", "")
    code, _, err = finish(*line, "text=hi", env=state)
    assert code == 1
    assert "calc.headers.Authorization: the environment variable KEY is not set" in err
    fake.go_down()
    assert finish(*line, "text=hi", env=env)[0] == 7


def test_files_are_found_in_the_folder(fake, file, state):
    """mcp.json by default; without one, the error says how to name a server."""
    code, out, _ = finish("mcp", "list", "--trust-mcp", env=state, cwd=file.parent)
    assert (code, "calc" in out) == (0, True)
    empty = file.parent / "empty"
    empty.mkdir()
    code, _, err = finish("mcp", "list", env=state, cwd=empty)
    assert code == 1
    assert "there is no mcp.json, .mcp.json, .vscode/mcp.json in this folder" in err


@pytest.mark.slow
def test_text_of_servers_is_harmless(fake, file, state):
    """Names, descriptions, results, errors and progress, on a terminal."""
    fake.add_tool(
        {"name": "evil", "description": HOSTILE, "inputSchema": {"type": "object"}},
        lambda exchange: (
            exchange.progress(1, 2, HOSTILE),
            {"content": [{"type": "text", "text": HOSTILE}]},
        )[1],
    )
    for line in (["list"], ["list", "--json"], ["call", "calc", "evil"], ["doctor"]):
        arguments = ("mcp", *line, "--config", str(file), "--trust-mcp")
        with on_terminal(*arguments, **state) as terminal:
            assert terminal.finish() == 0, terminal.screen
        assert line == ["doctor"] or "owned" in terminal.screen
        assert not RAW.search(terminal.screen.replace("\r\n", "\n")), line


# -- call ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "out"),
    [
        (["add", "a=2", "b=3"], "5\n"),
        (["add", '{"a": 2, "b": 3}'], "5\n"),
        (["echo", "text=17"], "17\n"),
        (["echo", 'text={"a": 1}'], '{"a": 1}\n'),
        (["echo", "text=a=b c"], "a=b c\n"),
    ],
)
def test_arguments_of_a_call(mcp, words, out):
    """JSON, or NAME=VALUE; a value stays text where the tool wants text."""
    assert mcp("call", "calc", *words) == (0, out, "")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["calc"], 2, "which tool?"),
        (["clac", "add"], 1, "there are: calc; did you mean 'calc'?"),
        (["calc", "ad"], 1, "there are: add, echo, fail; did you mean 'add'?"),
        (["calc", "add", "2"], 1, "one JSON object, or NAME=VALUE; got '2'"),
        (["calc", "add", "{x}"], 1, "the arguments are not JSON"),
        (["calc", "fail"], 1, "the tool failed: "),
    ],
)
def test_a_call_that_fails(mcp, words, code, said):
    """One line says what is wrong; nothing is on standard output."""
    found, out, err = mcp("call", *words)
    assert (found, out) == (code, "")
    assert said in err
    assert "Traceback" not in err


def test_the_result_as_json(mcp):
    """The content, and whether it is an error."""
    found = json.loads(mcp("call", "calc", "echo", "text=hi", "--json")[1])
    assert found["content"][0]["text"] == "hi"
    assert found["is_error"] is False


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_cancels_the_call_at_the_server(fake, file, state, number, code):
    """The server hears of it before the command ends; progress was shown."""

    @fake.tool
    def slow(ctx) -> str:
        """Wait for a cancel."""
        ctx.progress(1, 3, "step one")
        ctx.until_cancelled()
        return "never seen"

    arguments = ("mcp", "call", "--config", str(file), "--trust-mcp", "calc", "slow")
    with start(*arguments, env=state) as process:
        read_until(process.stderr, "1/3 step one\n")
        process.send_signal(number)
        out, err = process.communicate()
    assert (process.returncode, out) == (code, "")
    assert err == "syncagent: cancelled\n"
    assert len(fake.cancels()) == 1


@pytest.mark.slow
def test_a_call_that_takes_too_long(fake, mcp):
    """--timeout ends it with the code of timeout(1), and the server is told."""
    fake.on("tools/call", lambda exchange: exchange.until_cancelled())
    code, out, err = mcp("call", "calc", "fail", "--timeout", "1.5")
    assert (code, out, err) == (124, "", "syncagent: timeout\n")
    # On a busy machine the time may be over before the call begins.
    assert len(fake.cancels()) == len(fake.requests("tools/call"))


def test_a_question_of_the_server_is_asked_on_the_terminal(fake, file, state):
    """With its name; without a terminal the server is told that no one is there."""

    @fake.tool
    def greet(ctx) -> str:
        """Ask for a name."""
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        return f"Hello {ctx.elicit('Who are you?', schema)['content']['name']}."

    line = ("mcp", "call", "--config", str(file), "--trust-mcp", "calc", "greet")
    with on_terminal(*line, **state) as terminal:
        terminal.see("calc asks: Who are you?")
        terminal.see("name")
        terminal.see(": ")
        terminal.type("Ada\n")
        assert terminal.finish() == 0
    assert "Hello Ada." in terminal.screen
    assert finish(*line, env=state)[0] == 1


# -- doctor --------------------------------------------------------------------------


def test_a_healthy_server(mcp):
    """The command, the time to start, the protocol and the tools; code 0."""
    code, out, _ = mcp("doctor")
    assert code == 0
    for said in ("command", "start", "protocol  ", "3: add, echo, fail", "No problems"):
        assert said in out


def test_sick_servers(mcp, file, fake):
    """What is wrong and what to do, for each; the healthy ones are checked, too."""
    data = json.loads(file.read_text())
    data["mcpServers"] |= {
        "gone": {"command": "no-such-program"},
        "line": {"command": "npx -y server"},
        "exits": {"command": "sh", "args": ["-c", "echo 'no key' >&2; exit 3"]},
        "unset": {"command": "sh", "env": {"K": "${NOT_SET_HERE}"}},
        "off": {"command": "no-such-program", "disabled": True},
        "typo": {"command": fake.command[0], "args": fake.command[1:], "argz": 1},
    }
    file.write_text(json.dumps(data))
    code, out, _ = mcp("doctor")
    assert code == 1
    assert "there is no program no-such-program; install it" in out
    assert "put the program into command, and its arguments into args" in out
    assert "ended with exit status 3" in out
    assert "start it by hand and read its errors: sh -c" in out
    assert "the environment variable NOT_SET_HERE is not set" in out
    assert "disabled in its file, not started" in out
    assert "argz: unknown key, not used; did you mean 'args'?" in out
    assert out.endswith("\nProblems: gone, line, exits, unset.\n")
    report = json.loads(mcp("doctor", "--json")[1])
    assert report["ok"] is False
    assert report["servers"]["off"][0]["status"] == "off"


# -- trust ---------------------------------------------------------------------------


def test_without_a_terminal_a_new_server_is_refused(mcp, fake):
    """The error shows the command and the flag; nothing was started."""
    code, out, err = mcp("list", options=())
    assert (code, out) == (1, "")
    assert fake.command[-1] in err
    assert "add --trust-mcp" in err
    assert not fake.processes


@pytest.mark.slow
def test_a_new_server_is_asked_about_once(fake, file, state):
    """The exact command is shown; yes is remembered until the command changes."""
    arguments = ("mcp", "call", "--config", str(file), "calc", "add", "a=1", "b=1")
    with on_terminal(*arguments, **state) as terminal:
        terminal.see("[y]es  [n]o")
        assert fake.command[-1] in terminal.screen
        assert "It runs with your rights. Allow it?" in terminal.screen
        assert not fake.processes
        terminal.type("what?\n")
        terminal.type("y\n")
        assert terminal.finish() == 0
    assert terminal.screen.endswith("2\r\n")
    assert finish(*arguments, env=state) == (0, "2\n", "")  # even without a terminal
    data = json.loads(file.read_text())
    data["mcpServers"]["calc"]["env"] = {"LD_PRELOAD": "./evil.so"}
    file.write_text(json.dumps(data))
    assert finish(*arguments, env=state)[0] == 1


@pytest.mark.parametrize("answer", ["n\n", "\x04"])
def test_a_server_that_is_not_allowed_is_not_started(fake, file, state, answer):
    """No, or the end of input; nothing is remembered."""
    arguments = ("mcp", "call", "--config", str(file), "calc", "add", "a=1", "b=1")
    with on_terminal(*arguments, **state) as terminal:
        terminal.see("[y]es  [n]o")
        terminal.type(answer)
        assert terminal.finish() == 1
    assert "calc is not started" in terminal.screen
    assert not fake.processes
    assert finish(*arguments, env=state)[0] == 1


def test_ctrl_c_at_the_question_ends_the_command(file, fake, state):
    """Code 130; nothing was started."""
    with on_terminal("mcp", "list", "--config", str(file), **state) as terminal:
        terminal.see("[y]es  [n]o")
        terminal.type("\x03")
        assert terminal.finish() == 130
    assert not fake.processes


def test_an_input_of_a_file_is_asked_for(fake, file, state):
    """On the terminal, without showing it; elsewhere it is an error."""
    data = json.loads(file.read_text())
    data["inputs"] = [{"id": "key", "description": "The key?", "password": True}]
    data["mcpServers"]["calc"]["env"] = {"KEY": "${input:key}"}
    file.write_text(json.dumps(data))
    arguments = ("mcp", "list", "--config", str(file), "--trust-mcp")
    with on_terminal(*arguments, **state) as terminal:
        terminal.see("The key?: ")
        terminal.type("s3cret\n")
        assert terminal.finish() == 0
    assert "s3cret" not in terminal.screen
    code, _, err = finish(*arguments, env=state)
    assert code == 1
    assert "needs the input 'key'" in err


# -- run and chat --------------------------------------------------------------------


def asking(name="calc_add", **arguments):
    return [say(call(name, arguments or {"a": 2, "b": 3})), "Five."]


def test_a_run_calls_tools_of_servers(file, fake, state):
    """--approve all allows it; the servers are gone when the command is."""
    with FakeServer(asking()) as server:
        line = (
            "run",
            "-q",
            "--mcp",
            str(file),
            "--trust-mcp",
            "--approve",
            "all",
            "2+3",
        )
        ended = finish(*line, server=server, env=state)
        assert "calc_add" in str(server.requests[0].payload["tools"])
        assert "'5'" in str(server.requests[1].payload["messages"])
    assert ended == (0, "Five.\n", "")
    for process in fake.processes:
        process.wait_ended()


def test_each_call_needs_an_approval(file, fake, state):
    """Without a terminal it is denied, the tools that call themselves read-only too."""
    fake.tool(annotations={"readOnlyHint": True})(look)
    with FakeServer(asking("calc_look", x=1)) as server:
        line = ("run", "--mcp", str(file), "--trust-mcp", "2+3")
        code, _, err = finish(*line, server=server, env=state)
    assert code == 0
    assert "denied: calc_look(x=1); allow it with --approve all" in err
    assert not fake.requests("tools/call")


def look(x: int) -> str:
    """Look, and change nothing."""
    return "seen"


def test_an_approval_names_the_server(file, fake, state):
    """The question has the tool's own name and its server; always is remembered."""
    twice = [*asking()[:1], *asking()]
    with FakeServer(twice) as server:
        line = ("run", "--mcp", str(file), "--trust-mcp", "2+3")
        with on_terminal(*line, server=server, **state) as terminal:
            terminal.see("[a]lways")
            assert "add of the MCP server calc" in terminal.screen
            terminal.type("a\n")
            assert terminal.finish() == 0
    assert terminal.screen.count("[a]lways") == 1
    assert len(fake.requests("tools/call")) == 2


@pytest.mark.slow
def test_a_server_of_a_run_that_does_not_start(file, state):
    """Code 7, before the model is asked; --mcp-server chooses others."""
    data = json.loads(file.read_text())
    data["mcpServers"]["bad"] = {"command": "sh", "args": ["-c", "echo no key >&2"]}
    file.write_text(json.dumps(data))
    with FakeServer(["Hello."]) as server:
        line = ("run", "-q", "--mcp", str(file), "--trust-mcp", "Hi")
        code, out, err = finish(*line, server=server, env=state)
        assert (code, out) == (7, "")
        assert "no key" in err
        assert not server.requests
        line += ("--mcp-server", "calc")
        assert finish(*line, server=server, env=state) == (0, "Hello.\n", "")
        assert finish(*line, "--mcp-server", "x", server=server, env=state)[0] == 1


def test_options_that_need_a_file():
    """Wrong usage is told before anything happens."""
    for option in (("--mcp-server", "x"), ("--trust-mcp",)):
        code, _, err = finish("run", *option, "Hi")
        assert code == 2
        assert "need --mcp FILE" in err


def test_a_chat_has_the_tools_of_servers(file, fake, state):
    """The trust question comes before the chat; each call is asked about."""
    with FakeServer(asking()) as server:
        line = ("chat", "--plain", "--mcp", str(file))
        with on_terminal(*line, server=server, **state) as terminal:
            terminal.see("Allow it?")
            terminal.see("[y]es  [n]o")
            terminal.type("y\n")
            terminal.see("> ")
            terminal.type("2+3\n")
            terminal.see("Allow calc_add(a=2, b=3)?")
            terminal.see("add of the MCP server calc")
            terminal.see("[e]dit")
            terminal.type("y\n")
            terminal.see("Five.")
            terminal.type("/quit\n")
            assert terminal.finish() == 0
    assert len(fake.requests("tools/call")) == 1
    for process in fake.processes:
        process.wait_ended()
