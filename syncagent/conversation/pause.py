"""A paused run: one that has not ended, and that no thread drives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..cancel.once import Once
from ..exceptions import ConfigurationError
from ..interrupts import Interrupt
from ..messages import Message
from ..run.output import Output
from ..run.progress import RunProgress
from ..run.tool_round import check_answer
from ..transcript.transcript import Transcript
from .settling import marked

__all__ = ["Pause", "Resumable"]

_CANCELLED: Final = "cancelled"
_RESUMED: Final = "resumed"


class Resumable:
    """A run between two drives. It keeps the progress of the run, and not the run."""

    def __init__(self, progress: RunProgress) -> None:
        self.progress: Final = progress
        #: The JSON schema of the answer, if the state was saved: a type is not JSON.
        self.missing_output: dict[str, Any] | None = None

    @property
    def is_open(self) -> bool:
        """True until the run cannot be resumed any more."""
        raise NotImplementedError

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """The questions to answer first."""
        return ()

    def reopen(self, transcript: Transcript) -> None:
        """Bring the run into the state from which it goes on.

        :param transcript: of the agent, which is claimed for the run.
        """
        raise NotImplementedError

    def check(self, answers: Mapping[str, Any]) -> None:
        """Refuse answers that could not be used, before anything is lost.

        :raises ConfigurationError: one is missing, unknown, or does not fit.
        """
        if not isinstance(answers, Mapping):
            raise ConfigurationError(
                "answers must map the ids of interrupts to answers; got a "
                f"{type(answers).__name__}"
            )
        ids = {question.id for question in self.interrupts}
        if answers and not ids:
            raise ConfigurationError(
                "the agent does not wait for answers; got answers to: "
                f"{', '.join(map(str, answers))}"
            )
        if ids != set(answers):
            raise ConfigurationError(
                f"the agent waits for answers to: {', '.join(sorted(ids)) or 'none'}; "
                f"got answers to: {', '.join(map(str, answers)) or 'none'}"
            )
        for question in self.interrupts:
            assert self.progress.open_round is not None
            check_answer(self.progress.open_round, question, answers[question.id])

    def restore_output(self, output: Output | None) -> None:
        """Give a loaded run the type of its answer again, which no state can hold.

        :param output: the ``output=`` of the caller that resumes the run.
        :raises ConfigurationError: it is missing, of another form, or not needed.
        """
        if self.missing_output is None:
            if output is not None:
                raise ConfigurationError(
                    "output= is fixed when a run starts; this run already has one"
                )
            return
        format = None if output is None else output.format
        if format is None or format.schema != self.missing_output:
            raise ConfigurationError(
                "this run was saved with an output type, which a state cannot hold; "
                "give the type of run(output=...) again: resume(..., output=...)"
            )
        self.progress.output = output


class Pause(Resumable):
    """A run between two drives, as a rule a tool round that waits for answers.

    It keeps the progress of the run and not the run, which would keep the agent
    claimed. The first of "cancelled" and "resumed" wins.

    :param marker: tells the model that the user interrupted the run.
    """

    def __init__(self, progress: RunProgress, marker: str) -> None:
        super().__init__(progress)
        self._marker: Final = marker
        self._fate: Once[str] = Once()
        #: Reason and origin of the first cancel.
        self._why: Once[tuple[str, str]] = Once()

    @property
    def is_open(self) -> bool:
        """True until the run is cancelled or resumed."""
        return not self._fate

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """The questions to answer; none once the pause is over."""
        round = self.progress.open_round
        return round.questions if self.is_open and round else ()

    def cancel(self, reason: str = "", origin: str = "user") -> bool:
        """Drop the open calls. Takes no lock. Safe to repeat: the first stays."""
        self._why.claim((reason, origin))
        return self._fate.claim(_CANCELLED) is _CANCELLED

    def reopen(self, transcript: Transcript) -> None:
        """Take the run over to resume it.

        :raises ConfigurationError: it was cancelled.
        """
        if not self.take():
            raise ConfigurationError("the paused run was cancelled")

    def take(self) -> bool:
        """Take the run over to resume it; false if it was cancelled."""
        return self._fate.claim(_RESUMED) is _RESUMED

    def leftovers(self) -> list[Message]:
        """Return the messages to add if the run is never resumed."""
        # A resume() that took the pause and never began leaves it to the repair.
        round = self.progress.open_round
        if round is None or self._fate.value is _RESUMED:
            return []
        return [round.results(), marked(self._marker, *(self._why.value or ("", "")))]
