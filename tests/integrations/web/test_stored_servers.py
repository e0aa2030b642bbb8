"""Several workers that share a store: each can stop, follow and answer every run."""

import json
import os
import random
import signal
import sqlite3
import threading
from contextlib import closing, contextmanager

import pytest
from support.threads import LONG
from support.web.replies import reply_to
from support.web.servers import moments
from support.web.stored import (
    LEASE,
    StoredServer,
    elsewhere,
    numbers,
    public_ids,
    text_of,
)

from syncagent.testing import FakeServer, Send, Stall, call, say

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

STORY = "Once upon a time there was a worker that was killed."
#: How often a Stop is tried here.
STOPS = 30


class Replies:
    """Responses of the provider; the first to some prompts stalls."""

    def __init__(self):
        self.counts = {}

    def __call__(self, request):
        messages = request.payload["messages"]
        prompt = next(m for m in messages if m["role"] == "user")["content"]
        self.counts[prompt] = self.counts.get(prompt, 0) + 1
        is_first = self.counts[prompt] == 1
        if prompt.startswith("stall once"):
            return say(STORY, acts=[Send(5), Stall()] if is_first else [Send()])
        tools = {"count": {"path": prompt.split()[-1]}, "launch": {"where": "Mars"}}
        name = prompt.split()[0]
        if name in tools:
            if messages[-1]["role"] != "tool":
                return say(call(name, tools[name]))
            is_second = self.counts[prompt] == 2
            return say(STORY, acts=[Send(5), Stall()] if is_second else [Send()])
        return reply_to(request)


@pytest.fixture
def fake():
    with FakeServer(Replies()) as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with StoredServer(tmp_path_factory.mktemp("store")) as running:
        yield running
        assert public_ids(running.log()) == []


def log_of(server, id):
    """Return all events of a run that has ended."""
    with server.follow(id) as client:
        return [event for event in client.events() if event and event[0]]


def wait_for_words(server, id):
    """Wait until the model has said something."""
    with server.follow(id) as client:
        client.until("text_delta")


# -- Stop, approvals, reloads ------------------------------------------------------


def test_begin_follow_and_stop_in_three_workers(server, fake):
    """30 of 30 runs are cancelled, whichever worker gets the request."""
    for _ in range(STOPS):
        id = server.start("stall", fake)["id"]
        with elsewhere(server, id, server.pid_of(id)) as client:
            client.until("text_delta")
            assert server.cancel(id) == 202
            _, _, view = client.until("end")
        assert view["stop_reason"] == "cancelled"
        assert view["cancellation"]["origin"] == "user"
        assert server.ended(id).state == "cancelled"
        assert server.cancel(id) == 409


def test_an_approval_is_answered_in_another_worker(server, fake):
    """A question waits in the store, and the first answer counts, from anywhere."""
    for _ in range(10):
        with server.stream("approval", fake) as client:
            client.until("interrupt_raised")
            id = client.response.headers["X-Run-Id"]
            assert server.view(id)["state"] == "waiting_for_approval"
            status, said = server.answer(id, allow=True)
            assert status == 200
            assert list(said["answers"].values()) == ["taken"]
            _, _, view = client.until("end")
        assert view["text"] == "It is done: launched to the moon"
        assert server.ended(id).state == "done"


def test_an_approval_with_other_arguments(server, fake):
    """Changed arguments are checked where the answer arrives, and used."""
    with server.stream("approval", fake) as client:
        client.until("interrupt_raised")
        id = client.response.headers["X-Run-Id"]
        status, said = server.answer(id, allow=True, arguments={"where": 5})
        assert status == 422
        assert "where" in next(iter(said["messages"].values()))
        assert server.answer(id, allow=True, arguments={"where": "Venus"})[0] == 200
        assert client.until("end")[2]["text"] == "It is done: launched to Venus"


def test_credentials_are_refused_with_a_reason(server, fake):
    """No credentials reach the store; the client is told why."""
    with server.stream("secret", fake) as client:
        client.until("interrupt_raised")
        id = client.response.headers["X-Run-Id"]
        status, said = server.answer(id, credentials="hunter2")
        assert status == 422
        assert list(said["answers"].values()) == ["refused"]
        assert "would have to store them" in next(iter(said["messages"].values()))
        assert server.answer(id, allow=False)[0] == 200
        assert client.until("end")[2]["tool_outcomes"][0]["outcome"] == "denied"


def test_reloads_at_random_places(server, fake):
    """Over three workers no event is missing and none comes twice."""
    id = server.start("long", fake)["id"]
    rng = random.Random(19)
    seen, last = [], ""
    while not seen or seen[-1][1] != "end":
        with server.follow(id, last) as client:
            for event in client.events():
                if event is None or event[0] is None:
                    continue
                seen.append(event)
                last = event[0]
                if rng.random() < 0.2:
                    break
    assert numbers(seen) == list(range(1, len(seen) + 1))
    assert text_of(seen) == "word " * 3000
    with server.follow(id, last) as client:
        assert client.response.status == 204
    assert log_of(server, id) == seen


