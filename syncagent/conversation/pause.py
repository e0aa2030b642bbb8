"""What an agent waits for between two runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..cancel.once import Once
from ..exceptions import ConfigurationError
from ..interrupts import Interrupt
from ..messages import Message, UserMessage
from ..run.meter import Meter
from ..run.output import Output
from ..run.run import Run, ToolRound
from ..run.tool_round import check_answer
from ..tools.invocation import Invocation
from .settling import marked

__all__ = ["Pause"]

_CANCELLED: Final = "cancelled"
_RESUMED: Final = "resumed"


class Pause:
    """A run that has not ended, and that nobody drives now.

    As a rule it is a round of tool calls that waits for answers. The first of
    "cancelled" and "resumed" counts.
    """

    def __init__(
        self,
        *,
        run_id: str,
        round: ToolRound | None,
        invocations: list[Invocation],
        text: str,
        start: int,
        unanswered: UserMessage | None,
        meter: Meter,
        output: Output | None,
        marker: str,
    ) -> None:
        self.run_id: Final = run_id
        self.round = round
        self.invocations = invocations
        self.text = text
        self.start = start
        self.unanswered = unanswered
        self.meter = meter
        self.output = output
        #: The form that the answer is to have, if the type is not known here.
        self.missing_output: dict[str, Any] | None = None
        self._marker: Final = marker
        self._fate: Once[str] = Once()

    @classmethod
    def of(cls, run: Run) -> Pause:
        """Return what is kept of *run*; not the run, which would keep its claim."""
        return cls(
            run_id=run.id,
            round=run.round,
            invocations=run.invocations,
            text=run.text,
            start=run.start,
            unanswered=run.unanswered,
            meter=run.meter,
            output=run.output,
            marker=run.setup.policy.marker,
        )

    @property
    def is_open(self) -> bool:
        """Can it still be gone on with?"""
        return not self._fate

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """What is to be answered; nothing if that is over."""
        return self.round.questions if self.is_open and self.round else ()

    def check(self, answers: Mapping[str, Any]) -> None:
        """Refuse answers that could not be used, before anything is lost.

        :raises ConfigurationError: one is missing, unknown, or makes no sense.
        """
        if not isinstance(answers, Mapping):
            raise ConfigurationError(
                "answers map the ids of interrupts to answers; got a "
                f"{type(answers).__name__}"
            )
        wanted = {asked.id for asked in self.interrupts}
        if wanted != set(answers):
            raise ConfigurationError(
                f"the agent waits for answers to {', '.join(sorted(wanted)) or 'none'};"
                f" got {', '.join(map(str, answers)) or 'none'}"
            )
        for asked in self.interrupts:
            assert self.round is not None
            check_answer(self.round, asked, answers[asked.id])

    def take_output(self, output: Output | None) -> Output | None:
        """Return what the answer of the run is to be, if it is gone on with.

        :param output: what whoever goes on says that it is.
        :raises ConfigurationError: that is something else, or it has to be said.
        """
        if self.missing_output is None:
            if output is not None:
                raise ConfigurationError(
                    "output= belongs to the begin of a run; this one knows what its "
                    "answer is to be"
                )
            return self.output
        form = None if output is None else output.format
        if form is None or form.schema != self.missing_output:
            raise ConfigurationError(
                "the answer of this run is to have a form that a saved state cannot "
                "hold; give the type of run(output=...) again, resume(..., output=...)"
            )
        return output

    def cancel(self) -> bool:
        """Let the calls go. Takes no lock, and may be done twice."""
        return self._fate.claim(_CANCELLED) is _CANCELLED

    def take(self) -> bool:
        """Take the run over, to go on with it; false if it was cancelled."""
        return self._fate.claim(_RESUMED) is _RESUMED

    def leftovers(self) -> list[Message]:
        """Return what is left in the transcript if nobody goes on with it."""
        # One that was taken, by a resume() that never began, is repaired.
        if self.round is None or self._fate.value is _RESUMED:
            return []
        return [self.round.message(), marked(self._marker)]
