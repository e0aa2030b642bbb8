"""Worker processes: kept warm, replaced, forgotten, and gone in the end."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings

import pytest
import worker_jobs as jobs
from calling import Called, context, run
from support.processes import in_child, script_environment
from support.threads import LONG, meanwhile, together
from worker_jobs import is_gone

from syncagent.cancel import CancelToken
from syncagent.testing import FakeClock
from syncagent.tools.processes import pool
from syncagent.tools.processes.call import WorkerKilled
from syncagent.tools.processes.pool import IDLE_SECONDS, MAX_IDLE, close_idle

# -- one call after the other ------------------------------------------------------


def test_the_same_worker_again():
    """A worker is kept for the next call, the last one first."""
    assert run(jobs.pid) == run(jobs.pid)


def test_what_is_restored(tmp_path, monkeypatch):
    """Working directory and alarm of one call do not reach the next one."""
    here, worker = os.getcwd(), run(jobs.pid)
    run(jobs.change_place, str(tmp_path))
    assert run(jobs.where) == here
    assert run(jobs.alarm) == (0, 0)
    monkeypatch.chdir(tmp_path)
    assert run(jobs.where) == str(tmp_path)
    assert run(jobs.pid) == worker


@pytest.mark.parametrize("way", ["insert", "replace"])
def test_the_path_is_restored(tmp_path, way):
    """L6, 9: what a function does to sys.path and sys.argv ends with its call."""
    worker, before = run(jobs.pid), run(jobs.paths)
    run(jobs.change_path, str(tmp_path), way)
    assert run(jobs.paths) == before
    assert run(jobs.pid) == worker


def test_path_follows(tmp_path, monkeypatch):
    """What becomes importable here becomes so in a worker that runs already."""
    run(jobs.pid)
    (tmp_path / "later_jobs.py").write_text("def job(): return 'later'")
    monkeypatch.syspath_prepend(tmp_path)
    import later_jobs

    assert run(later_jobs.job) == "later"


def test_sigint():
    """A worker does not hear SIGINT, and programs that it starts do."""
    assert run(jobs.signal_self, signal.SIGINT) == "alive"
    assert run(jobs.child_hears_sigint) == -signal.SIGINT


def test_killed_from_outside():
    """A worker that died while it waited is replaced without a word."""
    worker = run(jobs.pid)
    os.kill(worker, signal.SIGKILL)
    assert is_gone(worker)
    assert run(jobs.pid) != worker


def test_killed_from_outside_with_a_child_left():
    """The same if a child of it holds the connection open; that one goes, too."""
    child, worker = run(jobs.leave_child), run(jobs.pid)
    os.kill(worker, signal.SIGKILL)
    assert is_gone(worker)
    assert run(jobs.pid) != worker
    assert is_gone(child)


def test_only_so_many_wait():
    """Workers beyond the number that may wait leave."""
    barrier = threading.Barrier(MAX_IDLE + 2)

    def work():
        run(jobs.ask, context=context(), serve=lambda *_: barrier.wait(LONG))

    together(*[work] * (MAX_IDLE + 2))
    assert len(pool.current._idle) == MAX_IDLE


def test_idle_workers_end():
    """The timer ends a worker that has waited too long."""
    with FakeClock() as clock:
        worker = run(jobs.pid)
        clock.advance(IDLE_SECONDS + 1)
        assert is_gone(worker)
        clock.advance(10)


def test_close_idle():
    """7: after close_idle() no worker is left."""
    worker = run(jobs.pid)
    close_idle()
    assert is_gone(worker, 0)


# -- processes ---------------------------------------------------------------------


def test_fork(mail):
    """9: a forked child has workers of its own and leaves the parent's alone."""
    started = Called(mail, jobs.loop)
    worker = run(jobs.pid)

    def work():
        other = run(jobs.pid)
        close_idle()
        started.token.cancel()
        return other

    other = in_child(work)
    assert isinstance(other, int)
    assert other != worker
    assert not is_gone(started.pids[0], 0)
    assert run(jobs.pid) == worker
    started.token.cancel()
    assert isinstance(started.end(), WorkerKilled)


