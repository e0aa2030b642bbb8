"""Ctrl+C and SIGTERM as cancels."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, Protocol

from ..exceptions import ConfigurationError, WrongThread
from .claim import live_runs
from .reason import Origin
from .token import CancelToken

_Handler = Callable[[int, FrameType | None], Any] | int | None


class Cancellable(Protocol):
    """A token, an agent, or anything else with such a ``cancel()``."""

    def cancel(self, reason: str = "", origin: Origin = "user") -> object: ...


@contextmanager
def cancel_on_signals(
    *targets: Cancellable,
    signals: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM),
) -> Iterator[CancelToken]:
    """Make the first Ctrl+C (or SIGTERM) cancel, and let the second one through.

    A signal that cancels something is used up by that. One that finds nothing left to
    cancel goes to the handler that was there before: :exc:`KeyboardInterrupt` for
    Ctrl+C, the end of the process for SIGTERM. Blocks may be nested: what the inner
    one lets through is the outer one's first.

    The origin is ``signal`` for SIGINT and ``shutdown`` for all others.

    :param targets: what to cancel; by default every live run of the process.
    :param signals: which signals to listen to.
    :return: a token that is cancelled with the targets.
    :raises WrongThread: not called on the main thread.
    :raises ConfigurationError: a handler is there that Python cannot restore.
    """
    if threading.current_thread() is not threading.main_thread():
        raise WrongThread(
            "cancel_on_signals() works on the main thread only, as Python delivers "
            "signals there; use it there, and pass the token that it gives to this "
            f"thread ({threading.current_thread().name})"
        )
    token = CancelToken()
    catcher = _Catcher((token, *targets), is_for_all=not targets)
    with ExitStack() as stack:
        for signum in signals:
            stack.callback(signal.signal, signum, catcher.catch(signum))
        yield token


class _Catcher:
    """The handler of one block."""

    def __init__(self, targets: tuple[Cancellable, ...], is_for_all: bool) -> None:
        self._targets = targets
        self._is_for_all = is_for_all
        self._before: dict[int, _Handler] = {}

    def catch(self, signum: signal.Signals) -> Any:
        """Install the handler for *signum* and return the one before it."""
        before = signal.getsignal(signum)
        if before is None:
            raise ConfigurationError(
                f"the handler of {signum.name} was not installed from Python, so it "
                "could not be restored; leave this signal out of signals="
            )
        self._before[signum] = before
        signal.signal(signum, self._handle)
        return before

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        # Runs between two steps of the main thread: nothing here may take a lock.
        origin: Origin = "signal" if signum == signal.SIGINT else "shutdown"
        targets = [*self._targets, *(live_runs() if self._is_for_all else ())]
        name = signal.Signals(signum).name
        receipts = [target.cancel(name, origin) for target in targets]
        if not any(getattr(receipt, "first", receipt) for receipt in receipts):
            self._let_through(signum, frame)

    def _let_through(self, signum: int, frame: FrameType | None) -> None:
        before = self._before[signum]
        if callable(before):
            before(signum, frame)
        elif before == signal.SIG_DFL:
            signal.signal(signum, signal.SIG_DFL)
            signal.raise_signal(signum)
