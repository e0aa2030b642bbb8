"""Find a server that a cancelled request has made deaf.

Some servers run a tool on the thread that reads their input. After a cancel they read
nothing until the tool ends, and the next request waits for it. Silence alone proves
nothing: many servers answer a cancelled request with nothing at all. So the server is
asked something that it answers at once if it can.
"""

from __future__ import annotations

from typing import Final, Literal

__all__ = ["Deafness"]

#: Seconds of silence in a later request before the server is asked.
STUCK_AFTER: Final = 10.0
#: Seconds that it then has.
LAST_CHANCE: Final = 5.0


class Deafness:
    """The suspicion against one server; belongs to the I/O thread, but for the cancel.

    Only requests made after the cancel count: an older one may be what the server is
    busy with, and no cancel of another request may end it.
    """

    def __init__(self) -> None:
        self._cancelled_at: float | None = None
        self._asked_at: float | None = None

    def note_cancel(self, now: float) -> None:
        """A request was cancelled that the server has seen. Called on any thread."""
        self._cancelled_at = now

    def note_byte(self) -> None:
        """The server has said something: it can hear."""
        self._cancelled_at = self._asked_at = None

    def next_step(
        self, now: float, oldest: float | None
    ) -> Literal["ask", "kill"] | None:
        """Return the next step against a deaf server, if one is due.

        :param oldest: when the oldest request in flight was made, if there is one.
        """
        cancelled = self._cancelled_at
        if cancelled is None or oldest is None or oldest < cancelled:
            return None
        if self._asked_at is not None:
            return "kill" if now - self._asked_at > LAST_CHANCE else None
        if now - oldest <= STUCK_AFTER:
            return None
        self._asked_at = now
        return "ask"
