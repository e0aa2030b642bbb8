"""The servers of a file that the user has agreed to start."""

import json
import re

import pytest

from syncagent.cli.mcp.trust import TrustFile, exact_text, server_text, state_folder
from syncagent.mcp.config import read_config


@pytest.fixture
def config(tmp_path):
    """Return a function that writes a file with one server, and returns the server."""

    def config(name="mcp.json", server="files", **entry):
        path = tmp_path / name
        path.write_text(json.dumps({"mcpServers": {server: entry}}))
        return read_config(path).servers[server]

    return config


@pytest.fixture
def trust(tmp_path):
    return TrustFile(tmp_path / "state" / "syncagent" / "trust.json")


def test_a_server_is_remembered_by_all_that_it_does(config, trust):
    """Another command, file or name is another question; the same one is none."""
    first = config(command="npx", args=["-y", "server"])
    assert not trust.has(first)
    trust.add(first)
    assert trust.has(config(command="npx", args=["-y", "server"]))
    assert TrustFile(trust.path).has(first)
    assert not trust.has(config(command="npx", args=["-y", "other"]))
    assert not trust.has(config(command="npx", args=["-y", "server"], env={"A": "1"}))
    same = {"command": "npx", "args": ["-y", "server"]}
    assert not trust.has(config("other.json", **same))
    assert not trust.has(config(server="others", **same))


def test_several_servers_are_remembered(config, trust):
    """One answer does not forget another."""
    first, second = config(command="a"), config("b.json", command="b")
    trust.add(first)
    trust.add(second)
    assert trust.has(first)
    assert trust.has(second)


def test_only_the_user_can_read_and_write_it(config, trust):
    """It says what may be run: folder 0700, file 0600."""
    trust.add(config(command="a"))
    assert trust.path.stat().st_mode & 0o777 == 0o600
    assert trust.path.parent.stat().st_mode & 0o777 == 0o700
    assert [each.name for each in trust.path.parent.iterdir()] == ["trust.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"trusted": []}', "[" * 100_000])
def test_a_damaged_file_means_to_ask_again(config, trust, text):
    """It is no error, and is written anew."""
    trust.path.parent.mkdir(parents=True)
    trust.path.write_text(text)
    server = config(command="a")
    assert not trust.has(server)
    trust.add(server)
    assert trust.has(server)


def test_a_folder_that_cannot_be_written_is_no_error(config, tmp_path):
    """The server was allowed; it is only asked about again."""
    (tmp_path / "file").write_text("")
    trust = TrustFile(tmp_path / "file" / "trust.json")
    server = config(command="a")
    trust.add(server)
    assert not trust.has(server)


def test_it_is_in_the_users_state_folder(monkeypatch, tmp_path):
    """XDG_STATE_HOME, if it is absolute; else ~/.local/state."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_folder() == tmp_path / "syncagent"
    monkeypatch.setenv("HOME", "/home/anna")
    for wrong in ("", "relative"):
        monkeypatch.setenv("XDG_STATE_HOME", wrong)
        assert str(state_folder()) == "/home/anna/.local/state/syncagent"


def test_the_question_shows_all_and_hides_values(config):
    """The exact command, names of variables, and never a value that may be a secret."""
    text = server_text(
        config(
            command="sh",
            args=["-c", "echo  'a b'\nrm \x1b[2K\u202e"],
            env={"KEY": "s3cret", "OTHER": "${GITHUB_TOKEN}"},
            cwd="/srv",
            envFile=".env",
        )
    )
    assert text.splitlines() == [
        "    sh -c 'echo  '\"'\"'a b'\"'\"'\\nrm \\x1b[2K\\u202e'",
        "    in: /srv",
        "    env: KEY, OTHER",
        "    env file: .env",
        "    gets from your environment: GITHUB_TOKEN",
    ]
    text = server_text(
        config(url="https://x/mcp?a=1", headers={"Authorization": "Bearer ${A} s3cret"})
    )
    assert text.splitlines() == [
        "    https://x/mcp?a=1",
        "    headers: Authorization",
        "    gets from your environment: A",
    ]


def test_nothing_of_a_command_can_be_hidden():
    """Spaces stay, everything that is not visible becomes an escape."""
    assert exact_text("a  b\t\r\n\x00\x9b\u200bé") == "a  b\\t\\r\\n\\x00\\x9b\\u200bé"
    assert not re.search(r"[^ -~]", exact_text("".join(map(chr, range(128)))))
