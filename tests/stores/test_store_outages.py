"""The store is away, locked or full: a cancel here counts, and nothing is wrong."""

import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
from support.processes import script_environment
from support.store_work import Watched, by_hand, check_done, effects, make_agent, submit
from support.threads import LONG, meanwhile, until

from syncagent import Agent, ToolContext, tool
from syncagent.exceptions import StoreUnavailable
from syncagent.stores import RunStore
from syncagent.testing import ScriptedModel, call, say

#: Seconds within which a cancel has ended the work, also on a busy machine.
AT_ONCE = 2.0


@contextmanager
def locked(path):
    """Hold the lock of a SQLite file, as a process that writes for long does."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
    finally:
        connection.close()


class Scene:
    """A run whose tool works until it is cancelled."""

    def __init__(self):
        self.started = threading.Event()
        self.ended_at = 0.0
        self.agent = None

    def make_agent(self, run):
        @tool
        def work(ctx: ToolContext) -> str:
            """Work for long."""
            self.started.set()
            ctx.token.wait(LONG)
            self.ended_at = time.monotonic()
            return "worked"

        self.agent = Agent(ScriptedModel([say(call("work")), "Done."]), tools=[work])
        return self.agent


@pytest.mark.slow
@pytest.mark.parametrize("way", ["store", "agent", "deadline"])
def test_a_local_cancel_while_sqlite_is_locked(tmp_path, way):
    """The work ends at once; the end is recorded when the lock is free again."""
    path = tmp_path / "runs.db"
    scene = Scene()
    store = RunStore(f"sqlite:///{path}", scene.make_agent, timeout=0.2)
    with store:
        id = store.submit("Go.", timeout=1.0 if way == "deadline" else None)
        assert scene.started.wait(LONG)
        with locked(path):
            began = time.monotonic()
            if way == "store":
                with pytest.raises(StoreUnavailable, match="locked"):
                    store.cancel(id, "not known")
            elif way == "agent":
                assert scene.agent.cancel("here")
            until(lambda: scene.ended_at)
            assert scene.ended_at - began < AT_ONCE
            assert store.get(id).state == "running"
        until(lambda: not store.get(id).is_live)
        run = store.get(id)
        assert run.state == "cancelled"
        assert not store.cancel(id)


@pytest.mark.slow
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_gate_waits_while_sqlite_is_locked(tmp_path, is_cancelled):
    """Nothing has an effect that is not recorded; a cancel ends the wait at once."""
    path = tmp_path / "runs.db"
    at_gate, lock = threading.Event(), locked(path)

    def at(operation, when):
        if operation == "checkpoint" and when == "before" and not at_gate.is_set():
            lock.__enter__()
            at_gate.set()

    store = by_hand(f"sqlite:///{path}", make_agent)
    store.backend = Watched(store.backend, at)
    with store:
        id = submit(store, "plain", tmp_path)
        with meanwhile(lambda: store.work(id)):
            assert at_gate.wait(LONG)
            run = store.get(id)
            threading.Event().wait(0.3)
            assert effects(run) == []
            if is_cancelled:
                (keeper,) = store.open().keepers.values()
                assert keeper._run.claim.cancel("here")
                until(lambda: keeper.has_concluded)
            lock.__exit__(None, None, None)
        if is_cancelled:
            assert store.get(id).state == "cancelled"
            assert effects(run) == []
        else:
            check_done(store, id)


@pytest.mark.slow
def test_cut_off_until_its_lease_is_nearly_over(url, tmp_path):
    """A worker that could not renew its lease in time leaves its run to others."""
    away = threading.Event()

    def at(operation, when):
        if away.is_set() and when == "before":
            raise StoreUnavailable("away")

    scene = Scene()
    store = RunStore(url, scene.make_agent, lease=1.0)
    operations = ("beat", "checkpoint", "finish", "release", "append", "cancels")
    store.backend = Watched(store.backend, at, operations, sweeps=False)
    with store:
        id = store.submit("Go.")
        assert scene.started.wait(LONG)
        away.set()
        until(lambda: scene.ended_at)
        until(lambda: not store.open().keepers)
        away.clear()
        # This process lives on, and the run must not count as its own any more.
        with RunStore(url, make_agent_of_scene, lease=5.0) as other:
            other.open()
            until(lambda: not other.get(id).is_live)
            run = other.get(id)
        assert (run.state, run.attempt) == ("done", 2)
        assert [each.outcome for each in run.result.tool_outcomes] == ["interrupted"]


def make_agent_of_scene(run):
    return Agent(ScriptedModel("Done."), tools=[tool(lambda: "", name="work")])


def test_a_claim_whose_reply_never_came(url, tmp_path):
    """A run that no thread works on, because of that, is given back."""

    def at(operation, when):
        if when == "after":
            raise StoreUnavailable("no reply")

    # It is claimed for a shorter time than the lease: else it is given back meanwhile.
    store = by_hand(url, make_agent, lease=1.0, timeout=0.4)
    store.backend = Watched(store.backend, at, ("claim",), sweeps=False)
    with store:
        id = submit(store, "plain", tmp_path)
        with pytest.raises(StoreUnavailable):
            store.work(id)
        assert store.get(id).attempt  # each claim was recorded
        until(lambda: store.get(id).state == "queued")
        with by_hand(url, make_agent) as other:
            other.work(id)
            assert check_done(other, id).crashes == 0


FULL = """
import sys
from support.store_work import *
folder = sys.argv[1]
url = f"sqlite:///{folder}/runs.db"
with by_hand(url, make_agent, timeout=0.2) as store, by_hand(url) as elsewhere:
    id = submit(store, "plain", sys.argv[2])
    filler = open(f"{folder}/filler", "wb", buffering=0)
    try:
        while True:
            filler.write(bytes(1024))
    except OSError:
        pass
    refused = 0
    for attempt in range(20):
        try:
            submit(store, "plain", sys.argv[2], "Go. " * 5000)
        except StoreUnavailable as error:
            assert "full" in str(error), error
            refused += 1
            break
    assert refused == 1
    filler.truncate(0)
    assert store.backend.check()["integrity"] == "ok"
    store.work(id)
    check_done(store, id)
    print("well")
