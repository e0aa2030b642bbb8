"""An example application with workers, started by the commands that it prints."""

import ast
import glob
import os
import re
import shutil
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import requests
from engine import Process
from support import postgres
from support.threads import LONG, until

from syncagent.stores import RunStore

ROOT = Path(__file__).parents[2]
#: The files that print the commands.
FLASK, DJANGO = "examples/flask_celery/app.py", "examples/django_tasks/manage.py"
#: Replaces the interpreter of the process by a shell, which does a command.
_SHELL = "import os, sys; os.execvp('bash', ['bash', '-c', sys.argv[1]])"


def printed_commands(path):
    """Return the commands in the docstring of an example: they are indented."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    paragraphs = docstring.split("\n\n")
    return [textwrap.dedent(each) for each in paragraphs if each.startswith("    ")]


def newest_python(minimum):
    """Return the path of a Python that is new enough; None if there is no such."""
    for minor in range(20, minimum[1] - 1, -1):
        name = f"python3.{minor}"
        folders = glob.glob(os.path.expanduser(f"~/.pyenv/versions/3.{minor}.*/bin"))
        for path in (shutil.which(name), *(f"{each}/{name}" for each in folders)):
            if path and _works(path):
                return path
    return None


def _is_first(step):
    """True if a step of a command comes before all else: go there, install."""
    return re.match(r"cd |\S+ -m venv|\S+/pip ", step) is not None


def _works(python):
    """True if a Python starts: it may be a shim that finds nothing."""
    return subprocess.run([python, "-V"], capture_output=True).returncode == 0


def servers(request):
    """Return the environment of an application with its own Redis and database."""
    if postgres.MISSING:
        pytest.skip(postgres.MISSING)
    redis = request.getfixturevalue("redis")
    if redis is None:
        pytest.skip("Redis is not installed")
    cluster = request.getfixturevalue("cluster")
    name = f"example_{time.monotonic_ns()}"
    address = cluster.address.replace("/postgres?", f"/{name}?")
    return {"REDIS_URL": redis.url, "DATABASE_URL": address}


class ExampleApp:
    """A copy of an example in a folder of its own; a ``with`` block ends it.

    :param folder: gets the copy.
    :param file: the path of the file with the commands, in the project.
    :param environment: of both commands.
    """

    def __init__(self, folder, file, **environment):
        self.folder = folder
        self.worker_command, self.web_command = printed_commands(ROOT / file)
        self.home = folder / Path(file).parent
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/"
        if self.web_command.endswith(" runserver"):
            self.web_command += f" {port}"
        self.environment = {
            "GUNICORN_CMD_ARGS": f"--bind 127.0.0.1:{port}",
            "PYTHONUNBUFFERED": "1",
            **environment,
        }
        self.worker = self.web = None
        self._processes = []

    def copy(self):
        """Copy the example, whose packages are installed here already."""
        ignored = shutil.ignore_patterns(".venv", "__pycache__", "*.sqlite3*")
        source = ROOT / self.home.relative_to(self.folder)
        shutil.copytree(source, self.home, ignore=ignored)
        self.use(Path(sys.executable).parent)

    def clone(self, python=None):
        """Clone the project, to do exactly as the commands say.

        :param python: the Python to use, if the one of the command is not there.
        """
        subprocess.run(["git", "clone", "-q", ROOT, self.folder], check=True)
        if python is not None:
            self.worker_command = re.sub(
                r"python3\.?\d* -m venv", f"{python} -m venv", self.worker_command
            )

    def install(self):
        """Do the steps of the first command that install everything."""
        steps = " && ".join(each for each in self._steps if _is_first(each))
        subprocess.run(["bash", "-c", steps], cwd=self.folder, check=True, timeout=240)
        self.use(self.home / ".venv" / "bin")

    def use(self, programs):
        """Have the commands install nothing, and use the programs of a folder."""
        go, *steps = self._steps
        steps = [go, *(each for each in steps if not _is_first(each))]
        for name, command in (
            ("worker_command", " && ".join(steps)),
            ("web_command", self.web_command),
        ):
            setattr(self, name, command.replace(".venv/bin/", f"{programs}/"))

    @property
    def _steps(self):
        """The steps of the first command: go there, install, set up, work."""
        return re.split(r"\s*&&\s*", self.worker_command)

    def start(self, patience=3 * LONG):
        """Do both commands, as in two terminals.

        :param patience: seconds that the first one has.
        """
        self._start_worker(self.worker_command, patience)
        self.start_web()

    def restart_worker(self):
        """Start another worker; everything is set up."""
        self._start_worker(f"{self._steps[0]} && {self._steps[-1]}")

    def _start_worker(self, command, patience=3 * LONG):
        self.worker = self.do(command)
        signs = ("[queues]", "Starting worker")  # of Celery, of django.tasks
        until(lambda: any(sign in self._worker_text() for sign in signs), patience)

    def start_web(self):
        """Do the second command, and wait until there is a page."""
        self.web = self.do(self.web_command)
        until(self._answers, 3 * LONG)

    def _worker_text(self):
        assert self.worker.is_alive, self.worker.text
        return self.worker.text

    def do(self, command):
        """Start a command, as in a terminal; return its process."""
        output = self.folder / f"{len(self._processes)}.log"
        command = f"cd {self.folder} && {command}"
        process = Process(["-c", _SHELL, command], self.environment, output)
        self._processes.append(process)
        return process

    def _answers(self):
        assert self.web.is_alive, self.web.text
        try:
            return requests.get(self.url, timeout=LONG).ok
        except requests.ConnectionError:
            return False

    def pid_of(self, id):
        """Return the process that works on a run, as the store has it."""
        beside = f"sqlite:///{self.home}/db-runs.sqlite3"
        with RunStore(self.environment.get("DATABASE_URL", beside)) as store:
            return int(store.get(id).worker.rpartition(":")[2])

    def kill(self):
        """End everything with kill -9."""
        for process in self._processes:
            process.kill()

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.kill()
