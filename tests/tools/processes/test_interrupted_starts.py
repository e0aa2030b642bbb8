"""A signal handler that raises while a process starts loses nothing."""

import os
import random
import signal
import threading
import warnings
from functools import partial

import pytest
import worker_jobs as jobs
from calling import run
from support.interrupting import is_ignored
from support.processes import in_child
from support.threads import together, until

from syncagent.cancel import CancelToken
from syncagent.exceptions import Cancelled
from syncagent.tools.processes.call import call
from syncagent.tools.processes.pool import close_idle
from syncagent.tools.processes.program import run_process

#: A program that must not outlive a test; nothing else runs for this many seconds.
FOREVER = "86399"
#: A signal may come before the package is entered, and is then ignored: this many
#: seconds later there is another one.
LATER = 0.1
#: The functions that start processes.
STARTED_BY = (run_process.__code__, call.__code__)


class Interrupts:
    """Real signals, whose handler raises KeyboardInterrupt in code of the package.

    Not in that of the test, which could not be sure of its own clean-up; nor in a
    finalizer, where Python itself would print and ignore it.
    """

    def __init__(self):
        self.count = self._left = 0

    def _handle(self, number, frame):
        if not self._left or is_ignored(frame):
            return
        while frame is not None:
            if frame.f_code in STARTED_BY:
                self.count += 1
                self._left -= 1
                raise KeyboardInterrupt
            frame = frame.f_back

    def call(self, work, after, again):
        """Do *work*, interrupted after some seconds, and once again after some more."""
        self._left = 2
        signal.signal(signal.SIGALRM, self._handle)
        signal.setitimer(signal.ITIMER_REAL, after, again)
        try:
            work()
        except KeyboardInterrupt:
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            # The handler stays: another thread may be about to tell of a last signal,
            # and Python complains if that has no handler any more.
            self._left = 0


def children():
    """Return the command lines of the children of this process, dead ones as well."""
    found = {}
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with (
                open(f"/proc/{number}/stat") as stat,
                open(f"/proc/{number}/cmdline") as cmdline,
            ):
                if int(stat.read().rpartition(")")[2].split()[1]) == os.getpid():
                    found[int(number)] = cmdline.read().replace("\0", " ") or "dead"
        except OSError:  # it has ended in the meantime
            pass
    return found


def check_interrupts(work, count, longest, again=LATER):
    """Interrupt *work* at random moments; check that it leaves no process behind.

    Descriptors are counted by the fixture of every test.
    """
    randomly, before, interrupts = random.Random(6), children(), Interrupts()
    for _ in range(count):
        interrupts.call(work, randomly.uniform(0.0003, longest), again)
        until(lambda: children().keys() <= before.keys())
    assert interrupts.count >= count / 2


def run_forever():
    run_process(["sleep", FOREVER], token=CancelToken(), timeout=20)


def run_in_new_worker():
    try:
        run(jobs.pid)
    finally:
        close_idle()


def test_a_program():
    """M6, 7: one Ctrl+C around the start of a program leaves nothing."""
    check_interrupts(run_forever, 60, 0.0033)


def test_a_program_twice():
    """M6, 7: nor do two of them, one right after the other."""
    check_interrupts(run_forever, 20, 0.0033, again=0.0002)


@pytest.mark.slow
def test_a_worker():
    """M6, 7: the same for a worker process."""
    check_interrupts(run_in_new_worker, 20, 0.02)


@pytest.mark.stress
@pytest.mark.parametrize("again", [LATER, 0.0004])
def test_programs_for_long(again):
    """M6, 7: five hundred times, with one Ctrl+C and with two."""
    check_interrupts(run_forever, 500, 0.0033, again)


@pytest.mark.stress
@pytest.mark.parametrize("again", [LATER, 0.0004])
def test_workers_for_long(again):
    """M6, 7: the same for workers, new ones and warm ones."""
    check_interrupts(run_in_new_worker, 200, 0.05, again)
    check_interrupts(partial(run, jobs.add, 1), 500, 0.001, again)
    close_idle()


def test_a_cancel_in_a_handler():
    """M6, 1: a handler that cancels ends the program that starts just then."""
    randomly = random.Random(1)
    for _ in range(20):
        token = CancelToken()
        before = signal.signal(signal.SIGALRM, lambda *_, token=token: token.cancel())
        signal.setitimer(signal.ITIMER_REAL, randomly.uniform(0.0003, 0.0033))
        try:
            with pytest.raises(Cancelled):
                run_process(["sleep", FOREVER], token=token)
        finally:
            signal.signal(signal.SIGALRM, before)


def test_a_program_that_does_not_exist():
    """M6: an error on the other thread is raised here, and keeps nothing alive."""
    for _ in range(3):
        with pytest.raises(FileNotFoundError, match="no/such"):
            run_process(["/no/such/program"], token=CancelToken())


def test_forks_while_programs_start():
    """M6, 9: a child that is forked at that moment does not hold the pipes open."""
    stop = threading.Event()

    def start():
        try:
            for _ in range(15):
                result = run_process(["cat"], token=CancelToken(), input="x")
                assert result.stdout == "x"
        finally:
            stop.set()

    def fork():
        while not stop.is_set():
            assert in_child(lambda: 1) == 1

    together(start, fork)


def test_a_handler_that_forks():
    """M6, 9: the forked child of a handler is not stuck in the parent's start."""
    pids, home = [], os.getpid()

    def fork(*_):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads and fork
            pids.append(os.fork())

    before = signal.signal(signal.SIGALRM, fork)
    try:
        for step in range(10):
            signal.setitimer(signal.ITIMER_REAL, 0.0002 * (step + 1))
            result = run_process(["sleep", "0.02"], token=CancelToken())
            assert result.returncode == 0
    finally:
        if os.getpid() != home:
            os._exit(0)  # by whatever it raises, or returns
        signal.signal(signal.SIGALRM, before)
    for pid in pids:
        os.waitpid(pid, 0)
