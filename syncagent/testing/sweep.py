"""Cancel an agent at every point where it checks its token or waits."""

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
from ..run.compacting import ask_aside
from ..run.run import Run
from ..tools.abandoned import abandoned
from ..tools.invocation import Invocation
from .accepted import complaints
from .leaks import no_leaks

__all__ = ["Point", "Sweep", "Way", "cancel_everywhere"]

#: The thread that cancels: ``inside`` the run's own thread, as a signal handler would;
#: another ``thread``, while the run's thread waits for it; or, ``meanwhile``, another
#: one while the run's thread continues, into a wait if there is one.
Way = Literal["inside", "thread", "meanwhile"]

#: Functions that check a token, or register a wait with it.
_CHECKS: Final = {
    CancelToken.checkpoint.__code__: "checkpoint",
    CancelToken._link.__code__: "wait",
    CancelToken._enrol.__code__: "attach",
}
#: Functions that must not be called once a cancel has returned.
_STARTS: Final = {
    Invocation._call.__code__: "a tool",
    Run.send_request.__code__: "a model call",
    ask_aside.__code__: "a request for a summary",
}
#: Seconds after which a cancelled run counts as stuck.
_LIMIT: Final = 20.0


class Point(msgspec.Struct, frozen=True):
    """A point at which a run was cancelled."""

    number: int
    #: ``checkpoint``, ``wait`` or ``attach``.
    kind: str
    #: The phase of the run.
    phase: str
    #: That of the result.
    stop_reason: str

    def __str__(self) -> str:
        return f"point {self.number} ({self.kind} in phase {self.phase!r})"


