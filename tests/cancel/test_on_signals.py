"""Ctrl+C and SIGTERM as cancels."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future

import pytest
from support.interrupting import interrupted
from support.threads import LONG, together

from syncagent import CancelToken, cancel_on_signals
from syncagent.cancel import RunClaim, RunSlot
from syncagent.exceptions import WrongThread

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "pthread_kill"), reason="needs POSIX signals"
)


def send(signum):
    """Send a signal to this process; its handler has run when this returns."""
    signal.raise_signal(signum)


@pytest.mark.parametrize(
    ("signum", "origin"), [(signal.SIGINT, "signal"), (signal.SIGTERM, "shutdown")]
)
def test_first_signal_cancels(signum, origin):
    """The first Ctrl+C or SIGTERM cancels the token that the block gives."""
    with cancel_on_signals() as token:
        send(signum)
        assert token.reason == signal.Signals(signum).name
        assert token.origin == origin


def test_second_ctrl_c_goes_through():
    """Somebody who presses Ctrl+C twice gets out."""
    with pytest.raises(KeyboardInterrupt), cancel_on_signals() as token:
        send(signal.SIGINT)
        assert token.cancelled
        send(signal.SIGINT)


def test_ctrl_c_ends_a_wait_of_the_main_thread():
    """Promise 2: the main thread itself may be the one that waits."""
    main = threading.main_thread().ident
    timer = threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT))
    with cancel_on_signals() as token:
        timer.start()
        assert token.wait(LONG) is True
    timer.join(LONG)
    assert token.origin == "signal"


def test_handlers_are_restored():
    """After the block, whatever ended it, the handlers are those from before."""
    before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(ZeroDivisionError), cancel_on_signals():
        raise ZeroDivisionError
    after = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    assert after == before


def test_given_targets_are_cancelled():
    """Tokens and anything else with a cancel() can be given."""
    one, slot, other = CancelToken(), RunSlot(), CancelToken()
    claim = RunClaim()
    slot.begin(claim)
    with cancel_on_signals(one, slot) as token:
        send(signal.SIGTERM)
    assert one.origin == token.origin == "shutdown"
    assert claim.finish().origin == "shutdown"
    assert not other.cancelled
    slot.end(claim)


def test_without_targets_every_live_run_is_cancelled():
    """Runs on other threads end as well, each time there is one."""
    slot = RunSlot()
    with cancel_on_signals():
        for _ in range(2):  # the second run's first Ctrl+C is a first one again
            claim = RunClaim()
            slot.begin(claim)
            send(signal.SIGINT)
            assert claim.finish().origin == "signal"
            slot.end(claim)


def test_named_targets_leave_other_runs_alone():
    """Promise 9: who names a target cancels nothing else."""
    slot = RunSlot()
    claim = RunClaim()
    slot.begin(claim)
    with cancel_on_signals(CancelToken()):
        send(signal.SIGINT)
    assert claim.finish() is None
    slot.end(claim)


def test_nested_blocks():
    """What the inner block lets through is the outer one's first."""
    with pytest.raises(KeyboardInterrupt), cancel_on_signals() as outer:
        with cancel_on_signals() as inner:
            send(signal.SIGINT)
            assert inner.cancelled
            assert not outer.cancelled
            send(signal.SIGINT)
            assert outer.cancelled
        send(signal.SIGINT)


def test_ignored_signals_stay_ignored():
    """A second signal that was ignored before the block is ignored again."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with cancel_on_signals() as token:
            send(signal.SIGTERM)
            send(signal.SIGTERM)
            assert token.cancelled
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_second_sigterm_ends_the_process():
    """SIGTERM twice does what SIGTERM does."""
    script = (
        "import signal, syncagent\n"
        "with syncagent.cancel_on_signals() as token:\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "    print(token.origin, flush=True)\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "    print('still here', flush=True)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=LONG
    )
    assert ended.stdout == "shutdown\n"
    assert ended.returncode == -signal.SIGTERM


def test_a_forked_child_dies_of_sigterm():
    """Promise 9: in a child the signal does what it did before the block."""
    script = (
        "import os, signal, syncagent, threading\n"
        "is_up, say_so = os.pipe()\n"  # before that Python drops signals by itself
        "with syncagent.cancel_on_signals() as token:\n"
        "    pid = os.fork()\n"
        "    if not pid:\n"
        "        os.write(say_so, b'up')\n"
        "        for _ in range(1000):\n"
        "            threading.Event().wait(0.02)\n"
        "        os._exit(1)\n"
        "    os.read(is_up, 2)\n"
        "    os.kill(pid, signal.SIGTERM)\n"
        "    print(os.WTERMSIG(os.waitpid(pid, 0)[1]), token.cancelled)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=LONG
    )
    assert ended.stdout == f"{signal.SIGTERM:d} False\n", ended.stderr


def test_blocks_that_end_in_the_wrong_order():
    """A block that ended before an inner one did catches nothing any more."""
    before = signal.getsignal(signal.SIGINT)
    outer, inner = cancel_on_signals(), cancel_on_signals()
    first, second = outer.__enter__(), inner.__enter__()
    outer.__exit__(None, None, None)
    send(signal.SIGINT)
    assert second.cancelled
    with pytest.raises(KeyboardInterrupt):
        send(signal.SIGINT)
    inner.__exit__(None, None, None)
    assert not first.cancelled
    with pytest.raises(KeyboardInterrupt):
        send(signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def test_a_handler_set_inside_the_block_stays():
    """What the body installs is its wish, and is not overwritten."""
    before = signal.getsignal(signal.SIGTERM)
    with cancel_on_signals():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    signal.signal(signal.SIGTERM, before)


def test_an_exception_at_any_step_restores_the_handlers():
    """Ctrl+C while the block is entered or left leaves no handler of ours behind."""
    before = signal.getsignal(signal.SIGINT)

    def enter_and_leave():
        with cancel_on_signals():
            pass

    left = []
    for steps in range(1, 10_000):
        if not interrupted(enter_and_leave, steps):
            break
        if signal.getsignal(signal.SIGINT) is not before:
            left.append(steps)
            signal.signal(signal.SIGINT, before)
    assert steps > 50
    # The tracer gets between any two opcodes, signals only at calls and jumps: the few
    # opcodes before the "try" around close() are out of their reach.
    assert len(left) <= 3


@pytest.mark.parametrize("target", [signal.SIGTERM, None, Future()])
def test_what_cannot_be_cancelled_is_refused_at_once(target):
    """A wrong target is named when the block is entered, not at the first Ctrl+C."""
    with (
        pytest.raises(TypeError, match=r"cancel\(reason, origin\)"),
        cancel_on_signals(target),
    ):
        pass


def test_a_signal_named_twice_is_caught_once():
    """Duplicates do no harm."""
    with cancel_on_signals(signals=[signal.SIGTERM, signal.SIGTERM]) as token:
        send(signal.SIGTERM)
        assert token.cancelled


def test_refused_off_the_main_thread():
    """Another thread is told where to call it, and what to do instead."""

    def enter():
        with (
            pytest.raises(WrongThread, match=r"main thread.*pass its token"),
            cancel_on_signals(),
        ):
            pass

    together(enter)
    assert issubclass(WrongThread, (RuntimeError, ValueError))


def test_other_signals_can_be_listened_to():
    """signals= chooses them; others keep their handlers."""
    with cancel_on_signals(signals=(signal.SIGUSR1,)) as token:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert token.wait(LONG)
        assert token.origin == "shutdown"
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
