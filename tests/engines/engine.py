"""An engine as the tests see it: a recipe, a command that starts a worker, processes.

An engine is a subclass of :class:`Engine` in a file of its own, with an instance in
``ENGINES`` of ``conftest.py``.
"""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from shop import LEAVING, TURNS
from support.threads import LONG, until

from syncagent.stores import RunStore

HERE = Path(__file__).parent
#: Seconds without a sign of life after which a worker counts as dead, in these tests.
LEASE = 2.0


class Engine:
    """What the tests have to know about an engine; subclasses say it."""

    #: The name in the ids of tests.
    name = ""
    #: The module in ``recipes/``.
    recipe = ""
    #: The packages that have to be installed.
    packages = ()
    #: True if its broker is Redis: its recipe finds ``REDIS_URL`` in the environment.
    needs_redis = False
    #: True if the broker can be away while the store is there.
    has_broker = False
    #: The database of the store: ``postgresql`` or ``sqlite``.
    database = "postgresql"
    #: What a worker writes to its output once it takes tasks.
    ready = ""
    #: How many runs a worker works on at once, at least.
    runs_at_once = 2

    @property
    def command(self):
        """The command that starts a worker, without its interpreter."""
        raise NotImplementedError

    @property
    def missing(self):
        """The packages that are not installed."""
        names = self.packages
        return [name for name in names if importlib.util.find_spec(name) is None]

    def environment(self, folder):
        """Return more environment for workers and clients, such as a file's name."""
        return {}

    def set_up(self, environment):
        """Make the tables of the engine, if it has any."""

    def __repr__(self):
        return self.name


class Process:
    """A process in a session of its own, whose output goes to a file."""

    def __init__(self, command, environment, output, stdin=None, stdout=None):
        self.output = Path(output)
        with self.output.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, *command],
                env={**os.environ, **environment},
                stdin=stdin or subprocess.DEVNULL,
                stdout=stdout or file,
                stderr=file,
                cwd=self.output.parent,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self.stdin, self.stdout = self._process.stdin, self._process.stdout

    @property
    def text(self):
        """Everything that it has written to its output."""
        return self.output.read_text(errors="replace")

    @property
    def is_alive(self):
        return self._process.poll() is None

    def wait_for(self, text):
        """Wait until it has written a text."""
        until(lambda: text in self.text or not self.is_alive)
        assert text in self.text, self.text

    def has(self, pid):
        """True if a process is this one or was started by it."""
        return pid in self.pids

    @property
    def pids(self):
        """The ids of all processes of its session."""
        return [
            int(path.name)
            for path in Path("/proc").iterdir()
            if path.name.isdigit() and session_of(path) == self.pid
        ]

    def signal(self, number):
        """Send a signal to the process itself, not to its children."""
        self._process.send_signal(number)

    def wait(self, seconds=LONG):
        """Wait until it has ended; return its exit code."""
        return self._process.wait(seconds)

    def kill(self):
        """End it and all processes that it has started with kill -9."""
        for pid in self.pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._process.wait(LONG)
        until(lambda: not self.pids)  # children hold its connections, too
        for pipe in (self.stdin, self.stdout):
            if pipe is not None:
                pipe.close()


def session_of(path):
    """Return the session of a process in /proc; None if it has gone or ended."""
    try:
        fields = (path / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[3])


class Client(Process):
    """The process of a web application, which submits runs by the recipe's store."""

    def __init__(self, recipe, environment, output):
        command = (HERE / "client.py", recipe)
        pipe = subprocess.PIPE
        super().__init__(command, environment, output, stdin=pipe, stdout=pipe)
        assert json.loads(self.stdout.readline()) == "ready"

    def do(self, name, *args):
        """Call a function of ``client.py``; return what it returned."""
        self.stdin.write(json.dumps([name, *args]).encode() + b"\n")
        self.stdin.flush()
        line = self.stdout.readline()
        assert line, self.text
        return json.loads(line)


class Crew:
    """The workers of an engine, the web application, and a look at the store.

    It is kept for all tests of an engine, because most engines take seconds to start.
    """

    def __init__(self, engine, store_url, redis=None):
        self.engine = engine
        self.redis = redis
        self._folder = tempfile.TemporaryDirectory(prefix="syncagent-engine-")
        self.folder = Path(self._folder.name)
        if engine.database == "sqlite":
            store_url = f"sqlite:///{self.folder}/runs.db"
        self.environment = {
            "SYNCAGENT_STORE": store_url,
            "STORE_LEASE": str(LEASE),
            "PYTHONPATH": os.pathsep.join(map(str, (HERE, HERE / "recipes"))),
            "PYTHONUNBUFFERED": "1",
            **({"REDIS_URL": redis.url} if redis is not None else {}),
            **engine.environment(self.folder),
        }
        self.url = store_url
        #: A look at the store from the process of the test; the fixture sets it.
        self.store = None
        self.workers = []
        self._clients = []
        self._count = 0
        with RunStore(store_url) as store:
            store.backend.migrate()
        engine.set_up(self.environment)

    # -- processes -----------------------------------------------------------------

    def _new_output(self, name):
        self._count += 1
        return self.folder / f"{name}-{self._count}.log"

    def start(self, **environment):
        """Start one more worker; return it at once."""
        worker = Process(
            self.engine.command,
            {**self.environment, **environment},
            self._new_output("worker"),
        )
        self.workers.append(worker)
        return worker

    def have(self, number):
        """Have so many workers that take tasks; return them."""
        self.workers = [each for each in self.workers if each.is_alive]
        while len(self.workers) < number:
            self.start()
        for worker in self.workers[number:]:
            worker.kill()
        del self.workers[number:]
        if self.redis is not None:
            self.redis.settle()
        for worker in self.workers:
            worker.wait_for(self.engine.ready)
        return list(self.workers)

    @property
    def client(self):
        """The web application, started when it is first used."""
        self._clients = [each for each in self._clients if each.is_alive]
        if not self._clients:
            output = self._new_output("client")
            client = Client(self.engine.recipe, self.environment, output)
            self._clients.append(client)
        return self._clients[0]

    def worker_of(self, pid):
        """Return the worker that a process belongs to."""
        return next(worker for worker in self.workers if worker.has(pid))

    def close(self):
        """End all processes, and remove all files."""
        for process in (*self.workers, *self._clients):
            process.kill()
        self._folder.cleanup()

    # -- runs ----------------------------------------------------------------------

    def submit(self, kind, **labels):
        """Submit a run of a kind by the web application; return its id."""
        assert kind in TURNS
        self._count += 1
        ledger = self.folder / f"{kind}-{self._count}.ledger"
        labels = {"kind": kind, "effects": str(ledger), **labels}
        return self.client.do("submit", labels)

    def effects(self, run):
        """Return the effects of a run as call ids: twice if it was done twice."""
        return [what for what, _ in self._ledger(run) if what != LEAVING]

    def _ledger(self, run):
        try:
            lines = Path(run.labels["effects"]).read_text().splitlines()
        except FileNotFoundError:
            return []
        return [(what, int(pid)) for what, pid in map(str.split, lines)]

    def pid_at(self, run, what):
        """Wait until a run has an effect; return the process that has it."""
        return until(lambda: dict(self._ledger(run)).get(what))

    def let_go(self, run):
        """Let the tool ``hold`` of a run return."""
        Path(run.labels["effects"] + ".go").touch()
