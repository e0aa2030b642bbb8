"""One request of an MCP client, and everything a script can do about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import msgspec

from ...exceptions import Cancelled
from ..gate import Gate
from .journal import LIMIT, ReceivedMessage

if TYPE_CHECKING:
    from .pipes import FakeProcess
    from .server import FakeMCPServer
    from .sessions import FakeSession
    from .streams import HTTPAnswer

__all__ = [
    "ClientRefused",
    "ExchangeOver",
    "FakeInputRequired",
    "MCPExchange",
    "NO_ID",
    "WayBack",
]

#: For ``error(id=NO_ID)``: an answer without an id.
NO_ID: Final[Any] = object()
#: "Not given" for an id.
_OWN: Final[Any] = object()


class ExchangeOver(BaseException):
    """Unwind a script whose exchange is over.

    A :class:`BaseException`, so that ``except Exception`` in a script does not swallow
    it.
    """


class FakeInputRequired(BaseException):
    """Unwind a script that asks in the modern way: the client has to call again."""

    def __init__(self, questions: Mapping[str, Any], state: str | None) -> None:
        super().__init__(questions, state)
        self.questions = questions
        self.state = state


class ClientRefused(Exception):
    """The client answered a question of the server with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.data = data


class WayBack(Protocol):
    """The way back to the client."""

    #: The HTTP response, or the process on stdio; the other is ``None``.
    http: HTTPAnswer | None
    process: FakeProcess | None

    @property
    def is_over(self) -> bool:
        """True if nothing more can reach the client."""

    def send(self, data: bytes) -> None:
        """Send a message that belongs to the request."""

    def answer(self, data: bytes, status: int) -> None:
        """Send the message that ends the request."""


