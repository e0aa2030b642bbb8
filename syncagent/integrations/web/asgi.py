"""A run as a stream for servers with an event loop, which it never blocks.

This is the only file that knows about event loops. The loop belongs to the server.
"""

from __future__ import annotations

import asyncio  # noqa: TID251
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from ..._closeable import Closeable
from ...cancel import clock
from ...cancel.links import Bell
from .processes import chain_signals, close_runs, open_stores
from .streams import BEAT, ResponseStream

__all__ = ["App", "AsyncEventStream", "end_runs_with_server"]

#: Seconds after which a stream looks into a store without a hint: hints may be lost.
_LOOK_AGAIN: Final = 1.0
#: An ASGI application.
App = Callable[[Any, Any, Any], Awaitable[None]]


class _LoopBell(Bell):
    """A task waits for it, and any thread may ring it."""

    __slots__ = ("_loop", "_rung")

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._rung: asyncio.Future[None] = self._loop.create_future()

    def ring(self) -> None:
        """Wake the task. Takes no lock, and may be repeated."""
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:  # the loop is closed, so no task waits
            pass

    async def rung(self, seconds: float) -> None:
        """Wait for a ring, at most *seconds*."""
        await asyncio.wait([self._rung], timeout=seconds)

    def _wake(self) -> None:
        if not self._rung.done():
            self._rung.set_result(None)


class AsyncEventStream(Closeable, AsyncIterator[bytes]):
    """The chunks of a stream, for an event loop.

    It blocks neither a thread nor the loop. It closes when its task ends, which servers
    cancel when the client leaves. One that is dropped closes, too.

    :param stream: the stream, which is closed together with this one.
    """

    def __init__(self, stream: ResponseStream) -> None:
        self._stream = stream

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        self._stream.sent_at = None
        try:
            chunk = await self._next()
        except BaseException:  # the end of the stream, or of the task
            self.close()
            raise
        self._stream.sent_at = clock.now()
        return chunk

    async def _next(self) -> bytes:
        stream = self._stream
        # Mostly an event is ready, and no bell is needed.
        chunk = await _step(stream)
        if chunk != BEAT:
            return chunk
        until = clock.now() + stream.heartbeat
        look_again = _LOOK_AGAIN if stream.reads_store else stream.heartbeat
        while chunk == BEAT:
            bell = _LoopBell()
            try:
                stream.watch.bells[bell] = None  # publish first, then look
                chunk = await _step(stream)
                left = until - clock.now()
                if chunk != BEAT or left <= 0:
                    break
                await bell.rung(min(left, look_again))
            finally:
                stream.watch.bells.pop(bell, None)
        return chunk

    def close(self) -> None:
        """End the stream. Without its last follower the run may end, too."""
        self._stream.close()

    async def aclose(self) -> None:
        """Do the same as :meth:`close`."""
        self.close()


async def _step(stream: ResponseStream) -> bytes:
    """Return the next chunk, or ``BEAT`` if none is ready.

    :raises StopAsyncIteration: the stream is over. A coroutine cannot raise
        StopIteration.
    """
    if stream.reads_store:
        # On a thread: a database may take its time.
        chunk = await asyncio.to_thread(_step_or_none, stream)
    else:
        chunk = _step_or_none(stream)
    if chunk is None:
        raise StopAsyncIteration
    return chunk


def _step_or_none(stream: ResponseStream) -> bytes | None:
    try:
        return stream.step(0.0)
    except StopIteration:
        return None


def end_runs_with_server(app: App) -> App:
    """Wrap *app* so that its runs begin and end with its server.

    For ``asgi.py``. On its own, uvicorn waits after SIGTERM until all streams have
    ended. With this the signals that end the server cancel its runs first, and give
    those of a store to other processes. The server's own signal handlers still run.
    """
    begun: list[bool] = []

    async def begin() -> None:
        # Not earlier: servers install their signal handlers after loading the app.
        if not begun:
            begun.append(True)
            if threading.current_thread() is threading.main_thread():
                chain_signals()
            await asyncio.to_thread(open_stores)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _Lifespan(app, begin, receive, send).run(scope)
            return
        await begin()
        await app(scope, receive, send)

    return application


class _Lifespan:
    """The start and the end of a server, for an application that may ignore them."""

    def __init__(
        self, app: App, begin: Callable[[], Awaitable[None]], receive: Any, send: Any
    ) -> None:
        self._app = app
        self._begin = begin
        self._receive = receive
        self._send = send
        self._has_received = False

    async def run(self, scope: Any) -> None:
        try:
            await self._app(scope, self._next, self._send)
        except Exception:
            if self._has_received:
                raise
            # It does not know this protocol, as Django does not.
            for stage in ("startup", "shutdown"):
                await self._next()
                await self._send({"type": f"lifespan.{stage}.complete"})

    async def _next(self) -> Any:
        self._has_received = True
        message = await self._receive()
        if message["type"] == "lifespan.startup":
            await self._begin()
        else:
            await asyncio.to_thread(close_runs)
        return message
