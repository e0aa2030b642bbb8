"""The request for a run: everything its caller asks for, checked."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from .._checks import check_timeout
from ..asking.answering import Answering, Attendance
from ..cancel import CancelSignal, CancelToken, RunClaim, cancel_on_event
from ..cancel.signal_event import EventRegistration
from ..exceptions import ConfigurationError
from ..messages import Prompt, UserMessage, user_message
from ..models.limiter import Limiter
from ..recording import Record, Recorder, SubAgentRecorder
from ..run.budget import Budget
from ..run.given import Given, RunOptions
from ..run.output import Output
from ..run.run import RunKeeper
from ..run.setup import Setup
from .pause import Pause, Resumable
from .queue import OnBusy

__all__ = [
    "AdmittedRun",
    "Cancel",
    "RunRequest",
    "check_request",
    "check_run_id",
    "run_token",
]

_RUN_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

#: A token or an event of the caller's own that also cancels a run.
Cancel = CancelToken | threading.Event


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that a caller starts or resumes a run with."""

    #: The prompt of a new run, or the run to resume. A handle or a driver that
    #: waits for input has neither yet.
    prompt: UserMessage | None = None
    resumes: Resumable | None = None
    #: The answers to the questions of the paused run, by id.
    answers: Mapping[str, Any] | None = None
    timeout: float | None = None
    cancel: Cancel | None = None
    output: Any = None
    on_busy: OnBusy | None = None
    record: Recorder | SubAgentRecorder | None = None
    keeper: RunKeeper | None = None
    #: Data and settings for this run; ``None`` for those of the paused run, if any.
    given: Given | None = None
    #: The id of a new run; made up if empty.
    run_id: str = ""
    #: The handle or driver that receives the questions of the run and sends it input.
    attendance: Attendance | None = None
    #: True for ``run(backgroundable=True)``: a background request releases the waiting
    #: caller. Until then its handle has no user who could answer questions.
    is_releasable: bool = False
    #: Cancelled when the handle that the run belongs to ends.
    parent_token: CancelToken | None = None
    #: Answers the questions of the run that this one is a part of.
    outer: Answering | None = None
    #: True if a limit of that run counts the cost of this one.
    needs_price: bool = False
    #: The budgets of that run, which this one is charged to as well.
    budgets: tuple[Budget, ...] = ()
    #: True if that run shows the events of its sub-agents.
    shows_agents: bool = False

    @property
    def has_work(self) -> bool:
        """True if there is a prompt to send or a run to resume."""
        return self.prompt is not None or self.resumes is not None

    @property
    def accepts_input(self) -> bool:
        """True if input may be sent to the run between two turns."""
        return self.attendance is not None and not self.attendance.is_for_sub_agents

    @classmethod
    def new(
        cls,
        prompt: Prompt,
        timeout: float | None,
        cancel: Cancel | None,
        output: Any,
        record: Record | None,
        run_id: str | None,
        on_busy: OnBusy | None,
        given: Given | None,
    ) -> RunRequest:
        """Return the request for a new run of the caller's own thread.

        :raises ConfigurationError: the prompt, the id or the record cannot be used.
        """
        return cls(
            prompt=user_message(prompt),
            timeout=timeout,
            cancel=cancel,
            output=output,
            record=Recorder.at(record),
            run_id=check_run_id(run_id),
            on_busy=on_busy,
            given=given,
        )

    @classmethod
    def first(
        cls,
        pause: Pause | None,
        prompt: Prompt | None,
        timeout: float | None,
        cancel: Cancel | None,
        output: Any,
        record: Record | None,
        given: Given | None,
        run_id: str | None = None,
    ) -> RunRequest:
        """Return the first request of a driver or a handle.

        :param pause: resumed if there is no prompt, and the pause is still open.
        :raises ConfigurationError: a setting is not of its kind.
        """
        check_request(timeout, cancel, output)
        if prompt is not None or (pause is not None and not pause.is_open):
            pause = None
        return cls(
            prompt=None if prompt is None else user_message(prompt),
            resumes=pause,
            timeout=timeout,
            cancel=cancel,
            output=output,
            record=Recorder.at(record, is_new=pause is None),
            given=given,
            run_id=check_run_id(run_id),
        )

    @classmethod
    def resuming(
        cls,
        pause: Resumable,
        answers: Mapping[str, Any] | None,
        timeout: float | None,
        cancel: Cancel | None,
        output: Any,
        record: Record | None,
        given: Given | None = None,
    ) -> RunRequest:
        """Return the request to resume a run.

        :raises ConfigurationError: the answers do not fit.
        """
        answers = {} if answers is None else answers
        pause.check(answers)
        return cls(
            resumes=pause,
            answers=answers,
            timeout=timeout,
            cancel=cancel,
            output=output,
            on_busy="raise",
            record=Recorder.at(record, is_new=False),
            given=given,
        )

    @classmethod
    def inside(
        cls,
        setup: Setup,
        outer: Answering,
        prompt: Prompt,
        *,
        record: Record | SubAgentRecorder | None = None,
        deps: Any = None,
        outer_deps: Any = None,
        options: RunOptions | None = None,
        tools: Iterable[Any] = (),
        metadata: Mapping[str, Any] | None = None,
        limiter: Limiter | None = None,
        budget: Budget | None = None,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        output: Any = None,
        run_id: str = "",
        keeper: RunKeeper | None = None,
        needs_price: bool = False,
        budgets: tuple[Budget, ...] = (),
        shows_agents: bool = False,
    ) -> RunRequest:
        """Return the request for a run that is a part of another one.

        :param setup: of the agent.
        :param outer: answers the questions that the agent has no handler for.
        :param outer_deps: the deps of the other run, if there are no others.
        """
        if deps is None and setup.deps is None:
            deps = outer_deps
        return cls(
            prompt=user_message(prompt),
            outer=outer,
            record=Recorder.at(record),
            given=Given.of(
                *(setup, deps, options, tools, metadata, None, limiter, budget)
            ),
            timeout=timeout,
            cancel=cancel,
            output=output,
            run_id=run_id,
            keeper=keeper,
            needs_price=needs_price,
            budgets=budgets,
            shows_agents=shows_agents,
        )


