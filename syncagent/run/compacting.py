"""Compact the conversation of a run: when, by how much, and how it is swapped in.

Guarantees:

- The steps work on values. The conversation changes in one step at the end, so that a
  cancel, an error or a signal handler leaves the old one or the new one.
- A new conversation is valid, and shorter than the old one by our own estimate.
- A compaction is tried at most once for each request that is too long, and else not
  before a few turns have gone by. If it helps too little again and again, the run ends
  with an error, and is not compacted forever.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from ..cancel import CancelToken
from ..compaction.clearing import ShortenResults
from ..compaction.sizes import estimate, tokens_of
from ..compaction.steps import Compaction, Room
from ..events import Compacted, MessageFinished
from ..exceptions import (
    Cancelled,
    CompactionFailed,
    ContextTooLong,
    SyncAgentError,
)
from ..messages import Message, ProviderBlock, UserMessage
from ..models.model import Model
from ..models.names import find_model
from ..options import Options
from ..transcript.repair import repaired
from .budget import largest_usage

if TYPE_CHECKING:
    from .run import Run

__all__ = ["Compacting", "RunRoom", "ask_aside", "replace_conversation"]

_log = logging.getLogger("syncagent.run")

#: Turns between two compactions, unless the window is full.
_TURNS: Final = 3
#: The fraction of ``at`` below which a compaction has helped.
_ENOUGH: Final = 0.75
#: How many compactions in a row may help too little.
_PATIENCE: Final = 3
#: How much the conversation must have grown before the steps are tried again.
_GROWTH: Final = 1.1
#: The largest part of the window that is left free for the response.
_RESPONSE: Final = 0.5
#: Bounds of the tokens for each estimated token; a report outside is not believed.
_SCALES: Final = (0.05, 20.0)

_Cause = Literal["window", "too_long", "hook"]


class Compacting:
    """The compactions of one run. It belongs to the thread of the run.

    It does not keep the run, which keeps it.
    """

    def __init__(self, settings: Compaction) -> None:
        self.settings: Final = settings
        #: True if the provider has rejected the newest request for its length.
        self._is_too_long = False
        #: True if that request was compacted already.
        self._has_tried = False
        #: The turn of the last compaction, and the size after it.
        self._turn: int | None = None
        self._size_after = 0
        #: How many compactions in a row have helped too little.
        self._failures = 0
        #: The estimate of the first messages, and how many they are.
        self._known: tuple[int, int, int] = (0, 0, 0)
        self._overhead: tuple[object, int] = (None, 0)

    # -- measuring -----------------------------------------------------------------

    def calibrate(self, run: Run, finished: MessageFinished) -> None:
        """Compare the estimate for the last request with the usage reported for it."""
        self._is_too_long = self._has_tried = False
        reported, estimated = finished.usage.input_tokens, self._estimated(run)
        is_sum = any(isinstance(b, ProviderBlock) for b in finished.message.content)
        if finished.usage.estimated or not reported or not estimated or is_sum:
            return  # some providers add up several passes of their own tools
        low, high = _SCALES
        if low <= reported / estimated <= high:
            run.transcript.scale = reported / estimated

    def _estimated(self, run: Run) -> int:
        """Return the estimated tokens of the next request; O(1) for what is known."""
        transcript, replaced = run.transcript, run.progress.compactions
        count, total, version = self._known
        if version != replaced or count > len(transcript):
            count = total = 0
        total += estimate(transcript[count:])
        self._known = (len(transcript), total, replaced)
        return total + self.overhead(run)

    def overhead(self, run: Run) -> int:
        """Return the estimated tokens of the system prompt and the tools."""
        toolset, size = self._overhead
        if toolset is not run.toolset:
            toolset = run.toolset
            specs = len(msgspec.json.encode(run.toolset.specs, enc_hook=repr))
            size = tokens_of(specs + len(run.setup.options.system))
            self._overhead = (toolset, size)
        return size

    def used(self, run: Run) -> int:
        """Return the size of the next request in tokens, about."""
        return math.ceil(self._estimated(run) * run.transcript.scale)

    def window(self, run: Run) -> int | None:
        """Return the context window in tokens, if it is known."""
        return self.settings.window or run.setup.model.context_window

    def _limit(self, run: Run, window: int) -> float:
        """Return the size at which a compaction begins."""
        response = min(run.setup.options.max_tokens or 0, _RESPONSE * window)
        return min(self.settings.at * window, window - response)

    # -- deciding ------------------------------------------------------------------

    def is_due(self, run: Run) -> bool:
        """Return whether to compact the conversation before the next request."""
        if self._is_too_long:
            return not self._has_tried
        window = self.window(run)
        if window is None:
            return False
        used = self.used(run)
        if used < self._limit(run, window) or used < self._size_after * _GROWTH:
            return False
        is_soon = self._turn is not None and run.meter.turns - self._turn < _TURNS
        return not is_soon or used >= window

    def take(self, error: ContextTooLong, run: Run) -> bool:
        """Return whether a compaction may help after *error*."""
        if self._has_tried:
            note = "; the conversation was compacted before, which was not enough"
            error.args = (f"{error}{note}",)
            return False
        self._is_too_long = True
        window, used = self.window(run), self.used(run)
        if window is not None and used < window:
            run.transcript.scale *= window / max(1, used)  # the provider knows better
        return True

    def compact(self, run: Run) -> Compacted | None:
        """Compact the conversation; return the event to yield if that has helped.

        Cancellation: ends at once, and leaves the conversation as it was.

        :raises CompactionFailed: it has helped too little again and again.
        """
        cause: _Cause = "too_long" if self._is_too_long else "window"
        window, before = self.window(run), self.used(run)
        target = int(self.settings.target * min(window or before, before))
        if window is not None and cause == "window":
            target = int(self.settings.target * window)
        self._has_tried = self._is_too_long
        room = RunRoom(self, run, target)
        old = tuple(run.transcript)
        try:
            new, names = self._steps(old, room)
        except _BudgetReached:
            return None  # the loop ends the run
        after = room.size(new)
        if new is old or after >= before:
            self._size_after = before  # not again before it has grown
            return None
        self._note(run, window, after)
        run.progress.swap(run.transcript, new)
        return Compacted(
            *(before, after, len(old), len(new), cause, tuple(names), room.summary)
        )

    def _steps(
        self, old: Sequence[Message], room: RunRoom
    ) -> tuple[Sequence[Message], list[str]]:
        """Take the steps in order, until the conversation is short enough."""
        new, names = old, list[str]()
        for step in (*self.settings.steps, ShortenResults()):
            if new is not old and room.size(new) <= room.target:
                break
            is_last = len(names) and isinstance(step, ShortenResults)
            if is_last and room.size(new) < room.limit:
                break
            made = step.compact(new, room)
            room.token.checkpoint()
            if made is None:
                continue
            new = tuple(repaired(_checked(made, step)))
            room.find_start(new)
            names.append(type(step).__name__)
        return new, names

    def _note(self, run: Run, window: int | None, after: int) -> None:
        """Note how much a compaction has helped.

        :raises CompactionFailed: too little, again and again.
        """
        turns, last = run.meter.turns, self._turn
        self._turn, self._size_after = turns, after
        is_enough = window is None or after < _ENOUGH * self._limit(run, window)
        is_late = last is None or turns - last > _TURNS + 1
        self._failures = 0 if is_enough or is_late else self._failures + 1
        if self._failures >= _PATIENCE:
            raise CompactionFailed(
                f"the conversation was compacted {self._failures} times within a few "
                f"turns, and still has about {after:,} tokens of {window:,}; use a "
                "model with a larger context window, fewer tools, or other steps"
            )


class RunRoom:
    """The :class:`~syncagent.compaction.Room` of a run."""

    def __init__(self, compacting: Compacting, run: Run, target: int) -> None:
        self._compacting = compacting
        self._run = run
        self.target: Final = max(1, target)
        self.window: Final = compacting.window(run)
        #: The text that a model has written last.
        self.summary = ""
        #: The number of the first message of the run.
        self.start = run.progress.start
        self._prompt = next(iter(run.transcript[self.start : self.start + 1]), None)

    def find_start(self, messages: Sequence[Message]) -> None:
        """Note where the run begins in the messages that a step has made."""
        same = (n for n, message in enumerate(messages) if message is self._prompt)
        self.start = next(same, 0)

    @property
    def token(self) -> CancelToken:
        """The token of the run."""
        return self._run.token

    @property
    def limit(self) -> float:
        """The size at which the conversation is too long."""
        if self.window is None:
            return self.target
        return self._compacting._limit(self._run, self.window)

    def size(self, messages: Sequence[Message]) -> int:
        """Return how many tokens a request with *messages* has, about."""
        total = estimate(messages) + self._compacting.overhead(self._run)
        return math.ceil(total * self._run.transcript.scale)

    def ask(
        self,
        prompt: str,
        *,
        system: str = "",
        model: Any = None,
        max_tokens: int | None = None,
    ) -> str:
        """Ask a model, and return its text.

        Cancellation: ends at once.
        """
        if model is not None:
            model = find_model(model)
        self.summary = ask_aside(self._run, prompt, system, model, max_tokens)
        return self.summary


#: Checked by mypy: a RunRoom is a Room.
_ROOM: type[Room] = RunRoom


class _BudgetReached(Exception):
    """No budget allows a request; the meter says which limit was reached."""


def ask_aside(
    run: Run, prompt: str, system: str, model: Model | None, max_tokens: int | None
) -> str:
    """Ask a model something that does not belong to the conversation of *run*.

    Cancellation: ends at once.

    :param model: by default that of the run.
    :return: the text of its response.
    """
    meter, deferred = run.meter, run.claim.deferred
    asked = meter.model if model is None else meter.metered(model)
    own = run.setup.options if model is None else model.options
    options = Options(
        system=system,
        temperature=own.temperature,
        max_tokens=max_tokens or own.max_tokens,
        effort=own.effort,
        thinking_tokens=own.thinking_tokens,
        metadata=own.metadata,
        extra=own.extra,
    )
    meter.turns += 1
    try:
        token = deferred.operation_token(run.token)
        token.checkpoint()
        timeouts = run.setup.timeouts if model is None else None
        messages = [UserMessage.of(prompt)]
        response = asked.ask(messages, token=token, options=options, timeouts=timeouts)
        with closing(response):
            bound = largest_usage(response.sent, options.max_tokens)
            if not meter.reserve(bound, token, lambda: run.enter("budget"), asked):
                meter.turns -= 1
                raise _BudgetReached
            run.enter("compaction")
            for event in response:
                if isinstance(event, MessageFinished):
                    meter.spend(event.usage, asked)
                    return event.message.text
    except (Cancelled, SyncAgentError) as error:
        usage = error.usage
        if usage is not None and usage.total_tokens:
            meter.spend(usage, asked)
        error.usage = None
        if isinstance(error, Cancelled):
            # A cancel "after_tools" has ended only this: raise it for the run.
            run.raise_if_cancel_due("after_tools")
        raise
    finally:
        meter.release()
        deferred.operation_ended()
    raise AssertionError("a response without MessageFinished")


def replace_conversation(run: Run, messages: Sequence[Message]) -> Compacted:
    """Put the messages of a hook in place of the conversation; return the event."""
    new = tuple(repaired(_checked(messages, "Replace")))
    old = tuple(run.transcript)
    scale = run.transcript.scale
    run.progress.swap(run.transcript, new)
    before, after = (math.ceil(estimate(each) * scale) for each in (old, new))
    return Compacted(before, after, len(old), len(new), "hook")


def _checked(messages: Any, source: object) -> list[Message]:
    """Return the messages that a user's code has made.

    :raises CompactionFailed: they are not messages, or there are none.
    """
    found = list(messages) if isinstance(messages, Sequence) else []
    if not found or not all(isinstance(each, Message) for each in found):
        name = source if isinstance(source, str) else type(source).__name__
        raise CompactionFailed(
            f"{name} must give a list of messages, of syncagent.messages, that is not "
            f"empty; got {messages!r:.80}"
        )
    return found
