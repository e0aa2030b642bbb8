"""Functions in worker processes."""

import functools
import os
import random
import signal
import threading
import time

import pytest
import worker_jobs as jobs
from calling import SOON, Called, context, run
from support.threads import LONG, together
from worker_jobs import is_gone

from syncagent.cancel import CancelToken
from syncagent.exceptions import Cancelled, ConfigurationError
from syncagent.tools.processes.call import (
    RemoteError,
    WorkerDied,
    WorkerKilled,
    call,
    find_target,
)

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


def test_names_of_parameters():
    """S11: a parameter may have any name."""
    names = ("function", "self", "args", "kwargs", "call", "name")
    said = call(
        find_target(jobs.odd_names),
        (),
        dict(zip(names, range(6), strict=True)),
        context=None,
        kill_on=(),
        serve=print,
    )
    assert said == list(range(6))


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
    with pytest.raises(
        ConfigurationError, match="cannot be pickled for a worker process"
    ):
        find_target(threading.Lock().acquire)


def test_what_is_not_there():
    """A name that leads nowhere in the worker is told, and the next call works."""

    def lost():
        pass

    lost.__qualname__ = "lost"
    with pytest.raises(ConfigurationError, match="failed to import it"):
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
    with pytest.raises(TypeError, match="return_bad cannot be unpickled here"):
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


@pytest.mark.slow
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
        ("ask", ("how many?", None)),
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
