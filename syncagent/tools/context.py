"""The context of a tool call: how a tool stops in time and talks to its run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from .._closeable import Closeable
from .._deps import Deps
from ..cancel import CancelToken, Registration
from ..cancel.reason import Cause, make_cause
from ..exceptions import Cancelled, ConfigurationError, Declined, ToolError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._arguments import SubAgentArguments
    from ..agent import Agent
    from ..messages import Prompt
    from ..result import RunResult
    from ..schemas.forms import Form
    from ..transport import CancellableSession
    from .call_stop import CallReceipt
    from .processes.program import ProcessResult

__all__ = ["Asked", "RunServices", "ToolContext"]

_T = TypeVar("_T")


class Asked(BaseException):
    """Unwind a tool whose question cannot be answered in place.

    The tool is called again with the answer. A :class:`BaseException`, so that
    ``except Exception`` in the tool does not swallow the question.

    :param number: how many earlier questions of the tool were answered.
    """

    def __init__(
        self, question: str, number: int, form: dict[str, Any] | None = None
    ) -> None:
        super().__init__(question, number, form)
        self.question = question
        self.number = number
        #: The JSON schema of the answer, if it is a form.
        self.form = form


class RunServices(Protocol):
    """The services of a run for its tools, which may be on any thread.

    The methods are given the invocation they are for; in a worker process that is
    ``None``.
    """

    @property
    def run_id(self) -> str:
        """The id of the run."""

    @property
    def forced(self) -> CancelToken:
        """Cancelled by ``cancel(force=True)``."""

    @property
    def helpers(self) -> set[int]:
        """The ids of the threads that work for the run."""

    @property
    def deps(self) -> Any:
        """The ``deps=`` of the run."""

    @property
    def metadata(self) -> dict[str, Any]:
        """The ``metadata=`` of the run."""

    @property
    def can_ask(self) -> bool:
        """True if a tool can wait for an answer in place."""

    @property
    def watch(self) -> Callable[..., object] | None:
        """Called on the tool's thread when a call starts and when it has ended."""

    def report_progress(self, invocation: Any, value: Any) -> None:
        """Pass on a progress report; drop it if the call has ended."""

    def ask(
        self,
        invocation: Any,
        token: CancelToken,
        question: str,
        form: dict[str, Any] | None,
    ) -> Any:
        """Ask the user, and wait for the answer."""

    def cancel_call(
        self, call_id: str | Sequence[str], cause: Cause, *, force: bool
    ) -> CallReceipt:
        """Stop one call of the round. As safe as a cancel of the run."""

    def run_agent(
        self, context: ToolContext, agent: Any, prompt: Any, options: dict[str, Any]
    ) -> Any:
        """Run a sub-agent, and return its result."""


