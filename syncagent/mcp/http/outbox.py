"""Messages that no caller waits for: cancels, notifications, answers.

Guarantees:

- ``put()`` never blocks: a daemon thread delivers, one message after the other.
- Each message has a budget of seconds under a token of its own. One that cannot be
  delivered is dropped with a line in the debug log.
- The thread ends when there is nothing to do for a moment, and at the latest a moment
  after ``close()``.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from ...cancel import CancelToken, Watch, clock
from ...cancel.once import start_thread
from ...exceptions import Cancelled

__all__ = ["Outbox"]

_log = logging.getLogger("syncagent.mcp")

#: Messages that wait; a server that takes none is not told of more.
_MOST: Final = 256
#: Seconds without a message after which the thread ends.
_IDLE: Final = 1.0

#: Delivers one message, under a token.
Deliver = Callable[[CancelToken], object]


class Outbox:
    """Deliver messages on a thread of its own.

    :param name: the name of the server.
    :param budget: seconds for each message.
    """

    def __init__(self, name: str, budget: float) -> None:
        self._name = name
        self._budget = budget
        self._waiting: deque[Deliver] = deque()
        self._watch = Watch()
        self._life = CancelToken()
        self._is_closed = False
        # Re-entrant: a signal handler may come here while its thread is here.
        self._lock = threading.RLock()
        #: Under the lock: the thread, unless it has decided to end.
        self._thread: threading.Thread | None = None

    def put(self, deliver: Deliver) -> None:
        """Have *deliver* called soon. Never blocks, and never raises."""
        with self._lock:
            if self._is_closed or len(self._waiting) >= _MOST:
                _log.debug("%s: a message was dropped", self._name)
                return
            self._waiting.append(deliver)
            if self._thread is None:
                name = f"syncagent-mcp-outbox-{self._name}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                try:
                    start_thread(thread)
                except RuntimeError:  # the system refuses another thread
                    _log.debug("%s: a message was dropped", self._name)
                    self._waiting.clear()
                    return
                self._thread = thread
        self._watch.wake()

    def close(self, until: float) -> None:
        """Deliver what waits until a monotonic time, and end. Safe to repeat."""
        self._is_closed = True
        self._watch.wake()
        self._watch.wait(lambda: self._thread is None, CancelToken(), until)
        self._life.cancel("the connection is closed", "closed")

    def _work(self) -> None:
        while True:
            self._watch.wait(
                lambda: bool(self._waiting) or self._is_closed,
                self._life,
                clock.now() + _IDLE,
            )
            with self._lock:
                if not self._waiting or self._life.cancelled:
                    self._thread = None
                    break
                deliver = self._waiting.popleft()
            try:
                deliver(self._life.child(self._budget))
            except (Exception, Cancelled) as error:
                _log.debug(
                    "%s: a message was not delivered (%s)",
                    *(self._name, type(error).__name__),
                )
        self._watch.wake()
