"""One client on pipes: standard input and output.

One thread, that of :meth:`StdioServer.run`, reads and writes; calls have threads of
their own, and only leave bytes for it.

Guarantees:

- A client that does not read delays no cancel: reading goes on while bytes wait to be
  written, and writing never blocks.
- The end of the input, a broken output and the token end everything: calls are
  cancelled, and :meth:`StdioServer.run` returns in bounded time.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from ..._closeable import Closeable
from ...cancel import CancelToken, cancel_on_signals
from .pipes import LineCutter, LoopWaker, PipeOutput
from .running import RunningCalls
from .session import PipeSession

if TYPE_CHECKING:
    from .service import MCPService

__all__ = ["StdioServer", "reserved_streams", "serve_standard_streams"]

_log = logging.getLogger("syncagent.mcp")

#: Bytes that wait for a slow client: beyond the first number progress is dropped,
#: beyond the second the client counts as gone.
_SLOW: Final = 1 << 20
_GONE: Final = 1 << 28
#: Milliseconds after which the loop looks up by itself: a signal may have come in the
#: instant before it began to wait.
_LOOK_UP: Final = 1_000
#: Seconds for the client to take the last responses.
_FLUSH: Final = 0.5


class StdioServer(Closeable):
    """Serves one client on two descriptors.

    :param reading: the input; read by this server alone.
    :param writing: the output.
    :param token: ends it.
    :param grace: seconds that calls have to end in.
    """

    def __init__(
        self,
        service: MCPService,
        reading: int,
        writing: int,
        *,
        token: CancelToken,
        grace: float = 2.0,
    ) -> None:
        self._reading = reading
        self._output = PipeOutput(writing)
        self._token = token
        self._grace = grace
        self._calls = RunningCalls(service)
        self._session = PipeSession(service, self._calls, self.send)
        self._lines = LineCutter()
        self._waker = LoopWaker()

    def run(self) -> None:
        """Serve until the client leaves.

        Cancellation: ends within about the grace of the calls.
        """
        try:
            self._token.attach(self._waker)
            while not self._token.cancelled and self._turn():
                pass
        finally:
            self._token.detach(self._waker)
            reason = "the server ends" if self._token.cancelled else "the client left"
            self._calls.end(reason, "disconnect", self._grace)
            self._output.flush(_FLUSH)

    def _turn(self) -> bool:
        """Wait, read and write once; false if the client is gone."""
        poller = select.poll()
        poller.register(self._reading, select.POLLIN)
        poller.register(self._waker.reading, select.POLLIN)
        if self._output.has_bytes:
            poller.register(self._output.descriptor, select.POLLOUT)
        ready = {descriptor for descriptor, _ in poller.poll(_LOOK_UP)}
        if self._waker.reading in ready:
            self._waker.drain()
        if self._output.size > _GONE:
            _log.error("the client does not read its responses; it is given up")
            return False
        try:
            if self._output.descriptor in ready:
                self._output.write_some()
            if self._reading not in ready:
                return True
            data = os.read(self._reading, 1 << 16)
        except BlockingIOError:
            return True
        except OSError as error:
            _log.info("the client is gone: %s", error)
            return False
        for line in self._lines.split(data):
            self._session.receive(line)
        return bool(data)

    def send(self, data: bytes, *, may_drop: bool = False) -> None:
        """Leave a message for the loop to write; any thread may call it."""
        if may_drop and self._output.size > _SLOW:
            return
        self._output.add(data)
        self._waker.fire()

    def close(self) -> None:
        """Close what the server has opened; the two descriptors stay open."""
        self._waker.close()
        self._output.close()


@contextmanager
def reserved_streams() -> Iterator[tuple[int, int]]:
    """Reserve standard input and output for the protocol.

    In the block, what tools and their programs print goes to standard error, and they
    read nothing.

    :return: the descriptors of the input and the output, which no program inherits.
    """
    sys.stdout.flush()
    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield reading, writing
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os.dup2(reading, 0)
        os.dup2(writing, 1)
        for descriptor in (nothing, reading, writing):
            os.close(descriptor)


def serve_standard_streams(
    service: MCPService, token: CancelToken | None, grace: float
) -> None:
    """Serve the client on standard input and output, see ``serve_stdio()``."""
    if token is None and threading.current_thread() is threading.main_thread():
        with cancel_on_signals(token := CancelToken()):
            serve_standard_streams(service, token, grace)
        return
    ends = CancelToken() if token is None else token
    with (
        reserved_streams() as (reading, writing),
        StdioServer(service, reading, writing, token=ends, grace=grace) as server,
    ):
        server.run()
