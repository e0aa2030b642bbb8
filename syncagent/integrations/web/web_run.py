"""One run, its owner, and those who follow it."""

from __future__ import annotations

import logging
import secrets
import time
from typing import Final, Literal

import msgspec

from ...background.handle import Handle
from ...cancel import CancelToken, Registration
from ...events import Lagged, RunFinished, StateChanged, StreamEvent, ToolFinished
from ...messages import Text, ToolOutcome
from ...result import RunResult
from .bodies import RunError, RunView
from .disconnect import GONE
from .recordings import WebRecording
from .refusals import safe_words

__all__ = ["OnDisconnect", "WebRun"]

_log = logging.getLogger("syncagent.web")

#: How many characters of what was asked are shown in a list.
_LONGEST_PROMPT: Final = 300
#: What is said of a tool that has raised something: that may name hosts and paths.
_FAILED: Final = "The tool has failed."

#: What becomes of a run when the last who followed it has gone.
OnDisconnect = Literal["cancel", "detach"]


class WebRun:
    """A run that somebody has asked for over HTTP.

    :param handle: drives it.
    :param owner: whose it is, in the application's own words.
    :param agent: the name of the agent, and
    :param conversation: of the conversation, and
    :param prompt: what was asked, for whoever looks at a list.
    :param recording: what is written down of it, if anything is.
    :param on_disconnect: what becomes of it when the last who followed it has gone.
    :param grace: how many seconds somebody has to come back before that.
    :param show_tool_errors: may whoever follows it see what a tool has raised?
    """

    def __init__(
        self,
        handle: Handle,
        owner: str,
        *,
        agent: str = "",
        conversation: str = "",
        prompt: str = "",
        recording: WebRecording | None = None,
        on_disconnect: OnDisconnect = "cancel",
        grace: float = 0.0,
        show_tool_errors: bool = False,
    ) -> None:
        #: Unguessable, 192 bits; the id of the run itself is in logs. In hexadecimal:
        #: it is an argument of commands, and must not look like an option.
        self.id: Final = secrets.token_hex(24)
        self.owner: Final = owner
        self.handle: Final = handle
        self.agent: Final = agent
        self.conversation: Final = conversation
        self.prompt: Final = prompt[:_LONGEST_PROMPT]
        self.recording: Final = recording
        self.started_at: Final = time.time()
        self.ended_at: float | None = None
        self._on_disconnect = on_disconnect
        self._grace = grace
        self._show_tool_errors = show_tool_errors
        self._followers: dict[object, None] = {}
        #: Set while nobody follows it, and somebody may still come back.
        self._alone: tuple[CancelToken, Registration] | None = None

    @property
    def is_live(self) -> bool:
        """Is it still going on?"""
        return not self.handle.done()

    @property
    def outcome(self) -> RunResult | BaseException | None:
        """What it came to, or raised; ``None`` if it has not ended."""
        if self.is_live:
            return None
        try:
            return self.handle.result(timeout=0)
        except BaseException as error:
            return error

    # -- those who follow it -------------------------------------------------------

    def join(self, follower: object) -> None:
        """Count somebody in."""
        self._followers[follower] = None  # publish first, then look
        alone, self._alone = self._alone, None
        if alone is not None:
            alone[1].close()

    def leave(self, follower: object) -> None:
        """Count somebody out, once; the last one may end the run. It never waits."""
        if self._followers.pop(follower, self) is self:
            return
        if self._on_disconnect == "detach" or not self.is_live:
            return
        if self._grace <= 0.0:
            self._end_alone()
            return
        token = CancelToken(self._grace)
        self._alone = (token, token.on_cancel(self._end_alone))

    def _end_alone(self) -> None:
        if not self._followers:
            self.handle.cancel(GONE, "disconnect")

    # -- what may be shown of it ---------------------------------------------------

    def shown(self, event: StreamEvent | Lagged) -> StreamEvent | Lagged:
        """Return *event* as it may be seen outside.

        The last one of a run would repeat the whole conversation, and errors may name
        what is nobody's business.
        """
        if isinstance(event, RunFinished):
            return RunFinished(
                msgspec.structs.replace(
                    event.result,
                    messages=(),
                    start=0,
                    tool_outcomes=self._outcomes(event.result),
                )
            )
        if isinstance(event, StateChanged) and event.message:
            error = self.error
            words = "" if error is None else error.message
            return msgspec.structs.replace(event, message=words)
        if isinstance(event, ToolFinished) and event.outcome == "failed":
            return event if self._show_tool_errors else _without_words(event)
        return event

    def _outcomes(self, result: RunResult) -> tuple[ToolOutcome, ...]:
        if self._show_tool_errors:
            return result.tool_outcomes
        return tuple(
            msgspec.structs.replace(one, error=_FAILED) if one.error else one
            for one in result.tool_outcomes
        )

    @property
    def error(self) -> RunError | None:
        """What went wrong, in words that anybody may see."""
        error = self.handle.error
        return None if error is None else RunError(*safe_words(error))

    def view(self) -> RunView:
        """Return what its owner sees."""
        # The outcome first: what is over does not change any more.
        outcome = self.outcome
        state = self.handle.state
        result = outcome if isinstance(outcome, RunResult) else None
        return RunView(
            id=self.id,
            run_id=self.handle.run_id,
            agent=self.agent,
            conversation=self.conversation,
            prompt=self.prompt,
            state=str(state),
            tool=state.tool,
            is_live=outcome is None,
            started_at=self.started_at,
            ended_at=self.ended_at,
            events=self.handle.event_count,
            interrupts=self.handle.interrupts if outcome is None else (),
            text="" if result is None else result.text,
            stop_reason=None if result is None else result.stop_reason,
            cancellation=None if result is None else result.cancellation,
            usage=None if result is None else result.usage,
            cost=None if result is None else result.cost,
            turns=0 if result is None else result.turns,
            tool_outcomes=() if result is None else self._outcomes(result),
            error=None if outcome is None else self.error,
        )

    def note_end(self, handle: Handle) -> None:
        """Remember when it has ended, and write down what went wrong."""
        self.ended_at = time.time()
        outcome = self.outcome
        if isinstance(outcome, BaseException):
            _log.error("%s failed", handle.run_id, exc_info=outcome)

    def __repr__(self) -> str:
        # Its id is what it is asked for by: it belongs into no log.
        return f"<WebRun of run {self.handle.run_id}: {self.handle.state}>"


def _without_words(event: ToolFinished) -> ToolFinished:
    result = msgspec.structs.replace(event.result, content=(Text(_FAILED),))
    return msgspec.structs.replace(event, result=result)
