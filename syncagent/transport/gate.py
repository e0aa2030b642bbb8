"""A gate that every attempt at a request passes, such as that of a rate limiter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from ..cancel import CancelToken
from ..exceptions import ProviderError, TransportError

__all__ = ["AttemptGate", "OnPhase"]

#: Called with the name of each phase as it begins.
OnPhase = Callable[[str], object]


class AttemptGate(Protocol):
    """The gate for the attempts at one request, one after the other."""

    def enter(self, token: CancelToken, on_phase: OnPhase | None) -> bool:
        """Wait until the next attempt may begin; return whether that took any time.

        Cancellation: ends at once.

        :raises RateLimited: the wait would be too long.
        """

    def begun(self, headers: Mapping[str, str]) -> None:
        """Note that a response has begun, and is not an error."""

    def failed(
        self, error: ProviderError | TransportError, headers: Mapping[str, str]
    ) -> bool:
        """Note that the attempt has failed.

        :return: true to pass the gate again, whatever the retries say.
        """

    def leave(self) -> None:
        """Note that the attempt is over. Safe to repeat; never blocks."""
