"""Mistakes around a store: agents used twice, sys.exit(), text that is no text."""

import gc
import logging
import shutil
import sys
import threading
import time

import pytest
from support.store_work import Watched, by_hand, log_of
from support.threads import LONG, meanwhile, until

from syncagent import Agent, CancelToken, tool
from syncagent.events import RunFinished
from syncagent.exceptions import (
    ConfigurationError,
    NoSuchRun,
    RunFailed,
    StoreUnavailable,
)
from syncagent.stores import RunStore
from syncagent.stores import followers as followers_module
from syncagent.stores import threads as threads_module
from syncagent.testing import ScriptedModel, call, say


def a_greeting(run):
    return Agent(ScriptedModel("Hello."))


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path}/store/runs.db"


# -- make_agent ------------------------------------------------------------------------


def test_one_agent_for_all_runs(url):
    """No owner sees the conversation of another: the second run has failed."""
    agent = Agent(ScriptedModel(lambda messages: f"{len(messages)} messages."))
    with by_hand(url, lambda run: agent) as store:
        first = store.submit("It is a secret.", owner="anna")
        assert store.work(first).text == "1 messages."
        second = store.submit("Hello.", owner="ben")
        store.work(second)
        with pytest.raises(RunFailed, match="must return a new agent"):
            store.result(second)


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("not even its text")


@pytest.mark.parametrize(
    "error", [FileNotFoundError("a name \udcff"), Unprintable()], ids=["name", "str"]
)
def test_an_error_whose_text_cannot_be_stored(url, error, monkeypatch):
    """The run has failed at once, and is not begun again and again."""
    # A report of this test could not be sent between processes, either.
    monkeypatch.setattr(logging.getLogger("syncagent.store"), "disabled", True)

    def make(run):
        raise error

    with by_hand(url, make) as store:
        id = store.submit("Go.")
        store.work(id)
        run = store.get(id)
        assert (run.state, run.error.type) == ("failed", type(error).__name__)


def test_a_result_that_cannot_be_stored(url):
    """The run has failed, and its model is not asked again."""
    asked = []

    def respond(messages):
        asked.append(messages)
        return "half a pair: \ud800"

    with by_hand(url, lambda run: Agent(ScriptedModel(respond))) as store:
        id = store.submit("Go.")
        store.work(id)
        assert (store.get(id).state, len(asked)) == ("failed", 1)


# -- sys.exit() ------------------------------------------------------------------------


def leave():
    sys.exit(1)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["make_agent", "idempotent tool"])
def test_exits_count_as_crashes(url, place):
    """A run that raises SystemExit each time fails after max_crashes attempts."""
    again = tool(leave, name="again", description="Go.", idempotent=True)

    def make(run):
        if place == "make_agent":
            leave()
        return Agent(ScriptedModel([say(call("again"))]), tools=[again])

    with RunStore(url, make, lease=0.3, max_crashes=3) as store:
        id = store.submit("Go.")
        until(lambda: not store.get(id).is_live)
        run = store.get(id)
        assert (run.state, run.error.type, run.attempt) == ("failed", "Crash", 3)


def test_exits_do_not_stop_the_line(url):
    """The run that waited for the thread gets it."""
    both_are_there = threading.Event()

    def make(run):
        if run.labels:
            both_are_there.wait(LONG)
            leave()
        return a_greeting(run)

    with RunStore(url, make, max_workers=1) as store:
        store.submit("Go.", labels={"leaves": True})
        second = store.submit("Go.")
        both_are_there.set()
        assert store.result(second, LONG).text == "Hello."


# -- ends ------------------------------------------------------------------------------


def test_an_end_that_came_too_late_is_not_in_the_log(url):
    """Followers of a run that was cancelled at its end see one end: cancelled."""
    receipts = []

    def at(operation, when):
        if (operation, when) == ("finish", "before") and not receipts:
            receipts.append(other.cancel(id, "too late"))

    with by_hand(url, a_greeting) as store, by_hand(url, a_greeting) as other:
        store.backend = Watched(store.backend, at)
        id = store.submit("Go.")
        store.work(id)
        assert receipts[0]
        events = log_of(store, store.get(id))
        ends = [e.result.stop_reason for e in events if isinstance(e, RunFinished)]
        assert ends == ["cancelled"]


@pytest.mark.slow
def test_no_room_and_no_followers(url):
    """A run that no one follows is cancelled also by a process that has no room."""

    def block(messages):
        until_cancelled.wait(LONG)
        return "It is over."

    until_cancelled = threading.Event()
    with RunStore(
        url, lambda run: Agent(ScriptedModel(block)), max_workers=1, lease=0.3
    ) as store:
        id = store.submit("Go.", unfollowed_seconds=0.3)
        try:
            until(lambda: store.get(id).cancel is not None)
        finally:
            until_cancelled.set()
        assert store.get(id).cancel.origin == "disconnect"


