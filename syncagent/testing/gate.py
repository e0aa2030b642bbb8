"""Put a thread at an exact point, without sleeping."""

from __future__ import annotations

import threading
from typing import Final

from ..cancel import CancelToken

#: Real seconds after which a test that waits at a gate has failed.
_LIMIT: Final = 10.0


class Gate:
    """A point that one thread reaches, and where it stays until another lets it go.

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
        self._token = CancelToken()  # to wait for it together with another

    def stop_here(
        self, timeout: float = _LIMIT, *, token: CancelToken | None = None
    ) -> None:
        """Say that the gate is reached, and block until it is opened.

        Cancellation: ends at once, with the *token* that is given.

        :raises TimeoutError: nobody opened it within *timeout* seconds.
        :raises Cancelled: *token* was cancelled.
        """
        self._reached.set()
        if token is None:
            is_over = self._opened.wait(timeout)
        else:
            is_over = CancelToken.any_of(self._token, token).wait(timeout)
            token.checkpoint()
        if not is_over:
            raise TimeoutError(f"nobody opened the gate within {timeout} s")

    def wait_reached(self, timeout: float = _LIMIT) -> None:
        """Block until a thread stands at the gate, or has passed it.

        :raises TimeoutError: none came within *timeout* seconds.
        """
        if not self._reached.wait(timeout):
            raise TimeoutError(f"nobody reached the gate within {timeout} s")

    def open(self) -> None:
        """Let everybody through, now and later."""
        self._opened.set()
        self._token.cancel("opened")
