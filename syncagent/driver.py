"""Pull a run along: every call of ``next()`` goes on until somebody has to be asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import msgspec

from ._closeable import Closeable
from .asking.inbox import Inbox
from .asking.questions import OpenQuestions
from .cancel import CancelMode, CancelToken, Receipt, RunClaim
from .cancel.deferred import check_mode
from .cancel.reason import make_cause
from .conversation.conversation import Conversation
from .conversation.request import RunRequest
from .conversation.run_stream import RunStream
from .conversation.saved import save
from .events import InterruptRaised, RunFinished, StreamEvent
from .exceptions import AgentBusy, InterruptPending, Origin
from .interrupts import AwaitingInput, Interrupt
from .messages import Message, Prompt, UserMessage, user_message
from .result import RunResult
from .usage import Usage

__all__ = ["Driver", "Finished", "Snapshot", "Step"]


class Finished(msgspec.Struct, frozen=True):
    """A run has ended."""

    result: RunResult


#: What ``next()`` gives.
Step = Interrupt | Finished


class Snapshot(msgspec.Struct, frozen=True):
    """How far a driver is."""

    #: The live run's, if there is one.
    run_id: str
    messages: tuple[Message, ...]
    #: What is open.
    interrupts: tuple[Interrupt, ...]
    #: What was submitted and not heard yet.
    pending_input: tuple[UserMessage, ...]
    #: Of all runs of the agent, up to here.
    usage: Usage
    #: All of it as JSON, for :meth:`syncagent.Agent.load`.
    state: str


class Driver(Closeable):
    """Pull the runs of an agent along, on the thread that calls :meth:`next`.

    Interrupts may be answered on any thread. A ``with`` block closes it at its end.
    """

    def __init__(
        self,
        conversation: Conversation,
        request: RunRequest,
        on_event: Callable[[StreamEvent], object] | None = None,
    ) -> None:
        self._conversation = conversation
        #: What is to be begun, or what else is wanted of the next run.
        self._request = request
        self._on_event = on_event
        self._desk = OpenQuestions()
        self._inbox = Inbox()
        #: The run that is live, or waits for its turn.
        self._claim: RunClaim | None = None
        self._stream: RunStream | None = None
        #: Those that next() has given, and that must be answered first.
        self._given: set[str] = set()
        self._awaiting: Interrupt | None = None

    # -- going on ------------------------------------------------------------------

    def next(self) -> Step:
        """Go on until somebody has to be asked, may say something, or a run has ended.

        Cancellation: ends at once, with the result that says so.

        :raises InterruptPending: what it gave last is to be answered first.
        :raises AgentBusy: another thread is in here, or the agent has another live run.
        :raises SyncAgentError: what the run has raised; :meth:`next` goes on after it.
        """
        if self._stream is not None and self._stream.is_at_work:
            raise AgentBusy("next() is at work on another thread; one at a time pulls")
        while True:
            stream = self._stream or self._begin()
            if stream is None:
                return self._await_input()
            if not self._is_ending(stream):
                step = self._next_open()
                if step is not None:
                    return step
            event = self._pull(stream)
            while not isinstance(event, (InterruptRaised, RunFinished)):
                event = self._pull(stream)
            if isinstance(event, RunFinished):
                self._let_go()
                return Finished(event.result)

    @staticmethod
    def _is_ending(stream: RunStream) -> bool:
        """Is it cancelled? After the tools is now, as it stands still."""
        claim = stream.claim
        return claim.token.cancelled or claim.deferred.due(["after_tools"]) is not None

    def _begin(self) -> RunStream | None:
        """Begin a run if there is something to be said, or to be gone on with."""
        request, conversation = self._request, self._conversation
        if request.resumes is not None and not conversation.can_resume(request.resumes):
            # It was cancelled, or gone on with, by somebody else.
            request = RunRequest(record=request.record)
        if request.said is None:
            # A prompt comes after what was said before: its run says both.
            for message in (*conversation.take_unheard(), *self._inbox.take()):
                self._inbox.put(message)
        if not request.has_work:
            said = self._inbox.take_as_one()
            if said is None:
                return None
            request = msgspec.structs.replace(request, said=said)
        self._request = request  # if the agent is busy, it is still to be said
        if self._awaiting is not None:
            self._desk.drop(self._awaiting.id)
            self._awaiting = None
        ticket = conversation.register(
            msgspec.structs.replace(
                request, desk=self._desk, inbox=self._inbox, is_pulled=True
            )
        )
        self._claim = ticket.claim  # it can be cancelled while it waits for its turn
        try:
            self._stream = conversation.admit(ticket)
        except BaseException:
            self._claim = None
            raise
        self._request = RunRequest(record=request.record)
        return self._stream

    def _await_input(self) -> Interrupt:
        """Return what says that there is nothing to do, the same until it is used."""
        if self._awaiting is None:
            asked = AwaitingInput(f"input:{uuid4().hex}")
            self._awaiting = self._desk.lay(
                asked, CancelToken(), user_message, self._inbox.put
            )
        return self._awaiting

    def _next_open(self) -> Interrupt | None:
        """Return the next open interrupt, if there is one."""
        is_given = [asked for asked in self._desk.open if asked.id in self._given]
        blocking = [asked.id for asked in is_given if asked.is_blocking]
        if blocking:
            raise InterruptPending(
                f"{', '.join(blocking)} must be answered before next(): approve(), "
                "deny(), provide() or submit() it, or cancel() the run"
            )
        for asked in self._desk.open:
            if asked.id not in self._given:
                self._given.add(asked.id)
                return asked
        return None

    def _pull(self, stream: RunStream) -> StreamEvent:
        try:
            event = next(stream)
            if self._on_event is not None:
                self._on_event(event)
        except BaseException:
            self._let_go()
            raise
        return event

    def _let_go(self) -> None:
        stream, self._stream = self._stream, None
        self._claim = self._awaiting = None
        self._given.clear()
        self._desk.clear()
        if stream is not None:
            stream.close()

    # -- answering, and saying more ------------------------------------------------

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """What is open, in the order in which it was asked."""
        return self._desk.open

    def answer(self, id: str, answer: Any) -> None:
        """Answer what is open, in any order.

        :param id: the interrupt's, or that of the tool call that it is about.
        :param answer: true, false or an :class:`~syncagent.interrupts.Approval`;
            credentials; words.
        :raises InterruptOver: it was answered already, or its run has gone on or ended.
        :raises ConfigurationError: nobody has asked that, or the answer makes no sense;
            it is still open then.
        """
        self._desk.answer(id, answer)

    def send_input(self, prompt: Prompt) -> None:
        """Say something: after the tool round that runs, or in a run of its own."""
        self._inbox.put(user_message(prompt))

    # -- ending --------------------------------------------------------------------

    def cancel(
        self,
        reason: str = "",
        origin: Origin = "user",
        *,
        mode: CancelMode = "now",
        force: bool = False,
    ) -> Receipt:
        """Cancel the run that is live, or waits for its turn, if there is one.

        :meth:`next` gives its result.

        As safe as :meth:`syncagent.Agent.cancel`.
        """
        claim = self._claim
        if claim is None:
            check_mode(mode)
            return Receipt(None, make_cause(reason, origin))
        return claim.cancel(reason, origin, mode=mode, force=force)

    def close(self) -> None:
        """End the live run, if there is one; what it has not heard is kept."""
        self._let_go()
        self._conversation.unheard = (*self._conversation.unheard, *self._inbox.take())

    # -- looking -------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return how far it is; its ``state`` can be gone on with in another process.

        :raises AgentBusy: :meth:`next` is at work on another thread.
        """
        said = () if self._request.said is None else (self._request.said,)
        unheard = (*self._conversation.unheard, *said, *self._inbox.messages)
        return Snapshot(
            run_id="" if self._stream is None else self._stream.run_id,
            messages=self._conversation.messages,
            interrupts=self.interrupts,
            pending_input=unheard,
            usage=self._conversation.total_usage,
            state=save(self._conversation, unheard, is_still=self._is_still()),
        )

    def _is_still(self) -> bool:
        return self._stream is not None and not self._stream.is_at_work

    def __repr__(self) -> str:
        what = "idle" if self._stream is None else f"run {self._stream.run_id}"
        return f"<Driver: {what}, {len(self.interrupts)} open>"
