"""Files such as mcp.json: both formats, variables, and clear words for mistakes."""

import json
import logging
import os
import re

import pytest

from syncagent.exceptions import ConfigurationError
from syncagent.mcp.config import read_config
from syncagent.mcp.variables import ConfigInput

FULL = {"command": "npx", "args": ["-y", "server"], "env": {"A": "1"}, "cwd": "sub"}


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a file and returns its path."""

    def write(value, name="mcp.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    return write


def one(path):
    """Return the only server of a file."""
    (config,) = read_config(path).servers.values()
    return config


def complaint(path):
    """Return what reading a file says, without the path of the file."""
    with pytest.raises(ConfigurationError) as caught:
        for config in read_config(path).chosen():
            config.expanded()
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value).removeprefix(f"{path}: ")


# -- formats -------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["mcpServers", "servers"])
def test_both_formats_are_read(write, key, tmp_path):
    """Claude, Copilot and Cursor say mcpServers, VS Code says servers."""
    config = one(write({key: {"files": {**FULL, "timeout": 20}}})).expanded()
    assert config.command == ("npx", "-y", "server")
    assert (config.env, config.timeout) == ({"A": "1"}, 20.0)
    assert config.cwd == str(tmp_path / "sub")
    assert config.place == f"{key}.files"


def test_settings_of_an_editor_are_read(write):
    """In settings.json of VS Code the servers are one object deeper."""
    text = {"editor.tabSize": 2, "mcp": {"servers": {"a": {"url": "https://x/mcp"}}}}
    assert one(write(text)).url == "https://x/mcp"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (None, "auto"),
        ("http", "auto"),
        ("streamable-http", "streamable"),
        ("streamableHttp", "streamable"),
        ("sse", "sse"),
    ],
)
def test_kinds_of_remote_servers(write, kind, expected):
    """The type is optional: a URL says enough."""
    entry = {"url": "https://example.com/mcp", "headers": {"X": "y"}}
    entry |= {"type": kind} if kind else {}
    config = one(write({"mcpServers": {"web": entry}})).expanded()
    assert (config.kind, config.url) == (expected, "https://example.com/mcp")
    assert config.headers == {"X": "y"}


def test_comments_and_trailing_commas_are_allowed(write):
    """As editors write them; not inside strings."""
    path = write(
        """\ufeff{
        // the servers
        "servers": { /* one
            of them */
            "web": {"url": "https://x//y/*z*/", "headers": {"A": "1, }", /* */ }, },
        },
    }"""
    )
    config = one(path)
    assert config.url == "https://x//y/*z*/"
    assert config.headers == {"A": "1, }"}


def test_the_place_of_a_mistake_stays_true_after_comments(write):
    """Lines and columns of an error are those of the file."""
    said = complaint(write('{\n /* a\n b */ "servers": {x}\n}'))
    assert said.startswith("not JSON: ")
    assert "line 3 column 19" in said


@pytest.mark.parametrize(
    ("given", "seconds"), [(30, 30.0), (0.5, 0.5), (999, 999.0), (60000, 60.0)]
)
def test_timeouts_are_seconds_or_milliseconds(write, given, seconds):
    """Programs disagree; a thousand and more are milliseconds."""
    entry = {"command": "x", "timeout": given}
    assert one(write({"servers": {"a": entry}})).timeout == seconds


def test_disabled_servers_are_not_chosen(write):
    """By default they stay out; to name one is an error that says why."""
    file = read_config(
        write({"servers": {"a": {"command": "x", "disabled": True}, "b": FULL}})
    )
    assert [each.name for each in file.chosen()] == ["b"]
    with pytest.raises(ConfigurationError, match=r"servers\.a: the server is disabled"):
        file.chosen(["a"])


def test_a_name_that_is_not_there(write):
    """The error lists the names, and the one that was meant."""
    file = read_config(write({"servers": {"github": FULL}}))
    with pytest.raises(ConfigurationError) as caught:
        file.chosen(["githib"])
    assert "no server 'githib'; there are: github; did you mean 'github'?" in str(
        caught.value
    )
    with pytest.raises(ConfigurationError, match="only takes a list"):
        file.chosen("github")


def test_choices_of_tools_are_not_lost(write):
    """A file that narrows the tools for another program narrows them here."""
    entry = {**FULL, "tools": ["read_*"], "disabledTools": ["read_all"]}
    config = one(write({"mcpServers": {"a": entry}}))
    assert (config.only, config.without) == (("read_*",), ("read_all",))
    assert one(write({"mcpServers": {"a": FULL}})).only is None


# -- mistakes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "expected an object, got an array"),
        ("{}", "expected one key 'mcpServers' or 'servers', got nothing"),
        ('{"server": {}}', "expected one key 'mcpServers' or 'servers', got 'server'"),
        ('{"servers": []}', "servers: expected an object, got an array"),
        ('{"servers": {"a": "npx"}}', "servers.a: expected an object, got a string"),
        (
            '{"servers": {"a": {"comand": "x"}}}',
            "servers.a: expected 'command' or 'url', got neither; did you mean "
            "'command'?",
        ),
        (
            '{"servers": {"a": {"command": "x", "url": "y"}}}',
            "servers.a: expected 'command' or 'url', got both",
        ),
        (
            '{"servers": {"a": {"command": ["x"]}}}',
            "servers.a.command: expected a string, got an array",
        ),
        (
            '{"servers": {"a": {"command": " "}}}',
            "servers.a.command: expected a text, got an empty one",
        ),
        (
            '{"servers": {"a": {"command": "x", "args": "-y z"}}}',
            "servers.a.args: expected an array, got a string",
        ),
        (
            '{"servers": {"a": {"command": "x", "args": ["-y", 3]}}}',
            "servers.a.args[1]: expected a string, got a number",
        ),
        (
            '{"servers": {"a": {"command": "x", "env": {"K": null}}}}',
            "servers.a.env.K: expected a string, got null",
        ),
        (
            '{"servers": {"a": {"url": "x", "type": "htpp"}}}',
            "servers.a.type: expected one of 'stdio', 'local', 'http', "
            "'streamable-http', 'streamableHttp', 'sse', got 'htpp'; did you mean "
            "'http'?",
        ),
        (
            '{"servers": {"a": {"command": "x", "type": "sse"}}}',
            "servers.a.type: 'sse' does not go with the key 'command'",
        ),
        (
            '{"servers": {"a": {"command": "x", "timeout": -1}}}',
            "servers.a.timeout: expected a positive number, got -1",
        ),
        (
            '{"servers": {"a": {"command": "x", "disabled": "no"}}}',
            "servers.a.disabled: expected true or false, got a string",
        ),
        (
            '{"servers": {"a": {"command": "x"}, "a": {"command": "y"}}}',
            "not JSON: the key 'a' is there twice in one object",
        ),
        (
            '{"servers": {"a": {"command": "\\ud800"}}}',
            "servers.a.command: expected text, got half a character",
        ),
        ('{"servers": {"": {}}}', "servers: '' is not a name for a server"),
        (
            '{"servers": {}, "inputs": [{}]}',
            "inputs[0].id: expected a string, got null",
        ),
    ],
)
def test_mistakes_are_told_with_their_place(write, text, said):
    """The file, the path in it, what is expected, and what is there."""
    assert complaint(write(text)) == said


def test_a_file_that_is_not_there(tmp_path):
    """Its name and the reason, in one line."""
    assert complaint(tmp_path / "no.json") == "No such file or directory"


def test_deep_nesting_is_an_error(write):
    """A file cannot exhaust the stack."""
    assert "not JSON" in complaint(write("[" * 100_000))


def test_unknown_keys_are_warnings(write, caplog):
    """They do no harm, and may be a typo; those that approve calls have no effect."""
    entry = {**FULL, "argz": [], "autoApprove": ["*"], "description": "x"}
    with caplog.at_level(logging.WARNING, "syncagent.mcp"):
        config = one(
            write(
                {
                    "mcpServers": {
                        "a": entry,
                    }
                }
            )
        )
    said = [message.partition("mcpServers.a.")[2] for message in caplog.messages]
    assert said == [
        "argz: unknown key, not used; did you mean 'args'?",
        "autoApprove: no effect here; a file gives no approvals",
    ]
    assert len(config.warnings) == 2


# -- variables -----------------------------------------------------------------------


def with_header(text):
    entry = {"url": "https://x/mcp", "headers": {"Authorization": text}}
    return {"mcpServers": {"web": entry}}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("Bearer ${TOK}", "Bearer s3cret"),
        ("Bearer ${env:TOK}", "Bearer s3cret"),
        ("${NOT_SET:-Basic x}", "Basic x"),
        ("${EMPTY:-Basic x}", "Basic x"),
        ("${TOK:-other}/${userHome}", "s3cret/{home}"),
        ("${DOLLAR}", "a${TOK}b"),
        ("$TOK $5", "$TOK $5"),
    ],
)
def test_variables_get_their_values(write, monkeypatch, text, expanded):
    """Once: a value that looks like a variable stays as it is."""
    monkeypatch.setenv("TOK", "s3cret")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("DOLLAR", "a${TOK}b")
    config = one(write(with_header(text))).expanded()
    home = os.path.expanduser("~")
    assert config.headers["Authorization"] == expanded.replace("{home}", home)
    assert "s3cret" not in repr(config)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Bearer ${NOT_SET_1}", "the environment variable NOT_SET_1 is not set"),
        ("Bearer ${env:NOT_SET_1}", "the environment variable NOT_SET_1 is not set"),
        ("Bearer ${NOT_SET_1:-}", "the header would be empty"),
        ("${EMPTY}", "the header would be empty"),
        ("${LINES}", "a line end or another control character"),
        ("${command:x}", "${command:x} is not known here; there are ${NAME}"),
        ("${A:-${B}}", "not closed, or is inside another"),
        ("${A", "not closed, or is inside another"),
        ("${input:tok}", "needs the input 'tok' from a person; pass ask="),
    ],
)
def test_a_missing_value_is_an_error(write, monkeypatch, text, said):
    """Never an empty header; the error names the variable, the file and the server."""
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("LINES", "a\r\nX-Evil: 1")
    found = complaint(write(with_header(text)))
    assert found.startswith("mcpServers.web.headers.Authorization: ")
    assert said in found


def test_places_are_those_of_the_project(write, tmp_path):
    """workspaceFolder is the folder of the file, or the one around .vscode."""
    entry = {"command": "${workspaceFolder}/x", "args": ["${workspaceFolderBasename}"]}
    for name in ("mcp.json", ".vscode/mcp.json"):
        config = one(write({"servers": {"a": entry}}, name)).expanded()
        assert config.command == (f"{tmp_path}/x", tmp_path.name)


def test_inputs_are_asked_for_once(write):
    """The handler gets what the file says of an input; one answer does for all."""
    asked = []

    def ask(wanted):
        asked.append(wanted)
        return "42"

    entry = {"command": "x", "args": ["${input:key}"], "env": {"K": "${input:key}"}}
    inputs = [
        {"id": "key", "type": "promptString", "description": "Key?", "password": True}
    ]
    config = one(write({"inputs": inputs, "servers": {"a": entry}})).expanded(ask)
    assert (config.command, config.env) == (("x", "42"), {"K": "42"})
    assert asked == [ConfigInput("key", "Key?", True)]


def test_an_env_file_is_read(write, tmp_path):
    """Comments, quotes and export; the file's own env has the last word."""
    (tmp_path / "my.env").write_text(
        "# secrets\nA=1\nexport B='two words'\n\nC=3 # three\nD=\"x=y\"\nE=\n"
    )
    entry = {"command": "x", "envFile": "${workspaceFolder}/my.env", "env": {"A": "0"}}
    config = one(write({"servers": {"a": entry}})).expanded()
    assert config.env == {"A": "0", "B": "two words", "C": "3", "D": "x=y", "E": ""}
    (tmp_path / "my.env").write_text("A=1\nnonsense\n")
    path = write({"servers": {"a": entry}})
    assert "my.env, line 2: expected NAME=value" in complaint(path)
    (tmp_path / "my.env").unlink()
    assert re.match(r"servers\.a\.envFile: cannot read .*my\.env", complaint(path))


