"""What an agent waits for between two runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .cancel.once import Once
from .exceptions import ConfigurationError
from .interrupts import Approval, ApprovalRequest, Interrupt
from .messages import Message
from .rounds import check_arguments
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
        self.round = run.round
        # Not the run: that would keep its claim.
        self.run_id: Final = run.id
        self.invocations = run.invocations
        self.text = run.text
        self.start = run.start
        self.unanswered = run.unanswered
        self.meter = run.meter
        self.output: Final = run.output
        self._marker: Final = run.setup.policy.marker
        self._fate: Once[str] = Once()

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """What is to be answered; nothing if that is over."""
        return () if self._fate else self.round.questions

    def check(self, answers: Mapping[str, Any]) -> None:
        """Refuse answers that could not be used, before anything is lost.

        :raises ConfigurationError: one is missing, unknown, or makes no sense.
        """
        if not isinstance(answers, Mapping):
            raise ConfigurationError(
                f"answers map the ids of interrupts to answers; got {answers!r:.80}"
            )
        wanted = {asked.id for asked in self.interrupts}
        if wanted != set(answers):
            raise ConfigurationError(
                f"the agent waits for answers to {', '.join(sorted(wanted))}; got "
                f"{', '.join(map(str, answers)) or 'none'}"
            )
        calls = {call.call.call_id: call for call in self.round.invocations}
        for asked in self.interrupts:
            if isinstance(asked, ApprovalRequest):
                approval = Approval.of(answers[asked.id])
                if approval.allow and approval.arguments is not None:
                    changed = approval.arguments
                    check_arguments(calls[asked.call_id], changed, "the approval")

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
