"""What is looked at before the calls of a turn are made, and after each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..exceptions import ConfigurationError, ToolError
from ..hooks import AfterTool, BeforeTool, Change, Deny, Retry, Skip, invalid_return
from ..interrupts import (
    AfterToolResult,
    Approval,
    ApprovalRequest,
    AuthRequest,
    AwaitingInput,
    Interrupt,
    Rule,
    RuleBook,
    is_refusal,
)
from ..schemas import ShapeError
from ..tools.invocation import Ending, Invocation
from .run import Run, ToolRound

__all__ = [
    "after_tool",
    "apply_answers",
    "check_answer",
    "check_words",
    "prepare",
    "remember",
]


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
        if not invocation.is_seen:
            if left is not None and left <= 0:
                run.meter.limit = "tool_calls"
                invocation.refuse(
                    "Not started: this run may not call more tools.", "not_started"
                )
                continue
            _look_up(run, invocation)
            if invocation.is_open:
                _show_hooks(run, invocation)
            invocation.is_seen = True
            if left is not None and invocation.is_open:
                left -= 1
        if invocation.is_open:
            questions += _questions(run, invocation)
    round.questions = _of_one_kind(questions)
    return bool(questions)


def _of_one_kind(questions: list[Interrupt]) -> tuple[Interrupt, ...]:
    """Return what is asked first: credentials only when all is approved."""
    approvals = [asked for asked in questions if isinstance(asked, ApprovalRequest)]
    # Once for each provider, however many of the calls need it.
    logins: dict[str, AuthRequest] = {}
    for asked in questions:
        if isinstance(asked, AuthRequest):
            logins.setdefault(asked.provider, asked)
    return tuple(approvals or logins.values() or questions)


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
            raise invalid_return("before_tool", wish)
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
    _check_arguments(invocation, arguments, who)
    invocation.bind(_copied(arguments))


def _check_arguments(
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
    """Return what has to be asked before a call is made, or made again."""
    tool, call = invocation.tool, invocation.call
    assert tool is not None
    needs = not invocation.is_approved and _needs_approval(run, invocation)
    if needs:
        shown = _shown(invocation)
        rule = run.rules.find(call.name, shown)
        if rule is None:
            names = (f"approval:{invocation.key}", call.call_id, call.name)
            why = needs if isinstance(needs, str) else ""
            return [ApprovalRequest(*names, shown, why)]
        if not rule.allow:
            _deny(invocation, rule.reason)
            return []
    invocation.is_approved = True
    asked: list[Interrupt] = []
    if tool.requires_auth is not None:
        invocation.credentials = run.credentials.get(tool.requires_auth)
        if invocation.credentials is None:
            names = (f"auth:{invocation.key}", call.call_id, call.name)
            asked.append(AuthRequest(*names, tool.requires_auth))
    if invocation.question is not None:
        # Not by its place among them: one that is asked in place of another is new.
        name = f"input:{invocation.key}:{invocation.times_asked}"
        names = (name, call.call_id, call.name)
        asked.append(AwaitingInput(*names, invocation.question))
    return asked


def _needs_approval(run: Run, invocation: Invocation) -> bool | str:
    """Is somebody to be asked, by the tool or by the agent, and perhaps why?"""
    assert invocation.tool is not None
    for policy in (invocation.tool.requires_approval, run.setup.requires_approval):
        if not callable(policy):
            needs: bool | str = policy
        else:
            services = run.services
            with invocation.context(services, run.token, may_ask=False) as context:
                needs = policy(_shown(invocation), context)
        if needs:
            return needs
    return False


def check_answer(round: ToolRound, question: Interrupt, answer: Any) -> Any:
    """Return the answer to a question of a round as it is to be used.

    :raises ConfigurationError: it makes no sense.
    """
    if isinstance(question, ApprovalRequest):
        approval = Approval.of(answer)
        if approval.allow and approval.arguments is not None:
            call = _calls(round)[question.call_id]
            _check_arguments(call, approval.arguments, "the approval")
        return approval
    if answer is True or (isinstance(answer, Approval) and answer.allow):
        raise ConfigurationError(
            f"{question.id!r} asks for more than a yes: for words, or for credentials"
        )
    if isinstance(question, AwaitingInput) and not is_refusal(answer):
        return check_words(answer)
    return answer


def check_words(answer: Any) -> str:
    """Return what the user answers to a tool.

    :raises ConfigurationError: these are no words.
    """
    if not isinstance(answer, str):
        raise ConfigurationError(
            f"a question is answered with a string; got a {type(answer).__name__}"
        )
    return answer


def _calls(round: ToolRound) -> dict[str, Invocation]:
    return {call.call.call_id: call for call in round.invocations}


def apply_answers(
    run: Run, questions: tuple[Interrupt, ...], answers: Mapping[str, Any]
) -> None:
    """Note what was answered.

    :raises ConfigurationError: an answer is missing, or makes no sense.
    """
    round = run.round
    assert round is not None
    calls = _calls(round)
    for question in questions:
        assert not isinstance(question, AfterToolResult)
        if question.id not in answers:
            raise ConfigurationError(f"there is no answer to {question.id!r}")
        invocation = calls[question.call_id]
        answer = check_answer(round, question, answers[question.id])
        if isinstance(question, ApprovalRequest):
            _settle_approval(run, invocation, answer)
        elif isinstance(question, AuthRequest):
            _settle_auth(run, invocation, question, answer)
        else:
            invocation.add_answer(None if is_refusal(answer) else answer)


def _settle_approval(run: Run, invocation: Invocation, approval: Approval) -> None:
    if approval.timed_out:
        _refuse_late(invocation, "nobody has approved it in time")
        return
    if not approval.allow:
        _deny(invocation, approval.reason)
    elif approval.arguments is not None:
        _rebind(invocation, approval.arguments, "the approval")
    invocation.is_approved = approval.allow
    remember(run.rules, invocation.call.name, _shown(invocation), approval)


def remember(
    rules: RuleBook, tool: str, arguments: dict[str, Any], approval: Approval
) -> None:
    """Note that an answer goes for later calls, if whoever gave it wants that."""
    if approval.remember:
        exact = arguments if approval.remember == "arguments" else None
        rules.add(Rule(tool, approval.allow, exact, approval.reason))


def _settle_auth(
    run: Run, invocation: Invocation, question: AuthRequest, answer: Any
) -> None:
    if isinstance(answer, Approval) and answer.timed_out:
        _refuse_late(invocation, f"nobody has logged in to {question.provider} in time")
    elif is_refusal(answer):
        missing = f"there are no credentials for {question.provider}"
        said = answer.reason if isinstance(answer, Approval) else ""
        _deny(invocation, said or missing)
    else:
        run.credentials[question.provider] = answer


def _refuse_late(invocation: Invocation, why: str) -> None:
    words = f"Not started: {why}. Nobody has denied it."
    invocation.end(Ending.with_message("not_started", words, timed_out=True))


def after_tool(run: Run, invocation: Invocation) -> bool:
    """Show hooks what became of a call; tell whether one wants it made again."""
    if invocation.locked_out_by is not None:
        run.credentials.pop(invocation.locked_out_by, None)
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
            raise invalid_return("after_tool", wish)
    may = invocation.outcome in ("done", "failed") or invocation.has_timed_out
    return wants_again and may and _may_repeat(run)


def _may_repeat(run: Run) -> bool:
    """Is there a call left, beside those of the round that have not begun?"""
    left = run.meter.calls_left
    if left is None or run.round is None:
        return left is None
    calls = run.round.invocations
    return left > sum(call.is_open and call.began is None for call in calls)