class AdmittedRun(NamedTuple):
    """A run that can be cancelled, and waits for its turn on the agent."""

    request: RunRequest
    claim: RunClaim
    output: Output | None
    #: Cancels the run when the caller's event is set.
    registration: EventRegistration | None


def check_run_id(run_id: Any) -> str:
    """Return the id for a run, or an empty string if one is to be made up.

    :raises ConfigurationError: it could not be part of a log line or a header.
    """
    if run_id is None:
        return ""
    if not isinstance(run_id, str) or not _RUN_ID.fullmatch(run_id):
        raise ConfigurationError(
            "run_id must be 1 to 64 letters, digits, '-' and '_', because idempotency "
            f"keys begin with it; got {run_id!r:.80}"
        )
    return run_id


def check_request(timeout: Any, cancel: Any, output: Any) -> None:
    """Refuse settings that a run which starts later could only fail with.

    :raises ConfigurationError: one of them is not of its kind.
    """
    check_timeout(timeout)
    if cancel is not None and not isinstance(cancel, (CancelToken, threading.Event)):
        raise ConfigurationError(
            f"cancel takes a CancelToken or a threading.Event; got {cancel!r:.80}"
        )
    if output is not None:
        Output.of(output)


def run_token(
    timeout: float | None,
    seconds: float | None,
    cancel: Cancel | None,
    parent_token: CancelToken | None = None,
) -> tuple[CancelToken, EventRegistration | None]:
    """Make the token of a run.

    :param timeout: the caller's limit in seconds.
    :param seconds: the agent's limit in seconds.
    :param cancel: a token or an event of the caller's that also cancels it.
    :param parent_token: a token that also cancels it.
    :return: the token, and its hold on the caller's event, to be closed at the end.
    :raises ConfigurationError: one of them is not of its kind.
    """
    check_request(timeout, cancel, None)
    limits = [limit for limit in (timeout, seconds) if limit is not None]
    shortest = min(limits, default=None)
    if isinstance(cancel, CancelSignal):
        cancel = cancel.token
    parents = [] if parent_token is None else [parent_token]
    if isinstance(cancel, CancelToken):
        return CancelToken.any_of(cancel, *parents, timeout=shortest), None
    if parents:
        token = CancelToken.any_of(*parents, timeout=shortest)
    else:
        token = CancelToken(shortest)
    return token, None if cancel is None else cancel_on_event(cancel, token)
