"""The numbers of a store: how long to wait, to keep, and to try again."""

from __future__ import annotations

import msgspec

from .._checks import check_number

__all__ = ["StoreSettings"]


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that a store shares with its worker.

    :raises ConfigurationError: one of them cannot work.
    """

    #: How many threads work on runs.
    max_workers: int
    #: Seconds without a sign of life after which a process counts as dead.
    lease: float
    #: A run has failed once so many workers have died with it.
    max_crashes: int
    #: Seconds to keep the events of a run after its end.
    keep_events: float
    #: Seconds to keep a run after its end.
    keep_runs: float
    #: Seconds to keep a conversation after its last change, and answers.
    keep_conversations: float
    keep_audit: float
    #: Seconds that a call waits for a store that is unavailable.
    timeout: float

    def __post_init__(self) -> None:
        check_number("max_workers", self.max_workers, minimum=1, is_integer=True)
        check_number("lease", self.lease, minimum=0.1, unit="seconds")
        check_number("max_crashes", self.max_crashes, minimum=1, is_integer=True)
        for name in ("keep_events", "keep_runs", "keep_conversations", "keep_audit"):
            seconds = getattr(self, name)
            check_number(name, seconds, unit="seconds", allow_infinity=True)
        check_number("timeout", self.timeout, is_positive=True, unit="seconds")

    @property
    def retention(self) -> tuple[float, float]:
        """Seconds to keep events, and runs: no events outlive their run."""
        return min(self.keep_events, self.keep_runs), self.keep_runs
