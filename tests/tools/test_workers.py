"""Functions in worker processes."""

import functools
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import pytest
import worker_jobs as jobs
from crew import LONG, script_environment, together
from forking import in_child
from worker_jobs import Mail, Started, is_gone

from syncagent.cancel import CancelToken
from syncagent.exceptions import Cancelled, ConfigurationError
from syncagent.testing import FakeClock
from syncagent.tools import pool
from syncagent.tools.pool import IDLE_SECONDS, MAX_IDLE
from syncagent.tools.workers import (
    RemoteError,
    WorkerDied,
    WorkerKilled,
    call,
    close_idle,
    find_target,
)

#: Milliseconds would do; the machine may be busy.
SOON = 1.0


@pytest.fixture(autouse=True)
def no_workers():
    """Begin and end without a worker that waits."""
    close_idle()
    yield
    close_idle()


@pytest.fixture
def mail(tmp_path):
    mail = Mail(tmp_path)
    yield mail
    mail.close()


def refuse(kind, value):
    raise AssertionError(f"nothing is to be served, got {kind} {value}")


def run(function, *args, kill_on=(), context=None, serve=refuse, **kwargs):
    """Call *function* in a worker."""
    target = find_target(function)
    return call(target, args, kwargs, context=context, kill_on=kill_on, serve=serve)


def context(**changes):
    """Return what a worker needs to make a context."""
    return {
        "parameter": "ctx",
        "run_id": "run-1",
        "call_id": "call-1",
        "tool_name": "job",
        "idempotency_key": "key",
        "grace": 0.0,
        "credentials": {"key": "secret"},
        "timeout": None,
        **changes,
    }


class Called(Started):
    """A function in a worker, called by another thread, that has said that it runs."""

    def __init__(self, mail, function, *args, **settings):
        self.token = CancelToken()
        work = functools.partial(
            run, function, mail.path, *args, kill_on=[self.token], **settings
        )
        super().__init__(mail, work)


# -- what is called ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "args", "result"),
    [
        (jobs.add, (1, 2), 3),
        (jobs.Counter.double, (4,), 8),
        (jobs.Counter(3).add, (4,), 7),
        (jobs.decorated.function, (4,), 8),
        (functools.partial(jobs.add, 1), (5,), 6),
        (len, ("abc",), 3),
    ],
)
def test_what_can_be_called(function, args, result):
    """Functions, static and bound methods, what a decorator hides, and pickles."""
    assert run(function, *args) == result


def test_keywords():
    """Arguments by name arrive by name."""
    assert run(jobs.add, left=1, right=2) == 3


def local():
    def inner():
        pass

    return inner


@pytest.mark.parametrize("function", [lambda: None, local()])
def test_what_has_no_name(function):
    """A lambda or a local function is refused at once, with what to do."""
    with pytest.raises(ConfigurationError, match="top level of a module, or use isol"):
        find_target(function)


def test_what_does_not_pickle():
    """A bound method of something that does not pickle is refused at once."""
    with pytest.raises(ConfigurationError, match="cannot be sent to a worker process"):
        find_target(threading.Lock().acquire)


def test_what_is_not_there():
    """A name that leads nowhere in the worker is told, and the next call works."""

    def lost():
        pass

    lost.__qualname__ = "lost"
    with pytest.raises(ConfigurationError, match="could not import it"):
        run(lost)
    assert run(jobs.add, 1) == 1


def test_arguments_that_do_not_pickle():
    """Nothing is sent if not everything can be."""
    with pytest.raises(TypeError, match=r"arguments of worker_jobs\.add cannot be"):
        run(jobs.add, threading.Lock())


def test_large_arguments_and_results():
    """More than a socket holds goes both ways."""
    assert run(jobs.size_of, b"x" * 5_000_000) == 5_000_000
    assert len(run(jobs.make, 5_000_000)) == 5_000_000


# -- what comes back ---------------------------------------------------------------


def test_exception():
    """An exception is of the same type, and its cause shows where it was raised."""
    with pytest.raises(ZeroDivisionError, match="oops") as error:
        run(jobs.fail, ZeroDivisionError, "oops")
    assert "in fail" in str(error.value.__cause__)


