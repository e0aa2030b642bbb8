"""Three ways to have a run in the background: start it, move it, or wait for it."""

from __future__ import annotations

import msgspec

from ..cancel import CancelToken
from ..cancel.once import finish_despite_signals
from ..conversation.conversation import Conversation
from ..conversation.live_run import LiveRun
from ..conversation.queue import OnBusy, check_busy
from ..conversation.request import RunRequest
from ..result import RunResult
from ..transcript.transcript import Transcript
from .handle import Handle
from .handle_thread import HandleThread

__all__ = ["move_to_background", "run_releasable", "start_handle"]


def start_handle(
    conversation: Conversation,
    request: RunRequest,
    on_busy: OnBusy | None,
    *,
    keep_alive: bool,
    size: int,
) -> Handle:
    """Start a run on a thread of its own, and return its handle.

    :raises AgentBusy: a run is live, and *on_busy* is ``raise``.
    """
    keep_alive = keep_alive or not request.has_work
    run_id = request.run_id
    if request.resumes is not None:
        run_id = request.resumes.progress.run_id
    thread = HandleThread(conversation, run_id, keep_alive=keep_alive, size=size)
    handle = Handle(thread)
    choice = conversation.on_busy if on_busy is None else check_busy(on_busy)
    request = msgspec.structs.replace(request, on_busy=choice)
    untaken_input = conversation.untaken_input
    try:
        if request.prompt is None:
            for message in conversation.take_untaken_input():
                handle.send_input(message.content)
        # A run that waits for the agent does so on the handle's thread.
        thread.start(request, begins_here=choice == "raise")
        return handle  # noqa: TRY300, a signal handler may raise at the very end
    except BaseException:
        finish_despite_signals(lambda: thread.give_up("it could not be started"))
        conversation.untaken_input = untaken_input  # for the next one
        raise


def move_to_background(conversation: Conversation, live_run: LiveRun) -> Handle:
    """Have a thread of its own drive a live run, and return its handle.

    :raises RuntimeError: no thread can be started.
    """
    thread = HandleThread(conversation, live_run.run.id)
    thread.take_over(live_run)
    return Handle(thread)


def run_releasable(conversation: Conversation, request: RunRequest) -> RunResult:
    """Drive a run on a thread of its own, and wait for its end.

    Cancellation: ends at once. If the background is requested, the caller is released
    at once and the run goes on. The run stays on this thread if no other can be
    started.
    """
    thread = HandleThread(conversation)
    request = msgspec.structs.replace(request, is_releasable=True)
    try:
        stream = thread.start(request, begins_here=True, may_stay=True)
        assert stream is not None
        either_token = CancelToken.any_of(thread.ended, stream.claim.token.background)
        either_token.wait()
        handle = Handle(thread)
        if handle.done():
            return handle.result(0)
        stream.claim.is_background = thread.is_background = True
        result = RunResult(
            text="",
            stop_reason="backgrounded",
            run_id=thread.run_id,
            messages=tuple(Transcript(conversation.messages).repaired()),
            start=stream.start,
        )
        return result.with_handle(handle)
    except BaseException:
        thread.abort("its caller was interrupted")
        raise