class Sweep(msgspec.Struct, frozen=True):
    """The points of a sweep; every check passed at each of them."""

    points: tuple[Point, ...]

    @property
    def phases(self) -> set[str]:
        """All phases in which a run was cancelled."""
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
    max_points: int = 10_000,
) -> Sweep:
    """Run an agent again and again, and cancel it one point later each time.

    Each time these are checked: the run ended cancelled, and nothing started after the
    cancel; nothing is left running; every provider in the kit would accept the
    conversation; and the next run on the same agent succeeds.

    :param make_agent: makes a new agent. Its model must never run out of responses,
        such as ``ScriptedModel(function)`` or one on a :class:`~.FakeServer`.
    :param cancel: cancels the agent, in place of its ``cancel()``.
    :param run: runs the agent, in place of its ``run()``.
    :param again: the prompt of the next run.
    :param allow_abandoned: True if tools may be left behind, as those with
        ``on_cancel="abandon"`` are.
    :param max_points: the largest number of points.
    :raises AssertionError: a check failed; the message names the point.
    """
    points: list[Point] = []
    for number in range(1, max_points + 1):
        with no_leaks(allow_threads=allow_abandoned):
            attempt = _Attempt(make_agent(), number, way, cancel or _cancel)
            result = attempt.run(prompt, run or _run)
            point = attempt.point(result)
            if point is None:
                break
            attempt.check(result, point, allow_abandoned)
            attempt.check_next(again, run or _run, point)
            points.append(point)
    else:
        raise ConfigurationError(
            f"the run has more than {max_points} points; give it less to do, or raise "
            "max_points="
        )
    if not points:
        raise AssertionError("the run never checked its token")
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
        #: Names of what started after the cancel had returned.
        self._late_starts: list[str] = []
        self._root: CancelToken | None = None

    def run(self, prompt: Any, run: Callable[[Agent, Any], RunResult]) -> RunResult:
        """Run the agent, and cancel it at the point."""
        before = sys.getprofile()
        threading.setprofile(self._watch)
        sys.setprofile(self._watch)
        try:
            return run(self.agent, prompt)
        finally:
            sys.setprofile(before)
            threading.setprofile(None)
            if self._canceller is not None:
                self._canceller.join(_LIMIT)

    def point(self, result: RunResult) -> Point | None:
        """Return the point, or None if the run ended before it."""
        if self._where is None:
            return None
        return Point(self._number, *self._where, result.stop_reason)

    def _watch(self, frame: FrameType, event: str, arg: object) -> None:
        if event != "call":
            return
        if self._has_returned and frame.f_code in _STARTS:
            self._late_starts.append(_STARTS[frame.f_code])
        kind = _CHECKS.get(frame.f_code)
        if kind is None or self._where is not None or not self._is_ours(frame):
            return
        self._count += 1
        if self._count != self._number:
            return
        live = self.agent._conversation.slot.live
        self._where = (kind, "" if live is None else live.phase)
        if self._way == "inside":
            self._do_cancel()
            return
        self._canceller = threading.Thread(target=self._do_cancel, daemon=True)
        self._canceller.start()
        if self._way == "thread":
            self._canceller.join(_LIMIT)

    def _is_ours(self, frame: FrameType) -> bool:
        """Return whether the token is that of the live run, or a descendant of it."""
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

    def _do_cancel(self) -> None:
        sys.setprofile(None)
        self._receipt = self._cancel(self.agent)
        if self._way == "inside":
            sys.setprofile(self._watch)
        self._has_returned = True

    # -- afterwards ----------------------------------------------------------------

    def check(self, result: RunResult, point: Point, allow_abandoned: bool) -> None:
        """Check the promises of a cancel."""
        agent, receipt = self.agent, self._receipt
        _that(receipt is not None, point, "cancel() did not return")
        assert receipt is not None
        if self._way != "meanwhile":
            _that(bool(receipt), point, "the run was live, but cancel() missed it")
            _that(
                not self._late_starts,
                point,
                f"{self._late_starts} started after the cancel",
            )
        _that(bool(receipt) == result.cancelled, point, f"{receipt!r}, {result!r:.200}")
        _that(receipt.wait(_LIMIT), point, "the run has not ended")
        _that(not agent.is_running, point, "the agent is still busy")
        _that(not agent.cancel_signal.is_set(), point, "the signal is still set")
        left = () if allow_abandoned else abandoned()
        _that(not left, point, f"tools were left behind: {left}")
        _check_messages(agent.messages, point)
        _check_outcomes(result, point)

    def check_next(
        self, prompt: Any, run: Callable[[Agent, Any], RunResult], point: Point
    ) -> None:
        """Check that the next run on the same agent succeeds."""
        result = run(self.agent, prompt)
        is_well = not result.cancelled and result.stop_reason != "limit"
        _that(is_well, point, f"the next run ended with {result.stop_reason}")
        messages = self.agent.messages
        has_prompt = any(isinstance(message, UserMessage) for message in messages)
        _that(has_prompt, point, "the next prompt is not in the conversation")
        _check_messages(messages, point)


def _that(condition: bool, point: Point, problem: str) -> None:
    if not condition:
        raise AssertionError(f"cancelled at {point}: {problem}")


def _check_messages(messages: tuple[Message, ...], point: Point) -> None:
    for provider, complaint in complaints(messages).items():
        _that(False, point, f"{provider} would reject the conversation: {complaint}")


def _check_outcomes(result: RunResult, point: Point) -> None:
    """Check that every call of the run has exactly one outcome and one result."""
    calls: list[str] = []
    results: list[str] = []
    for message in result.new_messages:
        if isinstance(message, AssistantMessage):
            calls += [call.call_id for call in message.tool_calls]
        elif isinstance(message, ToolMessage):
            results += [each.call_id for each in message.content]
    _that(calls == results, point, f"calls {calls}, but results {results}")
    if calls:  # a rollback removes them from the messages
        outcomes = [each.call_id for each in result.tool_outcomes]
        if result.compactions:  # the messages of earlier calls may be gone
            outcomes = outcomes[-len(calls) :]
        _that(outcomes == calls, point, f"calls {calls}, but outcomes {outcomes}")
