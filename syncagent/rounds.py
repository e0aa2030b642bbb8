"""What is looked at before the calls of a turn are made, and after each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .exceptions import ConfigurationError, ToolError
from .hooks import AfterTool, BeforeTool, Change, Deny, Retry, Skip, unknown_answer
from .interrupts import Approval, ApprovalRequest, AuthRequest, Interrupt
from .run import Run, ToolRound
from .shapes import ShapeError
from .tools.invocation import Invocation

__all__ = ["after_tool", "apply_answers", "check_arguments", "prepare"]


def prepare(run: Run, round: ToolRound) -> bool:
    """Look at every call of a round, and tell whether something has to be asked.

    All of it happens before the first tool runs: what is asked is asked at once, and
    nothing has happened yet if the answer is no.
    """
    left = run.meter.calls_left
    questions: list[Interrupt] = []
    for invocation in round.invocations:
        if not invocation.is_open:
            continue
        if invocation.tool is None:
            if left is not None and left <= 0:
                run.meter.limit = "tool_calls"
                invocation.refuse(
                    "Not started: this run may not call more tools.", "not_started"
                )
                continue
            _look_up(run, invocation)
            if invocation.is_open:
                _show_hooks(run, invocation)
            if left is not None and invocation.is_open:
                left -= 1
        if invocation.is_open:
            questions += _questions(run, invocation)
    # Credentials are asked for when all is approved.
    approvals = [asked for asked in questions if isinstance(asked, ApprovalRequest)]
    round.questions = tuple(approvals or questions)
    return bool(questions)


def _look_up(run: Run, invocation: Invocation) -> None:
    """Find the tool of a call, and check the arguments."""
    call = invocation.call
    tool = run.setup.tools.get(call.name)
    if tool is None:
        there = ", ".join(run.setup.tools) or "none"
        invocation.refuse(f"there is no tool {call.name!r}; there are: {there}")
        return
    invocation.tool = tool
    try:
        invocation.bind(call.parse())
    except ShapeError as error:
        invocation.refuse(f"the arguments do not fit: {error}")
    except ValueError as error:
        invocation.refuse(str(error))


def _show_hooks(run: Run, invocation: Invocation) -> None:
    for hook in run.setup.hooks.before_tool:
        wish = hook(BeforeTool(run.id, invocation.call, _shown(invocation)))
        run.token.checkpoint()
        if isinstance(wish, Deny):
            _deny(invocation, wish.reason)
        elif isinstance(wish, Skip):
            _replace(invocation, wish.result)
        elif isinstance(wish, Change):
            _rebind(invocation, wish.arguments, "a hook")
        elif wish is not None:
            raise unknown_answer("before_tool", wish)
        if not invocation.is_open:
            return


def _shown(invocation: Invocation) -> dict[str, Any]:
    """Return the arguments for somebody to look at.

    A copy: what is changed in there must not be what others see, or what is called.
    """
    shown: dict[str, Any] = _copied(invocation.arguments)
    return shown


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_copied(each) for each in value]
    return value


def _deny(invocation: Invocation, reason: str) -> None:
    invocation.refuse(f"Denied: {reason}" if reason else "Denied.", "denied")


def _replace(invocation: Invocation, value: Any) -> None:
    try:
        invocation.replace(value)
    except ToolError as error:
        raise ConfigurationError(f"a hook gave no usable result: {error}") from None


def _rebind(invocation: Invocation, arguments: dict[str, Any], who: str) -> None:
    check_arguments(invocation, arguments, who)
    invocation.bind(_copied(arguments))


def check_arguments(
    invocation: Invocation, arguments: dict[str, Any], who: str
) -> None:
    """See that a tool can be called with what somebody wants it to be.

    :raises ConfigurationError: it cannot.
    """
    assert invocation.tool is not None
    try:
        invocation.tool.signature.bind(arguments)
    except ValueError as error:
        raise ConfigurationError(
            f"{who} changed the arguments of {invocation.call.name}, and they do not "
            f"fit: {error}"
        ) from None


def _questions(run: Run, invocation: Invocation) -> list[Interrupt]:
    """Return what has to be asked before a call is made."""
    tool, call = invocation.tool, invocation.call
    assert tool is not None
    asked: list[Interrupt] = []
    if not invocation.is_approved:
        needs = tool.requires_approval
        if callable(needs):
            with invocation.context(run.lending.host(), run.token) as context:
                needs = needs(_shown(invocation), context)
        if needs:
            names = (f"approval:{invocation.key}", call.call_id, call.name)
            asked.append(ApprovalRequest(*names, _shown(invocation)))
        else:
            invocation.is_approved = True
    if tool.requires_auth is not None and invocation.credentials is None:
        names = (f"auth:{invocation.key}", call.call_id, call.name)
        asked.append(AuthRequest(*names, tool.requires_auth))
    return asked


def apply_answers(
    round: ToolRound, questions: tuple[Interrupt, ...], answers: Mapping[str, Any]
) -> None:
    """Note what was answered.

    :raises ConfigurationError: an answer is missing, or makes no sense.
    """
    calls = {call.call.call_id: call for call in round.invocations}
    for question in questions:
        invocation = calls[question.call_id]
        if question.id not in answers:
            raise ConfigurationError(f"there is no answer to {question.id!r}")
        answer = answers[question.id]
        if isinstance(question, AuthRequest):
            if answer is None or answer is False:
                _deny(invocation, f"there are no credentials for {question.provider}")
            invocation.credentials = answer
            continue
        approval = Approval.of(answer)
        if not approval.allow:
            _deny(invocation, approval.reason)
        elif approval.arguments is not None:
            _rebind(invocation, approval.arguments, "the approval")
        invocation.is_approved = True


def after_tool(run: Run, invocation: Invocation) -> bool:
    """Show hooks what became of a call; tell whether one wants it made again."""
    wants_again = False
    for hook in run.setup.hooks.after_tool:
        seen = AfterTool(
            run.id, invocation.call, invocation.report(), invocation.result
        )
        wish = hook(seen)
        if run.token.cancelled:  # what has happened is what is told
            continue
        if isinstance(wish, Skip):
            _replace(invocation, wish.result)
        elif isinstance(wish, Retry):
            wants_again = not run.claim.later.is_asked
        elif wish is not None:
            raise unknown_answer("after_tool", wish)
    may = invocation.outcome in ("done", "failed") or invocation.has_timed_out
    return wants_again and may and _may_repeat(run)


def _may_repeat(run: Run) -> bool:
    """Is there a call left, beside those of the round that have not begun?"""
    left = run.meter.calls_left
    if left is None or run.round is None:
        return left is None
    calls = run.round.invocations
    return left > sum(call.is_open and call.began is None for call in calls)
