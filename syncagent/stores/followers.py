"""The followers of runs in this process: who has to look when there are news."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from .event_log import RunNews

__all__ = ["Followers"]


class Followers:
    """Wakes the followers of all runs in this process."""

    def __init__(self) -> None:
        self._news: Final[dict[str, RunNews]] = {}
        # Reentrant: a garbage collection in add() may have other followers leave.
        self._lock: Final = threading.RLock()

    def add(self, run_id: str, *, counts: bool) -> RunNews:
        """Return the news of a run, for one follower.

        :param counts: the run ends if it is not followed.
        """
        with self._lock:
            news = self._news.get(run_id) or RunNews()
            news.followers += 1
            news.counts = counts
            self._news[run_id] = news  # again: the last other one may just have left
        return news

    def remove(self, run_id: str) -> None:
        """Note that a follower has left."""
        with self._lock:
            news = self._news.get(run_id)
            if news is not None:
                news.followers -= 1
                if not news.followers:
                    self._news.pop(run_id, None)

    def wake(self, run_ids: Sequence[str]) -> None:
        """Have the followers of runs look; all followers without ids."""
        for run_id in run_ids or list(self._news):
            news = self._news.get(run_id)
            if news is not None:
                news.wake()

    @property
    def counting(self) -> list[str]:
        """The runs that end if no one follows them, and that are followed here."""
        return [id for id, news in list(self._news.items()) if news.counts]
