"""Everything that clients have sent to a fake MCP server, and what is wrong with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

__all__ = [
    "Journal",
    "LIMIT",
    "ReceivedMessage",
    "SeenExchange",
    "TransportName",
]

#: Seconds after which any wait in a fake MCP server has failed.
LIMIT: Final = 30.0

TransportName = Literal["stdio", "http", "sse"]


class SeenExchange(msgspec.Struct, frozen=True):
    """An HTTP request that a client has sent: any verb, any path."""

    verb: str
    path: str
    #: By lower-case name.
    headers: Mapping[str, str]
    body: bytes
    #: Monotonic time.
    at: float


class ReceivedMessage(msgspec.Struct, frozen=True):
    """A message that a client has sent."""

    #: The message, decoded; any JSON value if the client is wrong.
    message: Any
    transport: TransportName
    #: The headers of its POST, by lower-case name; empty on stdio.
    headers: Mapping[str, str]
    #: The id of the session, or of the process on stdio; ``None`` without a session.
    session: str | None
    #: Monotonic time.
    at: float

    @property
    def method(self) -> str | None:
        """The method of a request or notification."""
        found = self._get("method")
        return found if isinstance(found, str) else None

    @property
    def id(self) -> Any:
        """The id of a request or response."""
        return self._get("id")

    @property
    def params(self) -> dict[str, Any]:
        """The parameters; empty if there are none."""
        found = self._get("params")
        return found if isinstance(found, dict) else {}

    @property
    def is_request(self) -> bool:
        """True for a message with a method and an id."""
        return self.method is not None and "id" in self.message

    @property
    def is_response(self) -> bool:
        """True for an answer to a question of the server."""
        return isinstance(self.message, dict) and "method" not in self.message

    def _get(self, key: str) -> Any:
        return self.message.get(key) if isinstance(self.message, dict) else None


class Journal:
    """A record that threads can wait for.

    Guarantees: entries are in the order in which the server read them; every change is
    made under :attr:`changed`, and wakes those who wait.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.received: list[ReceivedMessage] = []
        self.http_requests: list[SeenExchange] = []
        self.complaints: list[str] = []
        self.cancelled_calls: list[ReceivedMessage] = []
        self.is_closed = False

    def add(self, entry: ReceivedMessage | SeenExchange) -> None:
        with self.changed:
            if isinstance(entry, ReceivedMessage):
                self.received.append(entry)
            else:
                self.http_requests.append(entry)
            self.changed.notify_all()

    def complain(self, *complaints: str) -> None:
        with self.changed:
            self.complaints.extend(complaints)
            self.changed.notify_all()

    def wake(self) -> None:
        """Have those who wait look again."""
        with self.changed:
            self.changed.notify_all()

    def close(self) -> None:
        with self.changed:
            self.is_closed = True
            self.changed.notify_all()

    def wait(
        self,
        predicate: Callable[[], Any],
        timeout: float = LIMIT,
        *,
        look: float = LIMIT,
    ) -> Any:
        """Block until *predicate* is true or the server closes; return its value.

        :param look: seconds after which to look again, whatever has changed.
        """
        end = time.monotonic() + timeout
        with self.changed:
            while not (found := predicate()) and not self.is_closed:
                left = end - time.monotonic()
                if left <= 0:
                    break
                self.changed.wait(timeout=min(left, look))
            return found