# -- what a person has to see --------------------------------------------------------


def test_the_variables_that_leave_are_known_before(write):
    """A file can send any variable anywhere; names are known without values."""
    entry = {"url": "https://x/${A}", "headers": {"K": "${env:B} ${C:-d} ${userHome}"}}
    assert one(write({"servers": {"a": entry}})).variables == ("A", "B", "C")


@pytest.mark.parametrize(
    "change",
    [
        {"command": "npm"},
        {"args": ["-y", "server", "--all"]},
        {"env": {"A": "1", "NODE_OPTIONS": "--require ./x.js"}},
        {"env": {"A": "2"}},
        {"cwd": "other"},
        {"envFile": ".env"},
    ],
)
def test_the_fingerprint_changes_with_what_is_run(write, change):
    """Anything that decides what runs changes it; a timeout does not."""
    before = one(write({"servers": {"a": FULL}})).fingerprint
    assert one(write({"servers": {"a": {**FULL, **change}}})).fingerprint != before
    assert one(write({"servers": {"a": {**FULL, "timeout": 9}}})).fingerprint == before


@pytest.mark.parametrize("name", [".env", "${workspaceFolder}/.env"])
def test_the_fingerprint_changes_with_the_env_file(write, tmp_path, name):
    """Variables of a file can run code, too."""
    path = write({"servers": {"a": {**FULL, "envFile": name}}})
    before = one(path).fingerprint
    (tmp_path / ".env").write_text("NODE_OPTIONS=--require ./x.js")
    assert one(path).fingerprint != before
