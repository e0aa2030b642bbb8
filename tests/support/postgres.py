"""A PostgreSQL server of the tests' own, which ends with the process that began it."""

import glob
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from support.threads import LONG

try:
    import psycopg
except ImportError:
    psycopg = None

#: Where Debian puts the programs; elsewhere they are on the path.
_PLACES = [*sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True), os.defpath]
_INITDB = shutil.which(
    "initdb", path=os.pathsep.join([*_PLACES, os.environ.get("PATH", "")])
)
#: The server refuses to run as root.
_USER = ("postgres",) if os.getuid() == 0 else ()
#: Ends the server, and removes its folder, when its own standard input ends: also after
#: kill -9 of the tests.
_GUARD = """
import shutil, signal, subprocess, sys
folder, user, *command = sys.argv[1:]
switch = dict(user=user, group=user, extra_groups=[]) if user else {}
server = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=folder, **switch)
is_kept = sys.stdin.read() == "keep"
server.send_signal(signal.SIGQUIT if is_kept else signal.SIGINT)
try:
    server.wait(10)
except subprocess.TimeoutExpired:
    server.kill()
    server.wait()
if not is_kept:
    shutil.rmtree(folder, ignore_errors=True)
"""
#: What is committed is synced, as with users. Statistics and vacuuming are not needed.
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": 60,
    "shared_buffers": "16MB",
    "autovacuum": "off",
    "log_min_messages": "fatal",
}
#: Why there is no PostgreSQL here; empty if there is one.
MISSING = ""
if _INITDB is None:
    MISSING = "PostgreSQL is not installed"
elif psycopg is None:
    MISSING = "psycopg is not installed"


class Cluster:
    """A server, reached only by a socket in a folder."""

    def __init__(self, **settings):
        self._settings = {**_SETTINGS, **settings}
        self.folder = tempfile.mkdtemp(prefix="syncagent-pg-")
        self._data = os.path.join(self.folder, "data")
        self._numbers = itertools.count(1)
        self._guard = None
        try:
            switch = {}
            for user in _USER:
                shutil.chown(self.folder, user, user)
                switch = {"user": user, "group": user, "extra_groups": []}
            options = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
            subprocess.run(
                [_INITDB, "-D", self._data, *options, "--no-locale"],
                check=True,
                timeout=LONG,
                cwd=self.folder,
                stdout=subprocess.DEVNULL,
                **switch,
            )
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def address(self):
        """The URL of the database."""
        return f"postgresql:///postgres?host={self.folder}&user=postgres"

    def new_schema(self):
        """Return the URL of an empty schema: tests do not see each other's tables."""
        name = f"t{next(self._numbers)}"
        self.execute(f"CREATE SCHEMA {name}")
        return f"{self.address}&options=-csearch_path%3D{name}"

    def execute(self, sql, *params):
        """Execute a statement from outside; return its rows."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            cursor = connection.execute(sql, params or None)
            return cursor.fetchall() if cursor.description else []

    def start(self):
        """Start the server, and wait until it takes connections."""
        server = os.path.join(os.path.dirname(_INITDB), "postgres")
        settings = {**self._settings, "unix_socket_directories": self.folder}
        options = [f"--{name}={value}" for name, value in settings.items()]
        user = "".join(_USER)
        command = [sys.executable, "-c", _GUARD, self.folder, user, server]
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self._guard = subprocess.Popen(
                [*command, "-D", self._data, *options],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until = time.monotonic() + LONG
        pause = threading.Event()
        while True:
            try:
                return self.execute("SELECT 1")
            except psycopg.OperationalError:
                assert self._guard.poll() is None, "PostgreSQL did not start"
                assert time.monotonic() < until, "PostgreSQL takes no connections"
                pause.wait(0.02)

    def crash(self):
        """End the server without a shutdown, as a loss of power does."""
        self._end(b"keep")

    def close(self):
        """End the server, and remove its files. Safe to repeat."""
        self._end(b"")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, word):
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.communicate(word, timeout=LONG)


@pytest.fixture(scope="session")
def cluster():
    """Yield a server, one in each process of a test run; None if there cannot be one.

    A test that needs it skips with the reason in ``MISSING``.
    """
    if MISSING:
        yield None
        return
    cluster = Cluster()
    try:
        yield cluster
    finally:
        cluster.close()
