"""A load test of a store: workers die, people cancel and answer, servers restart."""

import itertools
import json
import os
import random
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from support.load_end import Report, check_runs
from support.load_queue import new_id, put
from support.load_worker import UNAVAILABLE
from support.postgres import Cluster
from support.processes import script_command, script_environment
from support.store_work import ROUNDS
from support.threads import until
from syncagent.exceptions import AgentBusy, InterruptPending, StoreUnavailable
from syncagent.stores import RunStore

#: The part of all runs that continue a conversation which others have, too.
TALKING = 0.2
#: Seconds that a worker has to end after SIGTERM, and all runs after the last began.
GOODBYE = 40.0
DRAIN = 240.0


@dataclass(frozen=True)
class Plan:
    """How much of everything.

    :param live: how many runs are live at a time.
    :param kills: how many workers get kill -9.
    :param terms: how many workers get SIGTERM.
    :param restarts: how often the database is restarted.
    :param pause: seconds that a tool takes at most.
    :param late: seconds after which a run is cancelled at most; it may have ended.
    :param redelivers: deliver a run that is queued again and again, as some engines do;
        else only the store does.
    """

    runs: int = 2000
    live: int = 200
    workers: int = 4
    desks: int = 2
    kills: int = 10
    terms: int = 6
    restarts: int = 2
    pause: float = 10.0
    lease: float = 4.0
    late: float = 20.0
    redelivers: bool = False

    def actions(self, restart):
        """Return what happens to whom, by the number of a run, at random moments."""
        names = ["kill"] * self.kills + ["term"] * self.terms
        names += ["restart"] * (self.restarts if restart else 0)
        random.shuffle(names)
        step = self.runs / (len(names) + 1)
        return {
            int(step * (n + random.uniform(0.6, 1.4))): a for n, a in enumerate(names)
        }


