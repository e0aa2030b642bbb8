"""``flask syncagent`` in an application whose runs are in a store."""

import sqlite3

import pytest
from flask import Flask

from syncagent import Agent
from syncagent.integrations.flask import SyncAgent
from syncagent.integrations.web.settings import WebSettings
from syncagent.stores import RunStore
from syncagent.testing import ScriptedModel

needs_store = pytest.mark.skipif(
    "store" not in WebSettings.__struct_fields__, reason="SyncAgent() takes no store"
)


def make_app(**config):
    app = Flask("site")
    app.config.update({f"SYNCAGENT_{name.upper()}": v for name, v in config.items()})
    SyncAgent(
        app,
        make_agent=lambda run: Agent(ScriptedModel(["Hello."])),
        owner_of=lambda request: "anna",
        authorize=lambda request, run: True,
    )
    return app


def invoke(app, *arguments):
    """Run a command; return its exit code and all that it wrote."""
    ended = app.test_cli_runner().invoke(args=["syncagent", *arguments])
    return ended.exit_code, ended.output


@needs_store
def test_the_commands_use_the_store_of_the_application(tmp_path):
    """They need no server and no token, and they begin no run themselves."""
    path = tmp_path / "runs.db"
    url = f"sqlite:///{path}"
    with RunStore(url, enqueue=lambda run: None) as store:
        id, other = (store.submit("A story", owner="anna") for _ in "12")
    app = make_app(store=url)
    code, output = invoke(app, "runs", "--owner", "anna")
    assert code == 0
    assert id in output
    cancelled = invoke(app, "cancel", id[:8], "--wait", "5")
    assert cancelled == (0, "Cancelled; the run has ended.\n")
    assert invoke(app, "cancel", id)[0] == 3
    assert id not in invoke(app, "runs")[1]
    assert id in invoke(app, "runs", "--all")[1]
    assert invoke(app, "answer", other)[0] == 0
    code, output = invoke(app, "follow", id)
    assert code == 130
    assert "flask syncagent cancel" in output  # the reason
    assert invoke(app, "cancel", "x" * 48)[0] == 6
    for listed in ("inbox", "audit", "conversations"):
        assert invoke(app, listed, "--owner", "anna")[0] == 0
    assert invoke(app, "conversations", "show", "x")[0] == 6
    assert invoke(app, "store", "prune")[0] == 2
    code, output = invoke(app, "store", "check")
    assert code == 1  # a run waits, and this process is no worker
    assert "none alive" in output
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT * FROM syncagent_worker").fetchall() == []
    connection.close()


@pytest.mark.parametrize("command", ["answer", "follow", "store"])
def test_without_a_store(command):
    """The commands for stores say what is missing."""
    code, output = invoke(make_app(), command, "x")
    assert code == 1
    assert "has no store of runs" in output


def test_options_for_stores_need_one():
    """Without a store, an option of syncagent is wrong usage."""
    assert invoke(make_app(), "runs", "--live")[0] == 2
