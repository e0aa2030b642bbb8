"""This process in a store: its lease, its runs, and its two threads.

One thread renews the lease, stores events, and looks for runs that lost their worker;
the other listens for hints. A process without runs makes two statements for each beat,
and polls nothing.

Guarantees:

- Elapsed time is measured from before a renewal was sent. So this process ends its runs
  before the store counts its lease as over, however long the reply took.
- A process whose lease has ended is another worker from then on, with another id. So
  the runs that it had are free, and no one can mistake it for their worker.
- A hint is never believed: it makes this process look. It looks at all its runs
  after each (re)connection, and with each beat.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeVar
from uuid import uuid4

from ..__version__ import __version__
from ..cancel import CancelToken, Watch, clock
from ..exceptions import ConfigurationError, StoreUnavailable
from .backend import SWEEP, Backend
from .followers import Followers
from .inbox import ApproverOf
from .keeper import StoreKeeper
from .lanes import Lanes
from .records import CancelRecord, Claim, Lease
from .settings import StoreSettings

__all__ = ["StoreWorker"]

_log = logging.getLogger("syncagent.store")
_T = TypeVar("_T")

#: Seconds between two writes of events.
_FLUSH: Final = 0.025
#: How much of the lease is left when this process gives up its runs: seconds, or a
#: part of the lease if that is less.
_MARGIN: Final = 2.0
_MARGIN_PART: Final = 0.15
#: Seconds between two clean-ups, and how many runs one of them deletes.
_PRUNE: Final = 300.0
_PRUNE_LIMIT: Final = 500
#: Seconds between two attempts to listen.
_FIRST_RETRY: Final = 0.05
_LAST_RETRY: Final = 1.0
#: Seconds until the first repetition of work that the store could not do.
_FIRST_REPEAT: Final = 0.002
#: Seconds for which a store may be down without a warning: another process may hold
#: SQLite's lock.
_MOMENT: Final = 1.0
#: Seconds between two checks whether all runs have ended.
_LOOK: Final = 0.01
#: How many connections a process may have, besides the one that listens.
_WIDTH: Final = 3


class StoreWorker:
    """A process that has a store open.

    :param deliver: hands a run to a worker; false if this process is closing.
    :param room: returns how many more runs this process can take on.
    :param approver_of: returns the person or group whose inbox gets a question.
    :param is_observer: true for a process that never works on runs: it has no lease.
    """

    def __init__(
        self,
        backend: Backend,
        settings: StoreSettings,
        *,
        deliver: Callable[[str], bool],
        room: Callable[[], int],
        approver_of: ApproverOf | None = None,
        is_observer: bool = False,
    ) -> None:
        self.id = uuid4().hex
        #: The runs of this process, by run id.
        self.keepers: Final[dict[str, StoreKeeper]] = {}
        self.followers: Final = Followers()
        self._backend: Final = backend
        self._settings: Final = settings
        self._lease: Final = settings.lease
        self._margin: Final = min(_MARGIN, self._lease * _MARGIN_PART)
        self._deliver: Final = deliver
        self._room: Final = room
        #: Returns the person or group whose inbox gets a question.
        self.approver_of: Final = approver_of
        self._is_observer: Final = is_observer
        self._lanes: Final = Lanes(_WIDTH, backend.cut) if backend.may_block else None
        #: Cancelled when this process leaves the store.
        self.stopping: Final = CancelToken()
        self._watch: Final = Watch()
        self._has_events = False
        self._must_sweep = False
        #: True if the last sweep may have left runs that this process had no room for.
        self.has_skipped_runs = False
        #: How often a run of this process may have been cancelled; only compared.
        self.cancel_count = 0
        #: The claims that are under way.
        self._claims: Final[set[str]] = set()
        #: Since when the store is unavailable, if it is.
        self._away_since: float | None = None
        #: True once this process ends: it takes on no more runs.
        self.is_leaving = False
        #: True once the store is closed: what is claimed then is released at once.
        self._is_closing = False
        #: Run ids that the store counts as ours although no thread has them, with the
        #: time when that was first seen.
        self._orphans: dict[str, float] = {}
        #: When the next beat, sweep, write of events and clean-up are due.
        self._beat_at = clock.now() + self._lease / 3
        self._sweep_at = self._flush_at = 0.0
        self._prune_at = clock.now() + _PRUNE
        if is_observer:  # it takes no run, and it may not know how long to keep them
            self._sweep_at = self._prune_at = float("inf")
        #: When the last renewal that succeeded was sent.
        self._renewed_at = 0.0
        #: True if the store knows the id of this process.
        self._is_announced = False
        self._threads: list[threading.Thread] = []

    # -- its threads ---------------------------------------------------------------

    def start(self) -> None:
        """Announce this process, and start its threads.

        :raises StoreUnavailable: the store is unavailable.
        """
        try:
            if not self._is_observer:
                self._beat()
        except BaseException:
            if self._lanes is not None:
                self._lanes.close(0.0)
            raise
        for name, work in (("beat", self._drive), ("hints", self._listen)):
            thread = threading.Thread(
                target=work, name=f"syncagent-store-{name}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def stop(self, timeout: float) -> None:
        """End the threads, and give up the lease.

        Cancellation: none but *timeout*.
        """
        self.stopping.cancel(origin="closed")
        self._backend.stop_listening()
        self._watch.wake()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(timeout)
        if not self._is_observer:
            with suppress(StoreUnavailable):  # else the lease ends by itself
                self.perform(lambda store: store.leave(self.id), CancelToken())
        self._renewed_at = float("-inf")  # a run that still ends here is not ours
        if self._lanes is not None:
            self._lanes.close(timeout)

    def perform(
        self,
        operation: Callable[[Backend], _T],
        token: CancelToken,
        timeout: float | None = None,
    ) -> _T:
        """Do an operation of the back end, once.

        Cancellation: ends at once.

        :raises StoreUnavailable: the store is unavailable, or *token* was cancelled.
        """
        backend = self._backend
        if self.has_stopped:  # else a late call would open the database again
            raise StoreUnavailable("the store is closed")
        if self._lanes is None or threading.current_thread() in self._threads[-1:]:
            return operation(backend)
        return self._lanes.perform(
            lambda: operation(backend), token, timeout or self._settings.timeout
        )

    @property
    def has_stopped(self) -> bool:
        """True once this process has given up its part in the store."""
        return self._renewed_at == float("-inf")

    def give_runs_away(self, grace: float, ending: float) -> None:
        """Release the runs of this process, and wait until they have left.

        Cancellation: none but the two times.

        :param grace: seconds for the runs to reach a checkpoint.
        :param ending: seconds after that for their threads to leave.
        """
        self.is_leaving = self._is_closing = True  # publish first, then look
        for now, seconds in ((False, grace), (True, ending)):
            for keeper in list(self.keepers.values()):
                keeper.release(now=now)
            until = clock.now() + seconds
            while (self._claims or self.keepers) and clock.now() < until:
                CancelToken().wait(_LOOK)

    def release(self) -> set[str]:
        """Take on no more runs, and release those of this process.

        Takes no lock.

        :return: their run ids.
        """
        self.is_leaving = True
        for keeper in list(self.keepers.values()):
            keeper.release()
        return set(self.keepers)

    @property
    def is_lease_over(self) -> bool:
        """True if another process may take the runs of this one soon."""
        return _elapsed() - self._renewed_at > self._lease - self._margin

    def wake_soon(self) -> None:
        """Have waiting events stored soon. Takes no lock."""
        self._has_events = True
        self._watch.wake()

    def sweep_soon(self) -> None:
        """Have this process look for runs that need a worker, soon."""
        self._must_sweep = True
        self._watch.wake()

    def _drive(self) -> None:
        """Renew the lease, store events, look for runs: the work of one thread."""
        pause = _FIRST_REPEAT
        while not self.stopping.wait(0.0):
            next_at = min(self._beat_at, self._sweep_at, self._prune_at)
            self._watch.wait(
                lambda: self._has_events or self._must_sweep, self.stopping, next_at
            )
            if self._has_events:
                self.stopping.wait(max(0.0, self._flush_at - clock.now()))
            if self.stopping.cancelled:
                break
            try:
                self._do_due_work()
                pause = _FIRST_REPEAT
            except StoreUnavailable as error:
                self._note_away(error)
                self.stopping.wait(pause)
                pause = min(2 * pause, _LAST_RETRY, self._lease / 15)
            except Exception:
                _log.exception("the thread of the store failed; it continues")
                self.stopping.wait(1.0)
            if self.keepers and self.is_lease_over:
                self._lose_runs()

    def _note_away(self, error: StoreUnavailable) -> None:
        """Log that the store is unavailable; as a warning after more than a moment."""
        now = clock.now()
        if self._away_since is None:
            self._away_since = now
        is_moment = now - self._away_since < _MOMENT
        _log.log(
            logging.DEBUG if is_moment else logging.WARNING,
            *("the store is unavailable: %s", error),
        )

    def _do_due_work(self) -> None:
        now = clock.now()
        if now >= self._beat_at:
            if not self._is_observer:
                self._beat()
                self._sweep_at = min(self._sweep_at, now)
                self._look_at_runs()
            self._beat_at = now + self._lease / 3
            followed = self.followers.needed
            if followed:
                self.perform(lambda store: store.follow(followed), CancelToken())
        if self._has_events:
            self._flush_at = now + _FLUSH
            self._flush()
        if now >= self._sweep_at or self._must_sweep:
            self._must_sweep = False
            self._sweep_at = float("inf") if self._is_observer else self._sweep()
        if now >= self._prune_at and not self._is_observer:
            self._prune_at = now + _PRUNE
            self.perform(self._prune, CancelToken())
        self._away_since = None

    def _prune(self, store: Backend) -> None:
        settings = self._settings
        store.prune(
            *(*settings.retention, _PRUNE_LIMIT),
            conversations_seconds=settings.keep_conversations,
            audit_seconds=settings.keep_audit,
        )

    def _beat(self) -> None:
        """Renew the lease; if it has ended, lose the runs and become another worker."""
        if self._is_announced and self.is_lease_over:
            self._lose_runs()
        sent_at = _elapsed()
        if not self._announce() and self._is_announced:  # the lease ended unnoticed
            self._lose_runs()
            self._announce()
        self._is_announced = True
        self._renewed_at = sent_at

    def _announce(self) -> bool:
        """Tell the store that this process lives; return whether it knew."""
        host, pid = socket.gethostname(), os.getpid()
        lease = Lease(self.id, host, pid, __version__, self._lease)
        timeout = min(self._settings.timeout, self._lease / 3)
        return self.perform(lambda store: store.beat(lease), CancelToken(), timeout)

    def _lose_runs(self) -> None:
        # The id changes first: a run that is claimed from now on is not lost.
        self.id, self._is_announced = uuid4().hex, False
        for keeper in list(self.keepers.values()):
            keeper.lose("the lease of the worker could not be renewed in time")

    # -- its runs ------------------------------------------------------------------

    def claim(
        self, id: str, call: Callable[[Callable[[Backend], Claim | None]], Claim | None]
    ) -> StoreKeeper | None:
        """Claim a run; return its keeper, or nothing if there is nothing to do.

        :param call: does an operation of the back end.
        :raises StoreUnavailable: the store is unavailable, or this process is closing.
        """
        nonce, cancel_count = uuid4().hex, self.cancel_count
        self._claims.add(nonce)  # publish first, then look
        try:
            if self._is_closing:
                raise StoreUnavailable("the store is closed")
            claim = call(lambda store: store.claim(id, self.id, nonce))
            return None if claim is None else self._keep(claim, cancel_count)
        finally:
            self._claims.discard(nonce)

    def _keep(self, claim: Claim, cancel_count: int) -> StoreKeeper:
        keeper = StoreKeeper(self, claim)
        self.keepers[keeper.run_id] = keeper  # publish first, then look
        if self._is_closing:
            keeper.release()
        if self.cancel_count != cancel_count:
            with suppress(StoreUnavailable):  # the next beat looks as well
                self._look_at_runs()
        return keeper

    def drop(self, keeper: StoreKeeper) -> None:
        """Forget a run that no thread works on any more."""
        if self.keepers.get(keeper.run_id) is keeper:  # it may have been claimed again
            del self.keepers[keeper.run_id]
        self.followers.wake([keeper.run_id])

    def cancel_here(self, id: str, record: CancelRecord, *, force: bool) -> None:
        """Cancel a run if this process has it; from any thread."""
        self.cancel_count += 1  # publish first, then look
        for keeper in list(self.keepers.values()):
            if keeper.id == id:
                keeper.cancel(record, force=force)

    def _look_at_runs(self) -> None:
        if not self.keepers:
            return
        cancelled = self.perform(lambda store: store.cancels(self.id), CancelToken())
        for run_id, record in cancelled.items():
            keeper = self.keepers.get(run_id)
            if keeper is not None:
                keeper.cancel(record)
        asking = [each for each in list(self.keepers.values()) if each.questions.open]
        if asking:
            answers = self.perform(lambda store: store.answers(self.id), CancelToken())
            for keeper in asking:
                keeper.take_answers(answers.get(keeper.run_id, {}))

    def _flush(self) -> None:
        """Store the events of all runs, in one transaction."""
        self._has_events = False  # publish first, then look
        keepers = [each for each in list(self.keepers.values()) if not each.is_over]
        taken = [each for each in keepers if each.pending.lock.acquire(blocking=False)]
        try:
            batches = {}
            for keeper in taken:
                batch = None if keeper.is_over else keeper.pending.take()
                if batch is not None:
                    batches[keeper.run_id] = batch
            if not batches:
                return
            values = list(batches.values())
            try:
                refused = self.perform(
                    lambda store: store.append(values), CancelToken()
                )
            except StoreUnavailable:
                self._has_events = True
                raise
            for keeper in taken:
                if keeper.run_id in refused:
                    keeper.lose("another worker has taken over the run")
                elif keeper.run_id in batches:
                    keeper.pending.stored()
        finally:
            for keeper in taken:
                keeper.pending.lock.release()
        self.followers.wake(list(batches))

    def _sweep(self) -> float:
        """Look for runs that need a worker; return when to look again."""
        room, worker = 0 if self.is_leaving else self._room(), self.id
        keepers = dict(self.keepers)  # before the look: later ones are not missed
        self.has_skipped_runs = True  # publish first, then look
        max_crashes = self._settings.max_crashes
        found = self.perform(
            lambda store: store.recover(room, max_crashes, worker), CancelToken()
        )
        self.has_skipped_runs = len(found.ids) >= room
        for run_id in keepers.keys() - found.held.keys():
            if not keepers[run_id].is_over:
                keepers[run_id].lose("the store has forgotten the run")
        self._release_orphans(found.held)
        for id in found.ids:
            if not self._deliver(id):  # this process is closing: leave it to another
                self.perform(
                    lambda store, id=id: store.deliver_now(id),  # type: ignore[misc]
                    CancelToken(),
                )
        if found.next_look is None:
            return float("inf")
        return clock.now() + max(0.0, found.next_look) + 0.01

    def _release_orphans(self, held: Mapping[str, tuple[str, int]]) -> None:
        """Release runs that the store counts as ours although no thread has them.

        The reply to their claim may have been lost for good. A run that was claimed a
        moment ago has no thread yet, so this waits for the length of a lease.
        """
        now = clock.now()
        orphans = held.keys() - self.keepers.keys()
        self._orphans = {id: self._orphans.get(id, now) for id in orphans}
        for run_id, since in self._orphans.items():
            if now - since > self._lease:
                id, attempt = held[run_id]
                self.perform(
                    lambda store, id=id, attempt=attempt: store.release(  # type: ignore[misc]
                        id, attempt, is_urgent=True
                    ),
                    CancelToken(),
                )

    # -- hints ---------------------------------------------------------------------

    def _listen(self) -> None:
        pause = _FIRST_RETRY
        while not self.stopping.cancelled:
            try:
                self._backend.listen(self.id, self.look)
                pause = _FIRST_RETRY
            except (StoreUnavailable, ConfigurationError, OSError) as error:
                _log.warning("hints of the store were cut off: %s", error)
            except Exception:
                _log.exception("the thread that listens failed; it continues")
            self.stopping.wait(pause)
            pause = min(2 * pause, _LAST_RETRY)

    def look(self, run_ids: Sequence[str]) -> None:
        """Look, because something about these runs may be new; without ids, at all."""
        self.cancel_count += 1  # publish first, then look
        self.followers.wake(run_ids)
        is_ours = any(run_id in self.keepers for run_id in run_ids)
        if (SWEEP in run_ids or is_ours) and not self._is_observer:
            self.sweep_soon()  # one of ours may have been deleted
        if not run_ids or is_ours:
            self._look_at_runs()


if hasattr(time, "CLOCK_BOOTTIME"):

    def _elapsed() -> float:
        # Unlike the monotonic clock it runs on while the machine sleeps.
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:

    def _elapsed() -> float:
        return clock.now()
