"""The services of a call for its tool: progress, questions, sub-agents."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from ...asking.answering import Answering, Handlers
from ...cancel import CancelToken
from ...cancel.reason import Cause
from ...exceptions import Declined, ToolError
from ...interrupts import Approval, ApprovalRequest, Question
from ...tools.call_stop import CallReceipt
from ...tools.context import ToolContext
from ...tools.results import cut
from .elicitation import elicit_approval, elicit_input
from .questions import CallQuestions
from .requests import ClientRequest, ServedClient

__all__ = ["CallServices", "ProgressReporter"]

_log = logging.getLogger("syncagent.mcp")

#: Characters of a progress message.
_LONGEST: Final = 1_000


class ProgressReporter:
    """Sends progress reports to a client that wants them; any thread may report."""

    def __init__(self, request: ClientRequest, client: ServedClient) -> None:
        self._token: Final = request.progress_token
        self._client = client
        self._lock = threading.Lock()
        #: The protocol wants numbers that grow.
        self._last = -math.inf
        self._is_open = True

    def report(self, value: Any) -> None:
        """Send *value*: a number, a mapping with ``progress``, or anything else.

        A mapping may have ``total`` and ``message``, too. Never blocks.
        """
        if self._token is None:
            return
        fields = dict(value) if isinstance(value, dict) else {"progress": value}
        number, total = _number(fields.get("progress")), _number(fields.get("total"))
        message = fields.get("message")
        if number is None and message is None:
            message = value
        with self._lock:
            if not self._is_open:
                return
            if number is None or number <= self._last:
                number = max(self._last, 0.0) + 1
            self._last = number
        params: dict[str, Any] = {"progressToken": self._token, "progress": number}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = cut(str(message), _LONGEST)
        self._client.notify("notifications/progress", params)

    def close(self) -> None:
        """Drop later reports: the call has ended."""
        with self._lock:
            self._is_open = False


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number and math.isfinite(value) else None


class CallServices:
    """The services of a call outside of a run.

    Implements :class:`~syncagent.tools.executor.ExecutorServices`.

    :param forced: cancelled when the server no longer waits for tools.
    """

    #: Nothing records a call outside of a run.
    watch: Callable[..., object] | None = None
    #: A call outside of a run is given nothing but its arguments.
    deps: Any = None
    metadata: dict[str, Any] = {}  # noqa: RUF012, never changed

    def __init__(
        self,
        run_id: str,
        questions: CallQuestions,
        progress: ProgressReporter,
        forced: CancelToken,
    ) -> None:
        self.run_id: Final = run_id
        self.forced: Final = forced
        self.helpers: Final[set[int]] = set()
        #: False for a modern client: a question ends the round.
        self.can_ask: Final = questions.waits
        self._questions = questions
        self._progress = progress
        self._waiting: set[str] = set()

    def report_progress(self, invocation: Any, value: Any) -> None:
        """Pass on a progress report; drop it if the call has ended."""
        if invocation is None or invocation.is_open:
            self._progress.report(value)

    def is_waiting(self, call_id: str) -> bool:
        """True while a call waits for a sub-agent or an answer; asked on any thread."""
        return call_id in self._waiting

    def ask(
        self,
        invocation: Any,
        token: CancelToken,
        question: str,
        form: dict[str, Any] | None,
    ) -> Any:
        """Ask the client's user, and wait for the answer.

        Cancellation: ends at once.

        :raises Declined: the user said no to a form.
        :raises ToolError: no one can be asked, or there was no answer.
        """
        call_id = invocation.call.call_id
        self._waiting.add(call_id)
        try:
            answer = self._questions.wait(elicit_input(question, form), token)
        finally:
            self._waiting.discard(call_id)
        if answer is None:
            raise ToolError("the user did not answer")
        if answer is False and form is not None:
            raise Declined("the user declined")
        return answer

    def cancel_call(
        self, call_id: str | Sequence[str], cause: Cause, *, force: bool
    ) -> CallReceipt:
        """Return a false receipt: a call outside of a run is the only one."""
        return CallReceipt(None, cause)

    def run_agent(
        self, context: ToolContext, agent: Any, prompt: Any, options: dict[str, Any]
    ) -> Any:
        """Run a sub-agent, and return its result.

        Cancellation: the sub-agent ends with the call.
        """
        if not callable(getattr(agent, "run_inside", None)) or "cancel" in options:
            raise ToolError(
                "ctx.agent(agent, prompt) takes an Agent and no cancel= (the sub-agent "
                f"ends with the call); got {agent!r:.60}"
            )
        handlers = Handlers()
        if self.can_ask and self._questions.has_user:
            handlers = Handlers(approve=self.approve, ask=self.answer)
        self._waiting.add(context.call_id)
        try:
            result = agent.run_inside(
                *(Answering(handlers), lambda event: None, prompt),
                cancel=context.token,
                **options,
            )
        finally:
            self._waiting.discard(context.call_id)
        context.checkpoint()
        return result

    def approve(self, request: ApprovalRequest, token: CancelToken) -> Approval:
        """Have the client's user decide about a tool of a sub-agent.

        Cancellation: ends at once.
        """
        asked = elicit_approval(request.tool, request.arguments, request.reason)
        return Approval(self._questions.wait(asked, token) is True)

    def answer(self, question: Question, token: CancelToken) -> Any:
        """Have the client's user answer a tool of a sub-agent.

        Cancellation: ends at once.
        """
        asked = elicit_input(str(question), question.form)
        return self._questions.wait(asked, token)
