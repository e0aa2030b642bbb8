"""Drive a run: pump its loop, and have answered what it asks."""

from __future__ import annotations

from collections.abc import Generator
from threading import get_ident
from typing import Final

from ._run_id import run_id
from .answers import NOT_YET, Answering
from .events import RunEvent
from .interrupts import Interrupt
from .loop import Answers, StopReason, run_loop
from .run import Run

__all__ = ["CLOSED", "Pump", "drive"]

#: Why a run is cancelled whose stream is closed.
CLOSED: Final = "the stream was closed"


class Pump:
    """The loop of a run, and what it waits for; it may be handed to another thread."""

    def __init__(self, run: Run, answering: Answering) -> None:
        self.run = run
        self.answering = answering
        self.loop = run_loop(run)
        #: What the loop is to be sent the answers of.
        self.asked: tuple[Interrupt, ...] = ()

    def close(self) -> None:
        """End what was to go on elsewhere, and does not."""
        try:
            self.loop.close()
        finally:
            self.answering.close()


def drive(pump: Pump) -> Generator[RunEvent, None, StopReason]:
    """Pump the loop of a run, until it has ended, or is to go on elsewhere.

    Cancellation: ends at once.

    :return: why it ended; ``backgrounded`` if it has not, and another thread is to
        drive the same pump.
    """
    run, loop, answering = pump.run, pump.loop, pump.answering
    lending, on_event = run.lending, run.on_event
    life, may_leave = run.token.life(), run.may_leave
    answers: Answers = None
    has_left = False
    try:
        while True:
            if life.background_asked and may_leave:
                has_left = True
                return "backgrounded"
            # No reset(): a signal handler may raise before its token is in our hands.
            before = run_id.get()
            try:
                run_id.set(run.id)
                if get_ident() != lending.thread:
                    lending.drive_here()
                if pump.asked:
                    answers = answering.answer(pump.asked, run)
                    if answers is NOT_YET:
                        continue
                    pump.asked = ()
                try:
                    step = loop.send(answers)
                except StopIteration as end:
                    stop: StopReason = end.value
                    return stop
                answers = None
                if isinstance(step, tuple):
                    pump.asked = step
                    continue
            finally:
                run_id.set(before)
            if on_event:
                early, told = lending.early, 0
                if early and early[0][0] is step:
                    told = early.popleft()[1]
                for hook in on_event[told:]:
                    hook(step)
            yield step
    except GeneratorExit:
        run.claim.cancel(CLOSED, "closed")
        raise
    finally:
        if not has_left:
            loop.close()
