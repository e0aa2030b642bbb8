"""Programs that end with a cancel."""

import os
import pickle
import random
import signal
import sys
import threading
import time
from contextlib import suppress
from functools import partial

import pytest
from support.interrupting import interrupted
from support.threads import LONG, together
from worker_jobs import Started, is_gone

from syncagent.cancel import CancelToken
from syncagent.exceptions import Cancelled, ConfigurationError
from syncagent.tools.processes.program import (
    ProcessFailed,
    ProcessResult,
    run_process,
)

#: Milliseconds would do; the machine may be busy.
SOON = 1.0


@pytest.fixture
def token():
    return CancelToken()


def shell(text):
    return ["sh", "-c", text]


def python(text):
    return [sys.executable, "-c", text]


class Running(Started):
    """A program, run by another thread, that has said that it runs."""

    def __init__(self, mail, text, **settings):
        command = shell(text.format(mail=mail.path))
        super().__init__(mail, partial(run_process, command, **settings))


# -- a program that ends by itself -------------------------------------------------


def test_result(token):
    """Status and both outputs are there, and input is empty unless it is given."""
    result = run_process(shell("cat; echo out; echo err >&2; exit 3"), token=token)
    assert result == ProcessResult(
        ("sh", "-c", "cat; echo out; echo err >&2; exit 3"), 3, "out\n", "err\n"
    )
    assert not result.timed_out


def test_no_shell(token):
    """A string is refused, and the message says what to do."""
    with pytest.raises(ConfigurationError, match=r'\["sh", "-c", \'ls \| wc\'\]'):
        run_process("ls | wc", token=token)


@pytest.mark.parametrize(
    ("command", "settings"),
    [
        ([], {}),
        ([1], {}),
        (["true"], {"grace": -1}),
        (["true"], {"timeout": float("nan")}),
        (["true"], {"limit": -1}),
    ],
)
def test_bad_arguments(token, command, settings):
    """What cannot work is refused before anything starts."""
    with pytest.raises(ConfigurationError):
        run_process(command, token=token, **settings)


def test_no_such_program(token):
    """What the system says about a program that is not there comes out."""
    with pytest.raises(FileNotFoundError):
        run_process(["/no/such/program"], token=token)


def test_where_and_environment(token, tmp_path):
    """It runs where, and with what, it is told."""
    result = run_process(
        shell("pwd; echo $WHO"), token=token, cwd=tmp_path, env={"WHO": "me"}
    )
    assert result.stdout == f"{tmp_path}\nme\n"


@pytest.mark.parametrize(
    "given", ["é" * 1_000_000, b"x" * 3_000_000], ids=["str", "bytes"]
)
def test_large_input_and_output(token, given):
    """More than a pipe holds goes in and out at the same time."""
    result = run_process(["cat"], token=token, input=given, limit=10_000_000)
    assert result.stdout == (given if isinstance(given, str) else given.decode())


def test_input_that_nobody_reads(token):
    """A program that ends without reading its input is no error."""
    assert run_process(["true"], token=token, input="x" * 1_000_000).returncode == 0


def test_limit(token):
    """Beginning and end are kept, and what is left out is counted."""
    text = "import sys; sys.stdout.write('a' * 70_000 + 'b' * 900_000 + 'c' * 70_000)"
    result = run_process(python(text), token=token, limit=101)
    assert result.stdout == (
        "a" * 50 + f"\n[... {1_040_000 - 101} bytes left out ...]\n" + "c" * 51
    )


@pytest.mark.parametrize("limit", [10, 11])
def test_limit_that_is_not_reached(token, limit):
    """Nothing is left out of what fits."""
    assert run_process(["echo", "123456789"], token=token, limit=limit).stdout == (
        "123456789\n"
    )


def test_bad_text(token):
    """Bytes that are no text are replaced."""
    assert run_process(shell(r"printf '\377'"), token=token).stdout == "\ufffd"


def test_check(token):
    """check() gives the result back, or raises what tells of it, and pickles."""
    good = run_process(["true"], token=token)
    assert good.check() is good
    bad = run_process(shell("echo wrong >&2; exit 3"), token=token)
    with pytest.raises(ProcessFailed, match="sh ended with exit status 3: wrong") as it:
        bad.check()
    assert it.value.result is bad
    assert pickle.loads(pickle.dumps(it.value)).result == bad


def test_what_stays_in_the_background_is_left_alone(token, mail):
    """7: a normal end neither waits for nor kills what the program has left behind."""
    before = time.monotonic()
    text = f"sleep 1000 & echo $! > {mail.path} & echo done"
    result = run_process(shell(text), token=token)
    assert time.monotonic() - before < SOON
    assert (result.returncode, result.stdout) == (0, "done\n")
    pid = int(mail.line())
    assert not is_gone(pid, 0)
    os.kill(pid, signal.SIGKILL)
    assert is_gone(pid)


# -- cancel ------------------------------------------------------------------------


def test_cancelled_before(token, tmp_path):
    """6: nothing starts under a cancelled token."""
    token.cancel()
    with pytest.raises(Cancelled):
        run_process(["touch", str(tmp_path / "file")], token=token)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("grace", [0, 60.0])
def test_cancel(token, mail, grace):
    """2, 7: a cancel ends the whole group at once, and the output so far is kept."""
    text = "echo out; echo err >&2; sleep 1000 & echo $$ $! > {mail}; wait"
    started = Running(mail, text, token=token, grace=grace)
    before = time.monotonic()
    token.cancel("enough")
    error = started.end()
    assert time.monotonic() - before < SOON
    assert isinstance(error, Cancelled)
    assert (error.reason, error.origin) == ("enough", "user")
    assert (error.partial.stdout, error.partial.stderr) == ("out\n", "err\n")
    number = signal.SIGTERM if grace else signal.SIGKILL
    assert error.partial.returncode == -number
    assert all(is_gone(pid) for pid in started.pids)


