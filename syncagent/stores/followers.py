"""The followers of runs in this process, and how they learn that there is news."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from ..cancel import Watch

__all__ = ["Followers", "RunNews"]


class RunNews:
    """Wakes the followers of a run in this process."""

    def __init__(self) -> None:
        #: How often there may have been news.
        self.count = 0
        self.watch: Final = Watch()
        #: How many followers the run has in this process.
        self.followers = 0
        #: True if the run is cancelled when no process follows it.
        self.needs_followers = False

    def wake(self) -> None:
        """Have the followers look."""
        self.count += 1  # publish first, then wake
        self.watch.wake()


class Followers:
    """The runs that this process follows."""

    def __init__(self) -> None:
        self._news: Final[dict[str, RunNews]] = {}
        # Reentrant: a garbage collection in add() may have other followers leave.
        self._lock: Final = threading.RLock()

    def __len__(self) -> int:
        return len(self._news)

    def add(self, run_id: str, *, needs_followers: bool) -> RunNews:
        """Count one more follower of a run, and return the news of that run.

        :param needs_followers: the run is cancelled when no process follows it.
        """
        with self._lock:
            news = self._news.get(run_id) or RunNews()
            news.followers += 1
            news.needs_followers = needs_followers
            self._news[run_id] = news  # again: the last other one may just have left
        return news

    def remove(self, run_id: str) -> None:
        """Count one follower less."""
        with self._lock:
            news = self._news.get(run_id)
            if news is not None:
                news.followers -= 1
                if not news.followers:
                    self._news.pop(run_id, None)

    def wake(self, run_ids: Sequence[str]) -> None:
        """Have the followers of these runs look; those of all runs without ids.

        Takes no lock.
        """
        for run_id in run_ids or list(self._news):
            news = self._news.get(run_id)
            if news is not None:
                news.wake()

    @property
    def needed(self) -> list[str]:
        """The run ids of runs that are cancelled when no process follows them."""
        news = list(self._news.items())
        return [run_id for run_id, each in news if each.needs_followers]
