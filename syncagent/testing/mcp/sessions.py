"""Sessions of a fake MCP server: who speaks, in which era, and what was asked."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from .exchange import ClientRefused, ExchangeOver, MCPExchange
from .journal import Journal, TransportName
from .pipes import FakeProcess
from .rules import mistakes_in_answer
from .streams import FakeEventStream

__all__ = [
    "FakeQuestion",
    "FakeSession",
]


class FakeQuestion(msgspec.Struct):
    """A request of the server to the client."""

    id: Any
    method: str
    params: dict[str, Any]
    #: The response, as it came.
    response: dict[str, Any] | None = None
    is_withdrawn: bool = False


class FakeSession:
    """A client, as the server knows it.

    On stdio that is the process, over HTTP a session id. Clients without either share
    one session per era, and :attr:`is_stateless` is true.
    """

    def __init__(
        self,
        journal: Journal,
        transport: TransportName,
        *,
        id: str | None = None,
        process: FakeProcess | None = None,
        has_event_ids: bool = False,
    ) -> None:
        self.id = id
        self.transport = transport
        self.process = process
        self.era: Literal["legacy", "modern"] | None = None
        self.version = ""
        #: The capabilities that the client declared.
        self.capabilities: dict[str, Any] = {}
        self.is_initialized = False
        self.log_level: str | None = None
        #: Requests by id; those that are over stay here.
        self.exchanges: dict[Any, MCPExchange] = {}
        self.questions: dict[Any, FakeQuestion] = {}
        #: The stream that a GET opens.
        self.stream = FakeEventStream("get", has_ids=has_event_ids)
        #: The streams of requests, for clients that want to resume one.
        self.streams: dict[str, FakeEventStream] = {}
        #: The ids that the client has cancelled.
        self.cancelled_ids: set[Any] = set()
        self.withdraws = False
        self._journal = journal

    @property
    def is_stateless(self) -> bool:
        """True if several clients may share this session."""
        return self.id is None

    def push(self, message: Any) -> None:
        """Send a message that belongs to no request (legacy era)."""
        data = msgspec.json.encode(message)
        if self.process is not None:
            self.process.send(data)
        else:
            self.stream.put(data)

    def ask(
        self, method: str, params: dict[str, Any], exchange: MCPExchange | None = None
    ) -> FakeQuestion:
        """Send a question, within a request of the client or on the session's stream.

        Ids count from 0 in each session, so that they meet those of the client.
        """
        with self._journal.changed:
            question = FakeQuestion(len(self.questions), method, params)
            self.questions[question.id] = question
        message = {
            "jsonrpc": "2.0",
            "id": question.id,
            "method": method,
            "params": params,
        }
        if exchange is None:
            self.push(message)
        else:
            exchange.send(message)
        return question

    def wait_for_answer(
        self, question: FakeQuestion, exchange: MCPExchange | None, timeout: float
    ) -> Any:
        """Return the answer to a question.

        :raises ClientRefused: it is an error.
        :raises TimeoutError: there was none within *timeout* seconds.

        A cancel of the request around the question unwinds the script.
        """

        def is_over() -> bool:
            was_cancelled = exchange is not None and exchange.was_cancelled
            return question.response is not None or was_cancelled

        self._journal.wait(is_over, timeout)
        response = question.response
        if response is None:
            if is_over() and self.withdraws:
                question.is_withdrawn = True
                params = {"requestId": question.id, "reason": "the call is cancelled"}
                method = "notifications/cancelled"
                self.push({"jsonrpc": "2.0", "method": method, "params": params})
            if is_over() or self._journal.is_closed:
                raise ExchangeOver
            raise TimeoutError(f"{question.method} got no answer within {timeout} s")
        if "error" in response:
            error = response["error"]
            raise ClientRefused(error["code"], error["message"], error.get("data"))
        return response.get("result")

    def take_response(self, response: dict[str, Any]) -> None:
        """Take an answer to a question, and complain about a wrong one."""
        question = self.questions.get(response.get("id"))
        if question is None:
            self._journal.complain(f"a response to a request never sent: {response!r}")
        elif question.response is not None:
            self._journal.complain(f"a second response to {question.id!r}")
        else:
            if "result" in response:
                mistakes = mistakes_in_answer(
                    question.method, question.params, response["result"]
                )
                self._journal.complain(*mistakes)
            question.response = response
            self._journal.wake()