def test_two_tabs_see_the_same(server, fake):
    """Two followers in different workers get the same events."""
    id = server.start("stall", fake)["id"]
    seen = [[], []]

    def follow(place):
        with server.follow(id) as client:
            seen[place].extend(client.events())

    tabs = [threading.Thread(target=follow, args=(place,)) for place in range(2)]
    for tab in tabs:
        tab.start()
    wait_for_words(server, id)
    assert server.cancel(id) == 202
    for tab in tabs:
        tab.join(LONG)
    first, second = ([each for each in tab if each and each[0]] for tab in seen)
    assert first == second
    assert first[-1][1] == "end"


def test_a_conversation_continues(server, fake):
    """The second run of a conversation has the messages of the first, of its owner."""
    for owner, length in (("berta", 4), ("carl", 2)):
        for _ in range(length // 2):
            id = server.start("hello", fake, owner, conversation="c1")["id"]
            run = server.ended(id)
        assert len(run.result.messages) == length


def test_a_busy_conversation_is_refused(server, fake):
    """A second run of a live conversation is a 409."""
    first = server.start("stall", fake, conversation="busy")["id"]
    body = {"prompt": "hello", "conversation": "busy"}
    status, said = server.ask("POST", "/runs", body)
    assert (status, json.loads(said)["error"]["code"]) == (409, "busy")
    assert server.cancel(first) == 202


def test_the_runs_of_others_are_not_there(server, fake):
    """Another user gets 404 for all of it, and a list without it."""
    id = server.start("stall", fake)["id"]
    for method, path in (
        ("GET", f"/runs/{id}"),
        ("GET", f"/runs/{id}/events"),
        ("POST", f"/runs/{id}/cancel"),
        ("POST", f"/runs/{id}/calls/c/cancel"),
    ):
        assert server.ask(method, path, user="mallory")[0] == 404
    status, body = server.ask("POST", f"/runs/{id}/calls/c/cancel")
    assert (status, json.loads(body)["error"]["code"]) == (409, "unsupported")
    listed = json.loads(server.ask("GET", "/runs", user="mallory")[1])["runs"]
    assert listed == []
    listed = json.loads(server.ask("GET", "/runs")[1])["runs"]
    assert id in [run["id"] for run in listed]
    assert server.cancel(id) == 202


# -- workers that die or leave -----------------------------------------------------


def test_a_killed_worker(server, fake):
    """kill -9: another worker goes on; a follower sees every id once, and the words."""
    id = server.start("stall once", fake)["id"]
    pid = server.pid_of(id)
    with elsewhere(server, id, pid) as client:
        events = []
        for event in client.events():
            events.append(event)
            if event and event[1] == "text_delta" and pid in server.workers():
                server.kill(pid)
        names = [event[1] for event in events if event]
    assert names[-1] == "end"
    assert "resumed" in names
    assert numbers(events) == list(range(1, len(numbers(events)) + 1))
    assert text_of(events) == STORY
    assert events[-1][2]["text"] == STORY
    run = server.ended(id)
    assert (run.state, run.attempt, run.crashes) == ("done", 2, 1)


def test_a_tool_of_a_killed_worker_runs_once(server, fake, tmp_path):
    """A tool that has finished is not called again by the next worker."""
    path = tmp_path / "calls"
    with server.stream(f"count {path}", fake) as client:
        client.until("text_delta")
        id = client.response.headers["X-Run-Id"]
        pid = server.pid_of(id)
        server.kill(pid)
    assert server.ended(id).result.text == STORY
    (line,) = path.read_text().splitlines()
    assert line.split()[1] == str(pid)


def test_a_worker_that_is_killed_after_an_answer(server, fake):
    """The words after an answered question are said again, and told as such."""
    id = server.start("launch", fake)["id"]
    with server.follow(id) as client:
        client.until("interrupt_raised")
    assert server.answer(id, allow=True)[0] == 200
    wait_for_words(server, id)
    server.kill(server.pid_of(id))
    assert server.ended(id).result.text == STORY
    events = log_of(server, id)
    assert [each[1] for each in events].count("resumed") == 1
    assert text_of(events) == STORY


def test_sigterm_gives_the_run_to_another_worker(server, fake):
    """A rolling restart cancels nothing: the run goes on, and followers reconnect."""
    id = server.start("stall once more", fake)["id"]
    pid = server.pid_of(id)
    with server.follow(id) as client:
        client.until("text_delta")
        os.kill(pid, signal.SIGTERM)
        seen = list(client.events())
    run = server.ended(id)
    assert (run.state, run.attempt, run.crashes) == ("done", 2, 0)
    assert run.result.text == STORY
    assert any(pid not in server.workers() for _ in moments())
    events = log_of(server, id)
    assert numbers(events) == list(range(1, len(events) + 1))
    assert seen == [] or numbers(seen) == numbers(events)[-len(numbers(seen)) :]


def test_streams_end_with_their_worker(fake, tmp_path):
    """A worker that gets SIGTERM leaves at once: its clients reconnect elsewhere."""
    with StoredServer(tmp_path, workers=2) as server:
        id = server.start("stall", fake)["id"]
        pid = server.pid_of(id)
        with elsewhere(server, id, pid) as client:
            client.until("text_delta")
            here = int(client.response.headers["X-Pid"])
            os.kill(here, signal.SIGTERM)
            rest = [each for each in client.events() if each]
        assert "end" not in [each[1] for each in rest]
        assert any(here not in server.workers() for _ in moments())
        run = server.store.get(id)
        assert (run.state, run.attempt) == ("running", 1)
        assert server.cancel(id) == 202


@pytest.mark.stress
def test_no_one_follows(fake, tmp_path):
    """on_disconnect="cancel": a run ends once no process has a follower of it."""
    settings = {"ON_DISCONNECT": "cancel"}
    with StoredServer(tmp_path, **settings) as server:
        with server.stream("stall", fake) as first:
            id = first.until("run")[2]["id"]
            first.until("text_delta")
            with elsewhere(server, id, server.pid_of(id)) as second:
                second.until("text_delta")
                first.vanish()
                # Longer than the time without a follower: this one keeps it alive.
                threading.Event().wait(7)
                assert server.store.get(id).is_live
        run = server.ended(id)
    assert (run.state, run.cancel.origin) == ("cancelled", "disconnect")


def test_detached_by_default(server, fake):
    """With a store a run goes on without followers."""
    with server.stream("stall", fake) as client:
        id = client.until("run")[2]["id"]
        client.until("text_delta")
    threading.Event().wait(LEASE)
    assert server.store.get(id).state == "running"
    assert server.cancel(id) == 202


# -- the store is away -------------------------------------------------------------


@contextmanager
def locked(path):
    """Hold the lock of a database, as a process does that hangs."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")


def test_a_store_that_is_away(fake, tmp_path):
    """503 with Retry-After, and everything works again when the store is back."""
    with StoredServer(tmp_path, workers=1, STORE_TIMEOUT="0.3", LEASE="15") as server:
        id = server.start("stall", fake)["id"]
        wait_for_words(server, id)
        with locked(tmp_path / "runs.db"):
            for path, body in (
                ("/runs", {"prompt": "hello"}),
                (f"/runs/{id}/cancel", {}),
            ):
                status, said = server.ask("POST", path, body)
                assert status == 503
                assert json.loads(said)["error"]["code"] == "store_unavailable"
        assert server.cancel(id) in (202, 409)
        assert server.ended(id).state == "cancelled"


def test_retry_after(fake, tmp_path):
    """A client is told when to try again."""
    with StoredServer(tmp_path, workers=1, STORE_TIMEOUT="0.1") as server:
        server.start("hello", fake)
        with locked(tmp_path / "runs.db"), server.stream("hello", fake) as client:
            assert client.response.status == 503
            assert int(client.response.headers["Retry-After"]) > 0


# -- starting and ending -----------------------------------------------------------


def test_preload(fake, tmp_path):
    """--preload: the store is made before the fork, and opened after it."""
    with StoredServer(tmp_path, "--preload") as server:
        for _ in range(10):
            id = server.start("stall", fake)["id"]
            with server.follow(id) as client:
                client.until("text_delta")
                assert server.cancel(id) == 202
                assert client.until("end")[2]["stop_reason"] == "cancelled"


def test_idle_workers_take_over(fake, tmp_path):
    """A worker that has served no request has the store open, and sweeps."""
    with StoredServer(tmp_path, workers=2) as server:
        id = server.start("stall once again", fake)["id"]
        pid = server.pid_of(id)
        with server.follow(id) as client:
            client.until("text_delta")
        server.kill(pid)
        assert server.ended(id).result.text == STORY


def test_nothing_is_left_of_clients(server, fake):
    """Followers that come and go leave no thread and no descriptor behind."""
    id = server.start("stall", fake)["id"]

    def visit():
        with server.follow(id) as client:
            client.until("text_delta")

    def descriptors():
        found = {}
        for _ in range(40):
            state = server.state()
            found[state["pid"]] = state["descriptors"]
            if len(found) == len(server.workers()):
                break
        return found

    for _ in range(12):
        visit()
    before = descriptors()
    for _ in range(60):
        visit()
    assert any(
        all(after <= before.get(pid, after) + 1 for pid, after in descriptors().items())
        for _ in moments()
    )
    assert server.cancel(id) == 202


def test_it_leaves_in_order(fake, tmp_path):
    """SIGTERM of the whole server leaves a run queued, and warns of nothing."""
    with StoredServer(tmp_path) as server:
        id = server.start("stall", fake)["id"]
        server.pid_of(id)
        server.stop()
        assert server.process.returncode == 0
        run = server.store.get(id)
        assert (run.state, run.crashes) == ("queued", 0)
        log = server.log()
    assert "Traceback" not in log
    assert "several" not in log
    assert public_ids(log) == []
