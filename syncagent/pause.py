"""What an agent waits for between two runs."""

from __future__ import annotations

from typing import Final

from .cancel.once import Once
from .interrupts import Interrupt
from .messages import Message
from .run import Run
from .settle import marked

__all__ = ["Pause"]

_CANCELLED: Final = "cancelled"
_RESUMED: Final = "resumed"


class Pause:
    """A round of tool calls that waits for answers; no run is live meanwhile.

    The first of "cancelled" and "resumed" counts.
    """

    def __init__(self, run: Run) -> None:
        assert run.round is not None
        self.round: Final = run.round
        # Not the run: that would keep its claim.
        self.text: Final = run.text
        self.output: Final = run.output
        self._marker: Final = run.setup.policy.marker
        self._fate: Once[str] = Once()

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """What is to be answered; nothing if that is over."""
        return () if self._fate else self.round.questions

    def cancel(self) -> bool:
        """Let the calls go. Takes no lock, and may be done twice."""
        return self._fate.put(_CANCELLED) is _CANCELLED

    def take(self) -> bool:
        """Take the round over, to go on with it; false if it was cancelled."""
        return self._fate.put(_RESUMED) is _RESUMED

    @property
    def is_cancelled(self) -> bool:
        """Were the calls let go?"""
        return self._fate.value is _CANCELLED

    def leftovers(self) -> list[Message]:
        """Return what a cancel leaves in the transcript."""
        return [self.round.message(), marked(self._marker)]
