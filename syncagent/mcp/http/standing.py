"""A stream that stays open for what no call waits for, and is opened again.

Guarantees:

- One daemon thread; it ends at once with ``close()``, whatever the server does.
- A stream that the server does not have is asked for once. One that broke is opened
  again, with growing pauses for as long as nothing comes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

import msgspec

from ...cancel import CancelToken, Watch, clock
from ...cancel.once import start_thread
from ...exceptions import Cancelled, SyncAgentError

__all__ = ["StandingStream", "StreamEnd"]

_log = logging.getLogger("syncagent.mcp")

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
#: Seconds after which a stream counts as alive, though nothing has come on it.
_LIFE: Final = 10.0


class StreamEnd(msgspec.Struct, frozen=True):
    """How one opening of a stream has ended."""

    #: True if there is no such stream, or no need for it any longer.
    is_final: bool = False
    #: True if something came on it.
    was_alive: bool = False
    #: Seconds to wait before the next opening, if the server has said so.
    pause: float | None = None


class StandingStream:
    """Keep one stream of a server open.

    :param name: the name of the thread.
    :param token: its cancel ends the stream.
    :param attend: opens the stream, attends to it until it ends, and calls its second
        argument as soon as the server has said whether there is such a stream.
    """

    def __init__(
        self,
        name: str,
        token: CancelToken,
        attend: Callable[[CancelToken, Callable[[], None]], StreamEnd],
    ) -> None:
        self._token = token.child()
        self._attend = attend
        self._watch = Watch()
        self._is_decided = False
        self._has_ended = False
        #: False as soon as it is known that the server has no such stream.
        self.is_expected = True
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        start_thread(self._thread)

    def wait_decided(self, token: CancelToken, until: float) -> None:
        """Wait until the server has said whether there is such a stream.

        Cancellation: ends at once.
        """
        self._watch.wait(lambda: self._is_decided, token, until)

    def close(self, until: float) -> None:
        """End it, and wait for that until a monotonic time. Safe to repeat."""
        self._token.cancel("the connection is closed", "closed")
        if threading.current_thread() is not self._thread and self._thread.ident:
            self._watch.wait(lambda: self._has_ended, CancelToken(), until)

    def _decide(self) -> None:
        self._is_decided = True
        self._watch.wake()

    def _work(self) -> None:
        pause = _FIRST_PAUSE
        try:
            while not self._token.cancelled:
                began = clock.now()
                end = self._attended()
                if end.is_final:
                    return
                was_alive = end.was_alive or clock.now() - began > _LIFE
                if was_alive:
                    pause = _FIRST_PAUSE
                # A server that says how long gets its way, unless nothing ever comes.
                asked = pause if end.pause is None or not was_alive else end.pause
                self._token.sleep(min(asked, _LONGEST_PAUSE))
                pause = min(2 * pause, _LONGEST_PAUSE)
        except Cancelled:
            pass
        except BaseException:
            _log.exception("a stream of an MCP server failed")
        finally:
            self._has_ended, self.is_expected = True, False
            self._decide()

    def _attended(self) -> StreamEnd:
        try:
            return self._attend(self._token, self._decide)
        except SyncAgentError as error:
            _log.debug("%s: %s", self._thread.name, error)
            return StreamEnd()
        finally:
            self._decide()