class MCPExchange:
    """A request or notification of a client, in the hands of a script.

    A tool of the fake server gets it in a parameter of this type, or named ``ctx``.
    """

    def __init__(
        self,
        server: FakeMCPServer,
        session: FakeSession,
        wire: WayBack,
        received: ReceivedMessage,
    ) -> None:
        self.server = server
        self.session = session
        #: The message as it came.
        self.received = received
        self.method: str = received.method or ""
        self.id: Any = received.id
        self.params: dict[str, Any] = received.params
        #: The era of the request.
        self.era: Literal["legacy", "modern"] = session.era or "legacy"
        #: True as soon as a result or an error was sent.
        self.is_answered = False
        self.answered_at = 0.0
        #: True as soon as the client's cancel arrived the way its transport wants.
        self.was_cancelled = False
        #: True if the client closed the connection of this request.
        self.hung_up = False
        #: Answers to questions of earlier rounds (modern era), by number.
        self.earlier_answers: list[Any] = []
        #: The script that plays it.
        self.script: Callable[[MCPExchange], Any] | None = None
        self._asked = 0
        self.wire = wire

    @property
    def name(self) -> str | None:
        """The name of the tool or prompt, or the uri of the resource."""
        return self.params.get("name") or self.params.get("uri")

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a tool call or prompt."""
        return self.params.get("arguments") or {}

    @property
    def meta(self) -> dict[str, Any]:
        """The ``_meta`` of the request; empty if there is none."""
        found = self.params.get("_meta")
        return found if isinstance(found, dict) else {}

    @property
    def is_over(self) -> bool:
        """True if it was answered, or nothing more can reach the client."""
        return self.is_answered or self.wire.is_over

    @property
    def http(self) -> HTTPAnswer:
        """The HTTP response to this request.

        :raises RuntimeError: the request came over stdio.
        """
        if self.wire.http is None:
            raise RuntimeError("the request came over stdio; it has no HTTP response")
        return self.wire.http

    @property
    def process(self) -> FakeProcess:
        """The process that the client started.

        :raises RuntimeError: the request came over HTTP.
        """
        if self.wire.process is None:
            raise RuntimeError("the request came over HTTP; it has no process")
        return self.wire.process

    # -- messages ---------------------------------------------------------------------

    def send(self, message: Any) -> None:
        """Send any JSON value as a message: a list is a batch."""
        self.wire.send(msgspec.json.encode(message))

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification that belongs to this request."""
        more = {} if params is None else {"params": params}
        self.send({"jsonrpc": "2.0", "method": method, **more})

    def progress(
        self,
        progress: float,
        total: float | None = None,
        message: str | None = None,
        *,
        token: Any = None,
    ) -> None:
        """Report progress, if the client gave a token for it, or for another token."""
        own = self.meta.get("progressToken")
        token = own if token is None else token
        if token is None:
            return
        params = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        self.notify("notifications/progress", params)

    def log(self, data: Any, level: str = "info", logger: str | None = None) -> None:
        """Send a log message."""
        more = {} if logger is None else {"logger": logger}
        self.notify("notifications/message", {"level": level, "data": data, **more})

    def answer(self, result: Any = None, *, id: Any = _OWN, status: int = 200) -> None:
        """Send the result; an empty one if none is given."""
        result = {} if result is None else result
        if self.era == "modern" and isinstance(result, dict):
            result = {"resultType": "complete", **result}
        self._end({"result": result}, id, status)

    def error(
        self,
        code: int,
        message: str = "a scripted error",
        data: Any = None,
        *,
        id: Any = _OWN,
        status: int | None = None,
    ) -> None:
        """Send an error.

        :param id: in place of the request's; ``None`` for null, ``NO_ID`` for none.
        :param status: the HTTP status; by default what the era wants.
        """
        if status is None:
            modern = 404 if code == -32601 else 400
            status = modern if self.era == "modern" else 200
        error = {"code": code, "message": message}
        if data is not None:
            error["data"] = data
        self._end({"error": error}, id, status)

    def _end(self, content: dict[str, Any], id: Any, status: int) -> None:
        id = self.id if id is _OWN else id
        head = {"jsonrpc": "2.0", **({} if id is NO_ID else {"id": id})}
        self.is_answered, self.answered_at = True, time.monotonic()
        self.wire.answer(msgspec.json.encode({**head, **content}), status)
        self.server.journal.wake()

    def complain(self, why: str) -> None:
        """Note a mistake of the client in this message."""
        label = self.method if self.id is None else f"{self.method} {self.id!r}"
        self.server.journal.complain(f"{label}: {why}")

    def default_result(self) -> Any:
        """Return the result that the server would send without a script."""
        return self.server.catalogue.result_of(self)

    # -- questions --------------------------------------------------------------------

    def ask(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        over: Literal["call", "session"] = "call",
        timeout: float = LIMIT,
    ) -> Any:
        """Ask the client, and return its answer.

        In the legacy era this sends a request and waits. In the modern era it ends the
        round with ``input_required``; the client calls again, the script runs again
        from its beginning, and then the answer is there.

        :param method: such as ``elicitation/create``.
        :param over: in the legacy era over HTTP, the stream of this request, or the
            ``session``'s: the one that a GET opens.
        :raises ClientRefused: the client answered with an error.
        :raises TimeoutError: it did not answer within *timeout* seconds.
        """
        params = dict(params or {})
        if self.era == "modern":
            self._asked += 1
            if self._asked <= len(self.earlier_answers):
                return self.earlier_answers[self._asked - 1]
            key = f"q{self._asked}"
            raise self.input_required({key: {"method": method, "params": params}})
        question = self.session.ask(method, params, self if over == "call" else None)
        return self.session.wait_for_answer(question, self, timeout)

    def elicit(
        self,
        message: str,
        schema: Mapping[str, Any] | None = None,
        *,
        over: Literal["call", "session"] = "call",
        timeout: float = LIMIT,
    ) -> Any:
        """Ask the user to fill in a form."""
        empty = {"type": "object", "properties": {}}
        form = {"message": message, "requestedSchema": schema or empty}
        return self.ask("elicitation/create", form, over=over, timeout=timeout)

    def elicit_url(
        self,
        message: str,
        url: str,
        *,
        over: Literal["call", "session"] = "call",
        timeout: float = LIMIT,
    ) -> Any:
        """Ask the user to visit a URL."""
        form = {"mode": "url", "message": message, "url": url}
        if self.session.version == "2025-11-25":
            form["elicitationId"] = f"e{id(form)}"
        return self.ask("elicitation/create", form, over=over, timeout=timeout)

    def sample(
        self,
        prompt: str,
        max_tokens: int = 100,
        *,
        over: Literal["call", "session"] = "call",
        timeout: float = LIMIT,
    ) -> Any:
        """Ask the client's model."""
        content = {"type": "text", "text": prompt}
        messages = [{"role": "user", "content": content}]
        params = {"messages": messages, "maxTokens": max_tokens}
        return self.ask("sampling/createMessage", params, over=over, timeout=timeout)

    def ask_without_waiting(
        self, method: str, params: Mapping[str, Any] | None = None
    ) -> Any:
        """Send a question (legacy era), and return its id."""
        return self.session.ask(method, dict(params or {}), self).id

    def input_required(
        self, questions: Mapping[str, Any], *, state: str | None = "new"
    ) -> FakeInputRequired:
        """Return what to raise to end the round with these questions (modern era).

        :param questions: by key: ``{"method": ..., "params": ...}``. None at all means
            "call again".
        :param state: the ``requestState``, ``"new"`` for one that the server makes up,
            ``None`` for none.
        """
        return FakeInputRequired(questions, state)

    # -- time -------------------------------------------------------------------------

    def stop_at(self, gate: Gate) -> None:
        """Wait at a gate; a server that closes ends the wait.

        :raises TimeoutError: the gate was not opened in time.
        """
        try:
            gate.stop_here(LIMIT, token=self.server.life)
        except Cancelled:
            raise ExchangeOver from None

    def until_cancelled(self, timeout: float = LIMIT) -> None:
        """Block until the client cancels this request.

        :raises TimeoutError: it has not within *timeout* seconds.
        """
        if not self.wait(lambda: self.was_cancelled, timeout):
            raise TimeoutError(f"{self.method} {self.id!r} was not cancelled in time")

    def until_hung_up(self, timeout: float = LIMIT) -> None:
        """Block until the client closes the connection of this request.

        :raises TimeoutError: it has not within *timeout* seconds.
        """
        if not self.wait(lambda: self.hung_up, timeout):
            raise TimeoutError(f"{self.method} {self.id!r} was not hung up in time")

    def wait(self, predicate: Callable[[], Any], timeout: float = LIMIT) -> Any:
        """Block until *predicate* is true; return its value, false after *timeout*."""
        found = self.server.journal.wait(predicate, timeout)
        if not found and self.server.journal.is_closed:
            raise ExchangeOver
        return found

    def silence(self) -> None:
        """Never answer; this ends the script."""
        raise ExchangeOver

    def lose_session(self, status: int = 404, *, body: Any = None) -> None:
        """Forget the client's session, and answer as a server that never knew it."""
        self.server.forget_session(self.session)
        error = {"code": -32001, "message": "Session not found"}
        body = {"jsonrpc": "2.0", "id": None, "error": error} if body is None else body
        self.http.status(status, body)

    # -- told by the server -----------------------------------------------------------

    def mark_cancelled(self) -> None:
        """Take note of the cancel, once."""
        journal = self.server.journal
        with journal.changed:
            if not self.was_cancelled and not self.is_answered:
                self.was_cancelled = True
                journal.cancelled_calls.append(self.received)
            journal.changed.notify_all()

    def mark_hung_up(self) -> None:
        """Take note that the client closed the connection of this request."""
        self.hung_up = True
        if self.session.is_stateless:
            self.mark_cancelled()
        self.server.journal.wake()
