"""The contract between a connection and the two who use it.

::

    MCPServer (owner)   starts and restarts connections, hears what no call waits for
      │ Caller          the thread that makes one request
      ▼
    MCPConnection       stdio, streamable HTTP or HTTP+SSE: the requests of one session

A connection keeps no thread of a caller longer than that caller's token and timeouts
allow, whatever the server does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import msgspec

from ..cancel import CancelToken

__all__ = [
    "Caller",
    "ConnectionOwner",
    "Era",
    "MCPConnection",
    "MCPSession",
    "ProgressReport",
    "QuestionRefused",
    "ServerInfo",
    "ServerQuestion",
]

#: ``legacy`` has a handshake and sessions; in ``modern`` every request stands alone.
Era = Literal["legacy", "modern"]


class ServerInfo(msgspec.Struct, frozen=True):
    """The name and version that a server gives itself: claims of a stranger."""

    name: str = ""
    version: str = ""
    title: str = ""


class MCPSession(msgspec.Struct, frozen=True):
    """The server and the version that a handshake, or a first look, has found."""

    era: Era
    #: The revision of the protocol that is spoken.
    version: str
    #: The capabilities of the server.
    capabilities: Mapping[str, Any] = {}
    info: ServerInfo = ServerInfo()
    #: The server's text for the model. Never used by itself: it is a stranger's text.
    instructions: str = ""


class ProgressReport(msgspec.Struct, frozen=True):
    """A progress report of a server."""

    progress: float
    total: float | None = None
    message: str | None = None


class ServerQuestion(msgspec.Struct, frozen=True):
    """A request of the server: for input, for a model's response, for roots."""

    #: ``elicitation/create``, ``sampling/createMessage`` or ``roots/list``.
    method: str
    params: dict[str, Any]


class QuestionRefused(Exception):
    """A question of the server is answered with an error.

    :param code: the JSON-RPC code.
    """

    def __init__(self, message: str, code: int = -1) -> None:
        super().__init__(message, code)
        self.message = message
        self.code = code


class Caller(msgspec.Struct, frozen=True):
    """The thread that makes one request, and what it does while it waits.

    The functions are called on that thread only.
    """

    #: Ends the request; the server is notified in the way of its transport.
    token: CancelToken
    #: Seconds without a sign of life from the server; progress is one.
    idle: float | None = None
    #: Seconds for the request as a whole.
    total: float | None = None
    on_progress: Callable[[ProgressReport], object] | None = None
    #: Answers a question of the server under a token of its own, which is cancelled if
    #: the server withdraws the question. May raise :exc:`QuestionRefused`.
    answer: Callable[[ServerQuestion, CancelToken], Any] | None = None


class ConnectionOwner(Protocol):
    """The server object of a connection."""

    @property
    def name(self) -> str:
        """Its name in errors and logs: the user's, never the server's own."""

    @property
    def client_capabilities(self) -> dict[str, Any]:
        """The capabilities of this client, for servers of both eras."""

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """Take note of a notification. Called on a reading thread: never blocks."""

    def answer(self, question: ServerQuestion, token: CancelToken) -> Any:
        """Answer a question that belongs to no call. May block.

        :raises QuestionRefused: it is answered with an error.
        """


class MCPConnection(Protocol):
    """Carries the requests of one session; safe from any number of threads."""

    @property
    def session(self) -> MCPSession:
        """The server and the version of the protocol."""

    @property
    def is_usable(self) -> bool:
        """False once the server is gone, or the connection was closed."""

    def request(self, method: str, params: dict[str, Any], caller: Caller) -> Any:
        """Make a request, and return its result.

        Cancellation: ends at once, and notifies the server if it has seen the request.

        :raises Cancelled: the caller's token was cancelled; ``started`` is false if the
            server has not seen the request.
        :raises MCPRequestFailed: the server answered with an error.
        :raises MCPTimedOut: it did not answer in time, and was asked to stop.
        :raises MCPServerLost: it ended; whether it has done the work is unknown.
        """

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification soon. Never blocks and never raises."""

    def close(self, *, grace: float) -> None:
        """End the connection within about *grace* seconds. Safe to repeat."""
