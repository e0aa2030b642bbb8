"""The connection of a thread to PostgreSQL, which other threads can cut."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final

from ..exceptions import ConfigurationError
from .rows import Rows

try:
    import psycopg
    from psycopg.pq import TransactionStatus
except ImportError as error:
    raise ConfigurationError(
        'a store in PostgreSQL needs psycopg: pip install "syncagent[postgres]"; and '
        f'"psycopg[binary]" where libpq is not installed ({error})'
    ) from error

__all__ = ["CHANNEL", "SilentConnection", "ThreadConnection"]

#: The channel of the hints. Each database has its own; two schemas in one share it.
CHANNEL: Final = b"syncagent"
#: Seconds that close() waits for a thread whose connection it has cut.
_CLOSING: Final = 2.0
_FORMS: Final = (
    ("%", "%%"),
    ("?", "%s"),
    # The time of the statement, and not of the clock, can be compared with an index.
    ("{now}", "extract(epoch FROM statement_timestamp())::double precision"),
    ("{lock}", "FOR UPDATE"),
    ("{lock_free}", "FOR UPDATE SKIP LOCKED"),
    ("{hint}", f", pg_notify('{CHANNEL.decode()}', run_id)"),
)


class SilentConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that says nothing when it is forgotten, as in a forked child."""

    def __del__(self, _: Any = None) -> None:
        pass


class ThreadConnection:
    """The connection of a thread, which other threads can cut."""

    def __init__(self, connection: SilentConnection) -> None:
        self.connection: Final = connection
        self.cursor: Final = connection.cursor()
        self.thread: Final = threading.get_ident()
        #: The process of the server, as its hints name it.
        self.process: Final = connection.pgconn.backend_pid
        #: Held by the thread while it uses the connection.
        self.lock: Final = threading.RLock()
        self.is_closed = False
        self._guard: Final = threading.Lock()
        self._duplicate: Final = socket.socket(fileno=os.dup(connection.pgconn.socket))

    def rows(self, sql: str, *params: Any) -> Rows:
        statement, is_hint = _statement(sql)
        self.cursor.execute(statement, params)
        rows = self.cursor.fetchall() if self.cursor.description else []
        return [row[:-1] for row in rows] if is_hint else rows

    def many(self, sql: str, params: Sequence[Sequence[Any]]) -> None:
        if len(params) == 1:  # a pipeline costs more
            self.rows(sql, *params[0])
        elif params:
            self.cursor.executemany(_statement(sql)[0], params)

    def roll_back(self) -> bool:
        """End the transaction, if there is one; false if that failed."""
        state = self.connection.pgconn.transaction_status
        if state not in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            return state == TransactionStatus.IDLE
        try:
            self.cursor.execute(b"ROLLBACK", prepare=False)
        except psycopg.Error:
            return False
        return True

    def take_hints(self, hints: list[tuple[int, str]]) -> None:
        while notify := self.connection.pgconn.notifies():
            hints.append((notify.be_pid, notify.extra.decode(errors="replace")))

    def wait(self, waker: socket.socket) -> None:
        """Wait for bytes of the server, or of *waker*."""
        poller = select.poll()
        for each in (self.connection.pgconn.socket, waker):
            poller.register(each, select.POLLIN)
        poller.poll()
        self.connection.pgconn.consume_input()

    def cut(self) -> None:
        """Have a statement that blocks end, from any thread."""
        with self._guard:
            if not self.is_closed:
                with suppress(OSError):
                    self._duplicate.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it, on its own thread or with its lock. Safe to repeat."""
        with self._guard:
            self.is_closed = True
            self._duplicate.close()
        self.connection.pgconn.finish()

    def close_from_outside(self) -> None:
        if not self.lock.acquire(blocking=False):
            self.cut()
            if not self.lock.acquire(timeout=_CLOSING):
                return  # its thread closes it when it notices
        try:
            self.close()
        finally:
            self.lock.release()

    def abandon(self) -> None:
        """Close the descriptors in a forked child; the session is its parent's."""
        if self.is_closed:
            return
        self._duplicate.close()
        with suppress(psycopg.Error, OSError):
            os.close(self.connection.pgconn.socket)


@cache
def _statement(sql: str) -> tuple[bytes, bool]:
    """Return a statement in PostgreSQL's own form, and whether it asks for hints."""
    text = sql
    for token, form in _FORMS:
        text = text.replace(token, form)
    return text.encode(), "{hint}" in sql
