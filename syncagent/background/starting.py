"""Runs that go on in the background when somebody asks for that."""

from __future__ import annotations

import msgspec

from ..cancel import CancelToken
from ..conversation.conversation import Conversation
from ..conversation.live_run import Pump, RunEnd
from ..conversation.queue import OnBusy, check_busy
from ..conversation.request import RunRequest
from ..result import RunResult
from ..transcript.transcript import Transcript
from .handle import Handle

__all__ = ["move_to_background", "run_releasable", "start_handle"]


def start_handle(
    conversation: Conversation,
    request: RunRequest,
    on_busy: OnBusy | None,
    *,
    keep_alive: bool,
    size: int,
) -> Handle:
    """Begin a run on a thread of its own, and return its handle.

    :raises AgentBusy: there is a live run, and that is what *on_busy* says.
    """
    is_kept = keep_alive or not request.has_work
    name = "" if request.resumes is None else request.resumes.run_id
    handle = Handle(conversation, name, keep_alive=is_kept, size=size)
    how = conversation.on_busy if on_busy is None else check_busy(on_busy)
    wanted = msgspec.structs.replace(request, on_busy=how)
    unheard = conversation.unheard
    try:
        if request.said is None:
            for message in conversation.take_unheard():
                handle.send_input(message.content)
        # Who waits for the agent waits on the handle's thread.
        handle.start(wanted, begins_here=how == "raise")
        return handle  # noqa: TRY300, a signal handler may raise at the very end
    except BaseException:
        handle.give_up("it could not be started")
        conversation.unheard = unheard  # for the next one
        raise


def move_to_background(conversation: Conversation, end: RunEnd, pump: Pump) -> Handle:
    """Have a thread of its own go on with a run, and return its handle.

    :raises RuntimeError: there is no thread to be had.
    """
    handle = Handle(conversation, end.run.id)
    handle.take_over(end, pump)
    return handle


def run_releasable(conversation: Conversation, request: RunRequest) -> RunResult:
    """Drive a run on a thread of its own, from its begin, and wait for its end.

    Cancellation: ends at once. If somebody asks for the background, the caller is
    released at once, and the run goes on. It stays here if no thread is to be had.
    """
    handle = Handle(conversation)
    wanted = msgspec.structs.replace(request, is_releasable=True)
    try:
        stream = handle.start(wanted, begins_here=True, may_stay=True)
        assert stream is not None
        either_token = CancelToken.any_of(handle.ended, stream.claim.token.background)
        either_token.wait()
        if handle.done():
            return handle.result(0)
        stream.claim.is_background = handle.is_background = True
        result = RunResult(
            text="",
            stop_reason="backgrounded",
            run_id=handle.run_id,
            messages=tuple(Transcript(conversation.messages).repaired()),
            start=stream.start,
        )
        return result.with_handle(handle)
    except BaseException:
        handle.abort("its caller was interrupted")
        raise
