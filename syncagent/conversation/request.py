"""The request for a run: what its caller asks for, checked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from .._checks import check_timeout
from ..asking.answering import Answering
from ..asking.inbox import Inbox
from ..asking.questions import OpenQuestions
from ..cancel import CancelSignal, CancelToken, RunClaim, cancel_on_event
from ..cancel.signal_event import EventRegistration
from ..exceptions import ConfigurationError
from ..messages import UserMessage
from ..recording import Part, Recorded
from ..run.output import Output
from .live_run import Pump, RunEnd
from .pause import Pause
from .queue import OnBusy

__all__ = [
    "Cancel",
    "RunRequest",
    "AdmittedRun",
    "check_run",
    "compose",
]


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants who begins a run, or goes on with one."""

    #: What the user says, or the run that waits and is gone on with; neither if that
    #: is still to come.
    said: UserMessage | None = None
    resumes: Pause | None = None
    timeout: float | None = None
    cancel: Cancel | None = None
    output: Any = None
    on_busy: OnBusy | None = None
    #: Answers to what the run waits for.
    answers: Mapping[str, Any] | None = None
    #: Where its questions lie, and what is said to it, if somebody attends to it.
    desk: OpenQuestions | None = None
    inbox: Inbox | None = None
    is_pulled: bool = False
    #: Who is shown every event, beside hooks.
    on_event: Callable[[Any], object] | None = None
    #: Cancelled when whatever it is a part of is to end.
    stopping: CancelToken | None = None
    #: Who answers what the run asks that this one is a part of.
    outer: Answering | None = None
    #: What it is recorded by, if it is.
    record: Recorded | Part | None = None
    #: What it is to be called.
    run_id: str = ""
    #: Does somebody wait for it, whom a wish for the background releases? Until then
    #: nobody attends to it.
    is_releasable: bool = False
    #: Has another thread go on with it, if it may be sent to the background.
    move: Callable[[RunEnd, Pump], object] | None = None

    @property
    def has_work(self) -> bool:
        """Is it known what is to be said, or gone on with?"""
        return self.said is not None or self.resumes is not None


class AdmittedRun(NamedTuple):
    """A run that has not begun yet."""

    wanted: RunRequest
    claim: RunClaim
    output: Output | None
    #: Its hold on somebody's event.
    following: EventRegistration | None


#: What else may cancel a run.
Cancel = CancelToken | threading.Event


def compose(
    timeout: float | None,
    seconds: float | None,
    cancel: Cancel | None,
    stopping: CancelToken | None = None,
) -> tuple[CancelToken, EventRegistration | None]:
    """Return the token of a run, and its hold on somebody's event.

    :param stopping: of whatever the run is a part of.

    :raises ConfigurationError: one of them is nothing of the kind.
    """
    check_timeout(timeout)
    given = [limit for limit in (timeout, seconds) if limit is not None]
    shortest = min(given, default=None)
    if isinstance(cancel, CancelSignal):
        cancel = cancel.token
    above = [] if stopping is None else [stopping]
    if isinstance(cancel, CancelToken):
        return CancelToken.any_of(cancel, *above, timeout=shortest), None
    token = (
        CancelToken.any_of(*above, timeout=shortest) if above else CancelToken(shortest)
    )
    if cancel is None:
        return token, None
    if not isinstance(cancel, threading.Event):
        raise ConfigurationError(
            f"cancel takes a CancelToken or a threading.Event; got {cancel!r:.80}"
        )
    return token, cancel_on_event(cancel, token)


def check_run(timeout: Any, cancel: Any, output: Any) -> None:
    """Refuse what a run that begins later could only fail with.

    :raises ConfigurationError: one of them is nothing of the kind.
    """
    check_timeout(timeout)
    if cancel is not None and not isinstance(cancel, (CancelToken, threading.Event)):
        raise ConfigurationError(
            f"cancel takes a CancelToken or a threading.Event; got {cancel!r:.80}"
        )
    if output is not None:
        Output.of(output)
