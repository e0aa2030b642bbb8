"""``syncagent runs`` and ``syncagent store``: look at a store, and look after it."""

import json
import os
import signal
import sqlite3
import unicodedata

import pytest
from shell import on_terminal
from store_process import get, submit
from support.commands import finish, start
from support.threads import until

from syncagent.cli.main import main
from syncagent.stores import RunStore
from syncagent.stores.schema import VERSION


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/runs.db"


def run(url, *arguments):
    """Run a command with a store to its end; return its exit code, output, errors."""
    return finish(*arguments, env={"SYNCAGENT_STORE": url})


# -- runs --------------------------------------------------------------------------


def test_runs_are_listed(url):
    """Newest first; in a pipe with whole ids, each a line, without colours."""
    old = submit(url, "Charge all\nthree \x1b[31m.", owner="anna", agent="billing")
    new = submit(url, "Mail\tthem.", owner="bert\x1b]0;title\x07")
    code, out, err = run(url, "runs")
    head, first, second = out.splitlines()
    assert (code, err) == (0, "")
    assert head.split() == ["ID", "STATE", "AGENT", "OWNER", "AGE", "WORKER", "PROMPT"]
    assert first.startswith(f"{new}  queued")
    assert second.startswith(f"{old}  queued")
    assert second.endswith("Charge all three \N{SYMBOL FOR ESCAPE}[31m.")
    assert "\x1b" not in out


def test_runs_can_be_chosen(url):
    """By owner, only live ones, only some, and as JSON with everything."""
    mine = submit(url, "One", owner="anna", labels={"queue": "fast"})
    ended = submit(url, "Two", owner="anna")
    submit(url, "Three", owner="bert")
    assert run(url, "cancel", ended)[0] == 0
    _, out, _ = run(url, "runs", "--owner", "anna", "--live", "--json")
    (line,) = map(json.loads, out.splitlines())
    assert (line["id"], line["state"], line["labels"]) == (
        *(mine, "queued"),
        {"queue": "fast"},
    )
    assert len(run(url, "runs", "--limit", "2")[1].splitlines()) == 3
    assert run(url, "runs", "--owner", "nobody") == (0, "", "There are no runs.\n")
    assert run(url, "runs", "--limit", "0")[0] == 2


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_table_fits_the_terminal(url, width):
    """No line is wider, also with wide characters; ids are short, and can be used."""
    ids = [submit(url, "長い話" * 40, owner="o" * 50, agent="a" * 50) for _ in "12"]
    env = {"SYNCAGENT_STORE": url, "COLUMNS": str(width)}
    with on_terminal("runs", **env) as terminal:
        assert terminal.finish() == 0
    assert "\x1b[" in terminal.screen
    with on_terminal("runs", **env, NO_COLOR="1") as terminal:
        assert terminal.finish() == 0
    head, *lines = terminal.screen.splitlines()
    assert "\x1b" not in terminal.screen
    assert [line.split()[0] for line in lines] == [id[:12] for id in reversed(ids)]
    for line in (head, *lines):
        assert sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in line) <= width
    assert run(url, "cancel", lines[0].split()[0])[0] == 0


# -- wrong input, and a store that is away -------------------------------------------


def test_a_store_must_be_named():
    """Without a store the command says how to name one."""
    code, _, err = finish("runs")
    assert code == 2
    assert "--store sqlite:///runs.db, or set SYNCAGENT_STORE" in err


@pytest.mark.parametrize(
    "arguments", [("runs",), ("cancel", "x" * 8), ("store", "check"), ("follow", "x")]
)
def test_a_store_that_is_not_there_is_not_made(tmp_path, arguments):
    """A wrong name makes no file: it ends with 5, and says what to do."""
    place = tmp_path / "no" / "runs.db"
    code, _, err = finish(*arguments, "--store", f"sqlite:///{place}")
    assert code == 5
    assert "syncagent store migrate" in err
    assert not place.parent.exists()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("mysql://root:secret@h/x", "no store for mysql"), ("sqlite://", "needs a file")],
)
def test_a_wrong_url(text, complaint):
    """It is told what is wrong, and never with a password."""
    code, _, err = finish("runs", "--store", text)
    assert code == 1
    assert complaint in err
    assert "secret" not in err
    assert "Traceback" not in err


def test_a_file_that_is_no_store(tmp_path):
    """Another file is left as it is."""
    place = tmp_path / "notes.txt"
    place.write_text("not a database " * 100)
    for arguments in (("runs",), ("store", "migrate"), ("store", "check")):
        code, _, err = finish(*arguments, "--store", f"sqlite:///{place}")
        assert code == 1
        assert "is not a store" in err
        assert "Traceback" not in err


