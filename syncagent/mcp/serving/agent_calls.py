"""A call of an agent for a client: a run, its questions, and its text as the result."""

from __future__ import annotations

import logging
from typing import Any

from ...agent import Agent
from ...conversation.run_stream import RunStream
from ...events import ToolProgress, ToolStarted
from ...exceptions import SyncAgentError, ToolError
from ...interrupts import Interrupt
from ...messages import Text
from ...result import RunResult
from ..messages import INVALID_PARAMS
from .call_round import CallRound
from .elicitation import NO_USER, answers_by_id, elicit_interrupts
from .published import error_result, result_of
from .questions import InputRequired
from .requests import RequestRefused

__all__ = ["run_agent"]

_log = logging.getLogger("syncagent.mcp")


def run_agent(round: CallRound, template: Agent) -> dict[str, Any]:
    """Run a fork of *template*, and return its text.

    Cancellation: the run ends at once.

    :raises Cancelled: the call was cancelled.
    :raises InputRequired: a modern client has to ask its user first.
    :raises ToolError: the run failed, or needs an answer that no one can give.
    """
    prompt = round.arguments.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        return error_result("the arguments do not fit: prompt must be a text")
    if round.state.parked:
        agent, answers = _unpark(round)
        stream = agent.resume_stream(answers, cancel=round.token)
    else:
        agent = template.fork()
        stream = agent.stream(prompt, cancel=round.token)
    while True:
        result = _follow(round, stream)
        if not result.interrupts:
            break
        answers = _ask(round, agent, result.interrupts)
        stream = agent.resume_stream(answers, cancel=round.token)
    if result.cancelled:
        round.token.checkpoint()  # else a timeout of its own
    text, is_error = result.text or "(no text)", result.stop_reason != "end_turn"
    if is_error:
        text = f"the agent stopped early ({result.stop_reason}): {text}"
    return result_of([Text(text)], round.request.era, is_error=is_error)


def _follow(round: CallRound, stream: RunStream) -> RunResult:
    """Run to the end or to a question, and report the progress."""

    def show(event: Any) -> None:
        if isinstance(event, ToolStarted):
            round.progress.report({"message": f"calls {event.name}"})
        elif isinstance(event, ToolProgress):
            round.progress.report({"message": f"{event.name}: {event.value}"})

    with stream:
        stream.observe(show)
        try:
            for _ in stream:
                pass
        except SyncAgentError as error:
            # Its text may have addresses and a provider's response.
            _log.warning("%s: the agent failed: %r", round.published.tool.name, error)
            raise ToolError(f"the agent failed: {type(error).__name__}") from None
        return stream.result


def _ask(
    round: CallRound, agent: Agent, questions: tuple[Interrupt, ...]
) -> dict[str, Any]:
    """Return the answers to the questions of a paused run.

    :raises InputRequired: a modern client has to ask first; the run is parked.
    """
    forms = elicit_interrupts(questions)
    if forms and not round.questions.has_user:
        tools = sorted({getattr(each, "tool", "") for each in questions})
        raise ToolError(
            f"the agent needs an answer before it can call {', '.join(tools)}, and "
            f"{NO_USER}"
        )
    try:
        answers = round.questions.answer_all(list(forms.values()))
    except InputRequired:
        round.keep(parked=round.keeping.parked.add(agent, questions))
        raise
    return answers_by_id(questions, dict(zip(forms, answers, strict=True)))


def _unpark(round: CallRound) -> tuple[Agent, dict[str, Any]]:
    """Return the paused run that the client has answers for."""
    key = round.state.parked
    run = round.keeping.parked.take(key)
    round.keep(parked="")
    if run is None:
        raise RequestRefused(
            INVALID_PARAMS,
            "the run of this requestState is gone, or was answered; call anew",
        )
    try:
        return run.agent, _ask(round, run.agent, run.questions)
    except RequestRefused:  # the client may send a better answer
        round.keeping.parked.put_back(key, run)
        raise