# -- followers and close() -------------------------------------------------------------


def is_followed(store):
    return bool(store.open().followers._news)


def test_followers_end_when_the_store_is_closed(url):
    """No thread waits in a store that is closed, and none opens it again."""
    store = by_hand(url, a_greeting)
    id = store.submit("Go.")
    with meanwhile(lambda: list(store.events(id))):
        until(lambda: is_followed(store))
        store.close()
    assert getattr(store.backend, "_connection", None) is None
    assert not getattr(store.backend, "_links", None)


def test_close_while_a_thread_begins(monkeypatch):
    """It waits for the thread, also for one that has not quite started."""
    begins, goes_on = threading.Event(), threading.Event()

    def start_slowly(thread):
        begins.set()
        goes_on.wait(LONG)
        thread.start()

    monkeypatch.setattr(threads_module, "start_thread", start_slowly)
    threads = threads_module.RunThreads(1, lambda id: None, lambda: None)
    with meanwhile(lambda: threads.start("a")):
        begins.wait(LONG)
        with meanwhile(lambda: threads.join(LONG)) as joining:
            joining.join(0.05)
            goes_on.set()


def test_a_wait_in_a_store_that_is_closed(url):
    """It ends, and says why."""
    store = by_hand(url, a_greeting)
    id = store.submit("Go.")
    with (
        pytest.raises(ConfigurationError, match="the store is closed"),
        meanwhile(lambda: store.result(id)),
    ):
        until(lambda: is_followed(store))
        store.close()


def test_a_wait_that_the_token_of_the_store_ends(url):
    """It is not told as a question."""
    token = CancelToken()
    with by_hand(url, a_greeting) as store, store.observer(token) as observer:
        id = store.submit("Go.")
        with (
            pytest.raises(StoreUnavailable),
            meanwhile(lambda: observer.result(id)),
        ):
            until(lambda: is_followed(observer))
            token.cancel()


@pytest.mark.slow
def test_a_wait_for_a_run_that_is_forgotten(url):
    """It is not told as a question, either."""
    with by_hand(url, a_greeting) as store:
        id = store.submit("Go.", owner="anna")
        with pytest.raises(NoSuchRun), meanwhile(lambda: store.result(id)):
            until(lambda: is_followed(store))
            store.forget("anna")


def test_garbage_collected_while_another_begins_to_follow(sqlite_url, monkeypatch):
    """A follower that no one closed leaves on any thread, without a deadlock."""

    class News(followers_module.RunNews):
        def __init__(self):
            gc.collect()
            super().__init__()

    with by_hand(sqlite_url, a_greeting) as store:
        first, second = store.submit("Go."), store.submit("Go.")
        events = store.events(first)
        events.itself = events
        del events
        monkeypatch.setattr(followers_module, "RunNews", News)
        with meanwhile(lambda: store.events(second).close()):
            pass
        assert not store.open().followers._news


@pytest.mark.parametrize("is_noticed", [False, True])
def test_the_folder_of_the_hints_is_deleted(sqlite_url, is_noticed):
    """close() waits for no hint; who sends one listens again."""
    began = time.monotonic()
    with by_hand(sqlite_url, a_greeting) as store:
        folder = f"{store.backend.path}-hints"
        store.submit("Go.")
        until(lambda: store.backend.check()["hints"] == "datagrams to 1 processes")
        shutil.rmtree(folder)
        if is_noticed:
            store.backend.hint(["anything"])
            until(lambda: store.backend.check()["hints"] == "datagrams to 1 processes")
    assert time.monotonic() - began < 4
    assert "syncagent-store-hints" not in [each.name for each in threading.enumerate()]


# -- text ------------------------------------------------------------------------------


def test_text_that_cannot_be_stored(url):
    """It is refused with an error of ours, and a cancel has not happened."""
    with by_hand(url, a_greeting) as store:
        id = store.submit("Go.")
        for wrong in (
            lambda: store.cancel(id, "\ud800"),
            lambda: store.cancel(id, by="\ud800"),
            lambda: store.cancel(id, by=7),
            lambda: store.answer(id, {"question": True}, by="\0"),
            lambda: store.answer(id, {"\ud800": True}),
            lambda: store.submit("Go.", owner="\ud800"),
            lambda: store.submit("Go.", owner="anna", conversation="\ud800"),
            lambda: store.list(owner="\ud800"),
            lambda: store.get("\ud800"),
        ):
            with pytest.raises(ConfigurationError):
                wrong()
        assert store.get(id).cancel is None


def test_a_run_id_that_is_taken(url):
    """It is not told as a busy conversation."""
    with by_hand(url, a_greeting) as store:
        store.submit("Go.", run_id="one")
        with pytest.raises(ConfigurationError, match="is that of another run"):
            store.submit("Go.", run_id="one")
