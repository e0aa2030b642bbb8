"""Work on a run that was claimed: make its agent, restore its state, drive it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from msgspec.structs import replace

from .._context import ContextFactory, call_in_context, within_context
from ..agent import Agent
from ..conversation.request import RunRequest
from ..conversation.restored import join_state
from ..exceptions import ConfigurationError, StateInvalid
from ..result import RunResult
from .keeper import StoreKeeper
from .records import StoredRun

__all__ = ["MakeAgent", "prepare", "work_on"]

_log = logging.getLogger("syncagent.store")

#: Returns a new agent for a run.
MakeAgent = Callable[[StoredRun], Agent]


def work_on(
    keeper: StoreKeeper,
    make_agent: MakeAgent,
    context: ContextFactory | None = None,
) -> RunResult | None:
    """Drive a run until it ends or waits, on this thread.

    Cancellation: a cancel of the run ends it at once.

    :param context: makes the context that surrounds the run and each tool call.
    :return: the result, if there is one.
    """
    if context is not None:
        with within_context(context), context():
            return work_on(keeper, make_agent)
    try:
        prepared = prepare(keeper, make_agent)
        if prepared is None:
            return None
        agent, request = prepared
        with agent._conversation.begin(request) as stream:
            for _ in stream:
                pass
            return stream.result
    except Exception as error:
        _log.error("run %s failed", keeper.run_id, exc_info=error)
        if not keeper.is_over:
            keeper.fail_unbegun(error)  # it never began, or its end cannot be stored
        return None
    finally:
        keeper.close()


def prepare(
    keeper: StoreKeeper, make_agent: MakeAgent
) -> tuple[Agent, RunRequest] | None:
    """Return an agent in the state of a run, and the request to begin or resume it.

    :return: ``None`` if that is impossible; the store knows why.
    """
    claim = keeper.claim
    run = claim.run
    try:
        agent = call_in_context(make_agent, run)
        if not isinstance(agent, Agent):
            raise ConfigurationError(
                f"make_agent must return an Agent; got {agent!r:.80}"
            )
        if agent.is_running or agent.messages or agent.is_paused:
            # It would show the conversation of one owner to another.
            raise ConfigurationError(
                "make_agent must return a new agent for each run, without messages; "
                f"got {agent!r:.80}"
            )
        if claim.tail:
            agent.restore(join_state(claim.tail, claim.messages))
            pause = agent._conversation.pause
            # Earlier answers were used up before the last worker died.
            open_ids = {each.id for each in (pause.interrupts if pause else ())}
            answers = {
                id: answer.value
                for id, answer in claim.answers.items()
                if id in open_ids
            }
            keeper.is_answered = bool(answers)
            found = agent._conversation.find_resumable()
            request = RunRequest.resuming(found, answers, None, None, None, None)
        else:
            if claim.last_tail:
                agent.restore(join_state(claim.last_tail, claim.messages))
                agent.cancel("the next run of the conversation begins")
            request = RunRequest(prompt=run.prompt, run_id=run.run_id, on_busy="raise")
    except StateInvalid as error:
        # A worker with other code, perhaps a newer one, may have what is missing.
        _log.warning(
            "run %s cannot be resumed by this worker, which releases it: %s",
            *(run.run_id, error),
        )
        keeper.give_back()
        return None
    except Exception as error:
        _log.exception("run %s failed before it could begin", run.run_id)
        keeper.fail_unbegun(error)
        return None
    return agent, replace(
        request,
        timeout=claim.seconds_left,
        keeper=keeper,
        attendance=keeper.attendance,
    )
