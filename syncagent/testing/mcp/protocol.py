"""The protocol of a fake MCP server: every message that arrives is judged and played.

Guarantees:

- Messages of one session are judged in the order in which they came; requests are
  played on a thread each.
- A script that fails is a complaint, and its client gets error -32603.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, Literal

from .catalogue import FakeCatalogue, FakeMethodFailed, as_result
from .eras import Eras
from .exchange import ExchangeOver, FakeInputRequired, MCPExchange, WayBack
from .journal import Journal, ReceivedMessage
from .rounds import Rounds
from .rules import META, mistakes_in_message
from .scripts import Scripts
from .sessions import FakeSession

__all__ = [
    "FakeProtocol",
    "OnCancel",
]

OnCancel = Literal["silent", "error", "result"]

#: A cancel this many seconds after the answer may have crossed it on the way.
_CROSSING: Final = 1.0


class FakeProtocol:
    """Judges the messages of all sessions, and plays the requests."""

    def __init__(
        self,
        server: Any,
        journal: Journal,
        catalogue: FakeCatalogue,
        scripts: Scripts,
        spawn: Callable[..., None],
    ) -> None:
        self._server = server
        self._journal = journal
        self._scripts = scripts
        self._spawn = spawn
        self.eras = Eras(server, journal, catalogue)
        self._rounds = Rounds(journal)
        #: Requests of modern clients for notifications that are not over.
        self.listeners: list[MCPExchange] = []

    def receive(
        self, session: FakeSession, wire: WayBack, received: ReceivedMessage
    ) -> MCPExchange:
        """Judge a message; answer it, now or on another thread."""
        exchange = MCPExchange(self._server, session, wire, received)
        mistakes = list(mistakes_in_message(received.message))
        self._journal.complain(*mistakes)
        if mistakes:
            if received.is_request or not isinstance(received.message, dict):
                exchange.error(-32600, "; ".join(mistakes), id=None, status=400)
        elif received.is_request:
            self._request(exchange)
        elif received.method is not None:
            self._notification(exchange)
        elif session.era == "modern":
            self._journal.complain("a response was sent; modern servers ask nothing")
        else:
            session.take_response(received.message)
        return exchange

    # -- requests ---------------------------------------------------------------------

    def _request(self, exchange: MCPExchange) -> None:
        session, id = exchange.session, exchange.id
        if not session.is_stateless and id in session.exchanges:
            exchange.complain("the id was used before")
        self._check_progress_token(exchange)
        session.exchanges[id] = exchange
        try:
            self.eras.settle(exchange)
            self._rounds.resume(exchange)
        except FakeMethodFailed as failed:
            # A script may answer a probe of the other era as it likes.
            is_probe = exchange.method in ("server/discover", "initialize")
            script = self._scripts.find(exchange) if is_probe else None
            if script is None:
                _answer_failure(exchange, failed)
                return
            exchange.script = script
        if exchange.script is None:
            exchange.script = self._scripts.find(exchange)
        self._spawn(self.play, exchange)

    def _check_progress_token(self, exchange: MCPExchange) -> None:
        token = exchange.meta.get("progressToken")
        if token is None or exchange.session.is_stateless:
            return
        for other in list(exchange.session.exchanges.values()):
            is_live = not other.is_answered and not other.was_cancelled
            if is_live and other.meta.get("progressToken") == token:
                exchange.complain(f"the progress token {token!r} is in use")

    def play(self, exchange: MCPExchange) -> None:
        """Play a request or notification on the current thread."""
        try:
            result = None if exchange.script is None else exchange.script(exchange)
            if exchange.received.is_request and not exchange.is_over:
                self._settle(exchange, result)
        except ExchangeOver:
            pass
        except FakeInputRequired as required:
            self._rounds.ask(exchange, required)
        except FakeMethodFailed as failed:
            _answer_failure(exchange, failed)
        except Exception as error:
            text = f"the script failed: {type(error).__name__}: {error}"
            exchange.complain(text)
            if exchange.received.is_request:
                exchange.error(-32603, text)

    def _settle(self, exchange: MCPExchange, result: Any) -> None:
        """Answer with the result of the script, or as usual if it has none."""
        if result is not None and exchange.method == "tools/call":
            result = as_result(result)
        elif result is None and exchange.method == "subscriptions/listen":
            self._listen(exchange)
        elif result is None:
            result = exchange.default_result()
        on_cancel = self._server.on_cancel
        if not exchange.was_cancelled or on_cancel == "result":
            exchange.answer(result)
        elif on_cancel == "error":
            exchange.error(0, "Request cancelled", status=200)

    def _listen(self, exchange: MCPExchange) -> None:
        if exchange.era == "legacy":
            raise FakeMethodFailed(-32601, "Method not found: subscriptions/listen")
        wanted = exchange.params.get("notifications") or {}
        meta = {f"{META}subscriptionId": exchange.id}
        exchange.notify(
            "notifications/subscriptions/acknowledged",
            {"notifications": wanted, "_meta": meta},
        )
        with self._journal.changed:
            self.listeners.append(exchange)
            self._journal.wake()
        try:
            while not (exchange.was_cancelled or exchange.is_answered):
                exchange.wait(lambda: exchange.was_cancelled or exchange.is_answered)
        finally:
            with self._journal.changed:
                self.listeners.remove(exchange)
                self._journal.wake()
        raise ExchangeOver

    # -- notifications ----------------------------------------------------------------

    def _notification(self, exchange: MCPExchange) -> None:
        session = exchange.session
        if exchange.method == "notifications/cancelled":
            self._cancel(exchange)
        elif session.era == "modern":
            exchange.complain("is no notification of a modern client")
        elif exchange.method == "notifications/initialized":
            methods = [e.method for e in session.exchanges.values() if e.is_answered]
            if "initialize" not in methods and not session.is_stateless:
                exchange.complain("came before the answer to initialize")
            session.is_initialized = True
        self._journal.wake()
        exchange.script = self._scripts.find(exchange)
        if exchange.script is not None:
            self._spawn(self.play, exchange)

    def _cancel(self, exchange: MCPExchange) -> None:
        session, id = exchange.session, exchange.params.get("requestId")
        if session.transport == "http" and session.era == "modern":
            return exchange.complain("modern HTTP cancels by closing the stream")
        target = session.exchanges.get(id)
        if target is None:
            return exchange.complain(f"no request has the id {id!r}")
        if target.method == "initialize":
            return exchange.complain("initialize must not be cancelled")
        if id in session.cancelled_ids and not session.is_stateless:
            exchange.complain(f"{id!r} was cancelled before")
        session.cancelled_ids.add(id)
        if target.is_answered and time.monotonic() - target.answered_at > _CROSSING:
            exchange.complain(f"{id!r} was answered long before")
        target.mark_cancelled()
        return None


def _answer_failure(exchange: MCPExchange, failed: FakeMethodFailed) -> None:
    exchange.error(failed.code, failed.message, failed.data, status=failed.status)
