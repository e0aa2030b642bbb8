"""One call of a tool, from the model's wish to the result."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from .._context import call_in_context
from .._context import run_id as current_run_id
from ..cancel import CancelToken, clock
from ..events import ToolFinished, ToolStarted
from ..exceptions import AuthenticationFailed, Cancelled, ToolError
from ..messages import Outcome, ResultBlock, Text, ToolCall, ToolOutcome, ToolResult
from .context import Asked, ToolContext
from .results import RESULT_LIMIT, content_of, cut, words_for
from .tool import AnyTool

__all__ = ["Ending", "Host", "Invocation"]

#: What the model is told about a call that nobody will make.
NOT_STARTED: Final = "Interrupted: this call was not started."
_INTERRUPTED: Final = (
    "Interrupted: this call was stopped while it ran; its effects are unknown."
)
_ABANDONED: Final = (
    "Interrupted: this call was still running when it was left behind; its effects "
    "are unknown."
)


class Host:
    """What a run lends to its tools.

    :param helpers: where threads that work for the run are noted.
    :param emit: takes what a tool says about its progress, on any thread.
    :param ask: asks the user, if there is one.
    :param run_agent: runs a sub-agent.
    :param watch: told, on the tool's thread, that a call begins or has ended.
    """

    def __init__(
        self,
        run_id: str,
        forced: CancelToken,
        *,
        helpers: set[int],
        emit: Callable[[Invocation, Any], None],
        ask: Callable[[Invocation, CancelToken, str], str] | None = None,
        run_agent: Callable[..., Any] | None = None,
        watch: Callable[..., object] | None = None,
    ) -> None:
        self.run_id = run_id
        self.watch = watch
        self.forced = forced
        self.helpers = helpers
        self.emit = emit
        self.ask = ask
        self.run_agent = run_agent


class Ending(msgspec.Struct, frozen=True):
    """What became of a call."""

    outcome: Outcome
    #: What the model is told.
    content: tuple[ResultBlock, ...]
    #: What went wrong, if something did.
    error: str = ""
    timed_out: bool = False
    #: What goes up out of the run.
    raised: BaseException | None = None
    #: Does the tool say that its credentials are of no use?
    is_locked_out: bool = False
    #: What it asks the user, if that is why it has ended: it is made again with the
    #: answer.
    asked: Asked | None = None

    @classmethod
    def badly(cls, outcome: Outcome, words: str, **more: Any) -> Ending:
        """Return one that *words* say enough about."""
        return cls(outcome, (Text(words),), more.pop("error", words), **more)


#: What became of a call if nothing did.
_NOT_STARTED: Final = Ending("not_started", (Text(NOT_STARTED),))
_STOPPED: Final = Ending.badly("interrupted", _INTERRUPTED)


class Invocation:
    """One call, and what became of it.

    It belongs to the run's thread. Another one, on which the tool runs, only reads it.
    """

    def __init__(self, call: ToolCall, key: str = "") -> None:
        self.call = call
        self.key = key
        self.tool: AnyTool | None = None
        #: As the tool will get them, and as they came.
        self.bound: tuple[list[Any], dict[str, Any]] = ([], {})
        self.arguments: dict[str, Any] = {}
        #: Have hooks looked at it, and has somebody approved of it?
        self.is_seen = False
        self.is_approved = False
        self.credentials: Any = None
        #: What it asks the user, and what it has asked before, with the answers.
        self.question: str | None = None
        self.said: list[tuple[str, str | None]] = []
        #: How often it has asked; one that asks something else has forgotten the rest.
        self.times_asked = 0
        self.ending: Ending | None = None
        #: What had become of it when it was to be made again.
        self._before: Ending | None = None
        self.began: float | None = None
        self.seconds = 0.0
        #: Was it told to whoever follows the run?
        self.is_announced = False

    # -- before it runs ------------------------------------------------------------

    def bind(self, arguments: dict[str, Any]) -> None:
        """Have it called with *arguments*.

        :raises ValueError: they do not fit; the message is for the model.
        """
        assert self.tool is not None
        self.bound = self.tool.signature.bind(arguments)
        self.arguments = arguments

    def end(self, ending: Ending) -> None:
        """Note what became of it; if it only asks something, it is still open."""
        if ending.asked is not None:
            self.question = ending.asked.question
            self.times_asked += 1
            del self.said[ending.asked.number :]
            self.began = None  # it begins when that is answered
            return
        if ending.outcome == "not_started" and self._before is not None:
            ending = self._before  # it did run, if not again
        self.ending = ending
        if self.began is not None:
            self.seconds = clock.now() - self.began

    def refuse(self, words: str, outcome: Outcome = "failed") -> None:
        """Note that it will not run, and why."""
        self.end(Ending.badly(outcome, words))

    def replace(self, value: Any) -> None:
        """Note what is used in place of what the tool returns.

        :raises ToolError: it cannot be said in JSON.
        """
        self.end(Ending("done", self._content(value)))

    def hear(self, answer: str | None) -> None:
        """Note what the user has answered, if anything: it is made again with that."""
        assert self.question is not None
        self.said.append((self.question, answer))
        self.question = None

    def begin_again(self) -> None:
        """Have it made again."""
        self._before, self.ending = self.ending, None

    @property
    def is_open(self) -> bool:
        """Is it still to be decided what becomes of it?"""
        return self.ending is None

    # -- while it runs -------------------------------------------------------------

    def perform(self, host: Host, token: CancelToken) -> Ending:
        """Call the tool on this thread, and return what comes of it. Never raises.

        :param token: what the tool is to be stopped by.
        """
        assert self.tool is not None
        before, here = current_run_id.get(), threading.get_ident()
        try:
            current_run_id.set(host.run_id)
            host.helpers.add(here)
            if host.watch is not None:
                host.watch(self, is_over=False)
            with self.context(host, token) as context:
                # The last moment: from here on the tool has begun.
                if token.cancelled:
                    return self._not_begun(token)
                value = self._call(self.tool, context, host)
            try:
                return Ending("done", self._content(value))
            except ToolError as error:  # it has run to its end, so this is no cancel
                return Ending.badly("failed", words_for(error))
        except Asked as asked:
            return Ending("interrupted", _STOPPED.content, asked=asked)
        except BaseException as error:
            return self._ending(error, token)
        finally:
            host.helpers.discard(here)
            current_run_id.set(before)
            if host.watch is not None:
                host.watch(self, is_over=True)

    def _content(self, value: Any) -> tuple[ResultBlock, ...]:
        assert self.tool is not None
        return content_of(value, self.tool.result_limit)

    def context(
        self, host: Host, token: CancelToken, *, may_ask: bool = True
    ) -> ToolContext:
        """Return what the tool gets to know."""
        assert self.tool is not None
        ask: Callable[[str], str] | None = None
        if may_ask:
            further = None if host.ask is None else partial(host.ask, self, token)
            ask = self._replay(further)
        return ToolContext(
            token=token,
            forced=host.forced,
            run_id=host.run_id,
            call_id=self.call.call_id,
            tool_name=self.tool.name,
            idempotency_key=self.key,
            grace=self.tool.grace,
            emit=lambda value: host.emit(self, value) if self.is_open else None,
            ask=ask,
            run_agent=host.run_agent,
            credentials=self.credentials,
        )

    def _replay(self, further: Callable[[str], str] | None) -> Callable[[str], str]:
        """Return what answers what was answered before, and asks for the rest.

        :param further: waits for an answer to what is new, if somebody can give it now.
        """
        number = 0

        def ask(question: str) -> str:
            nonlocal number
            known, answer = self.said[number] if number < len(self.said) else ("", "")
            if known != question:  # it is new, or differs from what it asked before
                if further is None:
                    raise Asked(question, number)
                number = len(self.said)  # what it knows of is for other questions
                return further(question)
            number += 1
            if answer is None:
                raise ToolError("nobody has answered")
            return answer

        return ask

    def _call(self, tool: AnyTool, context: ToolContext, host: Host) -> Any:
        args, kwargs = self.bound
        if tool.runs_in_process:
            from .processes.call import call_in_process

            return call_in_process(tool, args, kwargs, context, host.forced)
        name = tool.signature.context_name
        if name is not None:
            kwargs = {**kwargs, name: context}
        return call_in_context(tool.function, *args, **kwargs)

    def _ending(self, error: BaseException, token: CancelToken) -> Ending:
        """Say what an exception means: by the token first, never by its type."""
        words = words_for(error)
        is_usual = isinstance(error, (Exception, Cancelled))
        if isinstance(error, MemoryError):
            return Ending.badly("failed", words, raised=error)
        if not is_usual:  # a Ctrl+C, an exit: it was stopped while it ran
            told = _INTERRUPTED
            return Ending.badly("interrupted", told, error=words, raised=error)
        if not token.cancelled:
            is_locked_out = isinstance(error, AuthenticationFailed)
            return Ending.badly("failed", words, is_locked_out=is_locked_out)
        if getattr(error, "started", True) is False:  # of a worker: nothing was sent
            return self._not_begun(token)
        # A deadline is its own: the run's comes as the parent's.
        timed_out = token.origin == "deadline"
        told = self._timed_out("this call was stopped") if timed_out else _INTERRUPTED
        said = _partial(error, self.tool.result_limit if self.tool else RESULT_LIMIT)
        return Ending.badly(
            "interrupted",
            f"{told}\n{said}" if said else told,
            error=told if isinstance(error, Cancelled) else words,
            timed_out=timed_out,
        )

    def _not_begun(self, token: CancelToken) -> Ending:
        if token.origin != "deadline":
            return _NOT_STARTED
        words = self._timed_out("this call was not started", "")
        return Ending.badly("not_started", words, timed_out=True)

    def leave(self, *, timed_out: bool = False) -> None:
        """Note that it is still running, and nobody waits for it any more."""
        still = "this call is still running, and was left behind"
        words = self._timed_out(still) if timed_out else _ABANDONED
        self.end(Ending.badly("abandoned", words, timed_out=timed_out))

    def lose(self) -> None:
        """Note that it has ended, and nobody knows how."""
        self.end(Ending.badly("interrupted", _INTERRUPTED))

    def _timed_out(self, what: str, rest: str = "; its effects are unknown") -> str:
        assert self.tool is not None
        return f"Timed out after {self.tool.timeout:g} s: {what}{rest}."

    # -- afterwards ----------------------------------------------------------------

    @property
    def _as_it_is(self) -> Ending:
        has_begun = self.said or self.question is not None
        return self.ending or (_STOPPED if has_begun else _NOT_STARTED)

    @property
    def outcome(self) -> Outcome:
        """What became of it, in a word."""
        return self._as_it_is.outcome

    @property
    def has_timed_out(self) -> bool:
        """Was it stopped because it took too long?"""
        ending = self.ending
        is_over = ending is not None and ending.outcome == "interrupted"
        return is_over and ending is not None and ending.timed_out

    @property
    def locked_out_by(self) -> str | None:
        """Whose credentials are of no use, if the tool says so."""
        is_locked_out = self.ending is not None and self.ending.is_locked_out
        return self.tool.requires_auth if is_locked_out and self.tool else None

    @property
    def result(self) -> ToolResult:
        """What the model is told."""
        ending = self._as_it_is
        is_error = ending.outcome != "done"
        return ToolResult(
            self.call.call_id, ending.content, is_error, name=self.call.name
        )

    def report(self) -> ToolOutcome:
        """Return what became of it."""
        ending = self._as_it_is
        return ToolOutcome(
            *(self.call.call_id, self.call.name, ending.outcome),
            *(self.seconds, ending.error, ending.timed_out),
        )

    def started(self) -> ToolStarted:
        """Return the event for its begin."""
        self.began = clock.now()
        return ToolStarted(self.call.call_id, self.call.name, self.arguments)

    def finished(self) -> ToolFinished:
        """Return the event for its end, which is then announced."""
        self.is_announced = True
        return ToolFinished(
            self.call.call_id, self.outcome, self.call.name, self.result
        )


def _partial(error: BaseException, limit: int) -> str:
    """Return what a process had said when it was stopped."""
    partial = getattr(error, "partial", None)
    parts = (getattr(partial, "stdout", ""), getattr(partial, "stderr", ""))
    said = "\n".join(part.strip() for part in parts if part and part.strip())
    return f"What it had said until then:\n{cut(said, limit)}" if said else ""
