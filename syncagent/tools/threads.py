"""Somebody's code on a daemon thread, which can be left behind."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar, cast

from ..cancel import CancelToken, Mailbox
from ..cancel.again import start_thread
from ..cancel.once import Once
from .abandoned import note_abandoned, strike_out

__all__ = ["Errand", "call_on_thread"]

_T = TypeVar("_T")

_log = logging.getLogger("syncagent.tools")

_ENDED: Final = "ended"
_LEFT: Final = "left behind"


class Errand(Generic[_T]):
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

    def _do(self) -> None:
        done = self._work()
        if self._fate.put(_ENDED) is _ENDED:
            self._when_done(done)
        else:
            strike_out(id(self))

    def leave(self) -> bool:
        """Leave it behind, unless it has ended; tell whether that was so."""
        # Entered first, so that whoever ends after the decision finds the entry.
        if self._fate:
            return False
        note_abandoned(id(self), *self._names, self._thread)
        if self._fate.put(_LEFT) is not _LEFT:
            strike_out(id(self), is_silent=True)
            return False
        name, _, run_id = self._names
        _log.warning(
            "run %s: %s did not stop and is left behind on its thread; see "
            "syncagent.abandoned()",
            *(run_id, name),
        )
        return True


def call_on_thread(
    name: str, run_id: str, function: Callable[[], _T], token: CancelToken
) -> _T:
    """Call *function*, which may take for ever, on a thread of its own.

    Cancellation: ends at once; the thread is left behind.

    :param name: what the thread, and the ledger, call it.
    :raises Cancelled: *token* was cancelled.
    """
    mail: Mailbox[tuple[_T | None, BaseException | None]] = Mailbox()

    def work() -> tuple[_T | None, BaseException | None]:
        try:
            return function(), None
        except BaseException as error:  # for whoever waits
            return None, error

    token.checkpoint()
    errand = Errand(name, "", run_id, work, mail.put)
    done = None
    try:
        errand.start()
        done = mail.get(token)
    finally:
        if done is None:
            errand.leave()
    token.checkpoint()
    assert done is not None
    result, error = done
    if error is not None:
        raise error
    return cast(_T, result)
