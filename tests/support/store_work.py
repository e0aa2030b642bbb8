"""Runs in a store, and processes of their own that work on them and can be ended."""

import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import contextmanager, nullcontext

from support import commands
from support.threads import LONG, until
from syncagent import Agent, ToolContext, tool
from syncagent.exceptions import StoreUnavailable
from syncagent.messages import ToolMessage, UserMessage
from syncagent.stores import RunStore
from syncagent.testing import ScriptedModel, call, complaints, say

#: The operations of the thread that works on a run.
OF_THE_RUN = ("claim", "checkpoint", "park", "finish", "answer", "release")
#: All operations that write, and are not those of a canceller.
WRITES = (*OF_THE_RUN, "add", "append", "beat", "recover", "leave", "cancel")
#: The calls of each turn, for each kind of run. The last turn says "All done."
ROUNDS = {
    "plain": [["charge"], ["charge"]],
    "idempotent": [["put"], ["put"]],
    "approved": [["refund"], ["charge"]],
    "parallel": [["charge", "put", "charge"], ["charge"]],
}


def note(run, ctx):
    """Write down, in one step, that a tool has an effect."""
    line = f"{ctx.tool_name} {ctx.call_id} {ctx.idempotency_key} {time.monotonic()}\n"
    path = run.labels["effects"]
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)
    ctx.sleep(random.random() * run.labels.get("pause", 0.0))


def tools_of(run):
    """Return the tools, whose effects are written down."""

    @tool
    def charge(ctx: ToolContext) -> str:
        """Charge a customer."""
        note(run, ctx)
        return "charged"

    @tool(idempotent=True)
    def put(ctx: ToolContext) -> str:
        """Put a value in its place."""
        note(run, ctx)
        return "put"

    @tool(requires_approval=True)
    def refund(ctx: ToolContext) -> str:
        """Refund a customer."""
        note(run, ctx)
        return "refunded"

    return [charge, put, refund]


def respond(run):
    """Return the function of a model that knows its turn by the messages alone."""
    rounds = ROUNDS[run.labels["kind"]]

    def next_turn(messages):
        prompts = [n for n, m in enumerate(messages) if isinstance(m, UserMessage)]
        since = messages[prompts[-1] :]
        turn = sum(isinstance(message, ToolMessage) for message in since)
        if turn >= len(rounds):
            return "All done."
        names = enumerate(rounds[turn])
        calls = (call(name, "{}", f"{name}_{turn}_{n}") for n, name in names)
        return say("I work on it. ", *calls)

    return next_turn


def make_agent(run, hooks=()):
    """Return the agent of a run, which any process can make."""
    return Agent(
        ScriptedModel(respond(run), piece=20),
        tools=tools_of(run),
        parallel_tools=3,
        hooks=hooks,
    )


class Watched:
    """A back end that tells about each operation before it happens, and after.

    :param at: called with the operation and ``before`` or ``after``.
    :param sweeps: false for a process that takes over no runs of others.
    """

    def __init__(self, backend, at, operations=OF_THE_RUN, *, sweeps=True):
        self._backend = backend
        self._at = at
        self._operations = operations
        self._sweeps = sweeps

    def __getattr__(self, name):
        method = getattr(self._backend, name)
        if name == "recover" and not self._sweeps:
            return lambda _, *rest: method(0, *rest)
        if name not in self._operations:
            return method

        def operate(*args, **options):
            self._at(name, "before")
            value = method(*args, **options)
            self._at(name, "after")
            return value

        return operate


class Points:
    """Counts the points of a run, and acts at one of them.

    :param number: the point to act at, starting at 1; 0 to act at none.
    """

    def __init__(self, number=0, act=None):
        self.number = number
        self.passed = []
        self._act = act

    def at(self, operation, when):
        self._pass(f"{when} {operation}")

    def on_event(self, event):
        self._pass(type(event).__name__)

    def _pass(self, point):
        self.passed.append(point)
        if len(self.passed) == self.number:
            self._act()


def watched_store(url, points, operations=OF_THE_RUN, *, sweeps=False, **settings):
    """Return a store that tells *points* about its operations and events."""
    store = by_hand(url, lambda run: make_agent(run, hooks=[points]), **settings)
    store.backend = Watched(store.backend, points.at, operations, sweeps=sweeps)
    return store


def drive(store, id):
    """Work on a run, and answer its questions with yes, until it has ended here.

    The store has an engine that does nothing: no other thread works on the run.
    """
    while True:
        result = store.work(id)
        run = store.get(id)
        if run.state != "waiting":
            return result
        answers = {question.id: True for question in run.interrupts}
        store.answer(id, answers)


def work_until(url, id, number, signal_number, lease, said, operations=OF_THE_RUN):
    """Work on a run in this process, and get a signal at a point."""

    def act():
        # Not while another thread writes to SQLite: then all would wait for this one.
        with getattr(store.backend, "_lock", None) or nullcontext():
            os.kill(os.getpid(), signal_number)
            threading.Event().wait(0.05)  # another thread may get it, a moment later

    points = Points(number, act)
    store = watched_store(url, points, operations, lease=lease)
    told = "ended"
    try:
        result = drive(store, id)
        if result is not None and result.cancellation is not None:
            told = result.cancellation.origin
    except StoreUnavailable:
        told = "unavailable"
    finally:
        store.close(0.0)
    if said is not None:
        said.send((told, *points.passed[number - 1 : number]))