@dataclass
class Load:
    """The process that submits all runs, and starts and ends the workers.

    :param restart: restarts the database; None if there is no server.
    """

    url: str
    folder: Path
    plan: Plan
    restart: object = None
    report: Report = field(default_factory=Report)

    def __post_init__(self):
        self._taking, self._queue = os.pipe()
        self._workers, self._desks, self._ids = [], [], []
        # It submits by a queue, and looks; a call gives up sooner than a restart ends.
        self._store = RunStore(self.url, enqueue=self._enqueue, timeout=0.3)
        self._pause = threading.Event()
        self._numbers = itertools.count(1)

    def _enqueue(self, run):
        for _ in range(random.choice((1, 1, 1, 1, 2))):  # some are delivered twice
            put(self._queue, run.id)

    def _start(self, script, *arguments, **pipes):
        with open(self.folder / "processes.log", "ab") as log:
            return subprocess.Popen(
                script_command(f"support/{script}", self.url, *arguments),
                env={**script_environment(), "PYTHONFAULTHANDLER": "1"},
                pass_fds=[self._queue] if script == "load_desk" else [],
                stderr=log,
                **pipes,
            )

    def _start_worker(self):
        at_once = 1 + self.plan.live // self.plan.workers
        arguments = (self.plan.lease, at_once)
        path = self.folder / f"worker-{next(self._numbers)}.out"
        with path.open("wb") as output:
            pipes = {"stdin": self._taking, "stdout": output}
            self._workers.append(
                (self._start("load_worker", *arguments, **pipes), path)
            )

    def _start_desk(self, number):
        pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
        arguments = (f"desk {number}", self.plan.late, self._queue)
        self._desks.append(self._start("load_desk", *arguments, text=True, **pipes))

    # -- what happens --------------------------------------------------------------

    def run(self):
        """Do it all; return the report."""
        began = time.monotonic()
        with ExitStack() as stack:
            stack.callback(self._clean_up)
            for _ in range(self.plan.workers):
                self._start_worker()
            for number in range(self.plan.desks):
                self._start_desk(number)
            self._submit_all()
            self._drain()
            self.report.seconds = time.monotonic() - began
            told = self._dismiss_desks()
            self._dismiss_workers()
            check_runs(self._store, self._ids, told, self.report)
        return self.report

    def _submit_all(self):
        actions = self.plan.actions(self.restart)
        room = 1
        for number in range(self.plan.runs):
            room = room - 1 or self._wait_until_below(self.plan.live)
            id = self._submit(number)
            self._ids.append(id)
            for desk in self._desks:
                desk.stdin.write(f"{id}\n")
                desk.stdin.flush()
            if number in actions:
                self._act(actions[number])

    def _submit(self, number):
        id, kind = new_id(), random.choice(list(ROUNDS))
        labels = {"kind": kind, "pause": self.plan.pause}
        labels["effects"] = str(self.folder / id)
        owner, conversation = f"owner {number % 7}", ""
        if random.random() < TALKING:
            conversation = f"talk {random.randrange(self.plan.live // 2)}"

        def submit():
            run = {"id": id, "owner": owner, "labels": labels}
            return self._store.submit("Go.", conversation=conversation, **run)

        try:
            return self._persist(submit)
        except (AgentBusy, InterruptPending):
            self.report.busy += 1
            conversation = ""
            return self._persist(submit)

    def _act(self, action):
        if action == "restart":
            self.restart()
            self.report.restarts += 1
            return
        worker, output = self._workers.pop(random.randrange(len(self._workers)))
        until(output.read_text)  # it has begun
        self._see_life(worker)
        if action == "kill":
            worker.kill()
            worker.wait(GOODBYE)
            self.report.kills += 1
        else:
            worker.terminate()
            threading.Thread(target=self._see_end, args=(worker,)).start()
            self.report.terms += 1
        self._start_worker()

    def _see_life(self, worker):
        if worker.poll() is not None:
            self.report.wrong.append(f"a worker crashed with {worker.returncode}")

    def _see_end(self, worker):
        try:
            code = worker.wait(GOODBYE)
        except subprocess.TimeoutExpired:
            worker.kill()
            code = worker.wait(GOODBYE)
        if code != 0:
            self.report.wrong.append(f"a worker ended with {code} after SIGTERM")

    # -- waiting -------------------------------------------------------------------

    def _persist(self, operation):
        while True:
            try:
                return operation()
            except StoreUnavailable:
                self.report.retries += 1
                self._pause.wait(0.05)

    def _look(self):
        """Return how many runs are live."""
        states = self._persist(lambda: self._store.call(lambda s: s.census())).states
        live = sum(states.values())
        self.report.most_live = max(self.report.most_live, live)
        return live

    def _wait_until_below(self, limit):
        """Wait until fewer runs than that are live; return how many fewer."""
        end = time.monotonic() + DRAIN
        looked = time.monotonic()
        while (live := self._look()) >= limit and time.monotonic() < end:
            self._pause.wait(0.05)
            if self.plan.redelivers and time.monotonic() - looked > 2.0:
                looked = time.monotonic()
                self._deliver_queued()
        return max(1, limit - live)

    def _deliver_queued(self):
        for run in self._persist(lambda: self._store.list(live=True, limit=1000)):
            if run.state == "queued":
                put(self._queue, run.id)

    def _drain(self):
        """Wait until all runs have ended; name those that do not."""
        self._wait_until_below(1)
        for run in self._persist(lambda: self._store.list(live=True, limit=1000)):
            self.report.stuck += 1
            self.report.wrong.append(f"stuck: {run}")

    # -- the end -------------------------------------------------------------------

    def _dismiss_desks(self):
        told = []
        for desk in self._desks:
            output, _ = desk.communicate(timeout=DRAIN)
            if desk.returncode != 0:
                self.report.wrong.append(f"a desk ended with {desk.returncode}")
            told.append(json.loads(output))
        self._desks.clear()
        return told

    def _dismiss_workers(self):
        for worker, output in self._workers:
            until(output.read_text)
            self._see_life(worker)
            worker.terminate()
        for worker, _ in self._workers:
            self._see_end(worker)
        self._workers.clear()
        texts = [path.read_text() for path in self.folder.glob("worker-*.out")]
        self.report.refused = sum(text.count(UNAVAILABLE) for text in texts)
        log = (self.folder / "processes.log").read_text()
        if log:
            self.report.wrong.append(f"processes said: {log[:4000]}")

    def _clean_up(self):
        for process in (*(worker for worker, _ in self._workers), *self._desks):
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        self._store.close()
        os.close(self._taking)
        os.close(self._queue)


def load_sqlite(plan):
    """Run a load test with SQLite; return its report."""
    with tempfile.TemporaryDirectory(prefix="syncagent-load-") as folder:
        return Load(f"sqlite:///{folder}/runs.db", Path(folder), plan).run()


def load_postgres(plan):
    """Run a load test with a PostgreSQL of its own, and restart that meanwhile."""
    cluster = Cluster()

    def restart():
        cluster.crash()  # as pg_ctl restart -m immediate does
        cluster.start()

    try:
        with tempfile.TemporaryDirectory(prefix="syncagent-load-") as folder:
            with RunStore(cluster.address) as store:
                store.backend.migrate()
            return Load(cluster.address, Path(folder), plan, restart).run()
    finally:
        cluster.close()