@pytest.mark.parametrize(
    ("function", "kind"),
    [(jobs.leave, SystemExit), (jobs.interrupt, KeyboardInterrupt)],
)
def test_exceptions_that_end_programs(function, kind):
    """They come back as such, and the worker lives on."""
    worker = run(jobs.pid)
    with pytest.raises(kind):
        run(function)
    assert run(jobs.pid) == worker


@pytest.mark.parametrize(
    ("function", "args", "name"),
    [
        (jobs.fail, (jobs.OddError, 1, 2), "worker_jobs.OddError"),
        (jobs.fail_with_lock, (), "ValueError"),
        (jobs.fail, (jobs.BadError, os.getpid()), "worker_jobs.BadError"),
    ],
)
def test_exceptions_that_do_not_survive(function, args, name):
    """What cannot be sent, there or back, comes as a RemoteError with its words."""
    with pytest.raises(RemoteError) as error:
        run(function, *args)
    assert error.value.type_name == name
    assert "Traceback" in str(error.value.__cause__)


def test_result_that_does_not_pickle():
    """The message says what returned what; the worker is kept."""
    worker = run(jobs.pid)
    with pytest.raises(TypeError, match="return_lambda returned a function"):
        run(jobs.return_lambda)
    assert run(jobs.pid) == worker


def test_result_that_does_not_unpickle():
    """A result that breaks on arrival is told, and its worker is not used again."""
    worker = run(jobs.pid)
    with pytest.raises(TypeError, match="return_bad returned cannot be unpickled here"):
        run(jobs.return_bad, os.getpid())
    assert run(jobs.pid) != worker
    assert is_gone(worker)


# -- kill --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        jobs.loop,
        jobs.swallow,
        jobs.hold_the_lock,
        jobs.ignore_signals,
        jobs.start_child,
    ],
)
def test_kill(mail, function):
    """2, 7: a cancel ends any function at once, with all that it has started."""
    started = Called(mail, function)
    before = time.monotonic()
    started.token.cancel()
    error = started.end()
    assert time.monotonic() - before < SOON
    assert isinstance(error, WorkerKilled)
    assert error.started
    assert all(is_gone(pid) for pid in started.pids)


def test_kill_reaches_programs_of_the_function(mail):
    """7: a program in a group of its own below the worker is gone, too."""
    started = Called(mail, jobs.run_program, context=context(grace=60.0))
    started.token.cancel()
    assert isinstance(started.end(), WorkerKilled)
    assert all(is_gone(pid) for pid in started.pids)


def test_any_token_kills():
    """The second of two tokens is as good as the first, also while we serve."""
    first, second = CancelToken(), CancelToken()

    def serve(kind, value):
        second.cancel()

    with pytest.raises(WorkerKilled):
        run(jobs.ask, context=context(), serve=serve, kill_on=[first, second])


def test_cancelled_before():
    """6: under a cancelled token nothing is sent, and no worker is lost."""
    worker = run(jobs.pid)
    token = CancelToken()
    token.cancel()
    with pytest.raises(WorkerKilled) as error:
        run(jobs.pid, kill_on=[token])
    assert not error.value.started
    assert run(jobs.pid) == worker


def test_cancel_afterwards():
    """9: a token that was used before does not reach the worker's next call."""
    token = CancelToken()
    worker = run(jobs.pid, kill_on=[token])
    token.cancel()
    assert run(jobs.pid) == worker


def test_deadline(mail):
    """2: a deadline of the token kills."""
    with pytest.raises(WorkerKilled):
        run(jobs.loop, mail.path, kill_on=[CancelToken(timeout=0.3)])


@pytest.mark.parametrize(
    ("function", "said"),
    [(jobs.exit_hard, "exit status 3"), (jobs.crash, "SIGSEGV")],
)
def test_death(function, said):
    """A worker that dies by itself is told from one that was killed."""
    with pytest.raises(WorkerDied, match=said):
        run(function, kill_on=[CancelToken()])
    assert run(jobs.add, 1) == 1


def test_death_with_a_child_left(mail):
    """7: a child that holds the connection open hides no death, and goes as well."""
    before = time.monotonic()
    with pytest.raises(WorkerDied, match="exit status 3"):
        run(jobs.leave_child_and_exit, mail.path)
    assert time.monotonic() - before < 5 * SOON
    assert is_gone(mail.line())


