"""Ctrl+C and SIGTERM as cancels."""

from __future__ import annotations

import inspect
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

from ..exceptions import ConfigurationError, Origin, WrongThread
from .claim import live_runs
from .once import finish_despite_signals
from .token import CancelToken

_Handler = Callable[[int, FrameType | None], Any] | int | None


class Cancellable(Protocol):
    """A token, an agent, or any other object with such a ``cancel()``."""

    def cancel(self, reason: str = "", origin: Origin = "user") -> object: ...


@contextmanager
def cancel_on_signals(
    *targets: Cancellable,
    signals: Iterable[int] = (signal.SIGINT, signal.SIGTERM),
) -> Iterator[CancelToken]:
    """Make the first Ctrl+C (or SIGTERM) cancel, and let the second one through.

    A signal that cancels something goes no further. A signal that finds nothing left
    to cancel goes to the previous handler: :exc:`KeyboardInterrupt` for Ctrl+C, the
    end of the process for SIGTERM. Blocks may be nested: a signal that the inner one
    lets through is the outer one's first. In a forked child every signal goes through.

    The origin is ``signal`` for SIGINT and ``shutdown`` for all others.

    :param targets: the objects to cancel; by default every live run of the process.
        Ctrl+C then spares runs in the background.
    :param signals: the signals to handle.
    :return: a token that is cancelled with the targets.
    :raises WrongThread: not called on the main thread.
    :raises ConfigurationError: the current handler was not installed from Python, and
        could not be restored.
    :raises TypeError: a target has no ``cancel(reason, origin)``.
    """
    if threading.current_thread() is not threading.main_thread():
        raise WrongThread(
            "cancel_on_signals() works on the main thread only, because Python "
            "delivers signals there; call it on the main thread and pass its token to "
            f"this thread ({threading.current_thread().name})"
        )
    for target in targets:
        try:
            inspect.signature(target.cancel).bind("SIGINT", "signal")
        except (AttributeError, TypeError, ValueError) as error:
            raise TypeError(
                "cancel_on_signals() takes tokens, agents and other objects with a "
                f"cancel(reason, origin); got {target!r}"
            ) from error
    token = CancelToken()
    catcher = _Catcher((token, *targets), is_for_all=not targets)
    try:
        for signum in signals:
            catcher.catch(signum)
        yield token
    finally:
        # A Ctrl+C that lands on the way into close() must not leave our handlers in
        # place.
        try:
            catcher.close()
        except BaseException:
            catcher.close()
            raise


class _Catcher:
    """The handler of one block."""

    def __init__(self, targets: tuple[Cancellable, ...], is_for_all: bool) -> None:
        self._targets = targets
        self._is_for_all = is_for_all
        self._before: dict[int, _Handler] = {}
        self._is_open = True
        # Not threads.current: a signal may arrive before a forked child has its own.
        self._pid = os.getpid()

    def catch(self, signum: int) -> None:
        """Replace the current handler of *signum*."""
        before = signal.getsignal(signum)
        if before is None:
            raise ConfigurationError(
                f"the handler of {_name(signum)} was not installed from Python and "
                "could not be restored; leave this signal out of signals="
            )
        if signum not in self._before:
            # Remember it first: _handle() may run before signal.signal() returns.
            self._before[signum] = before
            signal.signal(signum, self._handle)

    def close(self) -> None:
        """Restore every handler, even if a signal arrives in the middle."""
        finish_despite_signals(self._restore)

    def _restore(self) -> None:
        self._is_open = False
        for signum, before in self._before.items():
            # Another handler was installed inside the block on purpose: it stays.
            if signal.getsignal(signum) == self._handle:
                signal.signal(signum, before)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        # Runs between two steps of the main thread: nothing here may take a lock.
        if not self._is_open or self._pid != os.getpid():
            self._let_through(signum, frame)
            return
        origin: Origin = "signal" if signum == signal.SIGINT else "shutdown"
        runs = live_runs() if self._is_for_all else []
        # Ctrl+C is meant for the work in the foreground; SIGTERM ends the process, and
        # with it all runs.
        chosen = [run for run in runs if origin != "signal" or not run.is_background]
        targets = [*self._targets, *chosen]
        receipts = [target.cancel(_name(signum), origin) for target in targets]
        if not any(getattr(receipt, "first", receipt) for receipt in receipts):
            self._let_through(signum, frame)

    def _let_through(self, signum: int, frame: FrameType | None) -> None:
        before = self._before[signum]
        if callable(before):
            before(signum, frame)
        elif before == signal.SIG_DFL:
            signal.signal(signum, signal.SIG_DFL)
            signal.raise_signal(signum)


def _name(signum: int) -> str:
    try:
        return signal.Signals(signum).name
    except ValueError:  # real-time signals have only numbers
        return f"signal {signum}"
