"""The registry of runs over HTTP: owners, limits, and finished runs for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from ..._checks import check_number
from ...background.handle import Handle
from ...background.runtime import Runtime
from ...cancel import clock
from .errors import shutting_down, too_many_followers, too_many_runs
from .web_run import WebRun

__all__ = ["RunRegistry"]


class RunRegistry(Runtime):
    """A runtime whose runs have owners; it keeps finished runs for a while.

    Guarantees:

    - A run is registered here and nowhere else: look-ups, limits, ``cancel_all()``,
      ``shutdown()`` and the interpreter's exit all read :attr:`runs`.
    - A run counts against the limits from before it starts until it has ended.
    - ``list()`` and ``cancel_all()`` take no lock, so signal handlers may call them.

    :param keep: how long finished runs are kept, in seconds.
    :param max_finished: how many finished runs are kept.
    :param max_finished_per_owner: how many of them may belong to one owner.
    :param max_live: how many runs may be live at once.
    :param max_per_owner: how many of them may belong to one owner.
    :param max_followers: how many streams of one run may be open at once.
    :param max_followers_per_owner: how many streams of all runs of one owner.
    :raises ConfigurationError: one of them is not a number, or too small.
    """

    def __init__(
        self,
        *,
        keep: float,
        max_finished: int,
        max_finished_per_owner: int,
        max_live: int,
        max_per_owner: int,
        max_followers: int,
        max_followers_per_owner: int,
    ) -> None:
        for name, value, minimum in (
            ("keep", keep, 0),
            ("max_finished", max_finished, 0),
            ("max_finished_per_owner", max_finished_per_owner, 0),
            ("max_live", max_live, 1),
            ("max_per_owner", max_per_owner, 1),
            ("max_followers", max_followers, 1),
            ("max_followers_per_owner", max_followers_per_owner, 1),
        ):
            check_number(name, value, minimum=minimum, allow_infinity=True)
        super().__init__(drain=0.0)
        self._keep = keep
        self._max_finished = max_finished
        self._max_finished_per_owner = max_finished_per_owner
        self._max_live = max_live
        self._max_per_owner = max_per_owner
        self._max_followers = max_followers
        self._max_followers_per_owner = max_followers_per_owner
        #: Live and finished runs by public id, in the order in which they started.
        self.runs: Final[dict[str, WebRun]] = {}
        #: The owners of runs that are being started.
        self._starting: dict[object, str] = {}
        #: Held briefly, never while waiting or calling user code.
        self._lock = threading.Lock()

    def _registered(self) -> Sequence[Handle]:
        handles = [run.handle for run in list(self.runs.values())]
        return [
            *super()._registered(),
            *(each for each in handles if not each.thread.callbacks.returned.cancelled),
        ]

    def start_run(self, owner: str, start: Callable[[], WebRun]) -> WebRun:
        """Call *start* and register the run it returns, if the limits permit it.

        :raises Refused: there are too many runs, or the server is shutting down.
        """
        self.check_accepting()
        self.drop_finished()
        place = object()
        # Reserve a place first: of several threads that start at the same moment, each
        # would find room for itself.
        with self._lock:
            live = [run.owner for run in list(self.runs.values()) if run.is_live]
            owners = [*live, *self._starting.values()]
            is_full = len(owners) >= self._max_live
            if is_full or owners.count(owner) >= self._max_per_owner:
                raise too_many_runs()
            self._starting[place] = owner
        try:
            run = start()
            with self._lock:
                self.runs[run.id] = run
                del self._starting[place]
        finally:
            self._starting.pop(place, None)
        return run

    def check_accepting(self) -> None:
        """Refuse new runs during a shutdown.

        :raises Refused: the server is shutting down.
        """
        if self._is_closed:
            raise shutting_down()

    def stop_accepting(self) -> None:
        """Refuse new runs from now on. Takes no lock."""
        self._is_closed = True

    def check_followers(self, owner: str, run: WebRun | None = None) -> None:
        """Refuse a stream that is one too many.

        :param run: the run that the stream follows, which already counts it; ``None``
            for a run that has not started.
        :raises Refused: the run or the owner has too many open streams.
        """
        runs = [each for each in list(self.runs.values()) if each.owner == owner]
        of_owner = sum(each.follower_count for each in runs) + (run is None)
        of_run = 1 if run is None else run.follower_count
        if of_run > self._max_followers or of_owner > self._max_followers_per_owner:
            raise too_many_followers()

    def drop_finished(self) -> None:
        """Forget finished runs that are too old or too many.

        An owner with too many loses the oldest of its own. If there are too many in
        total, the owners with the most runs give up theirs first, so that no owner can
        displace the runs of the others.
        """
        now = clock.now()
        ended = [
            (now if run.ended_clock is None else run.ended_clock, run)
            for run in list(self.runs.values())
            if not run.is_live
        ]
        ended.sort(key=lambda pair: pair[0])
        #: The finished runs of each owner, oldest first.
        finished: dict[str, list[WebRun]] = {}
        dropped = []
        for ended_at, run in ended:
            if ended_at < now - self._keep:
                dropped.append(run)
            else:
                finished.setdefault(run.owner, []).append(run)
        for runs in finished.values():
            while len(runs) > self._max_finished_per_owner:
                dropped.append(runs.pop(0))
        while sum(map(len, finished.values())) > self._max_finished:
            dropped.append(max(finished.values(), key=len).pop(0))
        for run in dropped:
            self.runs.pop(run.id, None)

    def __repr__(self) -> str:
        return f"<RunRegistry: {len(self.list())} live of {len(self.runs)}>"
