"""A call of a function for a client: checks, questions, and the tool itself."""

from __future__ import annotations

from typing import Any

import msgspec

from ...cancel.handler_errors import raised_by_signal_handler
from ...exceptions import ToolError
from ...interrupts import AuthRequest
from ...messages import ToolCall
from ...schemas import ShapeError
from ...tools.executor import Executor
from ...tools.invocation import Invocation
from .call_round import CallRound
from .elicitation import NO_USER, elicit_approval, elicit_input
from .published import error_result, result_of

__all__ = ["run_tool"]


def run_tool(round: CallRound) -> dict[str, Any]:
    """Call the tool, and return its result.

    Cancellation: ends as the policy of the tool says.

    :raises Cancelled: the call was cancelled.
    :raises InputRequired: a modern client has to ask its user first.
    :raises ToolError: the call is not allowed.
    """
    key = round.state.key
    invocation = Invocation(ToolCall(key, round.published.tool.name), key)
    invocation.tool = round.published.tool
    try:
        invocation.bind(round.arguments)
    except ShapeError as error:
        return error_result(f"the arguments do not fit: {error}")
    except ValueError as error:
        if raised_by_signal_handler(error):
            raise
        return error_result(str(error))
    if round.state.question is not None:  # the tool has asked in the round before
        _answer(round, *round.state.question)
    _check_approval(round, invocation)
    _find_credentials(round, invocation)
    while True:
        invocation.answers = list(round.state.answers)
        executor = Executor(
            round.services, round.token, width=1, after=lambda call: False
        )
        for _ in executor.run([invocation]):
            pass  # progress went out when it was reported
        if not invocation.is_open:
            ended = invocation.result
            return result_of(ended.content, round.request.era, is_error=ended.is_error)
        round.keep(answers=list(invocation.answers))
        question, form = invocation.question, invocation.form
        assert question is not None
        invocation.question = invocation.form = None
        _answer(round, question, form)


def _answer(round: CallRound, question: str, form: dict[str, Any] | None) -> None:
    """Add the answer of a modern client to those of the call.

    :raises InputRequired: it has not answered yet.
    """
    round.keep(question=(question, form))
    [answer] = round.questions.answer_all([elicit_input(question, form)])
    round.keep(answers=[*round.state.answers, (question, answer)], question=None)


def _check_approval(round: CallRound, invocation: Invocation) -> None:
    """Ask for an approval if the tool needs one.

    :raises ToolError: it is denied, or no one can be asked.
    """
    tool, policy = round.published.tool, round.published.tool.requires_approval
    needs: bool | str
    if callable(policy):
        # A copy: the function must not change what is called.
        arguments = msgspec.json.decode(msgspec.json.encode(round.arguments))
        with invocation.context(round.services, round.token, may_ask=False) as context:
            needs = policy(arguments, context)
    else:
        needs = policy
    if not needs or round.state.is_approved:
        return
    if not round.questions.has_user:
        raise ToolError(f"{tool.name} needs an approval, and {NO_USER}")
    if round.request.params.get("requestState") is None:
        round.questions.forget_responses()  # no yes before the question
    reason = needs if isinstance(needs, str) else ""
    asked = elicit_approval(tool.name, round.arguments, reason)
    [answer] = round.questions.answer_all([asked])
    if answer is not True:
        raise ToolError("Denied: the user did not allow this call.")
    round.keep(is_approved=True)


def _find_credentials(round: CallRound, invocation: Invocation) -> None:
    """Get the credentials that the tool needs, from this server and never the client.

    :raises ToolError: there are none.
    """
    tool, authenticate = round.published.tool, round.keeping.authenticate
    if tool.requires_auth is None:
        return
    if authenticate is not None:
        names = (f"auth:{invocation.key}", invocation.key, tool.name)
        invocation.credentials = authenticate(AuthRequest(*names, tool.requires_auth))
    if invocation.credentials is None:
        raise ToolError(
            f"{tool.name} needs credentials of {tool.requires_auth}, which this server "
            "does not have: MCPService(authenticate=...) returns them"
        )
