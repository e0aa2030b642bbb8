"""Run the calls of a tool round: one after the other, or several at once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Final, Literal, Protocol

from ..cancel import CancelToken, Mailbox, clock
from ..cancel.deadlines import earlier
from ..cancel.handler_errors import raised_by_signal_handler
from ..events import BackgroundRequested, RunEvent
from ..exceptions import Cancelled
from .abandoned import abandoned
from .call_stop import CallStop
from .context import RunServices
from .detachable import DetachableWork
from .invocation import Ending, Invocation
from .slow_stop import SlowStop

__all__ = ["Executor", "ExecutorServices", "ShownEvent"]

#: Seconds that a tool has to stop after its timeout before it is left behind. On a busy
#: machine the thread needs some of them only to wake up.
_UNWINDING: Final = 0.25
#: Seconds to wait for the end of a process that ``force`` has killed.
_DYING: Final = 2.0

#: The result of a call that could not be left behind.
_TOO_MANY: Final = (
    "Not started: {} or more earlier calls did not stop, and still run on threads that "
    "were left behind; this call might add to them (max_abandoned)."
)


class ExecutorServices(RunServices, Protocol):
    """The services of a run for its executor."""

    def is_waiting(self, call_id: str) -> bool:
        """True while a call waits for a sub-agent or an answer; asked on any thread."""


class ShownEvent:
    """An event of a tool on the run's own thread, which observers have seen already.

    The tool blocks the run: its events reach observers at once, and the stream when the
    tool returns. Observers that join in between, those of a handle that takes the run
    over, see it then.
    """

    __slots__ = ("event", "observer_count")

    def __init__(self, event: RunEvent, observer_count: int) -> None:
        self.event = event
        #: How many observers have seen it: the first ones.
        self.observer_count = observer_count


#: Has the executor look at its calls: one of them was cancelled alone.
_LOOK: Final = "look"
#: The end of a call, an event to pass on, or _LOOK.
_Mail = tuple[Invocation, Ending] | RunEvent | ShownEvent | Literal["look"]


class Executor:
    """Runs calls on the run's own thread, on other threads, or in processes.

    When :meth:`run` has ended, every call that it started has ended too, or was left
    behind and is listed in :func:`syncagent.abandoned`.

    :param token: the run's.
    :param width: how many calls may run at once.
    :param after: given a call that has ended; returns true to make it again.
    :param leaving: cancelled to request a :class:`BackgroundRequested` event.
    """

    def __init__(
        self,
        services: ExecutorServices,
        token: CancelToken,
        *,
        width: int,
        after: Callable[[Invocation], bool],
        leaving: CancelToken | None = None,
    ) -> None:
        self._services = services
        self._token = token
        #: Cancelled with the run, and when anything else ends the round.
        self._stop = token.child()
        self._width = width
        self._after = after
        self._mail: Mailbox[_Mail] = Mailbox()
        self._leaving = leaving
        #: Ends a wait: *token*, and *leaving* until its event was yielded.
        self._wake: CancelToken | None = None
        self._running: dict[Invocation, tuple[DetachableWork[Ending], CancelToken]] = {}
        #: The call on the run's own thread.
        self._own_call: Invocation | None = None
        self._is_sequential = True
        #: All calls that :meth:`run` makes; read on any thread.
        self.calls: tuple[Invocation, ...] = ()

    def run(
        self, invocations: Sequence[Invocation]
    ) -> Generator[RunEvent | ShownEvent, None, None]:
        """Make the calls, and yield their events.

        Cancellation: no further call starts; running ones end by their policies.

        :raises Cancelled: the run was cancelled; every call that started is settled.
        """
        self._is_sequential = self._width == 1 or len(invocations) == 1
        look = partial(self._mail.put, _LOOK)
        for invocation in invocations:
            invocation.stop = CallStop(look)
        self.calls = tuple(invocations)
        slow_stop = SlowStop(self._services.run_id, self._waits_for)
        try:
            slow_stop.watch(self._stop)
            for invocation in invocations:
                while invocation.is_open and not self._has_room(invocation):
                    yield from self._receive()
                if invocation.is_open:
                    yield from self._begin(invocation)
            while self._running:
                yield from self._receive()
            for invocation in invocations:  # those that ask, and were cancelled
                stop = invocation.stop
                if invocation.is_open and stop is not None and not stop.settle():
                    yield from self._end_stopped(invocation)
        except BaseException as error:
            self._stop.cancel("the round has ended", "closed")
            raised = self._wind_down()
            try:
                if raised is not None and isinstance(error, Cancelled):
                    raise raised from None
            finally:
                del raised  # its traceback has this frame: they would be a cycle
            raise
        finally:
            self._stop.detach(slow_stop)
            self.close_stops()

    def _end_stopped(self, invocation: Invocation) -> Iterator[RunEvent | ShownEvent]:
        """End a call that was cancelled alone, and that does not run."""
        invocation.end_stopped()
        if invocation.is_started:
            self._wants_again(invocation)  # for the hooks
        yield invocation.finished()

    def close_stops(self) -> None:
        """Let no cancel of a call in any more. Safe to repeat."""
        for invocation in self.calls:
            stop = invocation.stop
            if stop is None or stop.outcome is not None:
                continue
            if not stop.settle() and invocation.is_open:
                invocation.end_stopped()
            stop.close(invocation.outcome)

    def _waits_for(self) -> list[str]:
        """Return the tools that a cancel waits for; called on the timer thread.

        A call that waits for a sub-agent is not among them: that run has tools itself.
        """
        own, running = self._own_call, list(self._running)
        calls = running if own is None else [own, *running]
        return [
            call.call.name
            for call in calls
            if call.tool is not None and call.tool.on_cancel == "wait"
            if not self._services.is_waiting(call.call.call_id)
        ]

    def post(self, event: RunEvent | ShownEvent) -> None:
        """Add an event to those of :meth:`run`; called on any thread."""
        self._mail.put(event)

    def _has_room(self, invocation: Invocation) -> bool:
        if not self._running:
            return True
        assert invocation.tool is not None
        running = [other.tool for other in self._running]
        is_shared = all(tool is not None and tool.parallel for tool in running)
        is_free = len(running) < self._width
        return is_free and is_shared and invocation.tool.parallel

    def _begin(self, invocation: Invocation) -> Iterator[RunEvent | ShownEvent]:
        tool = invocation.tool
        assert tool is not None
        self._token.checkpoint()
        if invocation.is_stopped:
            yield from self._end_stopped(invocation)
            return
        if tool.can_be_left and len(abandoned()) >= tool.max_abandoned:
            invocation.refuse(_TOO_MANY.format(tool.max_abandoned), "not_started")
            yield invocation.finished()
            return
        yield invocation.started()
        self._token.checkpoint()
        if tool.needs_thread or (tool.parallel and not self._is_sequential):
            self._start(invocation)
            return
        while True:
            token = self._token_for(invocation)
            try:
                self._own_call = invocation
                invocation.end(invocation.perform(self._services, token))
            except BaseException:  # from a signal handler, right before or after
                invocation.lose()
                raise
            finally:
                self._own_call = None
            while (event := self._mail.take()) is not None:
                assert not isinstance(event, tuple)
                if event != _LOOK:
                    yield event
            if invocation.is_open:  # it asked, and is called again with the answer
                return
            if not self._wants_again(invocation):
                yield invocation.finished()
                return
            yield from self._begin_again(invocation)

    def _wants_again(self, invocation: Invocation) -> bool:
        """Show an ended call to the hooks; true to make it again."""
        ending = invocation.ending
        error = None if ending is None else ending.take_error()
        if error is not None:
            try:
                raise error
            finally:
                del error  # as in run()
        wants_again = self._after(invocation)
        return wants_again and not (self._token.cancelled or invocation.is_stopped)

    def _begin_again(self, invocation: Invocation) -> Iterator[RunEvent | ShownEvent]:
        """Announce another attempt; the last one counts until then."""
        yield invocation.started()
        self._token.checkpoint()
        invocation.begin_again()

    def _token_for(self, invocation: Invocation) -> CancelToken:
        """Return the token of the next attempt of a call."""
        assert invocation.tool is not None
        token = self._stop.child(invocation.tool.timeout)
        if invocation.stop is not None:
            invocation.stop.begin(token)
        return token

    def _start(self, invocation: Invocation) -> None:
        """Start a call on a thread of its own."""
        token = self._token_for(invocation)
        call, mail, services = invocation.call, self._mail, self._services
        work = DetachableWork(
            *(call.name, call.call_id, services.run_id),
            lambda: invocation.perform(services, token),
            lambda ending: mail.put((invocation, ending)),
        )
        self._running[invocation] = (work, token)
        try:
            work.start()
        except RuntimeError as error:
            if raised_by_signal_handler(error):
                raise
            message = f"no thread could be started for this call: {error}"
            mail.put((invocation, Ending.with_message("failed", message)))

    def _receive(self) -> Iterator[RunEvent | ShownEvent]:
        """Wait for the next event or the end of a call, and yield what follows."""
        limits = [at for call in self._running if (at := self._due_at(call))]
        if self._wake is None:
            leaving = self._leaving
            self._wake = (
                self._token
                if leaving is None
                else CancelToken.any_of(self._token, leaving)
            )
        item = self._mail.get(self._wake, min(limits, default=None))
        if item is None:
            self._token.checkpoint()
            if self._leaving is not None and self._leaving.cancelled:
                self._leaving, self._wake = None, self._token
                yield BackgroundRequested()
            for invocation in list(self._running):
                # _leave() is false if it has just ended: its mail is on the way.
                is_due = _is_past(self._due_at(invocation))
                if is_due and self._leave(invocation):
                    yield from self._ended(invocation)
        elif isinstance(item, tuple):
            self._take(item)
            yield from self._ended(item[0])
        elif item == _LOOK:
            for invocation in self.calls:  # those that wait for their turn
                is_waiting = invocation.is_open and invocation not in self._running
                if is_waiting and invocation.is_stopped:
                    yield from self._end_stopped(invocation)
        else:
            yield item

    def _take(self, item: tuple[Invocation, Ending]) -> None:
        invocation, ending = item
        invocation.end(ending)  # first: a signal handler may raise after this line
        self._running.pop(invocation, None)

    def _ended(self, invocation: Invocation) -> Iterator[RunEvent | ShownEvent]:
        if invocation.is_open:
            return
        if not self._wants_again(invocation):
            yield invocation.finished()
            return
        yield from self._begin_again(invocation)
        self._start(invocation)

    def _late_at(self, invocation: Invocation) -> float | None:
        """Return when a call on a thread is left behind because of its timeout."""
        tool, (_, token) = invocation.tool, self._running[invocation]
        assert tool is not None
        deadline = token.deadline
        if tool.timeout is None or tool.runs_in_process or deadline is None:
            return None
        return deadline + _UNWINDING

    def _due_at(self, invocation: Invocation) -> float | None:
        """Return when a call is left behind: for its timeout, or its own cancel."""
        return earlier(self._late_at(invocation), _stopped_until(invocation))

    def _leave(self, invocation: Invocation) -> bool:
        """Leave a call behind; false if it has ended."""
        work, _ = self._running[invocation]
        timed_out = _is_past(self._late_at(invocation))
        if not work.leave():
            return False
        invocation.leave(timed_out=timed_out)
        self._running.pop(invocation)
        return True

    # -- the end -------------------------------------------------------------------

    def _wind_down(self) -> BaseException | None:
        """Wait for running calls as their policies say, and leave the rest behind.

        :return: the exception of a tool that ends the run, if there is one.
        """
        ended: list[Invocation] = []
        try:
            since = clock.now()
            ended += self._collect()
            while self._running:
                forced = self._services.forced
                limits = [self._left_at(call, since) for call in self._running]
                # After force only the ends of the killed processes are awaited.
                token = CancelToken() if forced.cancelled else forced
                item = self._mail.get(token, min(filter(None, limits), default=None))
                if isinstance(item, tuple) and item[0] in self._running:
                    self._take(item)
                    ended.append(item[0])
                elif item is None:
                    self._leave_late(since)
        finally:
            self.leave_rest()
        for invocation in ended:
            if not invocation.is_open:
                self._after(invocation)  # for the hooks; no call is made again
        errors = [call.ending.take_error() for call in ended if call.ending]
        return next(filter(None, errors), None)

    def leave_rest(self) -> None:
        """Leave behind whatever runs. Safe to repeat, if that was interrupted."""
        if not self._running:
            return
        self._stop.cancel("the round has ended", "closed")
        self._collect()
        for invocation in list(self._running):
            if not self._leave(invocation):
                invocation.lose()
        self._running.clear()

    def _leave_late(self, since: float) -> None:
        for invocation in list(self._running):
            if _is_past(self._left_at(invocation, since)):
                self._leave(invocation)

    def _left_at(self, invocation: Invocation, since: float) -> float | None:
        """Return when a call that was told to stop at *since* is left behind."""
        tool = invocation.tool
        assert tool is not None
        forced = self._services.forced.reason
        if forced is not None:
            return forced.at + (_DYING if tool.runs_in_process else 0.0)
        limits = [since + tool.grace] if tool.on_cancel == "abandon" else []
        due_at = self._due_at(invocation)
        if due_at is not None:
            limits.append(due_at)
        return min(limits, default=None)

    def _collect(self) -> list[Invocation]:
        """Settle calls that have ended, and withdraw those that have not begun.

        A signal handler may have raised between two steps of the executor: then a
        thread was never started, or its mail was taken out of the mailbox and lost.
        """
        ended: list[Invocation] = []
        for invocation, (work, _) in list(self._running.items()):
            if work.withdraw():
                self._running.pop(invocation)
            elif work.result is not None:
                self._take((invocation, work.result))
                ended.append(invocation)
        return ended


def _stopped_until(invocation: Invocation) -> float | None:
    """Return when a call that was cancelled alone is left behind, if it is."""
    tool, stop = invocation.tool, invocation.stop
    if tool is None or stop is None or stop.cause is None:
        return None
    if stop.forced_at is not None:
        return stop.forced_at + (_DYING if tool.runs_in_process else 0.0)
    return stop.cause[2] + tool.grace if tool.on_cancel == "abandon" else None


def _is_past(at: float | None) -> bool:
    return at is not None and at <= clock.now()
