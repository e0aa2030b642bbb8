"""Cancel an agent at every point where it looks or waits, and see what it leaves."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Literal

import msgspec

from ..agent import Agent
from ..cancel import CancelToken, Receipt
from ..exceptions import ConfigurationError
from ..messages import AssistantMessage, Message, ToolMessage, UserMessage
from ..result import RunResult
from ..run.run import Run
from ..tools.abandoned import abandoned
from ..tools.invocation import Invocation
from .accepted import complaints
from .leaks import no_leaks

__all__ = ["Point", "Sweep", "Way", "cancel_everywhere"]

#: From where a point is cancelled: by the thread that is there, as a signal handler
#: would; by another one, while this one waits for that; or by another one while this
#: one goes on, into the wait if there is one.
Way = Literal["inside", "thread", "meanwhile"]

#: Where a token is looked at, and where something that waits is hung on it.
_LOOKS: Final = {
    CancelToken.checkpoint.__code__: "checkpoint",
    CancelToken._link.__code__: "wait",
    CancelToken._enrol.__code__: "attach",
}
#: What must not begin once a cancel has returned.
_BEGINS: Final = {
    Invocation._call.__code__: "a tool",
    Run.send_request.__code__: "a model call",
}
#: Seconds after which a run that was cancelled counts as stuck.
_LONG: Final = 20.0


class Point(msgspec.Struct, frozen=True):
    """Where a run was cancelled."""

    number: int
    #: ``checkpoint``, ``wait`` or ``attach``.
    kind: str
    #: What the run was doing.
    phase: str
    #: The result's.
    stop_reason: str

    def __str__(self) -> str:
        return f"point {self.number} ({self.kind} in phase {self.phase!r})"


class Sweep(msgspec.Struct, frozen=True):
    """What a sweep has found: all is well at each of these points."""

    points: tuple[Point, ...]

    @property
    def phases(self) -> set[str]:
        """All that a run was doing when it was cancelled."""
        return {point.phase for point in self.points}


def cancel_everywhere(
    make_agent: Callable[[], Agent],
    prompt: Any,
    *,
    way: Way = "inside",
    cancel: Callable[[Agent], Receipt] | None = None,
    run: Callable[[Agent, Any], RunResult] | None = None,
    again: Any = "Go on.",
    allow_abandoned: bool = False,
    most: int = 10_000,
) -> Sweep:
    """Run an agent again and again, and cancel it one point later each time.

    After each time it is checked that the cancel was honoured, and nothing began after
    it; that nothing is left running; that all four kinds of provider would take the
    conversation; and that the next run on the same agent succeeds.

    :param make_agent: makes a new one, whose model never runs out of answers, such as
        ``ScriptedModel(function)`` or one on a :class:`~.FakeServer`.
    :param cancel: cancels the agent, in place of its ``cancel()``.
    :param run: runs the agent, in place of its ``run()``.
    :param again: what the agent is asked afterwards.
    :param allow_abandoned: may tools be left behind? By those with
        ``on_cancel="abandon"`` they are.
    :param most: how many points there can be at most.
    :raises AssertionError: something is wrong; the message says at which point.
    """
    points: list[Point] = []
    for number in range(1, most + 1):
        with no_leaks(allow_threads=allow_abandoned):
            attempt = _Attempt(make_agent(), number, way, cancel or _cancel)
            result = attempt.run(prompt, run or _run)
            point = attempt.point(result)
            if point is None:
                break
            attempt.check(result, point, allow_abandoned)
            _check_next(attempt.agent, run or _run, again, point)
            points.append(point)
    else:
        raise ConfigurationError(
            f"the run has more than {most} points; give it less to do, or say most="
        )
    if not points:
        raise AssertionError("the run never looked at its token")
    return Sweep(tuple(points))


def _cancel(agent: Agent) -> Receipt:
    return agent.cancel("swept")


def _run(agent: Agent, prompt: Any) -> RunResult:
    return agent.run(prompt)


class _Attempt:
    """One run that is cancelled at one point."""

    def __init__(
        self,
        agent: Agent,
        number: int,
        way: Way,
        cancel: Callable[[Agent], Receipt],
    ) -> None:
        self.agent = agent
        self._number = number
        self._way = way
        self._cancel = cancel
        self._count = 0
        self._where: tuple[str, str] | None = None
        self._receipt: Receipt | None = None
        self._has_returned = False
        self._canceller: threading.Thread | None = None
        #: What began after the cancel had returned.
        self._began: list[str] = []
        self._root: CancelToken | None = None

    def run(self, prompt: Any, run: Callable[[Agent, Any], RunResult]) -> RunResult:
        """Run the agent, and cancel it on the way."""
        before = sys.getprofile()
        threading.setprofile(self._watch)
        sys.setprofile(self._watch)
        try:
            return run(self.agent, prompt)
        finally:
            sys.setprofile(before)
            threading.setprofile(None)
            if self._canceller is not None:
                self._canceller.join(_LONG)

    def point(self, result: RunResult) -> Point | None:
        """Return where it was cancelled; nothing if it ended before."""
        if self._where is None:
            return None
        return Point(self._number, *self._where, result.stop_reason)

    def _watch(self, frame: FrameType, event: str, arg: object) -> None:
        if event != "call":
            return
        if self._has_returned and frame.f_code in _BEGINS:
            self._began.append(_BEGINS[frame.f_code])
        kind = _LOOKS.get(frame.f_code)
        if kind is None or self._where is not None or not self._is_ours(frame):
            return
        self._count += 1
        if self._count == self._number:
            self._fire(kind)

    def _is_ours(self, frame: FrameType) -> bool:
        """Is it a token of the live run, or one below it?"""
        live = self.agent._conversation.slot.live
        if live is None:
            return False
        tokens = [frame.f_locals["self"]]
        while tokens:
            token = tokens.pop()
            if token is live.token:
                return True
            tokens += token._parents
        return False

    def _fire(self, kind: str) -> None:
        live = self.agent._conversation.slot.live
        self._where = (kind, "" if live is None else live.phase)
        if self._way == "inside":
            self._do_cancel()
            return
        self._canceller = threading.Thread(target=self._do_cancel, daemon=True)
        self._canceller.start()
        if self._way == "thread":
            self._canceller.join(_LONG)

    def _do_cancel(self) -> None:
        sys.setprofile(None)
        self._receipt = self._cancel(self.agent)
        if self._way == "inside":
            sys.setprofile(self._watch)
        self._has_returned = True

    # -- afterwards ----------------------------------------------------------------

    def check(self, result: RunResult, point: Point, allow_abandoned: bool) -> None:
        """See that the promises have been kept."""
        agent, receipt = self.agent, self._receipt
        _that(receipt is not None, point, "cancel() did not return")
        assert receipt is not None
        if self._way != "meanwhile":
            _that(bool(receipt), point, "the run was live, and was not hit")
            _that(not self._began, point, f"{self._began} began after the cancel")
        _that(bool(receipt) == result.cancelled, point, f"{receipt!r}, {result!r:.200}")
        _that(receipt.wait(_LONG), point, "it has not ended")
        _that(not agent.is_running, point, "the agent is still busy")
        _that(not agent.cancel_signal.is_set(), point, "the signal is still set")
        left = () if allow_abandoned else abandoned()
        _that(not left, point, f"tools are left behind: {left}")
        _check_messages(agent.messages, point)
        _check_outcomes(result, point)


def _that(is_so: bool, point: Point, problem: str) -> None:
    if not is_so:
        raise AssertionError(f"cancelled at {point}: {problem}")


def _check_messages(messages: tuple[Message, ...], point: Point) -> None:
    for provider, complaint in complaints(messages).items():
        _that(False, point, f"{provider} would not take the conversation: {complaint}")


def _check_outcomes(result: RunResult, point: Point) -> None:
    """See that every call of the run has exactly one outcome and one result."""
    calls: list[str] = []
    results: list[str] = []
    for message in result.new_messages:
        if isinstance(message, AssistantMessage):
            calls += [call.call_id for call in message.tool_calls]
        elif isinstance(message, ToolMessage):
            results += [each.call_id for each in message.content]
    _that(calls == results, point, f"calls {calls}, but results {results}")
    if calls:  # else they may have been taken back
        told = [each.call_id for each in result.tool_outcomes]
        _that(told == calls, point, f"calls {calls}, but outcomes {told}")


def _check_next(
    agent: Agent,
    run: Callable[[Agent, Any], RunResult],
    prompt: Any,
    point: Point,
) -> None:
    result = run(agent, prompt)
    is_well = not result.cancelled and result.stop_reason != "limit"
    _that(is_well, point, f"the next run came to {result.stop_reason}")
    has_prompt = any(isinstance(message, UserMessage) for message in agent.messages)
    _that(has_prompt, point, "the next prompt is not in the conversation")
    _check_messages(agent.messages, point)
