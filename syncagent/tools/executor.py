"""Run the calls of a tool round: one after the other, or several at once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final

from ..cancel import CancelToken, Mailbox, clock
from ..events import BackgroundRequested, RunEvent
from ..exceptions import Cancelled
from .detachable import DetachableWork
from .invocation import Ending, Host, Invocation

__all__ = ["Executor"]

#: How long a tool that is told to stop by its timeout has to do so, in seconds, before
#: it is left behind. On a busy machine, a thread that wakes may need some of it.
_UNWINDING: Final = 0.25
#: How long a process that force has killed may take to be gone, in seconds, before
#: nobody waits for it any more. It takes a moment.
_DYING: Final = 2.0

#: What a call has come to, or what happens meanwhile.
_Mail = tuple[Invocation, Ending] | RunEvent


class Executor:
    """Run calls on the run's own thread, on others, or in processes, as they want.

    Nothing that it has started is there when it has ended, but for what is left behind
    on purpose; and that is noted.

    :param token: the run's.
    :param width: how many may run at once.
    :param after: looks at a call that has ended; returns whether to make it again.
    :param leaving: cancelled when whoever drives this wants an event, to leave.
    """

    def __init__(
        self,
        host: Host,
        token: CancelToken,
        *,
        width: int,
        after: Callable[[Invocation], bool],
        leaving: CancelToken | None = None,
    ) -> None:
        self._host = host
        self._token = token
        #: Cancelled with the run, and when anything else ends the round.
        self._stop = token.child()
        self._width = width
        self._after = after
        self._mail: Mailbox[_Mail] = Mailbox()
        self._leaving = leaving
        #: What ends a wait; also a wish for the background, until that is passed on.
        self._wake: CancelToken | None = None
        self._running: dict[Invocation, tuple[DetachableWork[Ending], CancelToken]] = {}
        self._is_alone = True

    def run(self, invocations: Sequence[Invocation]) -> Generator[RunEvent, None, None]:
        """Make the calls, and yield what happens.

        Cancellation: no further one begins; those that run are ended by their policies.

        :raises Cancelled: the run was cancelled; all calls that had begun are settled.
        """
        self._is_alone = self._width == 1 or len(invocations) == 1
        try:
            for invocation in invocations:
                while not self._has_room(invocation):
                    yield from self._receive()
                yield from self._begin(invocation)
            while self._running:
                yield from self._receive()
        except BaseException as error:
            self._stop.cancel("the round has ended", "closed")
            raised = self._wind_down()
            if raised is not None and isinstance(error, Cancelled):
                raise raised from None
            raise

    def post(self, event: RunEvent) -> None:
        """Take what is to be passed on, from any thread."""
        self._mail.put(event)

    def _has_room(self, invocation: Invocation) -> bool:
        if not self._running:
            return True
        assert invocation.tool is not None
        running = [other.tool for other in self._running]
        is_shared = all(tool is not None and tool.parallel for tool in running)
        is_free = len(running) < self._width
        return is_free and is_shared and invocation.tool.parallel

    def _begin(self, invocation: Invocation) -> Iterator[RunEvent]:
        tool = invocation.tool
        assert tool is not None
        self._token.checkpoint()
        yield invocation.started()
        self._token.checkpoint()
        if tool.needs_thread or not (self._is_alone or not tool.parallel):
            self._start(invocation)
            return
        while True:
            token = self._stop.child(tool.timeout)
            try:
                invocation.end(invocation.perform(self._host, token))
            except BaseException:  # a signal handler's, just before or after the tool
                invocation.lose()
                raise
            while (event := self._mail.take()) is not None:
                assert not isinstance(event, tuple)
                yield event
            if invocation.is_open:  # it asks: it is made again with the answer
                return
            if not self._wants_again(invocation):
                yield invocation.finished()
                return
            yield from self._begin_again(invocation)

    def _wants_again(self, invocation: Invocation) -> bool:
        """Look at a call that has ended, and tell whether it is made again."""
        ending = invocation.ending
        if ending is not None and ending.raised is not None:
            raise ending.raised
        return self._after(invocation) and not self._token.cancelled

    def _begin_again(self, invocation: Invocation) -> Iterator[RunEvent]:
        """Announce that a call is made again; until then it has ended as it has."""
        yield invocation.started()
        self._token.checkpoint()
        invocation.begin_again()

    def _start(self, invocation: Invocation) -> None:
        """Begin a call on a thread of its own."""
        assert invocation.tool is not None
        token = self._stop.child(invocation.tool.timeout)
        call, mail, host = invocation.call, self._mail, self._host
        errand = DetachableWork(
            *(call.name, call.call_id, host.run_id),
            lambda: invocation.perform(host, token),
            lambda ending: mail.put((invocation, ending)),
        )
        self._running[invocation] = (errand, token)
        try:
            errand.start()
        except RuntimeError as error:  # no thread to be had
            words = f"there is no thread for it: {error}"
            mail.put((invocation, Ending.badly("failed", words)))

    def _receive(self) -> Iterator[RunEvent]:
        """Wait until something happens, and yield it."""
        limits = [at for call in self._running if (at := self._late_at(call))]
        item = self._mail.get(self._waking(), min(limits, default=None))
        if item is None:
            self._token.checkpoint()
            if self._leaving is not None and self._leaving.cancelled:
                self._leaving, self._wake = None, self._token
                yield BackgroundRequested()
            for invocation in list(self._running):
                # Unless it has just ended: then its mail is on the way.
                if _is_past(self._late_at(invocation)) and self._leave(
                    invocation, timed_out=True
                ):
                    yield from self._ended(invocation)
        elif isinstance(item, tuple):
            self._take(item)
            yield from self._ended(item[0])
        else:
            yield item

    def _waking(self) -> CancelToken:
        """Return what ends the wait for tools on other threads."""
        if self._wake is None:
            token, leaving = self._token, self._leaving
            self._wake = (
                token if leaving is None else CancelToken.any_of(token, leaving)
            )
        return self._wake

    def _take(self, item: tuple[Invocation, Ending]) -> None:
        invocation, ending = item
        invocation.end(ending)  # first, as what a signal handler raises may come next
        self._running.pop(invocation, None)

    def _ended(self, invocation: Invocation) -> Iterator[RunEvent]:
        if invocation.is_open:
            return
        if not self._wants_again(invocation):
            yield invocation.finished()
            return
        yield from self._begin_again(invocation)
        self._start(invocation)

    def _late_at(self, invocation: Invocation) -> float | None:
        """Return when a call on a thread is left behind for being late."""
        tool, (_, token) = invocation.tool, self._running[invocation]
        assert tool is not None
        deadline = token.deadline
        if tool.timeout is None or tool.runs_in_process or deadline is None:
            return None
        return deadline + _UNWINDING

    def _leave(self, invocation: Invocation, *, timed_out: bool = False) -> bool:
        """Leave a call behind, unless it has ended."""
        errand, _ = self._running[invocation]
        if not errand.leave():
            return False
        invocation.leave(timed_out=timed_out)
        self._running.pop(invocation)
        return True

    # -- the end -------------------------------------------------------------------

    def _wind_down(self) -> BaseException | None:
        """Wait for what runs as its policy says, and leave the rest behind.

        :return: what a tool has raised meanwhile that has to go up.
        """
        ended: list[Invocation] = []
        try:
            since = clock.now()
            ended += self._collect()
            while self._running:
                item = self._wait_for_end(since)
                if isinstance(item, tuple) and item[0] in self._running:
                    self._take(item)
                    ended.append(item[0])
                elif item is None:
                    self._leave_late(since)
        finally:
            self._let_go()
        for invocation in ended:
            if not invocation.is_open:
                self._after(invocation)  # to look at; it is not made again
        endings = [call.ending for call in ended if call.ending is not None]
        return next((each.raised for each in endings if each.raised is not None), None)

    def _wait_for_end(self, since: float) -> _Mail | None:
        forced = self._host.forced
        limits = [at for call in self._running if (at := self._left_at(call, since))]
        # Nothing but the end of what it has killed can follow force.
        token = CancelToken() if forced.cancelled else forced
        return self._mail.get(token, min(limits, default=None))

    def _leave_late(self, since: float) -> None:
        for invocation in list(self._running):
            if _is_past(self._left_at(invocation, since)):
                timed_out = _is_past(self._late_at(invocation))
                self._leave(invocation, timed_out=timed_out)

    def _left_at(self, invocation: Invocation, since: float) -> float | None:
        """Return when a call is left behind that was told to stop at *since*."""
        tool = invocation.tool
        assert tool is not None
        forced = self._host.forced.reason
        if forced is not None:
            return forced.at + (_DYING if tool.runs_in_process else 0.0)
        limits = [since + tool.grace] if tool.on_cancel == "abandon" else []
        late_at = self._late_at(invocation)
        if late_at is not None:
            limits.append(late_at)
        return min(limits, default=None)

    def _collect(self) -> list[Invocation]:
        """Take what has ended, and take back what has not begun.

        A signal handler may have raised between two steps of ours: then the thread was
        never started, or its mail was taken out of the box and is lost.
        """
        ended: list[Invocation] = []
        for invocation, (errand, _) in list(self._running.items()):
            if errand.withdraw():
                self._running.pop(invocation)
            elif errand.done is not None:
                self._take((invocation, errand.done))
                ended.append(invocation)
        return ended

    def _let_go(self) -> None:
        """Settle what is left when nobody can wait any more."""
        self._collect()
        for invocation in list(self._running):
            if not self._leave(invocation):
                invocation.lose()


def _is_past(at: float | None) -> bool:
    return at is not None and at <= clock.now()
