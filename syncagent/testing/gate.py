"""Put a thread at an exact point, without sleeping."""

from __future__ import annotations

import threading
from typing import Final

from ..cancel import CancelToken

#: Real seconds after which a test that waits at a gate has failed.
_LIMIT: Final = 10.0


class Gate:
    """A point where one thread stops until another opens it.

    ::

        gate = Gate()
        thread = Thread(target=lambda: (work(), gate.stop_here(), more_work()))
        thread.start()
        gate.wait_reached()     # work() is done, more_work() has not begun
        gate.open()
    """

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._opened = threading.Event()
        self._token = CancelToken()  # lets stop_here() wait for it and another token

    def stop_here(
        self, timeout: float = _LIMIT, *, token: CancelToken | None = None
    ) -> None:
        """Mark the gate as reached, and block until it is opened.

        Cancellation: a cancel of *token* ends the wait at once.

        :raises TimeoutError: it was not opened within *timeout* seconds.
        :raises Cancelled: *token* was cancelled.
        """
        self._reached.set()
        if token is None:
            is_over = self._opened.wait(timeout)
        else:
            is_over = CancelToken.any_of(self._token, token).wait(timeout)
            token.checkpoint()
        if not is_over:
            raise TimeoutError(f"the gate was not opened within {timeout} s")

    def wait_reached(self, timeout: float = _LIMIT) -> None:
        """Block until a thread stands at the gate, or has passed it.

        :raises TimeoutError: none came within *timeout* seconds.
        """
        if not self._reached.wait(timeout):
            raise TimeoutError(f"no thread reached the gate within {timeout} s")

    def open(self) -> None:
        """Let all threads through, now and later."""
        self._opened.set()
        self._token.cancel("opened")
