"""Drive a run step by step: ``next()`` runs until a person has to answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic
from uuid import uuid4

import msgspec

from ._closeable import Closeable
from .asking.answering import Attendance
from .asking.inbox import Inbox
from .asking.questions import OpenQuestions
from .cancel import CancelToken, RunClaim
from .cancel.claim import CancelsRun
from .conversation.conversation import Conversation
from .conversation.request import RunRequest
from .conversation.run_stream import RunStream
from .conversation.saved import save
from .events import InterruptRaised, RunFinished, StreamEvent
from .exceptions import AgentBusy, ConfigurationError, InterruptPending
from .interrupts import AwaitingInput, Interrupt
from .messages import Message, Prompt, UserMessage, user_message
from .result import RunResult, Value
from .usage import Usage

__all__ = ["Driver", "Finished", "Snapshot", "Step"]


class Finished(msgspec.Struct, Generic[Value], frozen=True):
    """The end of a run."""

    result: RunResult[Value]


#: The return value of ``next()``.
Step = Interrupt | Finished


class Snapshot(msgspec.Struct, frozen=True):
    """The progress of a driver."""

    #: The id of the live run, or an empty string.
    run_id: str
    messages: tuple[Message, ...]
    #: The open questions.
    interrupts: tuple[Interrupt, ...]
    #: Input that was sent and not taken yet.
    pending_input: tuple[UserMessage, ...]
    #: The usage of all runs of the agent so far.
    usage: Usage
    #: All of it as JSON, for :meth:`syncagent.Agent.load`.
    state: str


class Driver(CancelsRun, Closeable, Generic[Value]):
    """Drive the runs of an agent, on the thread that calls :meth:`next`.

    Answer interrupts and call :meth:`cancel` on any thread; after a cancel, ``next()``
    returns the result. A ``with`` block closes the driver at its end.
    """

    def __init__(
        self,
        conversation: Conversation,
        request: RunRequest,
        on_event: Callable[[StreamEvent], object] | None = None,
    ) -> None:
        if on_event is not None and not callable(on_event):
            raise ConfigurationError(
                f"on_event must be a function; got {on_event!r:.80}"
            )
        self._conversation = conversation
        #: The request of the next run; without a prompt, its settings.
        self._request = request
        self._on_event = on_event
        self._questions: Final = OpenQuestions()
        self._inbox: Final = Inbox()
        #: The run that is live or waits for its turn.
        self._claim: RunClaim | None = None
        self._stream: RunStream | None = None
        #: The ids that next() has returned.
        self._returned: set[str] = set()
        self._awaiting: Interrupt | None = None

    # -- driving -------------------------------------------------------------------

    def next(self) -> Interrupt | Finished[Value]:
        """Run until a person has to answer or may add input, or the run has ended.

        Cancellation: ends at once, with the result that says so.

        :raises InterruptPending: the last interrupt must be answered first.
        :raises AgentBusy: another thread is in ``next()``, or the agent has another
            live run.
        :raises SyncAgentError: the error that the run raised; call ``next()`` again to
            start another run.
        """
        if self._stream is not None and self._stream.is_running:
            raise AgentBusy("next() is already running on another thread")
        while True:
            if self._stream is not None and self._stream.is_over:
                self._end_run()  # its end was interrupted
            stream = self._stream or self._begin()
            if stream is None:
                return self._await_input()
            claim = stream.claim
            # No tool runs between two calls of next(): "after the tools" is now.
            is_ending = claim.token.cancelled or claim.deferred.due(["after_tools"])
            if not is_ending:
                question = self._next_question()
                if question is not None:
                    return question
            event = self._next_event(stream)
            while not isinstance(event, (InterruptRaised, RunFinished)):
                event = self._next_event(stream)
            if isinstance(event, RunFinished):
                self._end_run()
                return Finished(event.result)

    def _begin(self) -> RunStream | None:
        """Begin a run if there is a prompt or a paused run."""
        request, conversation = self._request, self._conversation
        if request.resumes is not None and not conversation.can_resume(request.resumes):
            # It was cancelled, or resumed elsewhere.
            request = RunRequest(record=request.record, given=request.given)
        if request.prompt is None:
            # Else they stay: a new run puts untaken input in front of its prompt.
            for message in (*conversation.take_untaken_input(), *self._inbox.take()):
                self._inbox.put(message)
        if not request.has_work:
            prompt = self._inbox.take_as_one()
            if prompt is None:
                return None
            request = msgspec.structs.replace(request, prompt=prompt)
        self._request = request  # if the agent is busy, the next call tries again
        if self._awaiting is not None:
            self._questions.drop(self._awaiting.id)
            self._awaiting = None
        attendance = Attendance(self._questions, self._inbox, is_driver=True)
        admitted = conversation.admit(
            msgspec.structs.replace(request, attendance=attendance)
        )
        self._claim = admitted.claim  # cancel() reaches it while it waits for its turn
        try:
            self._stream = conversation.start(admitted)
        except BaseException:
            self._claim = None
            raise
        self._request = RunRequest(record=request.record, given=request.given)
        return self._stream

    def _await_input(self) -> Interrupt:
        """Return the request for input, the same one until it is answered."""
        if self._awaiting is None:
            question = AwaitingInput(f"input:{uuid4().hex}")
            self._awaiting = self._questions.add(
                question, CancelToken(), user_message, self._inbox.put
            )
        return self._awaiting

    def _next_question(self) -> Interrupt | None:
        """Return an open question that next() has not returned yet."""
        questions = self._questions.open
        blocking = [
            question.id
            for question in questions
            if question.is_blocking and question.id in self._returned
        ]
        if blocking:
            raise InterruptPending(
                f"{', '.join(blocking)} must be answered before next(): approve(), "
                "deny(), provide() or submit() it, or cancel() the run"
            )
        for question in questions:
            if question.id not in self._returned:
                self._returned.add(question.id)
                return question
        return None

    def _next_event(self, stream: RunStream) -> StreamEvent:
        try:
            event = next(stream)
            if self._on_event is not None:
                self._on_event(event)
        except BaseException:
            stream.claim.is_left = True  # before anything that may be interrupted
            self._end_run()
            raise
        return event

    def _end_run(self) -> None:
        stream, self._stream = self._stream, None
        self._claim = self._awaiting = None
        self._returned.clear()
        self._questions.clear()
        if stream is not None:
            stream.close()

    # -- answering, and sending input ----------------------------------------------

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """The open questions, in the order in which they were asked."""
        return self._questions.open

    def answer(self, id: str, answer: Any) -> None:
        """Answer an open question, in any order.

        :param id: the id of the interrupt, or of the tool call that it is about.
        :param answer: true, false or an :class:`~syncagent.interrupts.Approval`;
            credentials; text.
        :raises InterruptOver: it was answered already, or its run has continued.
        :raises ConfigurationError: there is no such question, or the answer does not
            fit; the question stays open.
        """
        self._questions.answer(id, answer)

    def send_input(self, prompt: Prompt) -> None:
        """Send input: for the run after its tool round, or as the next prompt."""
        self._inbox.put(user_message(prompt))

    # -- ending --------------------------------------------------------------------

    def _find_claim(self) -> RunClaim | None:
        return self._claim  # cancel() of this run makes next() return its result

    def close(self) -> None:
        """End the live run, if there is one; the agent keeps input not taken."""
        self._end_run()
        conversation = self._conversation
        conversation.untaken_input = (
            *conversation.untaken_input,
            *self._inbox.take(),
        )

    # -- looking -------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return the progress; its ``state`` can be resumed in another process.

        :raises AgentBusy: :meth:`next` is running on another thread.
        """
        conversation, stream = self._conversation, self._stream
        prompt = self._request.prompt
        prompts = () if prompt is None else (prompt,)
        pending = (*conversation.untaken_input, *prompts, *self._inbox.messages)
        is_still = stream is not None and not stream.is_running
        return Snapshot(
            run_id="" if stream is None else stream.run_id,
            messages=conversation.messages,
            interrupts=self.interrupts,
            pending_input=pending,
            usage=conversation.total_usage,
            state=save(conversation, pending, is_still=is_still),
        )

    def __repr__(self) -> str:
        run = "idle" if self._stream is None else f"run {self._stream.run_id}"
        return f"<Driver: {run}, {len(self.interrupts)} open>"
