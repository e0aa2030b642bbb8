"""This process in a store: announced when it is first needed, patient in an outage."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import Final, TypeVar

from .._closeable import Closeable
from ..cancel import CancelToken, clock
from ..exceptions import ConfigurationError, StoreUnavailable
from .backend import Backend, missing_run
from .records import StoredRun
from .settings import StoreSettings
from .urls import open_backend
from .worker import StoreWorker

__all__ = ["StoreProcess"]

_T = TypeVar("_T")

#: Seconds between two attempts of a call while the store is unavailable.
_RETRY: Final = 0.01


class StoreProcess(Closeable):
    """A store as one process has it open.

    :param url: of the database.
    :param cancel: a token that ends the waits of all calls, and no run.
    """

    def __init__(
        self, url: str, settings: StoreSettings, cancel: CancelToken | None
    ) -> None:
        #: The back end, for tools of operators.
        self.backend: Final[Backend] = open_backend(url)
        self._settings: Final = settings
        self._cancel = cancel
        #: This process in the store; made when it is first needed.
        self._worker: StoreWorker | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    @abstractmethod
    def _new_worker(self) -> StoreWorker:
        """Return the part of this process in the store."""

    def open(self) -> StoreWorker:
        """Announce this process in the store, and return its part in it.

        Every other method does this when it is first called. A server that should take
        over the runs of dead processes without a request of its own calls it when it
        starts, after a fork.

        :raises StoreUnavailable: the store is unavailable.
        """
        return self._worker or self._retry(self._begin)

    def _begin(self) -> StoreWorker:
        """Announce this process, if it is not announced yet."""
        with self._lock:
            if self._is_closed:
                raise ConfigurationError("the store is closed")
            if self._worker is None:
                worker = self._new_worker()
                worker.start()
                self._worker = worker
            return self._worker

    def call(self, operation: Callable[[Backend], _T]) -> _T:
        """Do an operation of the back end, and repeat it while it is unavailable.

        :raises StoreUnavailable: it stays unavailable, or a cancel ended the wait.
        """
        token = self._cancel or CancelToken()
        return self._retry(
            lambda: (self._worker or self._begin()).perform(operation, token)
        )

    def _read(self, id: str) -> StoredRun:
        """Return a run.

        :raises NoSuchRun: there is no such run.
        """
        run = self.call(lambda store: store.read(id))
        if run is None:
            raise missing_run(id)
        return run

    def _retry(self, function: Callable[[], _T]) -> _T:
        token = self._cancel or CancelToken()
        until = clock.now() + self._settings.timeout
        while True:
            try:
                return function()
            except StoreUnavailable:
                if token.wait(_RETRY) or clock.now() >= until:
                    raise