@pytest.mark.parametrize("kill_on", [[], [CancelToken()]])
def test_fork_in_the_middle_of_a_call(kill_on):
    """9: a child that is forked while we serve leaves the call to the parent."""
    home, children = os.getpid(), []

    def serve(kind, value):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads and fork
            children.append(os.fork())
        return "answered"

    try:
        answer = run(jobs.ask, context=context(), serve=serve, kill_on=kill_on)
    except BaseException as error:
        if os.getpid() != home:
            os._exit(isinstance(error, WorkerKilled))
        raise
    if os.getpid() != home:
        os._exit(9)
    assert answer == "answered"
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 1


def run_text(tmp_path, text, *, timeout=LONG):
    """Run a script that uses workers, and return what it printed."""
    script = tmp_path / "script.py"
    head = """
        import os, sys
        from syncagent.cancel import CancelToken
        from syncagent.tools.processes.call import call, find_target
        from syncagent.tools.processes.pool import close_idle

        def run(function, *args, kill_on=()):
            return call(find_target(function), args, {}, context=None,
                        kill_on=kill_on, serve=print)
    """
    script.write_text(textwrap.dedent(head) + textwrap.dedent(text))
    ended = subprocess.run(
        [sys.executable, "-W", "error", str(script), "argument"],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=script_environment(),
    )
    assert ended.stderr == ""
    return ended.stdout.split("\n")[:-1]


def test_functions_of_the_main_script(tmp_path):
    """A guarded script's own functions, classes and exceptions go both ways."""
    text = """
        class Price:
            def __init__(self, value):
                self.value = value

        class Wrong(Exception):
            pass

        def double(price):
            if price.value < 0:
                raise Wrong(price.value)
            return Price(2 * price.value)

        def arguments():
            return sys.argv[1:]

        if __name__ == "__main__":
            print(run(getattr, Price(7), "value"))
            result = run(double, Price(21))
            print(type(result) is Price, result.value)
            try:
                run(double, Price(-1))
            except Wrong as error:
                print(repr(error))
            print(run(arguments))
            import multiprocessing
            print(multiprocessing.get_start_method(allow_none=True))
    """
    assert run_text(tmp_path, text) == [
        "7",
        "True 42",
        "Wrong(-1)",
        "['argument']",
        "None",
    ]


def test_script_without_a_guard(tmp_path):
    """It does not start workers without end, and the message says what to do."""
    text = """
        def job():
            return 1

        try:
            run(job)
        except Exception as error:
            print(type(error).__name__, "while a worker process imports" in str(error))
            if __name__ != "__main__":
                raise
    """
    lines = run_text(tmp_path, text)
    assert lines[-1] == "ConfigurationError True"
    assert 1 <= len(lines) <= 2


def test_interactive(tmp_path):
    """What was typed in cannot be imported, and that is said at once."""
    text = (
        "from syncagent.tools.processes.call import find_target\n"
        "def job(): pass\n"
        "try: find_target(job)\n"
        "except ValueError as error: print('defined interactively' in str(error))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", f"exec({text!r})"],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=True,
        env=script_environment(),
    )
    assert ended.stdout == "True\n"


@pytest.mark.parametrize("way", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
@pytest.mark.slow
def test_workers_die_with_the_parent(tmp_path, mail, way):
    """7: when the parent is gone, however, busy and idle workers are."""
    text = """
        import threading
        sys.path.insert(0, {folder!r})
        import worker_jobs

        if __name__ == "__main__":
            print(run(worker_jobs.pid), flush=True)
            for _ in range(2):
                threading.Thread(
                    target=run, args=(worker_jobs.swallow, {mail.path!r}), daemon=True
                ).start()
            with open({told!r}) as gate:  # until the test has heard of both
                gate.read()
            {way}
    """
    told, folder = str(tmp_path / "told"), os.path.dirname(jobs.__file__)
    os.mkfifo(told)
    pids = []

    def hear():
        pids.extend([mail.line(), mail.line()])
        jobs.tell(told, "both")

    with meanwhile(hear):
        pids += run_text(
            tmp_path, text.format(mail=mail, told=told, way=way, folder=folder)
        )[:1]
    assert len(set(pids)) in (2, 3)
    assert all(is_gone(pid) for pid in pids)


def test_normal_exit(tmp_path):
    """7: a program that ends takes its idle workers along, without a complaint."""
    text = """
        sys.path.insert(0, %r)
        import worker_jobs

        if __name__ == "__main__":
            print(run(worker_jobs.pid))
    """
    (pid,) = run_text(tmp_path, text % os.path.dirname(jobs.__file__))
    assert is_gone(pid)
