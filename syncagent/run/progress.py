"""The progress of a run: everything about it that outlives a pause or a save."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..cancel.once import finish_despite_signals
from ..interrupts import Interrupt
from ..messages import Message, ToolMessage, UserMessage
from ..tools.invocation import Invocation
from ..transcript.transcript import Transcript
from .given import NOTHING
from .meter import Meter
from .output import Output
from .toolbox import Toolset

__all__ = ["RunProgress", "ToolRound"]


class ToolRound:
    """All tool calls of one turn."""

    def __init__(self, invocations: list[Invocation]) -> None:
        self.invocations = invocations
        #: Questions that must be answered before any of the calls runs.
        self.questions: tuple[Interrupt, ...] = ()
        #: True while the run waits for those answers.
        self.is_waiting = False
        #: The results, once they stand in the transcript.
        self.committed: ToolMessage | None = None

    def results(self) -> ToolMessage:
        """Return one result per call, also for calls that were never made."""
        return ToolMessage(tuple(call.result for call in self.invocations))


class RunProgress:
    """How far a run is.

    A :class:`~syncagent.run.run.Run` works on it, a pause keeps it until the run is
    resumed, and a saved state encodes it.
    """

    def __init__(
        self,
        run_id: str,
        meter: Meter,
        output: Output | None = None,
        *,
        start: int = 0,
        unanswered: UserMessage | None = None,
    ) -> None:
        self.run_id: Final = run_id
        self.meter: Final = meter
        #: The type of the final answer, if the caller asked for one.
        self.output = output
        #: The length of the transcript before this run, without *unanswered*.
        self.start = start
        #: An earlier prompt that no model answered; the new prompt is joined to it.
        self.unanswered = unanswered
        #: The text of the last response.
        self.text = ""
        #: The provider's word for the end of the last response, and its explanation.
        #: They outlive a message without content, which a repair drops.
        self.last_stop = ("", "")
        #: Every tool call of the run, in order.
        self.invocations: list[Invocation] = []
        #: The tool calls that have no results in the transcript yet.
        self.open_round: ToolRound | None = None
        #: Where the run goes on if it was cut short: the number of messages that stay,
        #: and of calls whose results do not. Set when the run is settled.
        self.resume_from: tuple[int, int] | None = None
        #: The tools of the last turn; None if no source was asked for them yet.
        self.toolset: Toolset | None = None
        #: Data and settings for this run only.
        self.given = NOTHING
        #: How often a compaction, or a hook, has replaced the conversation.
        self.compactions = 0
        #: The messages before this run, if the conversation was replaced since.
        self.before: tuple[Message, ...] | None = None

    @property
    def can_roll_back(self) -> bool:
        """True if the conversation before this run is known."""
        return self.before is not None or not self.compactions

    def messages_before(self, transcript: Transcript) -> list[Message]:
        """Return the messages that were there before this run."""
        before = self.before
        found = transcript[: self.start] if before is None else list(before)
        return found if self.unanswered is None else [*found, self.unanswered]

    def swap(self, transcript: Transcript, messages: Sequence[Message]) -> None:
        """Put *messages* in place of the whole conversation, in one step.

        A signal handler may raise at any moment: the conversation is then the old one
        or the new one.
        """
        before = self.before
        if not self.compactions:
            before = tuple(transcript[: self.start])
        prompt = transcript[self.start] if self.start < len(transcript) else None
        # The prompt of the run, if it is still there; else it is in the first message.
        same = (n for n, message in enumerate(messages) if message is prompt)
        start, count = next(same, 0), self.compactions + 1

        def work() -> None:
            self.before = before  # first: from now on "start" does not count for that
            transcript.replace(messages)
            self.start, self.compactions = start, count

        finish_despite_signals(work)

    @classmethod
    def after(
        cls,
        transcript: Sequence[Message],
        run_id: str,
        meter: Meter,
        output: Output | None,
    ) -> RunProgress:
        """Return the progress of a run that is about to add to *transcript*."""
        last = transcript[-1] if transcript else None
        unanswered = last if isinstance(last, UserMessage) else None
        start = len(transcript) - (unanswered is not None)
        return cls(run_id, meter, output, start=start, unanswered=unanswered)