"""


@pytest.mark.slow
def test_a_full_disk(tmp_path):
    """It is said; nothing is half written, and all goes on when there is room."""
    if not shutil.which("unshare"):
        pytest.skip("there is no unshare, to mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = 'mount -t tmpfs -o size=1m none "$0" && exec "$@"'
    command = [sys.executable, "-c", FULL, str(disk), str(tmp_path)]
    ran = subprocess.run(
        ["unshare", "-rm", "sh", "-c", mount, disk, *command],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
        env=script_environment(),
    )
    if "unshare:" in ran.stderr or "mount:" in ran.stderr:
        pytest.skip(f"no small disk can be mounted here: {ran.stderr}")
    assert ran.stdout == "well\n", ran.stderr


def test_an_engine_that_is_slow_to_take_runs(url, tmp_path):
    """It holds up no lease: the runs of this process go on."""
    scene, engine = Scene(), threading.Event()
    asked = threading.Event()

    def enqueue(run):
        if run.id != own:
            asked.set()
            engine.wait(LONG)

    own = "own-" + "x" * 20
    with RunStore(url, scene.make_agent, enqueue, lease=0.5) as store:
        store.submit("Go.", id=own)
        with by_hand(url) as elsewhere:
            other = submit(elsewhere, "plain", tmp_path)
            elsewhere.call(lambda each: each.claim(other, "dead", "nonce"))
        with meanwhile(lambda: store.work(own)):
            assert asked.wait(LONG)
            assert scene.started.wait(LONG)
            threading.Event().wait(1.2)
            assert not scene.ended_at
            engine.set()
            store.cancel(own)
        assert store.get(own).state == "cancelled"
