"""One call of a tool, from the model's request to the result."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from .._context import call_in_context
from .._context import run_id as current_run_id
from ..cancel import CancelToken, clock
from ..cancel.handler_errors import raised_by_installed_handler
from ..events import ToolFinished, ToolStarted
from ..exceptions import AuthenticationFailed, Cancelled, ToolError
from ..messages import Outcome, ResultBlock, Text, ToolCall, ToolOutcome, ToolResult
from .call_stop import CallStop
from .context import Asked, RunServices, ToolContext
from .results import RESULT_LIMIT, content_of, cut, error_text
from .tool import AnyTool

__all__ = ["Ending", "Invocation", "SavedAnswer"]

#: The answer of a user that a tool gets when it is called again: a text, the values of
#: a form, false for a no to a form, or ``None`` for no answer.
SavedAnswer = str | dict[str, Any] | bool | None

#: The results of calls that did not run to their end, as the model sees them.
NOT_STARTED: Final = "Interrupted: this call was not started."
_INTERRUPTED: Final = (
    "Interrupted: this call was stopped while it ran; its effects are unknown."
)
_ABANDONED: Final = (
    "Interrupted: this call was still running when it was left behind; its effects "
    "are unknown."
)
#: How far a call had come that was cancelled alone.
_RAN: Final = " while it ran; its effects are unknown"
_LEFT: Final = (
    ", and it was still running when it was left behind; its effects are unknown"
)


class Ending(msgspec.Struct, frozen=True):
    """How a call ended."""

    outcome: Outcome
    #: The result that the model gets.
    content: tuple[ResultBlock, ...]
    #: The error message, or an empty string.
    error: str = ""
    timed_out: bool = False
    #: The exception that ends the run, until it is raised.
    errors: list[BaseException] = []
    #: True if the tool reports that its credentials were rejected.
    is_locked_out: bool = False
    #: The question for the user that the tool stopped at; it is called again with the
    #: answer.
    asked: Asked | None = None

    def take_error(self) -> BaseException | None:
        """Return the exception that ends the run, once.

        Its traceback has the frames that hold this object: they would be a cycle.
        """
        return self.errors.pop() if self.errors else None

    @classmethod
    def with_message(
        cls,
        outcome: Outcome,
        message: str,
        *,
        error: str | None = None,
        timed_out: bool = False,
        errors: Sequence[BaseException] = (),
        is_locked_out: bool = False,
    ) -> Ending:
        """Return an ending whose result is *message*, which is also its error."""
        return cls(
            outcome,
            (Text(message),),
            message if error is None else error,
            timed_out=timed_out,
            errors=[*errors],
            is_locked_out=is_locked_out,
        )


#: The endings of calls for which none was noted.
_NOT_STARTED: Final = Ending("not_started", (Text(NOT_STARTED),))
_STOPPED: Final = Ending.with_message("interrupted", _INTERRUPTED)


class Invocation:
    """One call and its outcome.

    It belongs to the run's thread. The tool's own thread, if it has one, only reads it.
    """

    def __init__(self, call: ToolCall, key: str = "") -> None:
        self.call = call
        self.key = key
        self.tool: AnyTool | None = None
        #: The arguments as the tool gets them, and as the model wrote them.
        self.bound: tuple[list[Any], dict[str, Any]] = ([], {})
        self.arguments: dict[str, Any] = {}
        #: True once the hooks have seen it, and once it is approved.
        self.is_seen = False
        self.is_approved = False
        #: How often an approval has changed the arguments.
        self.changes = 0
        self.credentials: Any = None
        #: The open question to the user; the earlier ones, with their answers.
        self.question: str | None = None
        #: The JSON schema of the answer to the open question, if it is a form.
        self.form: dict[str, Any] | None = None
        #: None: the user did not answer. False: the user said no to a form.
        self.answers: list[tuple[str, SavedAnswer]] = []
        #: How often the tool has stopped to ask. More than the number of answers if it
        #: asked something else in a later attempt.
        self.times_asked = 0
        self.ending: Ending | None = None
        #: The ending of the previous attempt.
        self._previous: Ending | None = None
        self.began: float | None = None
        self.seconds = 0.0
        #: True once the tool itself was called.
        self.is_started = False
        #: True once its :class:`ToolFinished` event exists.
        self.is_announced = False
        #: Stops this call alone, while it is in an executor.
        self.stop: CallStop | None = None
        #: True if it was loaded, and was cancelled alone before.
        self.was_stopped = False

    # -- before it runs ------------------------------------------------------------

    def bind(self, arguments: dict[str, Any]) -> None:
        """Set the arguments.

        :raises ValueError: they do not fit; the message is for the model.
        """
        assert self.tool is not None
        self.bound = self.tool.signature.bind(arguments)
        self.arguments = arguments

    def end(self, ending: Ending) -> None:
        """Note how it ended; a call that only asks a question stays open."""
        if ending.asked is not None and self.is_stopped:
            ending = Ending.with_message("interrupted", self._stop_notice(_RAN))
        if ending.asked is not None:
            self.question, self.form = ending.asked.question, ending.asked.form
            self.times_asked += 1
            del self.answers[ending.asked.number :]
            self.began = None  # it begins again with the answer
            return
        if ending.outcome == "not_started" and self._previous is not None:
            ending = self._previous  # the first attempt did run
        self.ending = ending
        if self.began is not None:
            self.seconds = clock.now() - self.began

    def refuse(self, message: str, outcome: Outcome = "failed") -> None:
        """Note that it will not run; *message* is for the model."""
        self.end(Ending.with_message(outcome, message))

    def replace(self, value: Any) -> None:
        """Use *value* as the result of the tool.

        :raises ToolError: it cannot be represented in JSON.
        """
        self.end(Ending("done", self._content(value)))

    def add_answer(self, answer: SavedAnswer) -> None:
        """Note the user's answer, ``None`` for no answer; the tool is called again."""
        assert self.question is not None
        self.answers.append((self.question, answer))
        self.question = self.form = None

    def begin_again(self) -> None:
        """Reopen the call for another attempt."""
        self._previous, self.ending = self.ending, None

    @property
    def is_waiting(self) -> bool:
        """True if it asked something, and is called again with the answer."""
        return self.is_open and self.began is None and self.times_asked > 0

    @property
    def can_reopen(self) -> bool:
        """True if it was never made, or was interrupted and may be made twice."""
        ending = self._current_ending
        if self.is_stopped:  # the user did not want this call
            return False
        if self.is_waiting or ending.timed_out:
            return self.is_waiting
        if ending.outcome in ("interrupted", "abandoned"):
            # Or it was loaded, open, and its tool is not known yet.
            is_loaded = self.is_open and not self.is_started
            return is_loaded or (self.tool is not None and self.tool.idempotent)
        return ending.outcome == "not_started"

    def reopen(self, *, keep_approval: bool) -> None:
        """Reopen the call if it can be, else keep its ending. Safe to repeat."""
        ending = self._current_ending
        if not self.can_reopen:
            self.ending = ending
            return
        if ending.outcome == "not_started":
            self.ending, self.is_started = None, False
        elif not self.is_waiting and (self.ending is not None or self.is_started):
            self.ending = ending
            self.begin_again()
        self.began = None
        self.is_announced = False
        self.is_approved = self.is_approved and keep_approval

    @property
    def is_stopped(self) -> bool:
        """True once this call alone was cancelled, before it had ended."""
        if self.was_stopped:
            return True
        return self.stop is not None and self.stop.cause is not None

    def end_stopped(self) -> None:
        """Note that a cancel of this call came before the tool was called (again)."""
        outcome: Outcome = "interrupted" if self._has_run else "not_started"
        what = _RAN if self._has_run else ""
        self.question = self.form = None
        self.end(Ending.with_message(outcome, self._stop_notice(what)))

    @property
    def is_open(self) -> bool:
        """True until it has ended or was refused."""
        return self.ending is None

    @property
    def has_begun(self) -> bool:
        """True once the tool may have been called, in this process or before."""
        return self.began is not None or self._previous is not None

    # -- while it runs -------------------------------------------------------------

    def perform(self, services: RunServices, token: CancelToken) -> Ending:
        """Call the tool on this thread, and return how it ended. Never raises.

        :param token: stops the tool.
        """
        assert self.tool is not None
        previous_run_id, thread = current_run_id.get(), threading.get_ident()
        watch = services.watch
        try:
            current_run_id.set(services.run_id)
            services.helpers.add(thread)
            if watch is not None:
                watch(self, is_over=False)
            with self.context(services, token) as context:
                # The last check: after this line the tool counts as started.
                if token.cancelled:
                    return self._unstarted(token)
                self.is_started = True
                value = self._call(self.tool, context, services)
            try:
                return Ending("done", self._content(value))
            except ToolError as error:  # the tool ran to its end: never a cancel
                return Ending.with_message("failed", error_text(error))
        except Asked as asked:
            return Ending("interrupted", _STOPPED.content, asked=asked)
        except BaseException as error:
            return self._ending(error, token)
        finally:
            services.helpers.discard(thread)
            current_run_id.set(previous_run_id)
            if watch is not None:
                watch(self, is_over=True)

    def _content(self, value: Any) -> tuple[ResultBlock, ...]:
        assert self.tool is not None
        return content_of(value, self.tool.result_limit)

    def context(
        self, services: RunServices, token: CancelToken, *, may_ask: bool = True
    ) -> ToolContext:
        """Return the context that the tool gets."""
        assert self.tool is not None
        return ToolContext(
            services,
            token,
            call_id=self.call.call_id,
            tool_name=self.tool.name,
            idempotency_key=self.key,
            grace=self.tool.grace,
            credentials=self.credentials,
            invocation=self,
            answers=self.answers if may_ask else None,
        )

    def _call(self, tool: AnyTool, context: ToolContext, services: RunServices) -> Any:
        args, kwargs = self.bound
        if tool.runs_in_process:
            from .processes.call import call_in_process

            return call_in_process(tool, args, kwargs, context, context.forced)
        name = tool.signature.context_name
        if name == "":
            args = [context, *args]
        elif name is not None:
            kwargs = {**kwargs, name: context}
        return call_in_context(tool.function, *args, **kwargs)

    def _ending(self, error: BaseException, token: CancelToken) -> Ending:
        """Return the ending for an exception: by the token first, never by its type."""
        message = error_text(error)
        if isinstance(error, MemoryError):
            return Ending.with_message("failed", message, errors=[error])
        is_usual = isinstance(error, (Exception, Cancelled))
        if not is_usual or raised_by_installed_handler(error):  # Ctrl+C, or a watchdog
            return Ending.with_message(
                "interrupted", _INTERRUPTED, error=message, errors=[error]
            )
        if not token.cancelled:
            is_locked_out = isinstance(error, AuthenticationFailed)
            return Ending.with_message("failed", message, is_locked_out=is_locked_out)
        if getattr(error, "started", True) is False:  # the worker never got the call
            return self._unstarted(token)
        # The deadline is the tool's own: that of the run has origin "parent".
        timed_out = token.origin == "deadline"
        notice = (
            self._timeout_notice("was stopped")
            if timed_out
            else self._stop_notice(_RAN)
            if self.is_stopped
            else _INTERRUPTED
        )
        content = notice
        partial = getattr(error, "partial", None)  # the output of a process
        parts = (getattr(partial, "stdout", ""), getattr(partial, "stderr", ""))
        output = "\n".join(part.strip() for part in parts if part and part.strip())
        if output:
            limit = self.tool.result_limit if self.tool else RESULT_LIMIT
            content = f"{notice}\nOutput until then:\n{cut(output, limit)}"
        return Ending.with_message(
            "interrupted",
            content,
            error=notice if isinstance(error, Cancelled) else message,
            timed_out=timed_out,
        )

    def _unstarted(self, token: CancelToken) -> Ending:
        if token.origin != "deadline":
            if self.is_stopped:
                return Ending.with_message("not_started", self._stop_notice(""))
            return _NOT_STARTED
        notice = self._timeout_notice("was not started", has_effects=False)
        return Ending.with_message("not_started", notice, timed_out=True)

    def leave(self, *, timed_out: bool = False) -> None:
        """Note that it is left behind, still running."""
        notice = (
            self._timeout_notice("is still running, and was left behind")
            if timed_out
            else self._stop_notice(_LEFT)
            if self.is_stopped
            else _ABANDONED
        )
        self.end(Ending.with_message("abandoned", notice, timed_out=timed_out))

    def lose(self) -> None:
        """Note that it has ended in an unknown way."""
        self.end(Ending.with_message("interrupted", _INTERRUPTED))

    def _timeout_notice(self, what: str, *, has_effects: bool = True) -> str:
        assert self.tool is not None
        effects = "; its effects are unknown" if has_effects else ""
        return f"Timed out after {self.tool.timeout:g} s: this call {what}{effects}."

    def _stop_notice(self, what: str) -> str:
        """Return the result of a call that was cancelled alone.

        :param what: what is known of it; empty if the tool was not called.
        """
        assert self.stop is not None
        assert self.stop.cause is not None
        reason, origin, _ = self.stop.cause
        who = "the user" if origin == "user" else "another tool"
        notice = f"Interrupted: {who} stopped this call{what or ' before it started'}."
        return f"{notice} The reason: {reason}" if reason else notice

    # -- afterwards ----------------------------------------------------------------

    @property
    def _has_run(self) -> bool:
        """True once the tool was called, in this process or before."""
        return bool(self.is_started or self.answers or self.question is not None)

    @property
    def _current_ending(self) -> Ending:
        return self.ending or (
            _STOPPED if self._has_run else self._previous or _NOT_STARTED
        )

    @property
    def outcome(self) -> Outcome:
        """Its outcome; that of an open call if the run ended now."""
        return self._current_ending.outcome

    @property
    def has_timed_out(self) -> bool:
        """True if its timeout stopped it."""
        ending = self.ending
        return (
            ending is not None and ending.outcome == "interrupted" and ending.timed_out
        )

    @property
    def locked_out_by(self) -> str | None:
        """The provider that rejected its credentials, if the tool reported that."""
        is_locked_out = self.ending is not None and self.ending.is_locked_out
        return self.tool.requires_auth if is_locked_out and self.tool else None

    @property
    def result(self) -> ToolResult:
        """The result that the model gets."""
        ending = self._current_ending
        is_error = ending.outcome != "done"
        return ToolResult(
            self.call.call_id, ending.content, is_error, name=self.call.name
        )

    def report(self) -> ToolOutcome:
        """Return its outcome for the result of the run."""
        ending = self._current_ending
        return ToolOutcome(
            *(self.call.call_id, self.call.name, ending.outcome),
            *(self.seconds, ending.error, ending.timed_out),
            cancelled=self.is_stopped,
        )

    def started(self) -> ToolStarted:
        """Return the event for its start."""
        self.began = clock.now()
        return ToolStarted(self.call.call_id, self.call.name, self.arguments)

    def finished(self) -> ToolFinished:
        """Return the event for its end; after this it is announced."""
        self.is_announced = True
        if self.stop is not None:
            self.stop.close(self.outcome)
        return ToolFinished(
            self.call.call_id, self.outcome, self.call.name, self.result
        )
