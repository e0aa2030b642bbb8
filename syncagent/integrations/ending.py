"""Close a store when its process is told to end, while an engine still waits.

An engine that gets SIGTERM waits for its tasks, however long they take. With the store
closed, the runs of this process are released, so the tasks return and the engine ends.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import threading
from types import FrameType
from typing import Any, Final

from ..cancel import CancelToken
from ..exceptions import ConfigurationError, StoreUnavailable
from ..stores import RunStore

__all__ = ["CLOSING", "StoreClosing", "close_on_signals", "open_store"]

_log = logging.getLogger("syncagent.store")

#: The signals that end a worker. Not every system has SIGQUIT.
_SIGNALS: Final = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGQUIT", "SIGINT")
    if hasattr(signal, name)
)
#: Seconds more than *grace* that the end of a process waits for its store to close.
CLOSING: Final = 15.0


def open_store(store: RunStore) -> None:
    """Open a store, so that this process takes over the runs of dead workers.

    One that cannot be opened now is opened by the first run.
    """
    try:
        store.open()
    except (ConfigurationError, StoreUnavailable) as error:
        _log.warning("the store is not open; tasks try again: %s", error)


class StoreClosing:
    """Closes a store on a thread of its own, when a signal handler says so.

    ::

        watch()  the thread waits
        begin()  it wakes up, and closes the store; may be called in a signal handler
        finish() waits until the store is closed

    :param grace: seconds that runs have to reach the end of a tool or of a turn.
    :param delay: seconds from :meth:`begin` until the store is closed; :meth:`finish`
        ends them.
    """

    def __init__(self, store: RunStore, grace: float, *, delay: float = 0.0) -> None:
        self._store: Final = store
        self._grace: Final = grace
        self._delay: Final = delay
        self._token: Final = CancelToken()
        self._is_last_moment: Final = CancelToken()
        self._thread: Final = threading.Thread(
            target=self._close, name="syncagent-closing", daemon=True
        )

    def watch(self) -> None:
        """Start the thread, in the process that has the runs."""
        self._thread.start()

    def begin(self) -> None:
        """Have the store closed soon. Takes no lock."""
        self._token.cancel(origin="shutdown")

    def finish(self) -> None:
        """Close the store, if that has not begun, and wait for it.

        Cancellation: it waits for the end of runs, *grace* and some seconds at most.
        """
        self._is_last_moment.cancel()
        self.begin()
        if self._thread.ident is None:
            self._close()
        else:
            self._thread.join(self._grace + CLOSING)

    def finish_if_begun(self) -> None:
        """Wait until the store is closed, if that has begun."""
        if self._token.cancelled:
            self.finish()

    def _close(self) -> None:
        self._token.wait()
        self._is_last_moment.wait(self._delay)
        self._store.close(self._grace)


def close_on_signals(store: RunStore, grace: float) -> None:
    """Have the signals that end this process close a store, and then do as before.

    Call it on the main thread, after the engine has set its own handlers. A signal
    whose handler is the system's own is left alone.

    :param grace: seconds that runs have to reach the end of a tool or of a turn.
    """
    closing = StoreClosing(store, grace)
    closing.watch()
    atexit.register(closing.finish_if_begun)
    for signum in _SIGNALS:
        _chain(signum, closing)


def _chain(signum: int, closing: StoreClosing) -> None:
    """Begin to close a store on a signal, and then call the previous handler."""
    previous: Any = signal.getsignal(signum)
    if not callable(previous):
        return
    pid = os.getpid()

    def handle(number: int, frame: FrameType | None) -> None:
        # Interrupts the main thread anywhere, so nothing here may take a lock.
        if os.getpid() == pid:
            closing.begin()
        previous(number, frame)

    signal.signal(signum, handle)
    if hasattr(signal, "siginterrupt"):  # as before: system calls are not interrupted
        signal.siginterrupt(signum, False)
