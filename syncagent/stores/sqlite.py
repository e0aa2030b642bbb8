"""A store in one file: SQLite, from the standard library.

For one host. Processes share the file, and tell each other to look by datagrams.

Guarantees:

- A statement never waits for a lock inside SQLite: it fails at once, and the caller
  waits where a cancel can end the wait.
- The clock is monotonic and the same for all processes: the time since boot, plus an
  offset that the first process after a boot has stored. A change of the system's time
  moves nothing.
- A commit survives kill -9. It may be lost, as a whole, if the machine loses power.
- No connection is open while the process forks.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from ..exceptions import ConfigurationError, StoreUnavailable
from .datagrams import Datagrams
from .rows import Rows, Statements
from .schema import MAJOR, MIGRATIONS, VERSION
from .sql import SQLBackend

__all__ = ["SQLite"]

_OLDEST: Final = (3, 35, 0)
#: Seconds to wait for a thread that uses the connection, before a fork.
_BEFORE_FORK: Final = 2.0
#: Errors that pass: another process has the lock, or the disk is full for now.
_PASSING: Final = ("locked", "busy", "full", "i/o error", "unable to open")

#: The last two are for values that it cannot store.
_ERRORS: Final = (sqlite3.Error, OSError, UnicodeEncodeError, OverflowError)


class SQLite(SQLBackend):
    """The runs in a file, which is made when it is first used.

    :param path: of the file; its folder is made, too.
    :raises ConfigurationError: this SQLite is too old.
    """

    may_block = False

    def __init__(self, path: str) -> None:
        if sqlite3.sqlite_version_info < _OLDEST:
            raise ConfigurationError(
                f"SQLite {sqlite3.sqlite_version} is too old for a store; it needs "
                f"{'.'.join(map(str, _OLDEST))} or later"
            )
        self.path: Final = os.path.abspath(path)
        #: Held for the length of a transaction, never while waiting for another
        #: process.
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._is_closed = False
        self._offset = 0.0
        self._datagrams = Datagrams(self.path + "-hints")

    # -- the connection ------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        connection = self._connection
        if connection is None:
            if self._is_closed:  # a thread that was on its way here must not open it
                raise StoreUnavailable(f"the store {self.path} is closed")
            self._make_folder()
            # Made by us, so that no one else can read it for a moment.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            connection = sqlite3.connect(
                self.path, timeout=0, isolation_level=None, check_same_thread=False
            )
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.create_function("syncagent_now", 0, self._now)
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return connection

    def _make_folder(self) -> None:
        folder = os.path.dirname(self.path)
        if not os.path.isdir(folder):
            os.makedirs(folder, 0o700, exist_ok=True)

    def _now(self) -> float:
        return _since_boot() + self._offset

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Bring the schema up to date, and find the offset of the clock."""
        found = _version(connection)
        if found // 100 > MAJOR:
            raise ConfigurationError(
                f"the store {self.path} has schema version {found}, which is newer "
                f"than this syncagent understands ({VERSION}); upgrade syncagent"
            )
        boot = _boot_id()
        if found < VERSION or _known_boot(connection) != boot:
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._migrate(connection, boot)
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise
        (self._offset,) = connection.execute(
            "SELECT clock_offset FROM syncagent_schema"
        ).fetchone()

    def _migrate(self, connection: sqlite3.Connection, boot: str) -> None:
        found = _version(connection)
        if not found:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS syncagent_schema "
                "(version integer, boot text, clock_offset real)"
            )
            connection.execute("INSERT INTO syncagent_schema VALUES (0, '', 0)")
        for version, statements in MIGRATIONS:
            for statement in statements if version > found else ():
                connection.execute(statement)
        connection.execute(
            "UPDATE syncagent_schema SET version = max(version, ?)", (VERSION,)
        )
        if _known_boot(connection) != boot:
            connection.execute("DELETE FROM syncagent_worker")  # the boot ended them
            connection.execute(
                "UPDATE syncagent_schema SET boot = ?, clock_offset = ?",
                (boot, time.time() - _since_boot()),
            )

    # -- statements ----------------------------------------------------------------

    def _error(self, error: Exception) -> Exception:
        """Return what to raise: StoreUnavailable for errors that pass."""
        text = str(error).lower()
        if isinstance(error, OSError):
            return StoreUnavailable(f"the store {self.path} cannot be opened: {error}")
        if isinstance(error, sqlite3.OperationalError) and any(
            each in text for each in _PASSING
        ):
            return StoreUnavailable(
                f"the store {self.path} is not available: {error}; another process "
                "may be writing to it for long, or the disk may be full"
            )
        if isinstance(error, (UnicodeEncodeError, OverflowError, sqlite3.DataError)):
            return ConfigurationError(f"SQLite cannot store a value: {error}")
        if isinstance(error, sqlite3.DatabaseError) and "not a database" in text:
            return ConfigurationError(f"{self.path} is not a store: {error}")
        return StoreUnavailable(f"the store {self.path} failed: {error!r}")

    @contextmanager
    def transaction(self) -> Iterator[Statements]:
        changed: list[str] = []
        try:
            with self._lock:
                connection = self._connection or self._open()
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield _SQLiteStatements(connection, changed)
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:  # a full disk has rolled back already
                        connection.execute("ROLLBACK")
                    raise
        except _ERRORS as error:
            raise self._error(error) from error
        if changed:
            self._datagrams.send(changed)

    def single(self, sql: str, *params: Any) -> Rows:
        changed: list[str] = []
        try:
            with self._lock:
                connection = self._connection or self._open()
                rows = _SQLiteStatements(connection, changed).rows(sql, *params)
        except _ERRORS as error:
            raise self._error(error) from error
        if changed:
            self._datagrams.send(changed)
        return rows

    def lock_owner(
        self, do: Statements, owner: str, *, is_shared: bool = False
    ) -> None:
        """Do nothing: a transaction locks the whole file."""

    def lock_run(self, do: Statements, id: str) -> bool:
        """Do nothing: a transaction locks the whole file."""
        return True

    # -- hints ---------------------------------------------------------------------

    def hint(self, run_ids: Iterable[str]) -> None:
        self._datagrams.send(list(run_ids))

    def listen(self, worker: str, on_hint: Callable[[Sequence[str]], object]) -> None:
        self._make_folder()  # this may be the first that a process does
        self._datagrams.listen(worker, on_hint)

    def stop_listening(self) -> None:
        self._datagrams.stop()

    # -- the rest ------------------------------------------------------------------

    def migrate(self) -> tuple[int, int]:
        before = 0
        if os.path.exists(self.path):
            connection = sqlite3.connect(self.path, timeout=5)
            try:
                before = _version(connection)
            except sqlite3.Error as error:
                raise self._error(error) from error
            finally:
                connection.close()
        self.single("SELECT 1")  # it is made when it is first used
        return before, VERSION

    def check(self) -> Mapping[str, str]:
        ((mode,),) = self.single("PRAGMA journal_mode")
        ((result,),) = self.single("PRAGMA quick_check(1)")
        return {
            "database": f"SQLite {sqlite3.sqlite_version}, {self.path}",
            "journal": mode,
            "integrity": result,
            "schema": str(VERSION),
            "hints": self._datagrams.check(),
        }

    def cut(self, thread: int) -> None:
        """Do nothing: no statement blocks."""

    def close(self) -> None:
        self._datagrams.close()
        with self._lock:
            self._is_closed = True
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def before_fork(self) -> None:
        """Close the connection: SQLite must not be carried across a fork."""
        if self._lock.acquire(timeout=_BEFORE_FORK):
            try:
                self._close()
            finally:
                self._lock.release()

    def start_over(self) -> None:
        self._lock = threading.Lock()
        self._connection = None
        self._is_closed = False
        self._datagrams.start_over()


