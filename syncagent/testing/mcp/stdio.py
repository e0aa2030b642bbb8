"""The stdio side of a fake MCP server: a session for each process."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

import msgspec

from .journal import Journal, ReceivedMessage
from .pipes import FakeProcess
from .protocol import FakeProtocol
from .sessions import FakeSession
from .streams import HTTPAnswer

__all__ = [
    "StdioFront",
]


class _PipeWire:
    """The way back over stdio."""

    http: HTTPAnswer | None = None
    is_over = False

    def __init__(self, process: FakeProcess) -> None:
        self.process: FakeProcess | None = process
        self.send = process.send

    def answer(self, data: bytes, status: int) -> None:
        self.send(data)


class StdioFront:
    """Serves the processes that clients start."""

    def __init__(self, server: Any, journal: Journal, protocol: FakeProtocol) -> None:
        self._server = server
        self._journal = journal
        self._protocol = protocol
        #: For the processes that start next, in order.
        self.start_scripts: list[Callable[[FakeProcess], Any]] = []
        #: All processes, also those that have ended.
        self.processes: list[FakeProcess] = []
        #: Of the processes that have not ended.
        self.sessions: list[FakeSession] = []

    def serve(self, sock: socket.socket) -> None:
        """Serve a process until its end."""
        process = FakeProcess(sock, self._journal)
        session = FakeSession(
            self._journal, "stdio", id=f"process-{process.pid}", process=process
        )
        session.withdraws = self._server.withdraws
        with self._journal.changed:
            self.processes.append(process)
            self.sessions.append(session)
            script = self.start_scripts.pop(0) if self.start_scripts else None
            self._journal.changed.notify_all()
        if script is not None:
            script(process)
        process.listen()
        wire = _PipeWire(process)
        process.read_lines(lambda line: self._receive(line, session, wire))
        with self._journal.changed:
            self.sessions.remove(session)
        for exchange in list(session.exchanges.values()):
            exchange.mark_hung_up()

    def _receive(self, line: bytes, session: FakeSession, wire: _PipeWire) -> None:
        try:
            message = msgspec.json.decode(line)
        except msgspec.DecodeError as error:
            self._journal.complain(f"a line is not JSON: {error}: {line[:80]!r}")
            return
        received = ReceivedMessage(message, "stdio", {}, session.id, time.monotonic())
        self._journal.add(received)
        self._protocol.receive(session, wire, received)
