"""What a tool knows about the run that called it, and how it stops in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from .._closeable import Closeable
from ..cancel import CancelToken, Registration
from ..exceptions import ToolError

if TYPE_CHECKING:
    from ..transport import CancellableSession
    from .processes.program import ProcessResult

__all__ = ["Asked", "ToolContext"]


class Asked(BaseException):
    """Unwind a tool that asks what nobody can answer now.

    It is called again with the answer. A :class:`BaseException`, so that ``except
    Exception`` in the tool does not swallow the question.

    :param number: how many questions before it were answered.
    """

    def __init__(self, question: str, number: int) -> None:
        super().__init__(question, number)
        self.question = question
        self.number = number


class ToolContext(Closeable):
    """What a tool knows about its run; a parameter with this type is filled in.

    The model does not see that parameter. Everything here that waits ends with the run,
    by raising :exc:`~syncagent.exceptions.Cancelled`; a tool that lets it through ends
    with it, and counts as interrupted.
    """

    def __init__(
        self,
        *,
        token: CancelToken,
        run_id: str,
        call_id: str,
        tool_name: str,
        idempotency_key: str,
        grace: float,
        emit: Callable[[Any], None],
        ask: Callable[[str], str] | None = None,
        run_agent: Callable[..., Any] | None = None,
        forced: CancelToken | None = None,
        credentials: Any = None,
    ) -> None:
        #: Cancelled with the run, or when the tool's timeout has passed.
        self.token = token
        self.run_id = run_id
        self.call_id = call_id
        self.tool_name = tool_name
        #: The same whenever this very call is made again: after a retry or a restart.
        self.idempotency_key = idempotency_key
        #: What ``requires_auth`` has asked for.
        self.credentials = credentials
        self._grace = grace
        self._emit = emit
        self._ask = ask
        self._run_agent = run_agent
        self._forced = forced
        self._session: CancellableSession | None = None
        self._registrations: list[Registration] = []

    # -- stopping in time ----------------------------------------------------------

    @property
    def cancelled(self) -> bool:
        """Should the tool stop?"""
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

        Cancellation: this is what it waits for.

        :return: whether it was.
        """
        return self.token.wait(timeout)

    def on_cancel(self, callback: Callable[[], object]) -> Registration:
        """Have *callback* called when the run is cancelled while the tool runs.

        It runs on another thread: good for ``connection.interrupt`` and the like.
        """
        registration = self.token.on_cancel(callback)
        self._registrations.append(registration)
        return registration

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
        """Run a program, in a process group of its own.

        Cancellation: the group is told to end (SIGTERM), killed after *grace* seconds,
        and then :exc:`~syncagent.exceptions.Cancelled` is raised. What the program had
        said is in its ``partial``, and in the tool's result.

        :param command: the program and its arguments; no shell looks at them.
        :param grace: by default the tool's own.
        """
        from .processes.program import run_process

        return run_process(
            command,
            token=self.token,
            forced=self._forced,
            grace=self._grace if grace is None else grace,
            input=input,
            cwd=cwd,
            env=env,
            timeout=timeout,
        )

    @property
    def http(self) -> CancellableSession:
        """A session of :mod:`requests` whose calls end with the run."""
        if self._session is None:
            from ..transport import CancellableSession

            self._session = CancellableSession(self.token)
        return self._session

    def agent(self, agent: Any, prompt: Any, **settings: Any) -> Any:
        """Run another agent as a part of this run, and return its result.

        Cancellation: it ends with this run.

        :param settings: as for its ``run()``. What it uses counts for this run.
        :raises Cancelled: this run was cancelled meanwhile.
        """
        if self._run_agent is None:
            raise ToolError(
                f"{self.tool_name} runs in a process of its own, from which no agent "
                "can be run; leave isolation= away"
            )
        return self._run_agent(self, agent, prompt, settings)

    # -- talking -------------------------------------------------------------------

    def ask(self, question: str) -> str:
        """Ask the user, and return the answer.

        With an ``ask=`` of the agent, or in a handle, the tool waits for it. Otherwise
        the run waits for the answer without the tool, which is then called again and
        gets it here: whatever comes before the question happens twice.

        Cancellation: ends at once.

        :raises ToolError: nobody can be asked here, or nobody has answered in time.
        """
        asked: Any = question
        if not isinstance(asked, str) or not asked.strip():
            raise ToolError(f"ctx.ask() takes a question in words; got {asked!r:.80}")
        if self._ask is None:
            raise ToolError("there is nobody who could be asked")
        answer = self._ask(question)
        self.checkpoint()  # an answer that comes after a cancel is none
        return answer

    def progress(self, value: Any) -> None:
        """Tell whoever follows the run how far the tool is."""
        self._emit(value)

    # -- its end -------------------------------------------------------------------

    def close(self) -> None:
        """Let go of everything; done when the tool has ended."""
        self._ask = None  # it knows this object
        while self._registrations:
            registration = self._registrations.pop()
            registration.__exit__(None, None, None)
        if self._session is not None:
            self._session.close()

    def __repr__(self) -> str:
        return f"<ToolContext of {self.tool_name}, call {self.call_id}>"
