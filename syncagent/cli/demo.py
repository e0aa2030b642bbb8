"""Blocking jobs, cancelled from another thread before your eyes."""

from __future__ import annotations

import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final

from .. import __version__, _clock
from ..cancel import CancelToken
from ..exceptions import Cancelled
from ..transport import Transport

SUMMARY: Final = "run blocking jobs and cancel each from another thread"

#: Seconds for which each job blocks before the other thread cancels it.
BLOCKED: Final = 0.3

_BEGINNING: Final = (
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    "data: Hello\n\ndata: , I was just\n\n"
)

_COUNT_FOR_EVER: Final = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
    "SELECT max(i) FROM n"
)


def run(token: CancelToken) -> int:
    """Run the demo; return the exit code."""
    jobs: list[tuple[str, Callable[[CancelToken], object]]] = [
        ("sleep for an hour", sleep),
        ("wait for a server that says nothing", call_a_silent_server),
        ("read a stream of events that stalls", read_a_stalled_stream),
        ("a database query that never ends", query_without_end),
        ("wait for a process that never ends", wait_for_a_process),
    ]
    print(
        f"syncagent {__version__}: jobs that block this thread, cancelled by another\n"
    )
    for title, job in jobs:
        print(f"  {title:<38}", end="", flush=True)
        waited = cancel_from_another_thread(job, token.child())
        token.checkpoint()  # it was Ctrl+C
        print(f"ended {waited * 1000:6.2f} ms after cancel()")
    print("\nNothing is left running: no process, no socket, no thread of a job.")
    return 0


def cancel_from_another_thread(
    job: Callable[[CancelToken], object], token: CancelToken
) -> float:
    """Run *job* here, cancel it from there; return the seconds it took to end."""
    watchdog = threading.Timer(BLOCKED, token.cancel, ("watchdog",))
    watchdog.start()
    try:
        job(token)
        token.checkpoint()
    except Cancelled:
        pass
    ended = _clock.now()
    watchdog.cancel()
    reason = token.reason
    if reason is None:
        raise RuntimeError("the job ended by itself, which it should never do")
    return ended - reason.at


def sleep(token: CancelToken) -> None:
    """Sleep on the token: the simplest thing that a cancel ends."""
    token.sleep(3600)


def call_a_silent_server(token: CancelToken) -> None:
    """Block in an HTTP request whose answer never begins."""
    with _server("") as url:
        Transport().post(url, json={"prompt": "Hello?"}, token=token)


def read_a_stalled_stream(token: CancelToken) -> None:
    """Block in an answer that comes event by event, and then no more."""
    with _server(_BEGINNING) as url:
        for _ in Transport().stream(url, json={"prompt": "Hello!"}, token=token):
            pass


@contextmanager
def _server(answer: str) -> Iterator[str]:
    """Run a server that says *answer* and then nothing; give its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, suppress(ConnectionError):
                connection.sendall(answer.encode())
                while connection.recv(65536):  # until the client hangs up
                    pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            thread.join(timeout=1)


def query_without_end(token: CancelToken) -> None:
    """Block in SQLite; the cancel interrupts the query."""
    with (
        closing(sqlite3.connect(":memory:", check_same_thread=False)) as database,
        token.on_cancel(database.interrupt),
    ):
        try:
            database.execute(_COUNT_FOR_EVER).fetchall()
        except sqlite3.OperationalError:
            token.checkpoint()  # whatever ended it, ask the token first
            raise


def wait_for_a_process(token: CancelToken) -> None:
    """Block until a process ends; the cancel kills it."""
    forever = [sys.executable, "-c", "import threading; threading.Event().wait()"]
    with (
        subprocess.Popen(forever, stdout=subprocess.PIPE) as process,
        token.on_cancel(process.kill),
    ):
        assert process.stdout is not None
        process.stdout.read()  # ends with the process, and unlike wait() never polls
