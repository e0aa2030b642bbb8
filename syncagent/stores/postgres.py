"""A store in PostgreSQL, for processes on many hosts, with psycopg.

Guarantees:

- Each thread has a connection of its own, which its first operation opens. The thread
  that listens for hints uses one connection for both.
- An error of any kind drops the connection, and the next operation opens another.
  Nothing is repeated here: the caller knows how long it may wait.
- :meth:`PostgreSQL.cut` ends a statement that blocks, from any thread. It shuts down a
  duplicate of the socket, which is ours: libpq closes its own at any time.
- A process that is frozen inside a transaction loses it, and its locks, after
  10 seconds.
- A forked child closes its copies of the sockets, and says nothing to the server: the
  sessions are its parent's.
- No message of an error contains the password.

Time is the server's, at the beginning of the statement. A statement that waits for a
lock compares leases as they were then with the time of then.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from ..conversation.state import Delta
from ..exceptions import ConfigurationError, StoreUnavailable
from .records import EventBatch
from .rows import Rows, Statements
from .schema import MAJOR, MIGRATIONS, VERSION
from .sql import SQLBackend
from .thread_connection import CHANNEL, SilentConnection, ThreadConnection

# After the import above, which says how to install it.
# isort: split
import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

__all__ = ["PostgreSQL"]

#: The hint to look at everything.
_ALL: Final = "*"
#: Bytes of a hint that PostgreSQL accepts, with some room.
_LONGEST: Final = 7000
#: Parameters of a connection that the URL does not set. A server that is gone is
#: noticed after 25 seconds, and after 15 if something was sent to it.
_PARAMETERS: Final[Mapping[str, Any]] = {
    "application_name": "syncagent",
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
#: Pools that share sessions among clients accept this, but no SET without LOCAL.
_BEGIN: Final = b"BEGIN; SET LOCAL idle_in_transaction_session_timeout = 10000"
#: The first half of the keys of advisory locks: "sync" and a number.
_OWNER_LOCK: Final = 0x73796E01
_MIGRATION_LOCK: Final = 0x73796E02
#: The other parts of a statement that begins with the update of a run.
_MESSAGES: Final = (
    "m AS (INSERT INTO syncagent_message (conversation_key, n, body, calls) "
    "SELECT r.conversation_key, v.n, v.body, v.calls FROM r, "
    "unnest(?::integer[], ?::text[], ?::text[]) AS v (n, body, calls) "
    "ON CONFLICT (conversation_key, n) DO UPDATE "
    "SET body = excluded.body, calls = excluded.calls)"
)
_EVENTS: Final = (
    "e AS (INSERT INTO syncagent_event (run_id, n, count, attempt, body) "
    "SELECT ?::text, ?::integer, ?::integer, ?::integer, ?::text FROM r "
    "ON CONFLICT (run_id, n) DO UPDATE "
    "SET count = excluded.count, body = excluded.body)"
)
#: Runs are locked in the order of their ids, as everywhere.
_APPEND: Final = (
    "WITH b AS (SELECT * FROM unnest(?::text[], ?::integer[], ?::integer[], "
    "?::integer[], ?::text[]) AS b (run_id, attempt, first, last, body)), "
    "l AS (SELECT r.run_id FROM syncagent_run r JOIN b ON b.run_id = r.run_id "
    "AND b.attempt = r.attempt WHERE r.state = 'running' AND r.events >= b.first - 1 "
    "AND r.events < b.last ORDER BY r.run_id FOR UPDATE OF r), "
    "u AS (UPDATE syncagent_run r SET events = b.last FROM b JOIN l "
    "ON l.run_id = b.run_id WHERE r.run_id = b.run_id RETURNING r.run_id), "
    "e AS (INSERT INTO syncagent_event (run_id, n, count, attempt, body) "
    "SELECT b.run_id, b.first, b.last - b.first + 1, b.attempt, b.body "
    "FROM b JOIN u ON u.run_id = b.run_id ON CONFLICT (run_id, n) DO UPDATE "
    "SET count = excluded.count, body = excluded.body) "
    "SELECT run_id{hint} FROM u"
)
_NO_HINTS: Final = (
    "none arrive within 1 s: a pool that shares sessions may be in between; cancels "
    "and events of other processes are noticed later"
)
_NO_TABLES: Final = (
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.InvalidSchemaName,
)
#: Statements that were prepared in another session: a pool is in between.
_POOLED: Final = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)


class PostgreSQL(SQLBackend):
    """The runs in a database. Its tables are made by :meth:`migrate`.

    :param url: or another string that libpq accepts.
    :raises ConfigurationError: libpq does not accept it.
    """

    may_block = True

    def __init__(self, url: str) -> None:
        try:
            given = conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            # The error quotes the part that is wrong, which can be the password.
            raise ConfigurationError(
                "PostgreSQL does not accept the URL of the store; it must be like "
                "postgresql://user:password@host:5432/name, with special characters "
                "as %-codes"
            ) from None
        self._parameters: Final = {**_PARAMETERS, **given}
        self._password: Final = str(given.get("password") or "")
        #: Statements are prepared after so many uses.
        self._prepare_after: int | None = 3
        #: Guards the table of connections; never held while anything blocks.
        self._guard = threading.Lock()
        self._links: dict[int, ThreadConnection] = {}
        self._wakers: tuple[socket.socket, socket.socket] | None = None
        self._is_stopped = False

    # -- connections ---------------------------------------------------------------

    def _connect(self) -> SilentConnection:
        try:
            return SilentConnection.connect(
                **self._parameters,
                client_encoding="utf8",
                autocommit=True,
                prepare_threshold=self._prepare_after,
            )
        except psycopg.ProgrammingError as error:
            raise ConfigurationError(
                f"the URL of the store is wrong: {self._text(error)}"
            ) from None
        except psycopg.Error as error:
            raise self._error(error) from error

    def _link(self) -> ThreadConnection:
        """Return the connection of this thread, and open it if necessary."""
        link = self._links.get(threading.get_ident())
        if link is not None and not link.is_closed:
            return link
        connection = self._connect()
        try:
            self._check_version(connection)
            link = ThreadConnection(connection)
        except BaseException:
            connection.close()
            raise
        # A thread of a C library is in threading.enumerate() only after this.
        threading.current_thread()
        with self._guard:
            living = {thread.ident for thread in threading.enumerate()}
            dead = [ident for ident in self._links if ident not in living]
            left = [self._links.pop(ident) for ident in dead]
            self._links[link.thread] = link
        for each in left:
            each.close()
        return link

    def _check_version(self, connection: SilentConnection) -> None:
        try:
            found = _version(connection.cursor())
        except psycopg.Error as error:
            raise self._error(error) from error
        if found // 100 > MAJOR:
            raise _too_new(found)
        if found < VERSION:
            raise ConfigurationError(
                f"the tables of the store have version {found}, and this syncagent "
                f"needs {VERSION}; run: syncagent store migrate"
            )

    @contextmanager
    def _used(self) -> Iterator[ThreadConnection]:
        """Yield the connection of this thread, and drop it after an error of its own.

        :raises StoreUnavailable: for errors that pass.
        """
        link = self._link()
        with link.lock:
            try:
                yield link
            except psycopg.Error as error:
                self._drop(link)
                raise self._error(error) from error
            except BaseException as error:
                if not link.roll_back():
                    self._drop(link)
                if isinstance(error, UnicodeEncodeError):
                    raise ConfigurationError(
                        f"PostgreSQL cannot store a value: {error}"
                    ) from error
                raise
            if self._links.get(link.thread) is not link:
                link.close()  # close() was called and could not wait

    def _drop(self, link: ThreadConnection) -> None:
        with self._guard:
            if self._links.get(link.thread) is link:
                del self._links[link.thread]
        link.close()

    def _error(self, error: psycopg.Error) -> Exception:
        text = self._text(error)
        if isinstance(error, _NO_TABLES):
            return ConfigurationError(
                f"the database has no tables for the store, or old ones: {text}; run: "
                "syncagent store migrate"
            )
        if isinstance(error, errors.InsufficientPrivilege):
            return ConfigurationError(
                f"the database refuses the user of the store: {text}; grant SELECT, "
                "INSERT, UPDATE and DELETE on the tables syncagent_*"
            )
        if isinstance(error, psycopg.DataError):
            return ConfigurationError(f"PostgreSQL cannot store a value: {text}")
        if isinstance(error, _POOLED):
            self._prepare_after = None
        return StoreUnavailable(f"the store in PostgreSQL is not available: {text}")

    def _text(self, error: psycopg.Error) -> str:
        message = error.diag.message_primary or str(error) or type(error).__name__
        text = " ".join(message.split())
        return text.replace(self._password, "...") if self._password else text

    # -- statements ----------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[Statements]:
        with self._used() as link:
            link.cursor.execute(_BEGIN, prepare=False)
            yield link
            link.cursor.execute(b"COMMIT", prepare=False)

    def single(self, sql: str, *params: Any) -> Rows:
        with self._used() as link:
            return link.rows(sql, *params)

    def write(
        self,
        update: str,
        params: Sequence[Any],
        delta: Delta | None,
        events: EventBatch | None,
    ) -> Rows:
        """Do it all in one statement: each takes a way to the server and back."""
        parts, values = [f"WITH r AS ({update})"], [*params]
        if delta is not None and delta.messages:
            parts.append(_MESSAGES)
            values.append(list(range(delta.first, delta.total)))
            values.append([message.body.decode() for message in delta.messages])
            values.append([message.calls.decode() for message in delta.messages])
        if events is not None and events.lines:
            parts.append(_EVENTS)
            values += (events.run_id, events.first, len(events.lines), events.attempt)
            values.append(b"\n".join(events.lines).decode())
        return self.single(f"{', '.join(parts)} SELECT * FROM r", *values)

    def append(self, batches: Iterable[EventBatch]) -> list[str]:
        """Store the events of all runs in one statement."""
        given = list(batches)
        by_run = {batch.run_id: batch for batch in given}
        if len(by_run) < len(given):
            return super().append(given)
        rows = self.single(
            _APPEND,
            *(list(by_run), [batch.attempt for batch in given]),
            *([batch.first for batch in given], [batch.last for batch in given]),
            [b"\n".join(batch.lines).decode() for batch in given],
        )
        stored = {run_id for (run_id,) in rows}
        refused = [batch for batch in given if batch.run_id not in stored]
        # Unless the reply to an earlier call was lost.
        return super().append(refused) if refused else []

    def lock_owner(
        self, do: Statements, owner: str, *, is_shared: bool = False
    ) -> None:
        shared = "_shared" if is_shared else ""
        do.rows(
            f"SELECT pg_advisory_xact_lock{shared}({_OWNER_LOCK}, hashtext(?))", owner
        )

    def lock_run(self, do: Statements, id: str) -> bool:
        return bool(do.rows("SELECT 1 FROM syncagent_run WHERE id = ? {lock}", id))

    # -- hints ---------------------------------------------------------------------

    def hint(self, run_ids: Iterable[str]) -> None:
        hint = ",".join(dict.fromkeys(run_ids))
        if hint:
            self.single(
                "SELECT pg_notify(?, ?)",
                *(CHANNEL.decode(), hint if len(hint) <= _LONGEST else _ALL),
            )

    def listen(self, worker: str, on_hint: Callable[[Sequence[str]], object]) -> None:
        wakers = socket.socketpair()
        self._wakers = wakers  # publish first, then look
        try:
            if not self._is_stopped:
                with self._used() as link:
                    self._pass_on(link, wakers[0], on_hint)
        except StoreUnavailable:
            if not self._is_stopped:
                raise
        finally:
            self._wakers = None
            for each in wakers:
                each.close()
            last = self._links.get(threading.get_ident())
            if last is not None:
                self._drop(last)

    def _pass_on(
        self,
        link: ThreadConnection,
        waker: socket.socket,
        on_hint: Callable[[Sequence[str]], object],
    ) -> None:
        hints: list[tuple[int, str]] = []
        # Operations of this thread read hints, too.
        link.connection.add_notify_handler(
            lambda notify: hints.append((notify.pid, notify.payload))
        )
        link.cursor.execute(b"LISTEN " + CHANNEL, prepare=False)
        on_hint(())  # now that none can be missed
        while not self._is_stopped:
            if link.is_closed:
                raise StoreUnavailable("the connection that listened was cut")
            link.take_hints(hints)
            if hints:
                # This process knows what it has done itself.
                ours = {each.process for each in list(self._links.values())}
                texts = [text for process, text in hints if process not in ours]
                hints.clear()
                ids = dict.fromkeys(id for text in texts for id in text.split(","))
                if ids:
                    on_hint(() if _ALL in ids else tuple(ids))
                continue
            link.wait(waker)

    def stop_listening(self) -> None:
        self._is_stopped = True
        wakers = self._wakers
        if wakers is not None:
            with suppress(OSError):
                wakers[1].send(b"\0")

    # -- the rest ------------------------------------------------------------------

    def migrate(self) -> tuple[int, int]:
        with self._connect() as connection:
            cursor = connection.cursor()
            try:
                with connection.transaction():
                    return _migrate(cursor)
            except psycopg.Error as error:
                raise self._error(error) from error

    def check(self) -> Mapping[str, str]:
        with self._connect() as connection:
            self._check_version(connection)
            try:
                (facts,) = connection.execute(
                    "SELECT current_setting('server_version'), current_database(), "
                    "current_schema(), (SELECT max(version) FROM syncagent_schema), "
                    "current_setting('synchronous_commit'), (SELECT count(*) FROM "
                    "pg_stat_activity WHERE application_name = "
                    "current_setting('application_name')), "
                    "current_setting('max_connections')"
                ).fetchall()
                do_hints_arrive = self._do_hints_arrive(connection)
            except psycopg.Error as error:
                raise self._error(error) from error
        server, name, schema, version, commit, used, available = facts
        return {
            "database": f"PostgreSQL {server}, {name}, schema {schema}",
            "schema": str(version),
            "synchronous_commit": commit,
            "connections": f"{used} of {available}",
            "hints": "NOTIFY" if do_hints_arrive else _NO_HINTS,
        }

    def _do_hints_arrive(self, connection: SilentConnection) -> bool:
        """Return whether a hint arrives at another connection."""
        channel = CHANNEL + b"_check"
        with self._connect() as listener:
            listener.execute(b"LISTEN " + channel)
            connection.execute(b"NOTIFY " + channel)
            return any(listener.notifies(timeout=1.0, stop_after=1))

    def cut(self, thread: int) -> None:
        link = self._links.get(thread)
        if link is None:
            return
        if thread == threading.get_ident():
            self._drop(link)  # this thread has no more use for it
        else:
            link.cut()

    def before_fork(self) -> None:
        """Do nothing: the child closes its copies."""

    def close(self) -> None:
        self.stop_listening()
        with self._guard:
            links = list(self._links.values())
            self._links.clear()
        for link in links:
            link.close_from_outside()

    def start_over(self) -> None:
        links, wakers = self._links, self._wakers or ()
        self._guard = threading.Lock()
        self._links, self._wakers, self._is_stopped = {}, None, False
        for each in wakers:
            each.close()
        for link in links.values():
            link.abandon()


def _version(cursor: psycopg.Cursor[tuple[Any, ...]]) -> int:
    cursor.execute("SELECT max(version) FROM syncagent_schema", prepare=False)
    row = cursor.fetchone()
    return int(row[0]) if row and row[0] is not None else 0


def _migrate(cursor: psycopg.Cursor[tuple[Any, ...]]) -> tuple[int, int]:
    """Bring the tables up to date, in a transaction; return both versions."""
    cursor.execute("SELECT pg_advisory_xact_lock(%s, 0)", (_MIGRATION_LOCK,))
    cursor.execute(
        "CREATE TABLE IF NOT EXISTS syncagent_schema (version integer NOT NULL)"
    )
    before = _version(cursor)
    if before // 100 > MAJOR:
        raise _too_new(before)
    for version, statements in MIGRATIONS:
        for statement in statements if version > before else ():
            cursor.execute(statement.encode())
    if before < VERSION:
        cursor.execute("DELETE FROM syncagent_schema")
        cursor.execute("INSERT INTO syncagent_schema VALUES (%s)", (VERSION,))
    return before, max(before, VERSION)


def _too_new(found: int) -> ConfigurationError:
    return ConfigurationError(
        f"the tables of the store have version {found}, which is newer than this "
        f"syncagent understands ({VERSION}); upgrade syncagent"
    )
