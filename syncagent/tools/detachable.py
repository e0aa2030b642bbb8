"""User code on a daemon thread that can be left behind."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from ..cancel.once import Once, start_thread
from .abandoned import add_abandoned, remove_abandoned

__all__ = ["DetachableWork", "LEFT_BEHIND"]

_T = TypeVar("_T")

_log = logging.getLogger("syncagent.tools")

#: Logged when work is left behind; a chat says it in the line of the tool instead.
LEFT_BEHIND: Final = (
    "run %s: %s did not stop and is left behind on its thread; see "
    "syncagent.abandoned()"
)

# The two decisions about a piece of work: does it begin, and does anyone wait for its
# end? Each is made once; the first thread to claim it wins.
_BEGUN: Final = "begun"
_WITHDRAWN: Final = "withdrawn"
_ENDED: Final = "ended"
_LEFT: Final = "left behind"


class DetachableWork(Generic[_T]):
    """A piece of work on its own thread, with the caller's context variables.

    It either ends or is left behind, whichever comes first.

    :param work: must not raise.
    :param when_done: called on that thread with the result of *work*, unless the work
        was left behind.
    """

    def __init__(
        self,
        name: str,
        call_id: str,
        run_id: str,
        work: Callable[[], _T],
        when_done: Callable[[_T], object],
    ) -> None:
        self._names = (name, call_id, run_id)
        self._work = work
        self._when_done = when_done
        #: The result of *work*, once it has ended.
        self.result: _T | None = None
        self._beginning: Once[str] = Once()
        self._end: Once[str] = Once()
        self._thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(self._run,),
            name=f"syncagent-{name}",
            daemon=True,
        )

    def start(self) -> None:
        """Start the thread.

        :raises RuntimeError: the system refuses another thread.
        """
        start_thread(self._thread)

    def withdraw(self) -> bool:
        """Prevent the work from beginning; false if it has begun.

        A signal handler may raise while the thread is started, and then it is unknown
        whether the thread will ever run.
        """
        return self._beginning.claim(_WITHDRAWN) is _WITHDRAWN

    def _run(self) -> None:
        if self._beginning.claim(_BEGUN) is not _BEGUN:
            return
        # No variable holds it: an error in it may hold this frame.
        self.result = self._work()
        if self._end.claim(_ENDED) is _ENDED:
            self._when_done(self.result)
        else:
            remove_abandoned(id(self))

    def leave(self, level: int = logging.WARNING) -> bool:
        """Leave the work behind; false if it has ended.

        May be called again if a signal handler raised in the middle of it.

        :param level: of the log record.
        """
        if self._end:
            return self._end.value is _LEFT
        # Listed first: work that ends right after the decision removes the entry.
        add_abandoned(id(self), *self._names, self._thread)
        if self._end.claim(_LEFT) is not _LEFT:
            remove_abandoned(id(self), is_silent=True)
            return False
        name, _, run_id = self._names
        _log.log(
            level,
            LEFT_BEHIND,
            *(run_id, name),
        )
        return True
