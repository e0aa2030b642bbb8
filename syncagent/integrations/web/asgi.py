"""A run as a stream for servers with an event loop, which never waits for it.

This is the only file that knows of such a loop, and it is the server's.
"""

from __future__ import annotations

import asyncio  # noqa: TID251
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from ..._closeable import Closeable
from ...cancel.links import Bell
from ..gunicorn import post_worker_init
from .sse import BEAT, RunEventStream

__all__ = ["App", "AsyncEventStream", "end_runs_with_server"]

#: An application, in the words of ASGI.
App = Callable[[Any, Any, Any], Awaitable[None]]


class _LoopBell(Bell):
    """A task waits, any thread may wake it."""

    __slots__ = ("_loop", "_rung")

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._rung: asyncio.Future[None] = self._loop.create_future()

    def ring(self) -> None:
        """Wake the task. Takes no lock, and does no harm when repeated."""
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:  # the loop is closed, and nobody waits
            pass

    async def rung(self, seconds: float) -> None:
        """Wait for it, at most *seconds*."""
        await asyncio.wait([self._rung], timeout=seconds)

    def _wake(self) -> None:
        if not self._rung.done():
            self._rung.set_result(None)


class AsyncEventStream(Closeable, AsyncIterator[bytes]):
    """The same pieces as those of *stream*, for an event loop.

    No thread waits for them, and the loop does not either. It is closed with its task,
    which servers cancel when the client has gone; one that is dropped is closed, too.

    :param stream: what is sent; this takes care of its end.
    """

    def __init__(self, stream: RunEventStream) -> None:
        self._stream = stream

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await self._next()
        except BaseException:  # its end, and that of its task
            self.close()
            raise

    async def _next(self) -> bytes:
        stream = self._stream
        # One look costs nothing, and most often there is something.
        piece = _step(stream)
        if piece != BEAT:
            return piece
        bell = _LoopBell()
        try:
            stream.watch.bells[bell] = None  # publish first, then look
            piece = _step(stream)
            if piece == BEAT:
                await bell.rung(stream.heartbeat)
                piece = _step(stream)
        finally:
            stream.watch.bells.pop(bell, None)
        return piece

    def close(self) -> None:
        """End it; if this was the last who followed the run, that may end, too."""
        self._stream.close()

    async def aclose(self) -> None:
        """Do as :meth:`close` does."""
        self.close()


def _step(stream: RunEventStream) -> bytes:
    """Return what there is.

    :raises StopAsyncIteration: there is no more; no coroutine may raise the other one.
    """
    try:
        return stream.step(0.0)
    except StopIteration:
        raise StopAsyncIteration from None


def end_runs_with_server(app: App) -> App:
    """Return *app*, whose runs are cancelled upon the signals that end its server.

    For ``asgi.py``. By itself uvicorn waits for the end of streams after SIGTERM, for
    ever if need be. What the server does upon these signals it still does, afterwards.
    """
    begun: list[bool] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        # Only now: servers load applications before they set their signal handlers.
        if not begun:
            begun.append(True)
            if threading.current_thread() is threading.main_thread():
                post_worker_init(None)
        await app(scope, receive, send)

    return application
