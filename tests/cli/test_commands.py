"""The command line."""

import re
import signal

import pytest
from shell import in_shell, read_until
from support.commands import start

from syncagent import __version__
from syncagent.cli.main import COMMANDS, main
from syncagent.models.known import known_date


@pytest.mark.slow
def test_demo_cancels_every_job(capsys):
    """Each job that would block for ever ends, and says after how many milliseconds."""
    assert main(["demo"]) == 0
    ended = re.findall(r"ended +([0-9.]+) ms after cancel\(\)", capsys.readouterr().out)
    assert len(ended) == 6


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_demo(signum):
    """Ctrl+C in the middle of a job ends it cleanly, with the shell's exit code."""
    with start("demo") as process:
        read_until(process.stdout, "waiting for")
        process.send_signal(signum)
        _, err = process.communicate()
    assert process.returncode == 128 + signum
    assert "cancelled" in err
    assert "Traceback" not in err


def test_version(capsys):
    """--version says of what, and which."""
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == f"syncagent {__version__}"


def test_the_bare_command_shows_all_commands(capsys):
    """With a line about each, on standard output."""
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert [name for name in COMMANDS if not re.search(rf"\n    {name}\s", out)] == []


@pytest.mark.parametrize(
    ("command", "action"), [("mcp", "doctor"), ("store", "migrate")]
)
def test_a_group_of_commands_shows_them(command, action, capsys):
    """It is asked for nothing, so there is nothing wrong."""
    with pytest.raises(SystemExit) as ended:
        main([command])
    assert ended.value.code == 0
    assert f"\n    {action} " in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"]])
def test_wrong_usage(arguments, capsys):
    """A wrong command is answered with the right ones, and exit code 2."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "syncagent" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["chat", "models", "mcp list"])
def test_an_unknown_option_is_answered_with_those_of_its_command(command, capsys):
    """And not with the list of the commands."""
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--modell", "demo"])
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith(f"usage: syncagent {command} [-h]")
    assert f"syncagent {command}: error: unrecognized arguments: --modell" in err


def test_models_are_listed_without_their_keys(capsys, monkeypatch):
    """Where each key comes from and whether it is set, never what it is.

    The date of the prices stands below.
    """
    monkeypatch.setenv("ANTHROPIC_API_KEY", "the-secret-itself")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert main(["models"]) == 0
    said = capsys.readouterr().out
    assert "the-secret-itself" not in said
    assert re.search(r"anthropic:\S+ +set \(ANTHROPIC_API_KEY or", said)
    assert re.search(r"openai:\S+ +missing, set OPENAI_API_KEY", said)
    assert re.search(r"ollama:\S+ +not needed", said)
    assert re.search(r"^local +not needed", said, re.MULTILINE)
    assert re.search(r"^demo +not needed", said, re.MULTILINE)
    assert said.endswith(f"context windows are those of {known_date()}.\n")


def test_who_has_seen_enough_gets_no_traceback():
    """``syncagent models | head -1`` ends quietly."""
    _, out, err = in_shell("$SYNCAGENT models | head -c 1")
    assert (len(out), err) == (1, b"")