@pytest.mark.parametrize("command", ["cancel", "answer"])
def test_a_locked_store_is_away(url, command, capsys):
    """While another process holds the lock, nothing is done, and the code is 5."""
    id = submit(url)
    path = url.removeprefix("sqlite:///")
    lock = sqlite3.connect(path, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    arguments = [command, id, *(["question", "yes"] if command == "answer" else [])]
    store = RunStore(url, timeout=0.1)
    try:
        assert main(arguments, store=store) == 5
    finally:
        lock.close()
        store.close()
    assert "is not available" in capsys.readouterr().err
    assert get(url, id).state == "queued"


def test_ctrl_c_ends_the_wait_for_a_locked_store(url):
    """It is a cancel, at once, and not a store that is away."""
    id = submit(url)
    path = url.removeprefix("sqlite:///")
    lock = sqlite3.connect(path, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    try:
        with start("cancel", id, env={"SYNCAGENT_STORE": url}) as waiting:
            until(lambda: os.listdir(f"{path}-hints"))  # it has opened the store
            waiting.send_signal(signal.SIGINT)
            _, err = waiting.communicate(timeout=8)
    finally:
        lock.close()
    assert (waiting.returncode, err) == (130, "syncagent: cancelled\n")
    assert get(url, id).state == "queued"


# -- store ---------------------------------------------------------------------------


def test_migrate_makes_a_store(url):
    """It tells the versions before and after, and can be repeated."""
    code, out, _ = run(url, "store", "migrate")
    made = f"The store had schema version 0, and has {VERSION} now.\n"
    assert (code, out) == (0, made)
    code, out, _ = run(url, "store", "migrate")
    assert (code, out) == (0, f"The store is up to date: schema version {VERSION}.\n")
    assert oct(os.stat(url.removeprefix("sqlite:///")).st_mode & 0o777) == "0o600"


def test_prune_deletes_what_is_old(url):
    """Events first, then runs, each by its own age; live runs stay."""
    ids = [submit(url) for _ in "123"]
    live = submit(url)
    for id in ids:
        run(url, "cancel", id)
    assert run(url, "store", "prune", "--events", "1h", "--runs", "1d")[:2] == (
        *(0, "Deleted the events of 0 runs.\nDeleted 0 runs.\n"),
    )
    assert run(url, "store", "prune", "--events", "0")[:2] == (
        *(0, "Deleted the events of 3 runs.\n"),
    )
    assert run(url, "store", "prune", "--runs", "0s")[:2] == (0, "Deleted 3 runs.\n")
    assert run(url, "runs")[1].splitlines()[1].startswith(live)


@pytest.mark.slow
def test_prune_works_in_batches(url):
    """More than fits into one transaction is counted as a whole."""
    with RunStore(url, enqueue=lambda run: None) as store:
        for _ in range(501):
            store.cancel(store.submit("Hello"))
    assert run(url, "store", "prune", "--runs", "0")[1] == "Deleted 501 runs.\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "how old?"),
        (["--runs", "long"], "must be a number of seconds"),
        (["--events", "-1"], "must be a number of seconds"),
    ],
)
def test_prune_asks_how_old(url, arguments, complaint):
    """Nothing is deleted by a command that does not say what."""
    code, _, err = run(url, "store", "prune", *arguments)
    assert code == 2
    assert complaint in err


def test_check_finds_nothing_wrong(url):
    """An empty store is well; so is one without workers that has nothing to do."""
    run(url, "store", "migrate")
    code, out, _ = run(url, "store", "check")
    assert code == 0
    assert "integrity              ok" in out
    assert out.endswith("No problems.\n")


def test_check_finds_runs_without_workers(url):
    """Queued runs and no worker: code 1, and advice."""
    submit(url)
    code, out, _ = run(url, "store", "check")
    assert code == 1
    assert "1 queued" in out
    assert "start a process that has the store open with make_agent=" in out
    code, out, _ = run(url, "store", "check", "--json")
    found = {each["name"]: each["status"] for each in json.loads(out)["findings"]}
    assert (code, found["workers"]) == (1, "problem")


def test_check_finds_a_run_that_is_overdue(url):
    """A run that should have been handed out long ago is a problem."""
    submit(url)
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE syncagent_run SET due_at = due_at - 300")
    connection.close()
    assert "no worker takes it" in run(url, "store", "check")[1]