class ToolContext(Closeable, Generic[Deps]):
    """The run as a tool sees it; a parameter with this type is filled in.

    The model does not see that parameter. Every wait in this class ends with the run by
    raising :exc:`~syncagent.exceptions.Cancelled`. A tool that does not catch it ends
    with the run, and its outcome is ``interrupted``.

    ``ToolContext[Tenant]`` says of which type :attr:`deps` is.
    """

    def __init__(
        self,
        services: RunServices,
        token: CancelToken,
        *,
        call_id: str,
        tool_name: str,
        idempotency_key: str,
        grace: float,
        credentials: Any = None,
        invocation: Any = None,
        answers: Sequence[tuple[str, Any]] | None = None,
    ) -> None:
        #: Cancelled with the run, or when the tool's timeout has passed.
        self.token = token
        self.run_id = services.run_id
        self.call_id = call_id
        self.tool_name = tool_name
        #: The same when this call is made again, after a retry or a restart, and never
        #: that of another call. Short, and safe in a header.
        self.idempotency_key = idempotency_key
        #: The credentials that ``requires_auth`` asked for.
        self.credentials = credentials
        self._grace = grace
        self._services = services
        #: The call; ``None`` in a worker process.
        self.invocation = invocation
        # Questions answered in earlier attempts of this call, with their answers, and
        # how many of them this attempt has repeated. None: the tool may not ask.
        self._answers = answers
        self._repeated = 0
        self._session: CancellableSession | None = None
        self._registrations: list[Registration] = []

    # -- what the run was given ----------------------------------------------------

    @property
    def deps(self) -> Deps:
        """The ``deps=`` of the run, else of the agent; ``None`` if there are none.

        No model and no saved state sees them. A tool in a worker process gets a copy.

        :raises ToolError: they cannot be copied to the worker process.
        """
        deps: Deps = self._services.deps
        return deps

    @property
    def metadata(self) -> dict[str, Any]:
        """The ``metadata=`` of the run."""
        return self._services.metadata

    # -- stopping in time ----------------------------------------------------------

    @property
    def cancelled(self) -> bool:
        """True if the tool should stop."""
        return self.token.cancelled

    def checkpoint(self) -> None:
        """Raise if the run is cancelled.

        :raises Cancelled: it is.
        """
        self.token.checkpoint()

    def sleep(self, seconds: float) -> None:
        """Sleep, but not through a cancel.

        Cancellation: raises :exc:`~syncagent.exceptions.Cancelled` at once.
        """
        self.token.sleep(seconds)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the run is cancelled, at most *timeout* seconds.

        Cancellation: ends the wait.

        :return: true if the run is cancelled.
        """
        return self.token.wait(timeout)

    def on_cancel(self, callback: Callable[[], object]) -> Registration:
        """Call *callback*, once, if the run is cancelled while the tool runs.

        The callback runs on another thread; it is meant for ``connection.interrupt``
        and the like. A tool that ends because of the cancel waits for it.
        """
        registration = self.token.on_cancel(callback)
        self._registrations.append(registration)
        return registration

    @property
    def forced(self) -> CancelToken:
        """Cancelled by ``force=True``, in a cancel of the run or of this call."""
        invocation, forced = self.invocation, self._services.forced
        stop = None if invocation is None else invocation.stop
        return forced if stop is None else stop.forced_by(forced)

    def cancel_call(
        self, call_id: str | Sequence[str], reason: str = "", *, force: bool = False
    ) -> CallReceipt:
        """Stop another call of the same round; see :meth:`syncagent.Agent.cancel_call`.

        :raises ToolError: in a worker process.
        """
        cause = make_cause(reason, "parent")
        return self._services.cancel_call(call_id, cause, force=force)

    # -- things that end with the run ----------------------------------------------

    def run_process(
        self,
        command: Sequence[str],
        *,
        input: str | bytes | None = None,
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        grace: float | None = None,
    ) -> ProcessResult:
        """Run a program in its own process group.

        Cancellation: the group gets SIGTERM, SIGKILL after *grace* seconds, and then
        :exc:`~syncagent.exceptions.Cancelled` is raised. The output until then is in
        the exception's ``partial``, and in the tool's result.

        :param command: the program and its arguments; no shell is involved.
        :param grace: by default the tool's own.
        """
        from .processes.program import run_process

        return run_process(
            command,
            token=self.token,
            forced=self.forced,
            grace=self._grace if grace is None else grace,
            input=input,
            cwd=cwd,
            env=env,
            timeout=timeout,
        )

    @property
    def http(self) -> CancellableSession:
        """A :mod:`requests` session whose calls end with the run."""
        if self._session is None:
            from ..transport import CancellableSession

            self._session = CancellableSession(self.token)
        return self._session

    @overload
    def agent(
        self,
        agent: Agent[Any],
        prompt: Prompt,
        *,
        output: type[_T],
        **settings: Unpack[SubAgentArguments],
    ) -> RunResult[_T]: ...

    @overload
    def agent(
        self,
        agent: Agent[Any],
        prompt: Prompt,
        *,
        output: object = None,
        **settings: Unpack[SubAgentArguments],
    ) -> RunResult[Any]: ...

    def agent(
        self,
        agent: Any,
        prompt: Prompt,
        *,
        output: Any = None,
        **settings: Unpack[SubAgentArguments],
    ) -> Any:
        """Run another agent as a part of this run, and return its result.

        Cancellation: the sub-agent ends with this run.

        :param settings: as for its ``run()``. Its usage counts towards this run. It
            gets the deps of this run unless it has its own, and the metadata.
        :raises Cancelled: this run was cancelled.
        """
        options = {"output": output, **settings}
        return self._services.run_agent(self, agent, prompt, options)

    # -- talking -------------------------------------------------------------------

    @overload
    def ask(self, question: str, *, token: CancelToken | None = None) -> str: ...

    @overload
    def ask(
        self,
        question: str,
        *,
        form: Mapping[str, Any],
        token: CancelToken | None = None,
    ) -> dict[str, Any]: ...

    @overload
    def ask(
        self,
        question: str,
        *,
        form: Mapping[str, Any] | None,
        token: CancelToken | None = None,
    ) -> Any: ...

    def ask(
        self,
        question: str,
        *,
        form: Mapping[str, Any] | None = None,
        token: CancelToken | None = None,
    ) -> Any:
        """Ask the user, and return the answer.

        With an ``ask=`` handler of the agent, or in a handle, the tool waits for the
        answer. Otherwise the run pauses without the tool, which is later called again
        and gets the answer here: code before the question runs twice.

        Any thread of the tool may ask. While the tool blocks the run's own thread, the
        events of other threads wait, and only ``handle.interrupts`` has the question;
        ``@tool(isolation="thread")`` shows it at once.

        Cancellation: ends at once.

        :param form: a flat JSON schema: an object with strings, numbers, booleans,
            choices (``enum``) and lists of choices. The answer is then a dict that fits
            it, with the defaults of the fields that were left out.
        :param token: withdraws the question if it is cancelled while the tool waits.
        :return: a text; for a form, a dict.
        :raises Declined: the user said no to the form.
        :raises ToolError: no one can be asked here, the user did not answer, or *form*
            is no form.
        :raises Cancelled: the run was cancelled, or *token*.
        """
        value: Any = question
        if not isinstance(value, str) or not value.strip():
            raise ToolError(f"ctx.ask() takes a non-empty string; got {value!r:.80}")
        fields = None if form is None else _read_form(form)
        answers = self._answers
        if answers is None:
            raise ToolError("ctx.ask() cannot be used here: there is no one to ask")
        known = answers[self._repeated] if self._repeated < len(answers) else None
        schema = None if fields is None else fields.schema
        answer: Any
        if known is not None and known[0] == question and _fits(fields, known[1]):
            self._repeated += 1
            answer = known[1]
            if answer is None:
                raise ToolError("the user did not answer")
            if answer is False:
                raise Declined("the user declined")
        elif self._services.can_ask:
            # The tool has left the path of its earlier attempt: the remaining answers
            # belong to other questions.
            self._repeated = len(answers)
            answer = self._ask_now(question, schema, token)
        else:
            raise Asked(question, self._repeated, schema)
        self.checkpoint()  # an answer after a cancel does not count
        return answer

    def _ask_now(
        self, question: str, form: dict[str, Any] | None, token: CancelToken | None
    ) -> Any:
        """Ask, and wait for the answer in place."""
        if token is None:
            return self._services.ask(self.invocation, self.token, question, form)
        either = CancelToken.any_of(self.token, token)
        try:
            answer = self._services.ask(self.invocation, either, question, form)
        except Cancelled:
            self.checkpoint()
            token.checkpoint()
            raise
        token.checkpoint()
        return answer

    def progress(self, value: Any) -> None:
        """Report progress to the subscribers of the run."""
        self._services.report_progress(self.invocation, value)

    # -- the end -------------------------------------------------------------------

    def close(self) -> None:
        """Release everything; called when the tool has ended."""
        self._answers = None
        while self._registrations:
            self._registrations.pop().finish()
        if self._session is not None:
            self._session.close()

    def __repr__(self) -> str:
        return f"<ToolContext of {self.tool_name}, call {self.call_id}>"


def _read_form(schema: Any) -> Form:
    from ..schemas.forms import Form

    try:
        return Form.of(schema)
    except ConfigurationError as error:
        raise ToolError(str(error)) from None


def _fits(form: Form | None, answer: Any) -> bool:
    """Return whether an earlier answer is one to a question with this form."""
    if answer is None:
        return True
    if form is None:
        return isinstance(answer, str)
    if answer is False:
        return True
    try:
        return isinstance(answer, dict) and bool(form.check(answer) == answer)
    except ConfigurationError:
        return False
