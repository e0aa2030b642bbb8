"""Run ``syncagent`` as a shell does, in forks of an interpreter that is warm."""

import multiprocessing
import os
import selectors
import signal
import sys
import time
from multiprocessing.reduction import DupFd
from pathlib import Path

from syncagent.cli.main import main

#: Seconds within which a command has done what a test waits for, on a slow machine too.
LIMIT = 30
KEY = "sk-test-0123456789-abcdefghijkl-last"

#: It has imported everything, so that a command begins at once.
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(
    [
        "syncagent.cli.main",
        *(f"syncagent.cli.{name}" for name in ("chat", "demo", "doctor", "mcp", "run")),
        "syncagent.cli.chat.rich_screen",
        "support.store_work",
        "syncagent.stores.sqlite",
        "typed_tools",
    ]
)


def ready():
    """Start the server of forks, once for all tests."""
    process = _forks.Process(target=int)
    process.start()
    process.join(LIMIT)
    process.close()


def environment(server=None, **more):
    """Return one in which the only model is on *server*, if there is one."""
    names = ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "SYNCAGENT", "NO_COLOR")
    # A shell does not set it, and without it a stream keeps what it cannot write.
    names += ("PYTHONUNBUFFERED",)
    env = {k: v for k, v in os.environ.items() if not k.startswith(names)}
    if server is not None:
        env["OPENAI_API_KEY"] = KEY
        env["OPENAI_BASE_URL"] = server.base_url
        env["SYNCAGENT_MODEL"] = "openai-chat:fake"
    return env | more


class _Descriptor:
    """A descriptor that is a descriptor in the fork, too."""

    def __init__(self, number):
        self.number = number

    def __reduce__(self):
        return _detach, (DupFd(self.number),)


def _detach(duplicate):
    return duplicate.detach()


def _run(arguments, env, folder, streams, terminal):
    """Be the command."""
    if terminal is not None:
        os.setsid()
        descriptor = os.open(terminal, os.O_RDWR)  # the first one, so it is ours
        streams = [descriptor] * 3
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    for descriptor in {*streams} - {0, 1, 2}:
        os.close(descriptor)
    is_line = terminal is not None
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - as long as we live
    sys.stdout = open(1, "w", 1 if is_line else -1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main(arguments))


class Fork:
    """A command in a fork, with the manners of a ``subprocess.Popen``.

    It differs in its end: Python does not finalise itself in a fork. What depends on
    that, or on an interpreter's start, needs ``is_fresh=True``.
    """

    def __init__(self, arguments, env, folder, streams=(), terminal=None):
        streams = [_Descriptor(stream) for stream in streams]
        self._process = _forks.Process(
            target=_run, args=(list(arguments), env, folder, streams, terminal)
        )
        self._process.start()
        self.pid, self.returncode = self._process.pid, None

    def poll(self):
        if self.returncode is None:
            self.returncode = self._process.exitcode
        return self.returncode

    def send_signal(self, signum):
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout=LIMIT):
        self._process.join(timeout)
        assert self.poll() is not None, "it goes on"
        return self.returncode

    def close(self):
        """Forget it; it has ended."""
        self._process.close()


class Command:
    """A command whose streams are pipes; an empty standard input, unless it is one."""

    def __init__(self, *arguments, env, folder, has_input=False):
        theirs = [os.open(os.devnull, os.O_RDWR)]
        self.stdin = None
        if has_input:
            os.close(theirs.pop())
            reading, writing = os.pipe()
            theirs.append(reading)
            self.stdin = open(writing, "w")  # noqa: SIM115 - closed with the command
        ours = []
        for _ in range(2):
            reading, writing = os.pipe()
            theirs.append(writing)
            ours.append(open(reading))  # noqa: SIM115
        self.stdout, self.stderr = ours
        self._fork = Fork(arguments, env, folder, theirs)
        for descriptor in theirs:
            os.close(descriptor)
        self.send_signal = self._fork.send_signal
        self.wait = self._fork.wait

    @property
    def returncode(self):
        return self._fork.poll()

    def communicate(self, text=None, timeout=LIMIT):
        """Write *text*, and read everything; return output and errors."""
        if self.stdin is not None:
            self.stdin.write(text or "")
            self.stdin.close()
        pieces = {self.stdout: b"", self.stderr: b""}
        end = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for stream in pieces:
                selector.register(stream, selectors.EVENT_READ)
            while selector.get_map():
                left = end - time.monotonic()
                assert left > 0, f"it goes on: {pieces}"
                for key, _ in selector.select(left):
                    piece = os.read(key.fd, 2**16)
                    pieces[key.fileobj] += piece
                    if not piece:
                        selector.unregister(key.fileobj)
        self.wait(timeout)
        return tuple(each.decode(errors="replace") for each in pieces.values())

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._fork.kill()
        self.wait()
        self._fork.close()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None and not stream.closed:
                stream.close()


def start(*arguments, server=None, env=None, cwd=None, has_input=False):
    """Begin a command whose streams are pipes."""
    env = environment(server, **(env or {}))
    return Command(*arguments, env=env, folder=cwd or Path.cwd(), has_input=has_input)


def finish(*arguments, said=None, **how):
    """Run a command to its end; return its exit code, output and errors."""
    with start(*arguments, has_input=said is not None, **how) as process:
        out, err = process.communicate(said)
    return process.returncode, out, err
