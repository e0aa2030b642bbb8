"""Ctrl+C and SIGTERM as cancels."""

import os
import signal
import subprocess
import sys
import threading

import pytest
from crew import LONG, together

from syncagent import CancelToken, WrongThread, cancel_on_signals
from syncagent.cancel import RunSlot

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
    claim = slot.begin()
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
            claim = slot.begin()
            send(signal.SIGINT)
            assert claim.finish().origin == "signal"
            slot.end(claim)


def test_named_targets_leave_other_runs_alone():
    """Promise 9: who names a target cancels nothing else."""
    slot = RunSlot()
    claim = slot.begin()
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


def test_refused_off_the_main_thread():
    """Another thread is told where to call it, and what to do instead."""

    def enter():
        with (
            pytest.raises(WrongThread, match=r"main thread.*pass the token"),
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
