"""Commands on a terminal, and in a shell; read what comes from them."""

import os
import re
import select
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from support.commands import LIMIT, Fork, environment


def start_shell(line, server=None, env=None, **how):
    """Begin a line of shell in which $SYNCAGENT is the command, started afresh."""
    command = f"{sys.executable} -m syncagent"
    env = environment(server, SYNCAGENT=command, **(env or {}))
    return subprocess.Popen(["sh", "-c", line], env=env, **how)


def in_shell(line, server=None, **env):
    """Run such a line to its end; return its exit code, output and errors."""
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    with start_shell(line, server, env, **pipes) as process:
        out, err = process.communicate(timeout=LIMIT)
    return process.returncode, out, err


def read_until(stream, wanted):
    """Return what comes from a pipe up to and with *wanted*."""
    found, end = b"", time.monotonic() + LIMIT
    while wanted.encode() not in found:
        left = end - time.monotonic()
        ready, _, _ = select.select([stream], [], [], max(left, 0))
        assert ready, f"{wanted!r} did not come, only {found!r}"
        piece = os.read(stream.fileno(), 1)
        assert piece, f"{wanted!r} did not come, only {found!r}"
        found += piece
    return found.decode()


def without_colours(text):
    """Return *text* without the sequences that set colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, fork, descriptor):
        self._fork = fork
        self._descriptor = descriptor
        self.screen = ""

    def see(self, wanted):
        """Wait until the screen has shown *wanted*."""
        end = time.monotonic() + LIMIT
        while wanted not in self.screen:
            assert time.monotonic() < end, f"no {wanted!r} in {self.screen!r}"
            assert self._read(0.1), f"no {wanted!r} in {self.screen!r}"

    def type(self, keys):
        os.write(self._descriptor, keys.encode())

    def finish(self):
        """Wait for the end; return the exit code."""
        end = time.monotonic() + LIMIT
        while self._fork.poll() is None:
            assert time.monotonic() < end, self.screen
            self._read(0.02)
        while self._read(0):
            pass
        return self._fork.returncode

    def _read(self, seconds):
        """Return whether there may be more to read."""
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return seconds > 0 and self._fork.poll() is None
        try:
            piece = os.read(self._descriptor, 2**16)
        except OSError:  # as Linux says that the other end is closed
            return False
        self.screen += piece.decode(errors="replace")
        return bool(piece)


@contextmanager
def on_terminal(*arguments, server=None, **env):
    """Begin a command on a terminal; Ctrl+C there is ``type("\\x03")``."""
    env = environment(server, TERM="xterm", **env)
    master, slave = os.openpty()
    fork = Fork(arguments, env, Path.cwd(), terminal=os.ttyname(slave))
    try:
        yield Terminal(fork, master)
    finally:
        fork.kill()
        fork.wait()
        fork.close()
        os.close(master)
        os.close(slave)