def start(function, *args):
    """Start a process that is a clean fork, with everything imported."""
    process = commands._forks.Process(target=function, args=args)
    process.start()
    return process


def pipe():
    """Return both ends of a pipe between processes."""
    return commands._forks.Pipe(duplex=False)


@contextmanager
def processes():
    """Yield a list of processes; none of them is left when the block ends."""
    started = []
    try:
        yield started
    finally:
        for process in started:
            if process.is_alive():
                process.kill()
            process.join(LONG)
            process.close()


def at_most(limit, jobs):
    """Run processes, *limit* at once, each to its end."""
    jobs = iter(jobs)
    with processes() as running:
        for job in jobs:
            running.append(start(*job))
            if len(running) >= limit:
                _join(running.pop(0))
        while running:
            _join(running.pop(0))


def _join(process):
    process.join(LONG)
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    process.close()


def submit(store, kind, folder, prompt="Go."):
    """Add a run of a kind, whose effects are written down in a folder."""
    id = f"{kind}-{os.urandom(8).hex()}"
    labels = {"kind": kind, "effects": os.path.join(folder, id)}
    return store.submit(prompt, id=id, labels=labels)


def by_hand(url, make_agent=None, **settings):
    """Return a store that works on a run only if it is told to."""
    return RunStore(url, make_agent, lambda run: None, **settings)


def adder(url, **settings):
    """Return a store that adds runs, and leaves the work on them to others."""
    return by_hand(url, **settings)


def finish_all(store, ids, seconds=LONG):
    """Have a store take over runs, answer their questions, and see them end."""
    store.open()

    def have_ended():
        runs = [store.get(id) for id in ids]
        for run in runs:
            if run.state == "waiting":
                store.answer(run.id, {each.id: True for each in run.interrupts})
            elif run.state == "queued":  # as an engine that delivers it again
                store._deliveries.deliver(run.id)
        return not any(run.is_live for run in runs)

    until(have_ended, seconds)


def effects(run):
    """Return the effects of a run: tool, call and key of each."""
    try:
        with open(run.labels["effects"]) as file:
            return [tuple(line.split()[:3]) for line in file]
    except FileNotFoundError:
        return []


def log_of(store, run):
    """Return the events of a run that has ended; check that they have all numbers."""
    stored = []
    while True:
        more = store.backend.events(run.run_id, len(stored))
        assert [number for number, _ in more] == list(
            range(len(stored) + 1, len(stored) + 1 + len(more))
        )
        if not more:
            break
        stored += more
    assert len(stored) == run.events
    with store.events(run.id) as events:
        return list(events)


def check_done(store, id):
    """Check a run that went through a crash; return it."""
    run = store.get(id)
    assert (run.state, run.result.stop_reason) == ("done", "end_turn"), run
    assert run.result.text == "All done."
    assert complaints(run.result.messages) == {}
    check_effects(run)
    events = log_of(store, run)
    names = [type(event).__name__ for event in events]
    assert names.count("RunFinished") == 1
    assert names[-2:] == ["RunFinished", "StateChanged"], names
    outcomes = {each.call_id: each.outcome for each in run.result.tool_outcomes}
    told = {e.call_id: e.outcome for e in events if type(e).__name__ == "ToolFinished"}
    # The last events before a crash may be missing; those that are there are true.
    assert told.items() <= outcomes.items(), (told, outcomes)
    return run


def check_effects(run):
    """Check that no plain effect is doubled, and no result was made up."""
    found = effects(run)
    times = Counter(call_id for _, call_id, _ in found)
    keys = {(call_id, key) for _, call_id, key in found}
    assert len(keys) == len(times), f"another key: {keys}"
    outcomes = {each.call_id: each.outcome for each in run.result.tool_outcomes}
    rounds = ROUNDS[run.labels["kind"]]
    expected = [
        f"{name}_{turn}_{n}"
        for turn, names in enumerate(rounds)
        for n, name in enumerate(names)
    ]
    assert list(outcomes) == expected
    for call_id, outcome in outcomes.items():
        if call_id.startswith("put"):
            assert (outcome, times[call_id] > 0) == ("done", True), call_id
        elif outcome == "done":
            assert times[call_id] == 1, call_id
        else:
            assert (outcome, times[call_id] <= 1) == ("interrupted", True), call_id


def interrupted(run):
    """Return how many calls of a run were cut off."""
    return sum(each.outcome == "interrupted" for each in run.result.tool_outcomes)


class LosesReplies:
    """Fails once, before or after the operation of a number: the store was away."""

    def __init__(self, number, when):
        self._number = number
        self._when = when
        self._lock = threading.Lock()
        self.count = 0
        self.failed = ""

    def at(self, operation, when):
        with self._lock:
            if when != self._when:
                return
            self.count += 1
            if self.count != self._number:
                return
            self.failed = operation
        raise StoreUnavailable(f"{when} {operation}")
