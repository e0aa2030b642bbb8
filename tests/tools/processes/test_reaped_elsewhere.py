"""Programs whose end other code in the process waits for."""

import os
import signal
import subprocess
import threading
from contextlib import suppress

import pytest
import worker_jobs as jobs
from calling import Called, run
from support.threads import until
from worker_jobs import Started, is_gone

from syncagent.cancel import CancelToken
from syncagent.exceptions import Cancelled
from syncagent.tools.processes.call import WorkerKilled
from syncagent.tools.processes.child import ChildProcess
from syncagent.tools.processes.program import run_process


@pytest.fixture(params=["ignored", "waited for"])
def reaper(request):
    """Have every child reaped as soon as it ends."""
    if request.param == "ignored":
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        yield
        signal.signal(signal.SIGCHLD, before)
        return
    stop = threading.Event()

    def reap():
        while not stop.wait(0.0005):
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass

    thread = threading.Thread(target=reap)
    thread.start()
    yield
    stop.set()
    thread.join()


def start(mail, text, **settings):
    command = ["sh", "-c", text.format(mail=mail.path)]
    return Started(mail, lambda: run_process(command, **settings))


def test_a_program(reaper):
    """L10: it ends, and its output is there; its exit status is lost, as always."""
    for _ in range(20):
        assert run_process(["echo", "x"], token=CancelToken()).stdout == "x\n"


def test_the_rest_of_the_group(reaper, mail):
    """L10, 7: what outlives a program that was stopped is killed all the same."""
    token = CancelToken()
    text = "sh -c 'trap \"\" TERM; echo $$ $PPID > {mail}; sleep 1000; sleep 1000'"
    started = start(mail, text + " & wait", token=token, grace=10)
    token.cancel()
    assert isinstance(started.end(), Cancelled)
    assert all(is_gone(pid) for pid in started.pids)


def test_a_worker(reaper, mail):
    """L10: a worker is killed, and replaced."""
    started = Called(mail, jobs.start_child)
    started.token.cancel()
    assert isinstance(started.end(), WorkerKilled)
    assert all(is_gone(pid) for pid in started.pids)
    assert run(jobs.add, 1) == 1


class OnOldSystem(ChildProcess):
    """A child on a system that has no descriptors for processes."""

    def _open(self):
        self._spawn(["sh", "-c", "sleep 1000 & wait"])
        while self._pidfds:
            self._pidfds.pop().close()


def test_no_signal_without_a_child():
    """L10: a number that is no child of ours any more is not signalled."""
    stranger = subprocess.Popen(
        ["sh", "-c", "setsid sh -c 'echo $$; exec sleep 1000' &"],
        stdout=subprocess.PIPE,
    )
    pid = int(stranger.stdout.readline())
    stranger.stdout.close()
    stranger.wait()
    child = OnOldSystem()
    try:
        child.start()
        own = child._process.pid
        child._process.pid = pid  # as if the system had given our number away
        child.signal(signal.SIGKILL)
        assert not is_gone(pid, 0.2)
        child._process.pid = own
    finally:
        child.end()
        os.kill(pid, signal.SIGKILL)


def test_the_rest_of_the_group_on_an_older_system():
    """L10, 7: without such a signal, cutting its lifeline kills the group."""
    child = OnOldSystem()
    child.start()
    group = child.pid
    until(lambda: len(members(group)) == 2)
    os.kill(group, signal.SIGKILL)
    os.waitpid(group, 0)
    assert members(group)
    child.end()
    until(lambda: not members(group))


def members(group):
    """Return the processes of a group that have not ended."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{number}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] not in "ZX":
                found.append(number)
    return found
