"""Cancels from eight processes race with runs: each receipt tells the stored end."""

import os
import random
import signal
import threading
import time
from collections import defaultdict
from functools import partial

import pytest
from support.store_work import adder, pipe, processes, start
from support.threads import LONG, together, until

from syncagent import Agent, ToolContext, tool
from syncagent.exceptions import NoSuchRun
from syncagent.messages import ToolMessage
from syncagent.stores import RunStore
from syncagent.testing import ScriptedModel, call, say

#: Where the cancels find a run: before a worker has it, while it waits for an answer,
#: works or ends, and after its worker was killed.
PLACES = ("queued", "waiting", "running", "ending", "dead")
CANCELLERS = 8
WORKERS = 2
#: Runs that a worker has at once.
AT_ONCE = 6
LEASE = 1.0


def note(path, id, call_id):
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)
    os.write(descriptor, f"{id} {call_id} {time.monotonic()}\n".encode())
    os.close(descriptor)


def racing_agent(run):
    place, path = run.labels["place"], run.labels["path"]

    @tool(requires_approval=place == "waiting")
    def act(ctx: ToolContext) -> str:
        """Have an effect."""
        note(path, run.id, ctx.call_id)
        if place == "running":
            ctx.sleep(random.random() * 0.01)
        return "done"

    def respond(messages):
        turn = sum(isinstance(message, ToolMessage) for message in messages)
        if turn > 1 or (turn and place == "ending"):
            return "Done."
        return say(*(call("act", "{}", f"act_{turn}_{n}") for n in range(2)))

    return Agent(ScriptedModel(respond, piece=20), tools=[act], parallel_tools=2)


def add(store, id, path):
    labels = {"place": place_of(id), "path": path}
    store.submit("Go.", id=id, labels=labels)


def place_of(id):
    return PLACES[int(id.rpartition("-")[2]) % len(PLACES)]


def receipt_of(store, id):
    """Cancel a run, and return all that the receipt says."""
    receipt = store.cancel(id)
    now = time.monotonic()
    return id, bool(receipt), receipt.first, receipt.phase, receipt.begun, now


def work(url, ids, path, said):
    """Add runs and work on them, a few at once, and cancel some of them here."""
    receipts = []
    dice = random.Random(ids[0])
    with RunStore(url, racing_agent, lease=5.0, max_workers=AT_ONCE) as store:
        with adder(url) as elsewhere:
            pause = threading.Event()
            for id in ids:
                is_left = place_of(id) == "queued"
                add(elsewhere if is_left else store, id, path)
                until(lambda: len(store.open().keepers) < AT_ONCE)
                if dice.random() < 0.2:
                    pause.wait(dice.random() * 0.003)
                    receipts.append(receipt_of(store, id))
            until(lambda: not store.open().keepers)
    said.send(receipts)


def die(url, ids, path):
    """Add runs, claim them, and be killed."""
    store = RunStore(url, racing_agent, lease=LEASE)
    worker = store.open()
    with adder(url) as elsewhere:
        for id in ids:
            add(elsewhere, id, path)
            store.call(lambda store, id=id: store.claim(id, worker.id, "nonce"))
    os.kill(os.getpid(), signal.SIGKILL)


def cancel(url, ids, seed, said):
    """Cancel each run at a random moment."""
    dice, pause = random.Random(seed), threading.Event()
    receipts = []
    with RunStore(url) as store:
        for id in ids:
            end = time.monotonic() + LONG
            while time.monotonic() < end:
                pause.wait(dice.random() * 0.002)
                try:
                    receipts.append(receipt_of(store, id))
                    break
                except NoSuchRun:
                    pass
    said.send(receipts)


def race(url, folder, count):
    """Let all processes race; return the receipts by run."""
    ids = [f"race-{n}" for n in range(count)]
    dead = [id for id in ids if place_of(id) == "dead"]
    others = [id for id in ids if place_of(id) != "dead"]
    path = os.path.join(folder, "effects")
    receipts = defaultdict(list)
    with processes() as started:
        ends = []

        def begin(function, *args):
            reading, writing = pipe()
            started.append(start(function, *args, writing))
            writing.close()
            ends.append(reading)

        started.append(start(die, url, dead, path))
        for number in range(WORKERS):
            begin(work, url, others[number::WORKERS], path)
        for number in range(CANCELLERS):
            begin(cancel, url, ids, number)
        for reading in ends:
            assert reading.poll(4 * LONG), "a process did not end"
            for id, *rest in reading.recv():
                receipts[id].append(rest)
            reading.close()
    with RunStore(url, racing_agent, lease=LEASE) as store:
        store.open()

        def live():
            return list(store.list(live=True, limit=1000))

        def all_ended():
            for run in live():
                if run.state == "queued":
                    store._deliveries.deliver(run.id)
            return not any(run.state != "waiting" for run in live())

        until(all_ended)
        states = {run.id: run.state for run in store.list(limit=2 * count)}
    return receipts, states, begins(path)


def begins(path):
    """Return when the bodies of tools began, by run."""
    found = defaultdict(list)
    with open(path) as file:
        for line in file:
            id, call_id, at = line.split()
            found[id].append((call_id, float(at)))
    return found


def check(receipts, states, begun_at):
    """Check each receipt against the stored end, and against the effects."""
    assert states.keys() == receipts.keys()
    seen = defaultdict(set)
    for id, told in receipts.items():
        is_cancelled = states[id] == "cancelled"
        assert sum(is_first for _, is_first, *_ in told) == is_cancelled, (id, told)
        for is_live, _, phase, begun, returned_at in told:
            assert is_cancelled or not is_live, (id, told)
            if is_cancelled and not is_live:
                assert phase == "cancelled", (id, told)
            seen[place_of(id)].add((is_live, phase))
            if is_live:
                late = {name for name, at in begun_at[id] if at > returned_at}
                assert late <= set(begun), (id, late, told)
    assert (True, "queued") in seen["queued"]
    assert (True, "running") in seen["running"]
    assert (True, "running") in seen["dead"]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_receipts_tell_the_stored_end(url, tmp_path):
    """A receipt is true if and only if the run then ends as cancelled; one is first."""
    count = 300 if url.startswith("sqlite") else 100
    check(*race(url, tmp_path, count))


@pytest.mark.stress
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_receipts(url, tmp_path):
    """The same, 100,000 times with each kind of store."""
    rounds, count = (10, 1250) if url.startswith("sqlite") else (50, 250)
    for number in range(rounds):
        folder = tmp_path / str(number)
        folder.mkdir()
        store = url
        if url.startswith("sqlite"):
            store = f"sqlite:///{folder}/runs.db"
        else:
            with RunStore(url) as each:
                for run in each.list(limit=100_000):
                    each.forget(run.owner)
        check(*race(store, folder, count))


@pytest.mark.slow
def test_cancelled_while_it_is_added(url, tmp_path):
    """A run that appears in the middle of two cancels is cancelled by one of them."""
    stores = [RunStore(url) for _ in range(4)]
    with adder(url) as adding:
        for each in stores:
            each.open()
        for number in range(60):
            id, receipts = f"added-{number}", []

            def stop(store, id=id, receipts=receipts):
                end = time.monotonic() + LONG
                while time.monotonic() < end:
                    try:
                        receipts.append(receipt_of(store, id))
                        break
                    except NoSuchRun:
                        pass

            stops = [partial(stop, store) for store in stores]
            together(*stops, partial(add, adding, id, str(tmp_path)))
            assert [first for _, _, first, *_ in receipts].count(True) == 1
    for each in stores:
        each.close()