def test_grace(token, mail):
    """A program that hears SIGTERM may clean up, and what it says then is kept."""
    text = (
        "trap 'echo bye; exit 5' TERM; echo $$ > {mail}; while :; do sleep 0.01; done"
    )
    started = Running(mail, text, token=token, grace=60)
    token.cancel()
    error = started.end()
    assert (error.partial.returncode, error.partial.stdout) == (5, "bye\n")


def test_end_of_grace(token, mail):
    """SIGKILL follows when the grace is over."""
    text = "trap '' TERM; echo $$ > {mail}; while :; do sleep 0.01; done"
    started = Running(mail, text, token=token, grace=0.1)
    token.cancel()
    assert started.end().partial.returncode == -signal.SIGKILL


@pytest.mark.parametrize("is_first", [True, False])
def test_forced(token, mail, is_first):
    """A cancel of the other token ends the grace, before it or in it."""
    forced = CancelToken()
    text = "trap 'echo heard' TERM; echo $$ > {mail}; while :; do sleep 0.01; done"
    started = Running(mail, text, token=token, grace=60, forced=forced)
    first, second = (forced, token) if is_first else (token, forced)
    first.cancel()
    assert not is_gone(started.pids[0], 0.05)
    second.cancel()
    assert started.end(SOON * 5).partial.returncode == -signal.SIGKILL


def test_grandchild_that_ignores_the_signal(token, mail):
    """7: what outlives the program that was stopped is killed when that has gone."""
    text = (
        "(trap '' TERM; echo $$ $(exec sh -c 'echo $PPID') > {mail};"
        " while :; do sleep 0.01; done) & wait"
    )
    started = Running(mail, text, token=token, grace=60)
    token.cancel()
    assert started.end(SOON * 5).partial.returncode == -signal.SIGTERM
    assert all(is_gone(pid) for pid in started.pids)


def test_cancel_while_the_background_talks(token, mail):
    """2: a cancel ends the wait for the last output, and the rest of the group."""
    text = "(echo $$ > {mail}; while :; do echo x; done) & exit 0"
    started = Running(mail, text, token=token, limit=10)
    token.cancel()
    outcome = started.end()
    assert isinstance(outcome, (Cancelled, ProcessResult))
    with suppress(ProcessLookupError):  # it was over before the cancel
        os.killpg(int(started.pids[0]), signal.SIGKILL)


def test_timeout(token, mail):
    """A program that takes too long is stopped in the same way, and that is told."""
    text = f"echo out; sleep 1000 & echo $! > {mail.path}; wait"
    result = run_process(shell(text), token=token, timeout=0.1)
    assert (result.timed_out, result.returncode, result.stdout) == (
        True,
        -signal.SIGTERM,
        "out\n",
    )
    assert is_gone(mail.line())
    with pytest.raises(ProcessFailed, match="timed out"):
        result.check()


def test_deadline():
    """2: a deadline of the token is a cancel."""
    with pytest.raises(Cancelled) as error:
        run_process(["sleep", "1000"], token=CancelToken(0.05))
    assert error.value.origin == "deadline"


class Alarm:
    """Do something in a signal handler, as soon as the program has said something."""

    def __init__(self, action):
        self._before = signal.signal(signal.SIGUSR1, lambda *_: action())
        self._thread = None

    def ring_after(self, mail):
        def ring():
            self.pids = mail.line().split()
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

        self._thread = threading.Thread(target=ring, daemon=True)
        self._thread.start()

    def close(self):
        self._thread.join(LONG)
        signal.signal(signal.SIGUSR1, self._before)


def test_cancel_in_a_signal_handler(token, mail):
    """1: the handler may interrupt the very call that it cancels."""
    alarm = Alarm(token.cancel)
    alarm.ring_after(mail)
    try:
        with pytest.raises(Cancelled):
            run_process(shell(f"echo $$ > {mail.path}; sleep 1000"), token=token)
    finally:
        alarm.close()
    assert is_gone(alarm.pids[0])


@pytest.mark.slow
def test_ctrl_c(token, mail):
    """7: what a handler raises goes on up, and the program is gone."""

    def interrupt():
        raise KeyboardInterrupt

    alarm = Alarm(interrupt)
    alarm.ring_after(mail)
    # Not at once: in the instant between fork and the note of its number, Python itself
    # loses a program, and nobody can tell that it is there.
    text = f"trap '' TERM; sleep 0.5; echo $$ > {mail.path}; sleep 1000"
    try:
        with pytest.raises(KeyboardInterrupt):
            run_process(shell(text), token=token)
    finally:
        alarm.close()
    assert is_gone(alarm.pids[0])
    assert not token.cancelled


def test_interrupted_anywhere(token):
    """7: wherever a handler raises, no process and no descriptor stays."""
    randomly = random.Random(7)
    run = partial(run_process, ["cat"], token=token, input="x")
    step, count = 1, 0
    while interrupted(run, step):
        step += randomly.randint(1, 40)
        count += 1
    assert count > 20


def test_twenty_at_once():
    """9: each cancel ends its own program and no other."""
    tokens = [CancelToken() for _ in range(20)]
    randomly = random.Random(20)
    pause = threading.Event()

    def run(index):
        waits = index % 2
        try:
            result = run_process(
                ["sleep", "1000" if waits else "0.3"], token=tokens[index]
            )
        except Cancelled:
            assert waits
        else:
            assert not waits
            assert result.returncode == 0

    def cancel():
        for index in randomly.sample(range(1, 20, 2), 10):
            pause.wait(randomly.random() / 50)
            tokens[index].cancel()

    together(*(partial(run, index) for index in range(20)), cancel)
