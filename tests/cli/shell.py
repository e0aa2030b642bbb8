"""Run ``syncagent`` as a shell does: in a process, with streams, on a terminal."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

#: Seconds within which whatever a test waits for has happened.
LIMIT = 30
COMMAND = (sys.executable, "-m", "syncagent")
KEY = "sk-test-0123456789-abcdefghijkl-last"


def environment(server=None, **more):
    """Return one in which the only model is on *server*, if there is one."""
    names = ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "SYNCAGENT", "NO_COLOR")
    env = {k: v for k, v in os.environ.items() if not k.startswith(names)}
    if server is not None:
        env["OPENAI_API_KEY"] = KEY
        env["OPENAI_BASE_URL"] = server.base_url
        env["SYNCAGENT_MODEL"] = "openai-chat:fake"
    return env | more


def start(*arguments, server=None, env=None, **how):
    """Begin a command whose streams are pipes; nothing comes from its input."""
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    settings = {"stdin": subprocess.DEVNULL, "text": True} | pipes | how
    env = environment(server, **(env or {}))
    return subprocess.Popen([*COMMAND, *arguments], env=env, **settings)


def finish(*arguments, said=None, **how):
    """Run a command to its end; return its exit code, output and errors."""
    if said is not None:
        how["stdin"] = subprocess.PIPE
    with start(*arguments, **how) as process:
        out, err = process.communicate(said, timeout=LIMIT)
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


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, pid, descriptor):
        self.pid = pid
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
        while self._read(0.1):
            assert time.monotonic() < end, self.screen
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self, seconds):
        """Return whether there may be more to read."""
        if select.select([self._descriptor], [], [], seconds)[0]:
            try:
                piece = os.read(self._descriptor, 2**16)
            except OSError:  # as Linux says that the other end is closed
                return False
            self.screen += piece.decode(errors="replace")
            return bool(piece)
        return True


@contextmanager
def on_terminal(*arguments, server=None, **env):
    """Begin a command on a terminal; Ctrl+C there is ``type("\\x03")``."""
    env = environment(server, TERM="xterm", **env)
    pid, descriptor = pty.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.execve(COMMAND[0], [*COMMAND, *arguments], env)
        finally:
            os._exit(127)
    terminal = Terminal(pid, descriptor)
    try:
        yield terminal
    finally:
        os.close(descriptor)
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass  # it has been waited for
