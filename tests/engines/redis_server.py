"""A Redis of the tests' own, which ends with the process that began it."""

import shutil
import socket
import subprocess
import sys
import tempfile

from support.threads import LONG, until

SERVER = shutil.which("redis-server")
#: Ends the server when its own standard input ends: also after kill -9 of the tests.
_GUARD = """
import subprocess, sys
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
sys.stdin.read()
server.kill()
server.wait()
"""


class Redis:
    """A server on a port of this machine, which can be stopped and started again."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="syncagent-redis-")
        self._guard = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self):
        """Start it, and wait until it takes connections."""
        settings = {
            "bind": "127.0.0.1",
            "port": self.port,
            "dir": self._folder.name,
            "appendonly": "yes",
            "save": "",
        }
        options = [
            part for name in settings for part in (f"--{name}", str(settings[name]))
        ]
        self._guard = subprocess.Popen(
            [sys.executable, "-c", _GUARD, SERVER, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        until(self._answers)

    def _answers(self):
        try:
            return self._do("PING").startswith(b"+PONG")
        except OSError:
            return False

    def settle(self):
        """Have it notice which clients were killed: it hands them messages no more."""
        assert self._answers()

    def flush(self):
        """Forget everything."""
        assert self._do("FLUSHALL").startswith(b"+OK")

    def is_empty(self, list):
        """True if a list has no elements."""
        return self._do(f"LLEN {list}").startswith(b":0")

    def _do(self, command):
        with socket.create_connection(("127.0.0.1", self.port), LONG) as connection:
            connection.sendall(command.encode() + b"\r\n")
            return connection.recv(100)

    def stop(self):
        """End it; what was sent to it is kept for the next start."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.communicate(b"", timeout=LONG)

    def close(self):
        self.stop()
        self._folder.cleanup()
