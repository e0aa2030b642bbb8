"""Processes that follow and answer runs of other processes."""

import sqlite3
import threading

import pytest

from syncagent import Agent, CancelToken, tool
from syncagent.events import InterruptRaised
from syncagent.stores import RunStore
from syncagent.testing import ScriptedModel, call, say


@tool(requires_approval=True)
def launch() -> str:
    """Launch it."""
    return "up"


def make_agent(run):
    return Agent(
        ScriptedModel(lambda said: say(call("launch")) if len(said) == 1 else "Done."),
        tools=[launch],
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


def waiting(store):
    """Return the id of a run that waits, and its question."""
    id = store.submit("Launch!", unfollowed_seconds=60)
    with store.events(id) as events:
        raised = next(event for event in events if isinstance(event, InterruptRaised))
    return id, raised.interrupts[0].id


def test_a_run_can_be_followed_while_another_process_writes(path):
    """events() waits for a lock of SQLite, as every other call does."""
    with RunStore(f"sqlite:///{path}", make_agent) as store:
        id, _ = waiting(store)
        with RunStore(f"sqlite:///{path}") as observer:
            observer.get(id)
            writer = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False
            )
            writer.execute("BEGIN IMMEDIATE")
            timer = threading.Timer(0.1, writer.execute, ["ROLLBACK"])
            timer.start()
            with observer.events(id) as events:
                assert events.get(5) is not None
            timer.join()
            writer.close()


def test_an_answer_of_an_observer_reaches_a_worker_at_once(path):
    """A process without make_agent answers, and no worker waits for its next beat."""
    with RunStore(f"sqlite:///{path}", make_agent, lease=60) as store:
        id, question = waiting(store)
        with RunStore(f"sqlite:///{path}") as observer:
            assert observer.answer(id, {question: True}) == {question: "taken"}
        list(store.events(id, cancel=CancelToken(timeout=5)))
        assert store.get(id).state == "done"
