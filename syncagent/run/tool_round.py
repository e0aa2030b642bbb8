"""The checks around the tool calls of a turn: before any of them runs, and after each.

Before: is there such a tool, do the arguments fit, what do the hooks say, and does a
person have to approve the call, log in or answer? After: what do the hooks say?
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..cancel.handler_errors import raised_by_signal_handler
from ..exceptions import ConfigurationError, ToolError
from ..hooks import (
    AfterTool,
    BeforeTool,
    Change,
    Deny,
    Retry,
    Skip,
    Stop,
    invalid_return,
)
from ..interrupts import (
    AfterToolResult,
    Approval,
    ApprovalRequest,
    AuthRequest,
    AwaitingInput,
    Interrupt,
    Rule,
    RuleBook,
    arguments_key,
    is_decline,
    is_refusal,
)
from ..schemas import ShapeError
from ..schemas.forms import Form
from ..tools.invocation import Ending, Invocation
from .progress import ToolRound
from .run import Run

__all__ = [
    "after_tool",
    "apply_answers",
    "check_answer",
    "check_call",
    "find_questions",
    "find_saved_tools",
    "remember",
]

#: How often approvals may change the arguments of one call. A handler and a hook that
#: never agree would ask forever.
_MAX_CHANGES: Final = 10


# -- before the tools run --------------------------------------------------------------


def find_questions(run: Run, round: ToolRound) -> bool:
    """Check every call of a round; return whether a question has to be asked first.

    All of it happens before the first tool runs: every question is asked at once, and
    nothing has happened yet if the answer is no.
    """
    calls_left = run.meter.calls_left
    questions: list[Interrupt] = []
    for invocation in round.invocations:
        if not invocation.is_open:
            continue
        if not invocation.is_seen:
            if calls_left is not None and calls_left <= 0:
                run.meter.limit = "tool_calls"
                invocation.refuse(
                    "Not started: this run may not call more tools.", "not_started"
                )
                continue
            check_call(run, invocation)
            invocation.is_seen = True
            if calls_left is not None and invocation.is_open:
                calls_left -= 1
        if invocation.is_open:
            questions += _questions_about(run, invocation)
    round.questions = _first_kind(questions)
    return bool(questions)


def check_call(run: Run, invocation: Invocation) -> None:
    """Find the tool of a call, check its arguments, and let the hooks see it.

    A call that cannot be made is refused here: its result tells the model why.
    """
    call = invocation.call
    tools = run.toolset.by_name
    tool = tools.get(call.name)
    if tool is None:
        names = ", ".join(tools) or "none"
        invocation.refuse(f"there is no tool {call.name!r}; the tools are: {names}")
        return
    invocation.tool = tool
    try:
        invocation.bind(call.parse())
    except ShapeError as error:
        invocation.refuse(f"the arguments do not fit: {error}")
    except ValueError as error:
        if raised_by_signal_handler(error):
            raise
        invocation.refuse(str(error))
    _show_to_hooks(run, invocation)


def find_saved_tools(run: Run, round: ToolRound) -> None:
    """Give calls of a loaded round their tools, which only a source can have.

    A call whose tool is gone, or takes other arguments now, gets a failed result.

    Cancellation: ends at once, while the sources are asked.
    """
    if all(call.tool or not call.is_open for call in round.invocations):
        return
    run.find_tools()
    for invocation in round.invocations:
        if invocation.is_open and invocation.is_seen and invocation.tool is None:
            _find_saved_tool(run, invocation)
    ids = {call.call.call_id for call in round.invocations if call.is_open}
    round.questions = tuple(
        question
        for question in round.questions
        if not isinstance(question, AfterToolResult) and question.call_id in ids
    )
    round.is_waiting = bool(round.questions)


def _find_saved_tool(run: Run, invocation: Invocation) -> None:
    name = invocation.call.name
    tool = run.toolset.by_name.get(name)
    if invocation.has_begun and (tool is None or not tool.idempotent):
        invocation.lose()  # it was running when its process ended
        return
    if tool is None:
        invocation.refuse(f"the tool {name!r} is gone since this call was saved")
        return
    invocation.tool = tool
    try:
        invocation.bind(invocation.arguments)
    except ValueError as error:
        if raised_by_signal_handler(error):
            raise
        invocation.refuse(f"the tool {name!r} has changed since this call: {error}")


def _show_to_hooks(run: Run, invocation: Invocation) -> bool:
    """Let the hooks see a call; return whether they have changed its arguments."""
    has_changed = False
    for hook in run.setup.hooks.before_tool:
        if not invocation.is_open:
            break
        seen = BeforeTool(run.id, invocation.call, _arguments_of(invocation))
        decision = hook(seen.showing(run.deps, run.metadata))
        if isinstance(decision, Stop):
            run.claim.stop(decision.reason)
        run.token.checkpoint()
        if isinstance(decision, Deny):
            _deny(invocation, decision.reason)
        elif isinstance(decision, Skip):
            _replace_result(invocation, decision.result)
        elif isinstance(decision, Change):
            before = arguments_key(invocation.arguments)
            _rebind(invocation, decision.arguments, "a hook")
            is_same = before == arguments_key(invocation.arguments) is not None
            has_changed = has_changed or not is_same
        elif decision is not None:
            raise invalid_return("before_tool", decision)
    return has_changed


def _questions_about(run: Run, invocation: Invocation) -> list[Interrupt]:
    """Return the questions to ask before a call is made, or made again."""
    tool, call = invocation.tool, invocation.call
    assert tool is not None
    needs_approval: bool | str = False
    if not invocation.is_approved:
        # An approval that does not count any more must be followed by one that does.
        needs_approval = _needs_approval(run, invocation) or invocation.changes > 0
    if needs_approval:
        arguments = _arguments_of(invocation)
        rule = run.rules.find(call.name, arguments, tool.definition)
        if rule is None:
            # Numbered: an answer to the first question must not count for the next.
            number = f":{invocation.changes}" if invocation.changes else ""
            names = (f"approval:{invocation.key}{number}", call.call_id, call.name)
            why = needs_approval if isinstance(needs_approval, str) else ""
            return [ApprovalRequest(*names, arguments, why)]
        if not rule.allow:
            _deny(invocation, rule.reason)
            return []
    invocation.is_approved = True
    questions: list[Interrupt] = []
    if tool.requires_auth is not None:
        invocation.credentials = run.credentials.get(tool.requires_auth)
        if invocation.credentials is None:
            names = (f"auth:{invocation.key}", call.call_id, call.name)
            questions.append(AuthRequest(*names, tool.requires_auth))
    if invocation.question is not None:
        # Numbered by how often the tool asked: a question asked in place of another
        # must not get its id, or an old answer would count for it.
        id = f"input:{invocation.key}:{invocation.times_asked}"
        names = (id, call.call_id, call.name)
        questions.append(AwaitingInput(*names, invocation.question, invocation.form))
    return questions


def _needs_approval(run: Run, invocation: Invocation) -> bool | str:
    """Return whether the tool or the agent wants an approval, and perhaps why."""
    assert invocation.tool is not None
    for policy in (invocation.tool.requires_approval, run.setup.requires_approval):
        if not callable(policy):
            needs_approval: bool | str = policy
        else:
            services = run.services
            with invocation.context(services, run.token, may_ask=False) as context:
                needs_approval = policy(_arguments_of(invocation), context)
        if needs_approval:
            return needs_approval
    return False


def _first_kind(questions: list[Interrupt]) -> tuple[Interrupt, ...]:
    """Return the questions to ask first: credentials only when all is approved."""
    approvals = [asked for asked in questions if isinstance(asked, ApprovalRequest)]
    # Once for each provider, however many of the calls need it.
    logins: dict[str, AuthRequest] = {}
    for question in questions:
        if isinstance(question, AuthRequest):
            logins.setdefault(question.provider, question)
    return tuple(approvals or logins.values() or questions)


# -- answers ---------------------------------------------------------------------------


def check_answer(round: ToolRound, question: Interrupt, answer: Any) -> Any:
    """Return the answer to a question of a round in the form the run uses.

    :raises ConfigurationError: it is not an answer to that question.
    """
    if isinstance(question, ApprovalRequest):
        approval = Approval.of(answer)
        if approval.allow and approval.arguments is not None:
            call = _calls_by_id(round)[question.call_id]
            if call.tool is not None:  # else a source is asked for it first
                _check_arguments(call, approval.arguments, "the approval")
        return approval
    if answer is True or (isinstance(answer, Approval) and answer.allow):
        raise ConfigurationError(f"{question.id!r} needs text or credentials, not True")
    is_input = isinstance(question, AwaitingInput) and not is_refusal(answer)
    if is_input and isinstance(question, AwaitingInput) and question.form is not None:
        return Form.of(question.form).check(answer)
    if is_input and not isinstance(answer, str):
        raise ConfigurationError(
            f"{question.id!r} needs a string; got a {type(answer).__name__}"
        )
    return answer


def apply_answers(
    run: Run, questions: tuple[Interrupt, ...], answers: Mapping[str, Any]
) -> None:
    """Apply the answers to the open round.

    :raises ConfigurationError: an answer is missing, or does not fit its question.
    """
    round = run.open_round
    assert round is not None
    calls = _calls_by_id(round)
    checked: dict[str, Any] = {}
    for question in questions:
        if question.id not in answers:
            raise ConfigurationError(f"no answer to {question.id!r}")
        checked[question.id] = check_answer(round, question, answers[question.id])
    # Before hooks see anything: one of them may save the run, and its state must not
    # ask about arguments that have been changed since.
    round.questions = ()
    for question in questions:
        assert not isinstance(question, AfterToolResult)
        invocation, answer = calls[question.call_id], checked[question.id]
        if isinstance(question, ApprovalRequest):
            _apply_approval(run, invocation, question, answer)
        elif isinstance(question, AuthRequest):
            _apply_credentials(run, invocation, question, answer)
        else:
            is_no = question.form is not None and is_decline(answer)
            answer = False if is_no else None if is_refusal(answer) else answer
            invocation.add_answer(answer)


def _apply_approval(
    run: Run, invocation: Invocation, question: ApprovalRequest, approval: Approval
) -> None:
    if approval.timed_out:
        _refuse_late(invocation, "no approval came in time")
        return
    if not approval.allow:
        _deny(invocation, approval.reason)
    elif approval.arguments is not None:
        _rebind(invocation, approval.arguments, "the approval")
        invocation.changes += 1
        if not _passes_again(run, invocation, question.reason):
            return  # without a rule: it would be about another call
    invocation.is_approved = approval.allow
    assert invocation.tool is not None
    name, definition = invocation.call.name, invocation.tool.definition
    remember(run.rules, name, _arguments_of(invocation), approval, definition)


def _passes_again(run: Run, invocation: Invocation, shown_reason: str) -> bool:
    """Check arguments that an approval has changed, as if they were the model's.

    :param shown_reason: of the question that was answered.
    :return: whether the approval counts. If not, the call is refused, or the approver
        is asked again.
    """
    assert invocation.tool is not None
    has_changed = _show_to_hooks(run, invocation)
    if not invocation.is_open:
        return False
    name, definition = invocation.call.name, invocation.tool.definition
    rule = run.rules.find(name, invocation.arguments, definition)
    if rule is not None and not rule.allow:
        _deny(invocation, rule.reason)
        return False
    reason = _needs_approval(run, invocation)
    is_shown = not isinstance(reason, str) or reason in ("", shown_reason)
    if is_shown and not has_changed:
        return True
    if invocation.changes >= _MAX_CHANGES:
        _deny(invocation, "its arguments were changed again after every approval")
    return False


def _apply_credentials(
    run: Run, invocation: Invocation, question: AuthRequest, answer: Any
) -> None:
    if isinstance(answer, Approval) and answer.timed_out:
        _refuse_late(invocation, f"no login to {question.provider} in time")
    elif is_refusal(answer):
        reason = answer.reason if isinstance(answer, Approval) else ""
        _deny(invocation, reason or f"there are no credentials for {question.provider}")
    else:
        run.credentials[question.provider] = answer


def remember(
    rules: RuleBook,
    tool: str,
    arguments: dict[str, Any],
    approval: Approval,
    definition: str = "",
) -> None:
    """Add a rule for later calls, if the approval asks for one."""
    if approval.remember:
        exact = arguments if approval.remember == "arguments" else None
        rules.add(Rule(tool, approval.allow, exact, approval.reason, definition))


# -- after a tool ----------------------------------------------------------------------


def after_tool(run: Run, invocation: Invocation) -> bool:
    """Show hooks how a call ended; return whether one wants it made again."""
    if invocation.locked_out_by is not None:
        run.credentials.pop(invocation.locked_out_by, None)
    wants_retry = False
    for hook in run.setup.hooks.after_tool:
        seen = AfterTool(
            run.id, invocation.call, invocation.report(), invocation.result
        )
        decision = hook(seen.showing(run.deps, run.metadata))
        if run.token.cancelled:  # after a cancel, hooks change nothing
            continue
        if isinstance(decision, Skip):
            _replace_result(invocation, decision.result)
        elif isinstance(decision, Retry):
            wants_retry = not run.claim.deferred.is_pending
        elif isinstance(decision, Stop):
            run.claim.stop(decision.reason)
        elif decision is not None:
            raise invalid_return("after_tool", decision)
    may_repeat = invocation.outcome in ("done", "failed") or invocation.has_timed_out
    return wants_retry and may_repeat and _has_spare_call(run)


def _has_spare_call(run: Run) -> bool:
    """Return whether the limit leaves a call beside those of the round to come."""
    calls_left = run.meter.calls_left
    if calls_left is None or run.open_round is None:
        return calls_left is None
    calls = run.open_round.invocations
    return calls_left > sum(call.is_open and call.began is None for call in calls)


# -- one call --------------------------------------------------------------------------


def _calls_by_id(round: ToolRound) -> dict[str, Invocation]:
    return {call.call.call_id: call for call in round.invocations}


def _arguments_of(invocation: Invocation) -> dict[str, Any]:
    """Return a copy of the arguments for a hook, a policy or a person.

    A change to the copy must not change what others see, or what is called.
    """
    arguments: dict[str, Any] = _copy_json(invocation.arguments)
    return arguments


def _copy_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_copy_json(each) for each in value]
    return value


def _deny(invocation: Invocation, reason: str) -> None:
    invocation.refuse(f"Denied: {reason}" if reason else "Denied.", "denied")


def _refuse_late(invocation: Invocation, why: str) -> None:
    text = f"Not started: {why}. It was not denied."
    invocation.end(Ending.with_message("not_started", text, timed_out=True))


def _replace_result(invocation: Invocation, value: Any) -> None:
    try:
        invocation.replace(value)
    except ToolError as error:
        raise ConfigurationError(f"a hook gave no usable result: {error}") from None


def _rebind(invocation: Invocation, arguments: dict[str, Any], who: str) -> None:
    _check_arguments(invocation, arguments, who)
    invocation.bind(_copy_json(arguments))


def _check_arguments(
    invocation: Invocation, arguments: dict[str, Any], who: str
) -> None:
    """Check that the tool takes arguments that *who* has changed.

    :raises ConfigurationError: it does not.
    """
    assert invocation.tool is not None
    try:
        invocation.tool.signature.bind(arguments)
    except ValueError as error:
        if raised_by_signal_handler(error):
            raise
        raise ConfigurationError(
            f"{who} changed the arguments of {invocation.call.name}, and they do not "
            f"fit: {error}"
        ) from None
