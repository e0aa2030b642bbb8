"""Somebody's code on a daemon thread, which can be left behind."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from ..cancel.once import Once, start_thread
from .abandoned import note_abandoned, strike_out

__all__ = ["DetachableWork"]

_T = TypeVar("_T")

_log = logging.getLogger("syncagent.tools")

_BEGUN: Final = "begun"
_WITHDRAWN: Final = "withdrawn"
_ENDED: Final = "ended"
_LEFT: Final = "left behind"


class DetachableWork(Generic[_T]):
    """One piece of work on a thread of its own, with the caller's context variables.

    Either it ends while somebody waits for it, or it is left behind: the first of the
    two counts, whatever the other thread does.

    :param work: must not raise.
    :param when_done: given, on that thread, what came of it, unless it is left behind.
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
        #: What came of it, if it has ended.
        self.done: _T | None = None
        self._begin: Once[str] = Once()
        self._fate: Once[str] = Once()
        self._thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(self._do,),
            name=f"syncagent-{name}",
            daemon=True,
        )

    def start(self) -> None:
        """Begin.

        :raises RuntimeError: there is no thread to be had.
        """
        start_thread(self._thread)

    def withdraw(self) -> bool:
        """Have it never begin, unless it has; tell whether that was so.

        A signal handler may have raised while the thread was started: nobody else
        knows whether it ever will be.
        """
        return self._begin.claim(_WITHDRAWN) is _WITHDRAWN

    def _do(self) -> None:
        if self._begin.claim(_BEGUN) is not _BEGUN:
            return
        done = self.done = self._work()
        if self._fate.claim(_ENDED) is _ENDED:
            self._when_done(done)
        else:
            strike_out(id(self))

    def leave(self, level: int = logging.WARNING) -> bool:
        """Leave it behind, unless it has ended; tell whether that was so.

        May be done again, as a signal handler may have raised in the middle of it.

        :param level: how loudly to log it.
        """
        if self._fate:
            return self._fate.value is _LEFT
        # Entered first, so that whoever ends after the decision finds the entry.
        note_abandoned(id(self), *self._names, self._thread)
        if self._fate.claim(_LEFT) is not _LEFT:
            strike_out(id(self), is_silent=True)
            return False
        name, _, run_id = self._names
        _log.log(
            level,
            "run %s: %s did not stop and is left behind on its thread; see "
            "syncagent.abandoned()",
            *(run_id, name),
        )
        return True
