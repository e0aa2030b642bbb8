"""Requests in flight: their ids, their responses, and the questions between the two.

Guarantees:

- A caller wakes for its response, for progress, for a question, for a cancel and for a
  timeout; never later than its token and its timeouts say, whatever the server sends.
- A response that is there when a cancelled caller looks is returned: its effects are
  known, and the server gets no message.
- Of a request that was given up, late responses, progress and questions are dropped.
- The reading thread never blocks: it stores, then wakes.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any, Final, TypeVar

from ..cancel import CancelToken, Watch, clock
from ..cancel.deadlines import earlier
from ..cancel.once import finish_despite_signals
from ..exceptions import (
    Cancelled,
    MCPError,
    MCPRequestFailed,
    MCPTimedOut,
    SyncAgentError,
)
from .connection import (
    Caller,
    ConnectionOwner,
    ProgressReport,
    QuestionRefused,
    ServerQuestion,
)
from .messages import (
    CANCELLED,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    Message,
    RequestId,
    RPCError,
    encode_error,
    encode_result,
    is_id,
    rpc_error_of,
)

__all__ = [
    "OpenQuestion",
    "Pending",
    "PendingRequests",
    "request_failed",
]

_log = logging.getLogger("syncagent.mcp")

#: Progress reports that wait for their caller; a slow one sees only the last ones.
_PROGRESS: Final = 64
#: Questions of one server that are open at once.
_QUESTIONS: Final = 32

#: Requests of a server that a person, a model or a setting answers.
_ANSWERABLE: Final = frozenset(
    {"elicitation/create", "sampling/createMessage", "roots/list"}
)

_T = TypeVar("_T")


class OpenQuestion:
    """A question of the server that has no answer yet.

    :param token: cancelled if the server withdraws the question.
    """

    def __init__(
        self, id: RequestId, question: ServerQuestion, token: CancelToken
    ) -> None:
        self.id = id
        self.question = question
        self.token = token


class Pending:
    """One request in flight; its caller waits in :meth:`wait`."""

    def __init__(
        self, id: RequestId, method: str, caller: Caller, watch: Watch | None = None
    ) -> None:
        self.id = id
        self.method = method
        self.caller = caller
        self.response: Message | None = None
        #: Why there will be no response.
        self.failure: SyncAgentError | None = None
        self.progress: deque[ProgressReport] = deque(maxlen=_PROGRESS)
        self.questions: deque[OpenQuestion] = deque()
        #: The question that the caller is answering just now.
        self._asking: OpenQuestion | None = None
        self._watch = watch or Watch()
        #: When it was made.
        self.began: Final = clock.now()
        self._last_sign = self.began

    # -- on the reading thread -----------------------------------------------------

    def resolve(self, response: Message) -> None:
        """Take the response."""
        self.response = response
        self._end()

    def fail(self, failure: SyncAgentError) -> None:
        """End the wait: there will be no response."""
        self.failure = failure
        self._end()

    def _end(self) -> None:
        # Publish first, then look: of the two threads one ends the question.
        asking = self._asking
        if asking is not None:
            asking.token.cancel("the request is over", "remote")
        self._watch.wake()

    def note_sign(self) -> None:
        """Take note of a sign of life that is not progress."""
        self._last_sign = clock.now()

    def add_progress(self, progress: ProgressReport) -> None:
        """Take a progress report."""
        self.progress.append(progress)
        self._watch.wake()

    def add_question(self, question: OpenQuestion) -> None:
        """Have the caller answer a question of the server."""
        self.questions.append(question)
        self._watch.wake()

    # -- on the caller's thread ----------------------------------------------------

    @property
    def is_over(self) -> bool:
        """True once there is a response, or will be none."""
        return self.response is not None or self.failure is not None

    def wait(
        self,
        server: str,
        answer: Callable[[OpenQuestion], object],
        wait_for_news: Callable[[Pending, float | None], bool] | None = None,
    ) -> Any:
        """Wait for the response, and return its result.

        Cancellation: ends at once.

        :param answer: answers a question, on this thread.
        :param wait_for_news: waits in place of :meth:`wait_woken`.
        :raises Cancelled: the caller's token was cancelled before the response came.
        :raises MCPTimedOut: no response came in time.
        """
        token = self.caller.token
        while True:
            self._attend(answer)
            if self.is_over:
                return self.result(server)
            token.checkpoint()
            if wait_for_news is None:
                is_awake = self.wait_woken(self._until)
            else:
                is_awake = wait_for_news(self, self._until)
            until = self._until  # a sign of life may have moved it
            is_late = until is not None and until <= clock.now()
            if not is_awake and not token.cancelled and is_late:
                raise self.timed_out(server)

    @property
    def end(self) -> float | None:
        """The monotonic time at which the request as a whole has taken too long."""
        total = self.caller.total
        return None if total is None else self.began + total

    @property
    def _until(self) -> float | None:
        idle = self.caller.idle
        return earlier(self.end, None if idle is None else self._last_sign + idle)

    def result(self, server: str) -> Any:
        """Return the result of the response.

        :raises MCPError: it is an error, or there will be none.
        """
        if self.response is None:
            assert self.failure is not None
            raise copy(self.failure)  # other requests fail with it, too
        if self.response.error is not None:
            raise request_failed(server, self.method, rpc_error_of(self.response.error))
        return self.response.result

    def has_news(self) -> bool:
        """Return whether there is something for the caller."""
        return self.is_over or bool(self.progress) or bool(self.questions)

    def wait_woken(self, until: float | None) -> bool:
        """Wait for news that another thread brings; return whether there is any.

        Cancellation: ends at once.
        """
        return self._watch.wait(self.has_news, self.caller.token, until)

    def _attend(self, answer: Callable[[OpenQuestion], object]) -> None:
        self.pass_on_progress()
        token = self.caller.token
        while self.questions and not self.is_over and not token.cancelled:
            self._asking = asking = self.questions[0]  # publish first, then look
            try:
                if not self.is_over:
                    answer(asking)
            finally:
                self._asking = None
            # Not in the finally: finish() withdraws those whose answer was cut short.
            with suppress(ValueError):
                self.questions.remove(asking)
            self._last_sign = clock.now()  # a person's time is not the server's

    def pass_on_progress(self) -> None:
        """Pass on the progress reports that have come, to the caller."""
        for _ in range(len(self.progress)):  # not "while": a flood must not hold us
            report = self.progress.popleft()
            self._last_sign = clock.now()
            if self.caller.on_progress is not None and not self.caller.token.cancelled:
                self.caller.on_progress(report)

    def timed_out(self, server: str) -> MCPTimedOut:
        """Return the error for a request that has taken too long."""
        seconds, end = clock.now() - self.began, self.end
        if end is not None and clock.now() >= end:
            what = f"did not answer {self.method} within {seconds:.0f} s"
            advice = "raise timeouts.total, or the timeout of the call"
        else:
            what = f"gave no sign of life for {self.caller.idle:g} s in {self.method}"
            advice = "raise timeouts.idle if its work takes long"
        return MCPTimedOut(
            f"{server} {what}, and was asked to stop; its effects are unknown. If that "
            f"is expected, {advice}",
            server=server,
        )


def request_failed(server: str, method: str, error: RPCError) -> MCPRequestFailed:
    """Return the exception for the error of a response."""
    return MCPRequestFailed(
        f"{server} answered {method} with error {error.code}: {error.message:.2000}",
        server=server,
        code=error.code,
        data=error.data,
    )


class PendingRequests:
    """All requests in flight on one connection, and the questions of its server.

    :param owner: gets notifications, and answers questions of no call.
    :param reply: sends bytes to the server; it must not block for long.
    """

    def __init__(
        self, owner: ConnectionOwner, reply: Callable[[bytes], object]
    ) -> None:
        self._owner = owner
        self._reply = reply
        self._numbers = itertools.count(1)
        self._pending: dict[RequestId, Pending] = {}
        self._questions: dict[RequestId, OpenQuestion] = {}
        #: Cancelled with the connection: ends the questions of no call.
        self._token = CancelToken()
        self._closed_by: MCPError | None = None

    # -- requests ------------------------------------------------------------------

    def next_id(self) -> int:
        """Return an id that no request has had; it is also its progress token."""
        return next(self._numbers)

    def add(self, pending: Pending) -> None:
        """Register a request."""
        self._pending[pending.id] = pending  # publish first, then look
        if self._closed_by is not None:
            pending.fail(self._closed_by)

    def while_open(self, pending: Pending, work: Callable[[], _T]) -> _T:
        """Do *work* while a request is registered, and return its outcome."""
        # A signal handler may raise anywhere, also in the end: so that is there twice.
        try:
            try:
                self.add(pending)
                return work()
            finally:
                finish_despite_signals(partial(self.finish, pending))
        finally:
            self.finish(pending)

    def finish(self, pending: Pending) -> bool:
        """Forget a request; true if it was still open, and so is given up.

        Safe to repeat.
        """
        self._pending.pop(pending.id, None)  # publish first, then look
        self._withdraw_questions(pending)
        return not pending.is_over

    def _withdraw_questions(self, pending: Pending) -> None:
        """Withdraw the questions that its caller has not answered."""
        while pending.questions:
            with suppress(IndexError):  # another thread does it, too
                self.withdraw(pending.questions.popleft())

    @property
    def oldest(self) -> float | None:
        """When the oldest request in flight was made; ``None`` without one."""
        return min((one.began for one in list(self._pending.values())), default=None)

    def fail_all(self, failure: MCPError) -> None:
        """End all requests, now and later: the server is gone."""
        self._closed_by = failure
        self._token.cancel("the connection to the server is closed", "closed")
        for pending in list(self._pending.values()):
            pending.fail(failure)
        for question in list(self._questions.values()):
            self.withdraw(question)

    # -- messages of the server ----------------------------------------------------

    def receive(self, message: Message, own: Pending | None = None) -> None:
        """Take a message from the server. Called on a reading thread: never blocks.

        :param own: the request on whose stream it came, if the transport tells.
        """
        if message.is_request:
            self._receive_request(message, own)
        elif message.is_notification:
            self._receive_notification(message, own)
        elif message.is_response:
            self._receive_response(message, own)
        else:
            _log.debug("%s sent a message without meaning", self._owner.name)

    def _receive_response(self, message: Message, own: Pending | None) -> None:
        pending = _look_up(self._pending, message.id)
        if pending is None and own is not None and not is_id(message.id):
            pending = own
        if pending is not None:
            pending.resolve(message)
        else:  # of a request that was given up, mostly
            _log.debug(
                "%s answered %.80r, which no one waits for",
                *(self._owner.name, message.id),
            )

    def _receive_notification(self, message: Message, own: Pending | None) -> None:
        params = message.arguments
        if message.method == "notifications/progress":
            pending = _look_up(self._pending, params.get("progressToken"))
            report = _progress_of(params)
            if pending is not None and report is not None:
                pending.add_progress(report)
        elif message.method == CANCELLED:
            question = _look_up(self._questions, params.get("requestId"))
            if question is not None:
                self.withdraw(question)
            else:
                self._owner.notified(message.method, params)
        else:
            self._owner.notified(message.method, params)

    def _receive_request(self, message: Message, own: Pending | None) -> None:
        if message.method == "ping":
            self._reply(encode_result(message.id, {}))
            return
        if message.method not in _ANSWERABLE:
            error = RPCError(METHOD_NOT_FOUND, f"no method {message.method:.80}")
            self._reply(encode_error(message.id, error))
            return
        if len(self._questions) >= _QUESTIONS:
            error = RPCError(INTERNAL_ERROR, "too many questions are open")
            self._reply(encode_error(message.id, error))
            return
        question = ServerQuestion(message.method, message.arguments)
        pending = own if own is not None else self._only_call()
        if pending is not None and pending.caller.answer is not None:
            token = pending.caller.token.child()
            opened = OpenQuestion(message.id, question, token)
            self._questions[message.id] = opened
            pending.add_question(opened)  # publish first, then look
            if pending.id not in self._pending:  # its caller is gone
                self._withdraw_questions(pending)
        else:
            opened = OpenQuestion(message.id, question, self._token.child())
            self._questions[message.id] = opened
            thread = threading.Thread(
                target=self._answer_for_no_call,
                args=(opened,),
                name=f"syncagent-mcp-question-{self._owner.name}",
                daemon=True,
            )
            try:
                thread.start()
            except RuntimeError as error:  # the system has no more threads
                self._questions.pop(message.id, None)
                refusal = RPCError(INTERNAL_ERROR, f"not now: {error}")
                self._reply(encode_error(message.id, refusal))

    def _only_call(self) -> Pending | None:
        """Return the request that a question must belong to, if there is only one.

        On a shared channel a question does not say which request it is about.
        """
        calls = [
            pending
            for pending in list(self._pending.values())
            if pending.caller.answer is not None
        ]
        return calls[0] if len(calls) == 1 else None

    # -- answers -------------------------------------------------------------------

    def withdraw(self, question: OpenQuestion) -> None:
        """Forget a question: no answer is sent, and no one is asked any longer."""
        self._questions.pop(question.id, None)
        question.token.cancel("the server no longer asks", "remote")

    def answer(self, pending: Pending, opened: OpenQuestion) -> None:
        """Answer a question on the thread of the request it belongs to."""
        assert pending.caller.answer is not None
        self._send_answer(opened, pending.caller.answer, pending.caller.token)

    def _answer_for_no_call(self, opened: OpenQuestion) -> None:
        try:
            self._send_answer(opened, self._owner.answer, self._token)
        except Cancelled:
            pass
        except BaseException:
            _log.exception("%s: a question failed", self._owner.name)

    def _send_answer(
        self,
        opened: OpenQuestion,
        answer: Callable[[ServerQuestion, CancelToken], Any],
        outer: CancelToken,
    ) -> None:
        """Ask, and send the answer unless the question was withdrawn.

        :param outer: the token around the question's own.
        """
        try:
            data = encode_result(opened.id, answer(opened.question, opened.token))
        except QuestionRefused as refused:
            data = encode_error(opened.id, RPCError(refused.code, refused.message))
        except Cancelled:
            self._questions.pop(opened.id, None)
            if outer.cancelled or not opened.token.cancelled:
                raise
            return  # the server has withdrawn it, or its request is over
        except Exception as error:
            _log.warning("%s: a question failed: %s", self._owner.name, error)
            data = encode_error(opened.id, RPCError(INTERNAL_ERROR, "no answer"))
        except BaseException:  # the run is parked, or a signal handler has raised
            self._questions.pop(opened.id, None)
            raise
        if self._questions.pop(opened.id, None) is not None:
            self._reply(data)


def _look_up(table: dict[RequestId, Any], key: Any, default: Any = None) -> Any:
    """Return the entry of *key*, whatever the server has sent as one."""
    return table.get(key, default) if is_id(key) else default


def _progress_of(params: dict[str, Any]) -> ProgressReport | None:
    def number(name: str) -> float | None:
        value = params.get(name)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        try:
            return float(value) if is_number and value is not None else None
        except OverflowError:
            return None

    done, text = number("progress"), params.get("message")
    if done is None:
        return None
    return ProgressReport(
        done, number("total"), text if isinstance(text, str) else None
    )
