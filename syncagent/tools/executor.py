"""Run the calls of a tool round: one after the other, or several at once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final, Protocol

from ..cancel import CancelToken, Mailbox, clock
from ..cancel.handler_errors import raised_by_signal_handler
from ..events import BackgroundRequested, RunEvent
from ..exceptions import Cancelled
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


#: The end of a call, or an event to pass on.
_Mail = tuple[Invocation, Ending] | RunEvent | ShownEvent


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

    def run(
        self, invocations: Sequence[Invocation]
    ) -> Generator[RunEvent | ShownEvent, None, None]:
        """Make the calls, and yield their events.

        Cancellation: no further call starts; running ones end by their policies.

        :raises Cancelled: the run was cancelled; every call that started is settled.
        """
        self._is_sequential = self._width == 1 or len(invocations) == 1
        slow_stop = SlowStop(self._services.run_id, self._waits_for)
        try:
            slow_stop.watch(self._stop)
            for invocation in invocations:
                while not self._has_room(invocation):
                    yield from self._receive()
                yield from self._begin(invocation)
            while self._running:
                yield from self._receive()
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
        yield invocation.started()
        self._token.checkpoint()
        if tool.needs_thread or (tool.parallel and not self._is_sequential):
            self._start(invocation)
            return
        while True:
            token = self._stop.child(tool.timeout)
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
        return self._after(invocation) and not self._token.cancelled

    def _begin_again(self, invocation: Invocation) -> Iterator[RunEvent | ShownEvent]:
        """Announce another attempt; the last one counts until then."""
        yield invocation.started()
        self._token.checkpoint()
        invocation.begin_again()

    def _start(self, invocation: Invocation) -> None:
        """Start a call on a thread of its own."""
        assert invocation.tool is not None
        token = self._stop.child(invocation.tool.timeout)
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
        limits = [at for call in self._running if (at := self._late_at(call))]
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
                if _is_past(self._late_at(invocation)) and self._leave(
                    invocation, timed_out=True
                ):
                    yield from self._ended(invocation)
        elif isinstance(item, tuple):
            self._take(item)
            yield from self._ended(item[0])
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

    def _leave(self, invocation: Invocation, *, timed_out: bool = False) -> bool:
        """Leave a call behind; false if it has ended."""
        work, _ = self._running[invocation]
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
                timed_out = _is_past(self._late_at(invocation))
                self._leave(invocation, timed_out=timed_out)

    def _left_at(self, invocation: Invocation, since: float) -> float | None:
        """Return when a call that was told to stop at *since* is left behind."""
        tool = invocation.tool
        assert tool is not None
        forced = self._services.forced.reason
        if forced is not None:
            return forced.at + (_DYING if tool.runs_in_process else 0.0)
        limits = [since + tool.grace] if tool.on_cancel == "abandon" else []
        late_at = self._late_at(invocation)
        if late_at is not None:
            limits.append(late_at)
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


def _is_past(at: float | None) -> bool:
    return at is not None and at <= clock.now()