class _SQLiteStatements:
    """An open transaction.

    :param changed: gets the runs that it changes, to hint at after the commit.
    """

    def __init__(self, connection: sqlite3.Connection, changed: list[str]) -> None:
        self._connection = connection
        self._changed = changed

    def rows(self, sql: str, *params: Any) -> Rows:
        statement, is_hint = _statement(sql)
        rows = self._connection.execute(statement, params).fetchall()
        if is_hint and rows:
            self._changed.extend(row[-1] for row in rows)
            rows = [row[:-1] for row in rows]
        return rows

    def many(self, sql: str, params: Sequence[Sequence[Any]]) -> None:
        self._connection.executemany(_statement(sql)[0], params)


@cache
def _statement(sql: str) -> tuple[str, bool]:
    """Return a statement in SQLite's own form, and whether it asks for hints."""
    text = sql.replace("{now}", "syncagent_now()")
    text = text.replace("{lock}", "").replace("{lock_free}", "")
    return text.replace("{hint}", ", run_id"), "{hint}" in sql


def _version(connection: sqlite3.Connection) -> int:
    try:
        row = connection.execute("SELECT version FROM syncagent_schema").fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        return 0
    return int(row[0]) if row else 0


def _known_boot(connection: sqlite3.Connection) -> str:
    row = connection.execute("SELECT boot FROM syncagent_schema").fetchone()
    return str(row[0]) if row else ""


@cache
def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:  # not Linux: the system's own time is the clock
        return "unknown"


if hasattr(time, "CLOCK_BOOTTIME"):

    def _since_boot() -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:

    def _since_boot() -> float:
        return time.time()
