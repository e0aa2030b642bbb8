"""A run that an error, a limit, a cancel or a hook has cut short.

Its transcript is settled, so that any other prompt can follow. As long as none does,
the run can be resumed: what the settling added at the end is taken back, and the run
goes on from its last complete step.
"""

from __future__ import annotations

from copy import copy
from typing import Final

from ..messages import ToolMessage
from ..result import RunResult
from ..run.progress import RunProgress, ToolRound
from ..run.run import Run
from ..transcript.transcript import Transcript
from ..usage import Usage
from .pause import Resumable

__all__ = ["Unfinished", "unfinished_part"]

#: Stop reasons of runs that can go on.
_CUT_SHORT: Final = ("cancelled", "stopped", "limit")


class Unfinished(Resumable):
    """A run that was cut short, between its end and the next run of the agent.

    It keeps the progress of the run and two numbers, and no message.

    :param length: the number of messages that stay.
    :param in_round: the number of calls, the last ones, whose results do not.
    :param usage_before: the usage of all earlier runs of the agent.
    :param keeps_approvals: false if a person or a hook stopped the run: what was
        approved before has to be approved again.
    """

    def __init__(
        self,
        progress: RunProgress,
        length: int,
        in_round: int,
        usage_before: Usage,
        *,
        keeps_approvals: bool,
    ) -> None:
        super().__init__(progress)
        self.length: Final = length
        self.in_round: Final = in_round
        self.usage_before: Final = usage_before
        self.keeps_approvals: Final = keeps_approvals

    @property
    def is_open(self) -> bool:
        """True: the conversation forgets it when another run begins."""
        return True

    def reopen(self, transcript: Transcript) -> None:
        """Take back the settled end of the run. Safe to repeat.

        Calls that were never made are open again, and interrupted ones that may be made
        twice. All other results stay.
        """
        if len(transcript) > self.length:
            transcript.truncate(self.length)
        progress = self.progress
        progress.resume_from, progress.open_round = None, None
        if self.in_round:
            calls = progress.invocations[-self.in_round :]
            for call in calls:
                call.reopen(keep_approval=self.keeps_approvals)
            progress.open_round = ToolRound(calls)
        progress.meter.renew()

    def reopened_round(self) -> ToolRound | None:
        """Return the tool round as :meth:`reopen` would leave it, for a saved state."""
        if not self.in_round:
            return None
        calls = [copy(call) for call in self.progress.invocations[-self.in_round :]]
        for call in calls:
            call.reopen(keep_approval=self.keeps_approvals)
        return ToolRound(calls)


def unfinished_part(
    run: Run, result: RunResult | None, usage_before: Usage
) -> Unfinished | None:
    """Return what can be resumed of a run that has ended; ``None`` if nothing can.

    :param result: ``None`` if an error ended the run.
    """
    stop = "error" if result is None else result.stop_reason
    if run.keeper is not None or (result is not None and stop not in _CUT_SHORT):
        return None  # a stored run belongs to its store
    is_cancel = stop in ("cancelled", "stopped")
    if is_cancel and run.setup.policy.partial_text == "rollback":
        return None
    progress = run.progress
    length, in_round = progress.resume_from or (len(run.transcript), 0)
    last = run.transcript[length - 1]
    if not in_round and isinstance(last, ToolMessage):
        # The limit has refused calls of this round, or the cancel hit its last call.
        calls = progress.invocations[-len(last.content) :]
        if any(call.can_reopen for call in calls):
            length, in_round = length - 1, len(calls)
    return Unfinished(
        progress, length, in_round, usage_before, keeps_approvals=not is_cancel
    )