def on_signal(action, mail):
    """Do *action* in a signal handler once a function has said that it runs."""
    pids = []
    before = signal.signal(signal.SIGUSR1, lambda *_: action())

    def ring():
        pids.extend(mail.line().split())
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    thread = threading.Thread(target=ring, daemon=True)
    thread.start()

    def close():
        thread.join(LONG)
        signal.signal(signal.SIGUSR1, before)
        return pids

    return close


def test_kill_in_a_signal_handler(mail):
    """1: the handler may interrupt the very call that it cancels."""
    token = CancelToken()
    close = on_signal(token.cancel, mail)
    try:
        with pytest.raises(WorkerKilled):
            run(jobs.swallow, mail.path, kill_on=[token])
    finally:
        pids = close()
    assert is_gone(pids[0])


def test_ctrl_c(mail):
    """7: what a handler raises goes on up, and the worker is gone."""

    def interrupt():
        raise KeyboardInterrupt

    close = on_signal(interrupt, mail)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(jobs.swallow, mail.path, kill_on=[CancelToken()])
    finally:
        pids = close()
    assert is_gone(pids[0])


def test_twenty_at_once():
    """9: random kills hit their own calls only, and the others come back right."""
    randomly = random.Random(20)
    pause = threading.Event()

    def work(number, delay):
        for turn in range(3):
            token = CancelToken(timeout=delay if number % 2 else None)
            try:
                result = run(jobs.add, number, right=turn, kill_on=[token])
            except WorkerKilled:
                assert number % 2
            else:
                assert result == number + turn
            pause.wait(delay / 100)

    together(
        *(functools.partial(work, n, randomly.uniform(0.001, 0.5)) for n in range(20)),
        timeout=2 * LONG,
    )


# -- talking -----------------------------------------------------------------------


def test_context():
    """Progress comes in order, and a question gets its answer."""
    served = []

    def serve(kind, value):
        served.append((kind, value))
        return 42

    said = run(jobs.talk, steps=3, context=context(), serve=serve)
    assert said == (42, "run-1", "call-1", {"key": "secret"})
    assert served == [
        *(("progress", {"step": step}) for step in range(3)),
        ("ask", "how many?"),
    ]


def test_timeout_of_the_context():
    """The function's own token has the timeout that it is given."""
    with pytest.raises(Cancelled) as error:
        run(jobs.wait_for_timeout, context=context(timeout=0.05))
    assert error.value.origin == "deadline"


def test_serve_that_raises():
    """What it raises comes out, and the worker that waits for an answer is gone."""
    worker = run(jobs.pid)

    def serve(kind, value):
        raise OSError("nobody home")

    with pytest.raises(OSError, match="nobody home"):
        run(jobs.ask, context=context(), serve=serve)
    assert is_gone(worker)


def test_answer_that_does_not_pickle():
    """It is told, and the worker that waits for it is gone."""
    with pytest.raises(TypeError, match="an answer to a question of"):
        run(jobs.ask, context=context(), serve=lambda *_: threading.Lock())


def test_late_progress():
    """9: what a forgotten thread says after its call does not reach the next one."""
    run(jobs.keep_context, context=context())
    assert "is over" in run(jobs.use_kept_context)


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
        from syncagent.tools.workers import call, find_target, close_idle

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
        "from syncagent.tools.workers import find_target\n"
        "def job(): pass\n"
        "try: find_target(job)\n"
        "except ValueError as error: print('was typed in' in str(error))\n"
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
def test_workers_die_with_the_parent(tmp_path, mail, way):
    """7: when the parent is gone, however, busy and idle workers are."""
    text = f"""
        import threading
        sys.path.insert(0, {os.path.dirname(jobs.__file__)!r})
        import worker_jobs

        if __name__ == "__main__":
            print(run(worker_jobs.pid), flush=True)
            for _ in range(2):
                threading.Thread(
                    target=run, args=(worker_jobs.swallow, {mail.path!r}), daemon=True
                ).start()
            threading.Event().wait(1.0)
            {way}
    """
    lines = run_text(tmp_path, text)
    pids = [lines[0], mail.line(), mail.line()]
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
