"""A script's own watchdog: a signal handler that raises."""

import os
import signal
import threading
from contextlib import contextmanager

from support.threads import LONG


@contextmanager
def watchdog(error, is_due):
    """Raise *error* in a signal handler once *is_due* returns true."""

    def handler(number, frame):
        raise error("watchdog")

    def watch():
        pause = threading.Event()
        while not is_due() and not pause.wait(0.005):
            pass
        pause.wait(0.005)  # most likely, the code under test waits by now
        os.kill(os.getpid(), signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, handler)
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(LONG)
        signal.signal(signal.SIGALRM, before)
