"""The pipes of one server, and the threads that move bytes between them and callers.

::

    caller ── send() ──▶ queue ─────────────────▶ stdin
    caller ◀─ Pending ◀─ the leader, a caller ◀── stdout
                         or the I/O thread    ◀── stdout, without a leader
                         the I/O thread       ◀── stderr, the end of the process

Each server has an I/O thread. It writes what the pipe had no room for, and reads what
no caller waits for. A caller that waits and finds no one reading becomes the leader: it
reads the output itself, for all callers, until its own response is there. That saves
two changes of threads for each request. The main thread never leads: a signal handler
that raises there could lose what was read.

Guarantees:

- No server can block a caller: pipes never block, and every wait of a caller ends with
  its token and its timeouts.
- One thread at a time reads the output, and one at a time writes.
- No message of a server ends the thread that reads it, or loses the next message.
- The error output is always read: a full pipe would block the server.
- The end of the server, seen at its output or at its process, fails all requests at
  once. Its whole group is killed then: a wrapper may leave members behind.
- The I/O thread ends with the process, and the process with the thread.
- In a forked child all requests have failed, and nothing of the parent's is touched.
"""

from __future__ import annotations

import io
import logging
import math
import os
import select
import signal
import threading
import weakref
from contextlib import suppress
from typing import Final

from ..._forks import in_child
from ...cancel import CancelToken, Watch, clock
from ...cancel.once import Once, start_thread
from ...exceptions import MCPServerLost
from ...tools.processes.child import LOOK, NAP
from ...tools.processes.groups import add_pipe, describe_end
from ..connection import ConnectionOwner, Era
from ..handshake import DISCOVER, discover_params
from ..messages import MAX_MESSAGE_BYTES, decode, encode_request
from ..pending import Pending, PendingRequests
from .deafness import Deafness
from .leader import LeaderWake
from .output import ErrorTail, LineReader, LineTooLong
from .poller import Poller
from .process import ServerProcess, StdioSettings
from .writer import Outgoing, PipeWriter

__all__ = ["StdioChannel"]

_log = logging.getLogger("syncagent.mcp")

_READ: Final = 256 * 1024
#: Seconds to read on after the end of the process: its last words are in the pipes.
_DRAIN: Final = 0.2
#: Seconds of a close: to write what is queued, then for each step of the end.
_FLUSH: Final = 0.5
_STEP: Final = 1.0
#: Seconds that a leader needs to stop reading, at the most.
_HAND_OVER: Final = 5.0

_CLOSED: Final = "was closed"


class StdioChannel:
    """The process of a server, its pipes, and its I/O thread.

    :raises OSError: the process cannot be started.
    """

    def __init__(self, settings: StdioSettings, owner: ConnectionOwner) -> None:
        self._name = owner.name
        self._owner = owner
        self.requests: Final = PendingRequests(owner, self.send_bytes)
        #: Woken by everything that a probe may wait for.
        self.watch: Final = Watch()
        #: When the first byte of any output came.
        self.first_byte_at: float | None = None
        self.errors: Final = ErrorTail(owner.name)
        #: Held by the one thread that reads the output.
        self._reading = threading.Lock()
        self._lines = LineReader(MAX_MESSAGE_BYTES)
        #: True once there is no more output.
        self._is_drained = False
        self._has_complained = False
        self._deafness = Deafness()
        #: The era of the session, once it is known.
        self._era: Era | None = None
        #: Set once by the first reason to end: a close, a death, a fault.
        self._end_reason: Once[str] = Once()
        self._grace = math.inf
        self._is_killed = False
        self._over: Final = CancelToken()
        #: Pipes that wake the I/O thread and the leader: two readable, two writable.
        self._wakes: list[io.FileIO] = []
        #: Their writable ends for any thread: of the I/O thread, of the leader.
        self._rings: list[io.FileIO] = []
        self._poller = Poller()
        self._process = ServerProcess(settings)
        try:
            add_pipe(self._wakes)
            add_pipe(self._wakes)
            for end in self._wakes:
                os.set_blocking(end.fileno(), False)
            for end in self._wakes[1::2]:
                self._rings.append(io.FileIO(end.fileno(), "wb", closefd=False))
            self._process.start()
            self._input = self._process.stdin.fileno()
            self._output = self._process.stdout.fileno()
            self._leader_wake = self._wakes[3].fileno()
            #: Polled by the leader only.
            self._leader_poll = select.poll()
            for descriptor in (self._output, self._wakes[2].fileno()):
                self._leader_poll.register(descriptor, select.POLLIN)
            self._writer = PipeWriter(self._process.stdin)
            self._thread = threading.Thread(
                target=self._work, name=f"syncagent-mcp-{self._name}", daemon=True
            )
            _alive.add(self)
            start_thread(self._thread)
        except BaseException:
            self._process.end_despite_signals()
            self._close_descriptors()
            raise

    # -- on any thread -------------------------------------------------------------

    @property
    def is_usable(self) -> bool:
        """True until the server ends, or is ended; false in a forked child."""
        return not self._end_reason and not self._process.is_forgotten

    @property
    def end_reason(self) -> str | None:
        """Why it was ended; ``None`` before that."""
        return self._end_reason.value

    @property
    def pid(self) -> int:
        """The pid of the server, which is also the number of its group."""
        return self._process.pid

    def send_bytes(self, data: bytes) -> None:
        """Send a message, or queue it. Never blocks and never raises."""
        self.send(Outgoing(data))

    def send(self, outgoing: Outgoing) -> None:
        """Send a message, or queue it, once, however often this is called.

        Never blocks and never raises.
        """
        self._writer.add(outgoing)
        if self.can_lead and not self._end_reason:
            # An error is found by the I/O thread, too, which ends the server then.
            with suppress(OSError, ValueError):
                self._writer.write()
        if self._writer.has_more:
            self._ring()

    def watch_for_deafness(self, era: Era) -> None:
        """From now on, find out if a cancelled request has made the server deaf."""
        self._era = era

    def note_cancel(self) -> None:
        """A request was cancelled that the server has seen."""
        self._deafness.note_cancel(clock.now())

    def close(self, grace: float) -> None:
        """End the server: flush, close its input, SIGTERM, SIGKILL. Safe to repeat.

        Cancellation: not needed; it takes about *grace* seconds at most.
        """
        self._grace = min(self._grace, grace)
        self._end(_CLOSED)
        if self._process.is_forgotten:
            self._close_descriptors()
        elif threading.current_thread() is not self._thread:
            self._over.wait(grace + 6.0)

    def kill(self, why: str) -> None:
        """Kill the server without grace. Never blocks.

        :param why: the end of the sentence "the server ...".
        """
        self._is_killed = True
        self._end(why)

    def _end(self, why: str) -> None:
        self._end_reason.claim(why)  # publish first, then wake those who look
        self._ring()
        self._ring(is_leader=True)

    def _ring(self, *, is_leader: bool = False) -> None:
        """Wake the I/O thread, or the leader. Full means that it is awake already."""
        # Not os.write(): the number of a pipe that was just closed may be another's.
        with suppress(OSError, ValueError):
            self._rings[is_leader].write(b"!")

    def forget(self) -> None:
        """Leave the server to the parent, in a forked child."""
        self._end_reason.claim("belongs to the parent process")
        self.requests.fail_all(self.lost("the server belongs to the parent process"))
        self._close_descriptors()

    # -- on the thread of a caller -------------------------------------------------

    @property
    def can_lead(self) -> bool:
        """True if the calling thread may read the output itself."""
        is_main = threading.get_ident() == threading.main_thread().ident
        return self._poller.is_shared and not is_main

    def begin_to_lead(self, token: CancelToken) -> LeaderWake | None:
        """Become the reader of the output, unless there is one."""
        if self._end_reason or not self._reading.acquire(blocking=False):
            return None
        wake = LeaderWake(self._leader_wake)
        try:
            self._poller.forget(self._output)
            token.attach(wake)
        except BaseException:
            self.stop_leading(wake, token)
            raise
        return wake

    def stop_leading(self, wake: LeaderWake, token: CancelToken) -> None:
        """Leave the output to the I/O thread, or to the next leader."""
        wake.settle(token)
        if not self._end_reason:
            self._poller.watch(self._output)
        self._reading.release()
        if self._end_reason:
            self._ring()

    def lead(self, pending: Pending, until: float | None) -> None:
        """Read, as the leader, until there is news for *pending*.

        Cancellation: ends at once.

        :param until: the monotonic time at which to give up.
        """
        token = pending.caller.token
        while not (pending.has_news() or token.cancelled or self._end_reason):
            seconds = math.inf if until is None else until - clock.now()
            if seconds <= 0:
                return
            for descriptor, _ in self._leader_poll.poll(
                math.ceil(min(seconds, NAP) * 1000)
            ):
                if descriptor == self._output:
                    self._read_messages()
                else:
                    _read(descriptor)

    # -- on the I/O thread ---------------------------------------------------------

    def _work(self) -> None:
        try:
            self._move_bytes()
        except BaseException as error:
            self._end(f"could not be served: {error!r:.200}")
            _log.exception("%s: the I/O thread failed", self._name)
        try:
            self._end_process()
        finally:
            self._over.cancel("the server is gone", "closed")

    def _move_bytes(self) -> None:
        """Move bytes until there is a reason to end."""
        process = self._process
        for pipe in (self._wakes[0], process.stdout, process.stderr):
            self._poller.watch(pipe.fileno())
        if process.pidfd is not None:
            self._poller.watch(process.pidfd)
        nap = NAP if process.pidfd is not None else LOOK
        while not self._end_reason:
            self._poll_once(nap)
            if self._era is not None:
                self._check_hearing(self._era)

    def _poll_once(self, seconds: float) -> None:
        process = self._process
        if self._writer.has_more:
            self._poller.watch(self._input, for_room=True)
        ready = self._poller.wait(seconds)
        if self._wakes[0].fileno() in ready:
            _read(self._wakes[0].fileno())
        if not process.stderr.closed and process.stderr.fileno() in ready:
            self._read_errors()
        if self._output in ready and self._reading.acquire(blocking=False):
            try:  # no one leads
                self._read_messages()
            finally:
                self._reading.release()
        if self._input in ready or self._writer.has_more:
            self._write()
        if process.pidfd in ready or (process.pidfd is None and process.has_ended):
            self._end("ended")

    def _read_errors(self) -> None:
        data = _read(self._process.stderr.fileno())
        if data is None:
            return
        self._note_byte()
        self.errors.feed(data)
        if not data:
            self._poller.forget(self._process.stderr.fileno())
            self._process.stderr.close()

    def _read_messages(self) -> bool:
        """Read what is there; false if there is nothing. The caller may read alone."""
        data = _read(self._output)
        if not data:
            if data is not None:
                self._is_drained = True
                self._poller.forget(self._output)
                self._end("closed its output")
            return False
        self._note_byte()
        self._deafness.note_byte()
        try:
            for line in self._lines.feed(data):
                self._receive(line)
        except LineTooLong:
            self.kill(f"sent a line of more than {MAX_MESSAGE_BYTES} bytes")
        return True

    def _note_byte(self) -> None:
        if self.first_byte_at is None:
            self.first_byte_at = clock.now()
            self.watch.wake()

    def _receive(self, line: bytes) -> None:
        try:
            messages = decode(line)
        except ValueError:
            if not self._has_complained:
                self._has_complained = True
                _log.warning(
                    "%s: skipped a line of its output that is not a message: %.200r. "
                    "Further ones are skipped silently",
                    *(self._name, line[:200]),
                )
            return
        for message in messages:
            try:
                self.requests.receive(message)
            except Exception:
                _log.exception("%s: a message could not be taken", self._name)

    def _write(self) -> None:
        """Write what the pipe has room for now."""
        try:
            self._writer.write()
        except OSError:  # the server has closed its input: it will hardly answer
            self._close_input()
            self._end("closed its input")
        if not self._writer.has_more:  # another thread may have written the rest
            self._poller.forget(self._input)

    def _close_input(self) -> None:
        if not self._process.stdin.closed:
            self._poller.forget(self._input)
            self._writer.close()

    def _check_hearing(self, era: Era) -> None:
        step = self._deafness.next_step(clock.now(), self.requests.oldest)
        if step == "ask":
            # Any response will do, and none of these has an effect.
            is_legacy = era == "legacy"
            params = {} if is_legacy else discover_params(self._owner)
            method = "ping" if is_legacy else DISCOVER
            self.send_bytes(encode_request("are-you-there", method, params))
        elif step == "kill":
            self.kill(
                "read nothing after a request was cancelled, and was killed; the next "
                "call starts it again"
            )

    # -- the end -------------------------------------------------------------------

    def _end_process(self) -> None:
        """End the process group, and fail what waits for it."""
        reason = self._end_reason.value
        try:
            self._ring(is_leader=True)  # it stops, and this thread reads from now on
            has_read_lock = self._reading.acquire(timeout=_HAND_OVER)
            try:
                if reason == _CLOSED and not self._is_killed:
                    self._end_in_steps()
                elif not self._is_killed:
                    # Its own end may be a moment away, and tells more than ours.
                    self._process.wait_ended(clock.now() + _DRAIN)
                    self._read_last_words()
            finally:
                if has_read_lock:
                    self._reading.release()
            is_own_end = self._process.has_ended and reason != _CLOSED
            self._process.kill()  # the rest of its group
            self._process.reap()
            end = describe_end(self._process.returncode) if is_own_end else reason
            self.requests.fail_all(self.lost(f"the server {end}"))
            self.watch.wake()
        finally:
            self._close_input()
            self._process.end()
            self._close_descriptors()

    def _read_last_words(self) -> None:
        with suppress(OSError, ValueError):
            self._read_errors()
        while not self._is_drained and self._read_messages():
            pass

    def _end_in_steps(self) -> None:
        """Let the server end by itself, then make it."""
        process, last = self._process, clock.now() + self._grace
        flushed = min(clock.now() + _FLUSH, last)
        while self._writer.has_more and clock.now() < flushed and not self._is_killed:
            self._serve_ending(flushed - clock.now())
        self._close_input()
        for number in (signal.SIGTERM, None):
            end = min(clock.now() + _STEP, last)
            while not process.has_ended and clock.now() < end:
                self._serve_ending(min(0.05, end - clock.now()))
            if process.has_ended:
                self._read_last_words()
                return
            if number is not None:
                process.signal(number)

    def _serve_ending(self, seconds: float) -> None:
        """Read and write for a moment; this thread holds the lock of readers."""
        process = self._process
        if process.pidfd is not None:  # it stays readable, and would end each wait
            self._poller.forget(process.pidfd)
        if self._writer.has_more:
            self._poller.watch(self._input, for_room=True)
        if not self._is_drained:
            self._poller.watch(self._output)
        ready = self._poller.wait(min(seconds, 0.05))
        if self._wakes[0].fileno() in ready:
            _read(self._wakes[0].fileno())
        errors = self._process.stderr
        if not errors.closed and errors.fileno() in ready:
            self._read_errors()
        if self._output in ready and not self._is_drained:
            self._read_messages()
        if self._writer.has_more:
            self._write()

    def lost(self, what: str) -> MCPServerLost:
        """Return the error for a server that is gone."""
        tail = "\n".join(self.errors.text.splitlines()[-8:])[-1500:]
        words = f"; the end of its error output:\n{tail}" if tail else ""
        return MCPServerLost(f"{self._name}: {what}{words}", server=self._name)

    def _close_descriptors(self) -> None:
        self._poller.close()
        for end in (*self._rings, *self._wakes):
            end.close()


def _read(descriptor: int) -> bytes | None:
    """Read what is there; ``None`` if nothing is, empty at the end."""
    try:
        return os.read(descriptor, _READ)
    except BlockingIOError:
        return None
    except OSError:
        return b""


#: The channels of this process.
_alive: weakref.WeakSet[StdioChannel] = weakref.WeakSet()


@in_child
def _forget_in_child() -> None:
    for channel in list(_alive):
        channel.forget()
