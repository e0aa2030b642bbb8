"""One server as its callers share it: started when needed, restarted by a rule.

::

                 connection()              the server ends
       idle ──▶ starting ──▶ ready ──▶ lost ──▶ starting ...
                    │           │        │
                    └───────────┴────────┴── close() ──▶ closed

Guarantees:

- Any number of threads that need the server wait for one start. The start has a thread
  of its own: a caller that is cancelled leaves it to the others, and the last one to
  leave ends it.
- No request is sent twice, unless the server cannot have seen the first.
- No lock is held by anyone: a signal handler may close the server, or raise, at any
  moment, and the next caller finds it usable or closed.
- A forked child shares nothing with its parent: it starts a server of its own.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from typing import Any, Final, Literal

from .._forks import in_child
from ..cancel import CancelToken, Watch, clock
from ..cancel.once import Once, start_thread
from ..exceptions import (
    Cancelled,
    ConfigurationError,
    MCPError,
    MCPProtocolError,
    MCPRequestFailed,
    MCPServerLost,
)
from .connection import (
    Caller,
    ConnectionOwner,
    MCPConnection,
    QuestionRefused,
    ServerQuestion,
)
from .settings import Restart

__all__ = ["MCPClient", "Open", "ServerState"]

_log = logging.getLogger("syncagent.mcp")

ServerState = Literal["idle", "starting", "ready", "lost", "closed"]
#: Connects to a server: starts it, or reaches it.
Open = Callable[[ConnectionOwner, CancelToken], MCPConnection]

#: Requests that a modern server may answer with questions.
_ASKING: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
#: The error of a legacy server that wants pages to be opened first (2025-11-25).
_PAGES_FIRST: Final = -32042
#: How often a server may ask before it answers.
_MAX_ROUNDS: Final = 10
#: Seconds before a request is repeated that the server answered with no question.
_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 0.25
#: Seconds before the second restart; doubled for each further one.
_BACKOFF: Final = 0.5


class MCPClient:
    """Requests to one server, from any number of threads.

    Implements :class:`~syncagent.mcp.connection.ConnectionOwner`.

    :param open: connects to the server.
    :param on_notification: called with method and parameters on a reading thread.
    :param on_connected: called when a new connection is ready.
    :param answer: answers questions that belong to no call.
    """

    def __init__(
        self,
        name: str,
        open: Open,
        *,
        restart: Restart,
        client_capabilities: dict[str, Any],
        on_notification: Callable[[str, dict[str, Any]], object],
        on_connected: Callable[[], object],
        answer: Callable[[ServerQuestion, CancelToken], Any],
    ) -> None:
        self.name: Final = name
        self.client_capabilities: Final = client_capabilities
        self._on_notification = on_notification
        self._answer_for_no_call = answer
        self._open = open
        self._on_connected = on_connected
        self._restart = restart
        self._reset()
        _alive.add(self)

    def _reset(self) -> None:
        """Begin without a connection; a forked child leaves that to its parent."""
        self._connection: MCPConnection | None = None
        #: The start that is under way; a new cell after each.
        self._starting: Once[_Start] = Once()
        #: When the server was started, the oldest first.
        self._starts: deque[float] = deque(maxlen=self._restart.times + 1)
        #: The newest connection that was ended here and so does not count.
        self._forgiven: MCPConnection | None = None
        self._is_closed = False

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """Take note of a notification, on a reading thread."""
        self._on_notification(method, params)

    def answer(self, question: ServerQuestion, token: CancelToken) -> Any:
        """Answer a question that belongs to no call."""
        return self._answer_for_no_call(question, token)

    # -- the connection ------------------------------------------------------------

    @property
    def state(self) -> ServerState:
        """Whether the server is there."""
        if self._is_closed:
            return "closed"
        if self._starting:
            return "starting"
        if self._connection is None:
            return "idle"
        return "ready" if self._connection.is_usable else "lost"

    @property
    def current(self) -> MCPConnection | None:
        """The newest connection, usable or not."""
        return self._connection

    def connection(self, token: CancelToken) -> MCPConnection:
        """Return a usable connection; start the server if there is none.

        Cancellation: ends at once. A start that others wait for goes on.

        :raises Cancelled: *token* was cancelled; ``started`` is false.
        :raises MCPError: the server cannot be used.
        """
        while True:
            connection = self._usable()
            if connection is not None:
                return connection
            start = self._starting.claim(_Start())
            me = object()
            try:
                start.waiting[me] = None
                self._begin(start)
                start.watch.wait(start.has_ended, token)
                if not start.is_over:
                    token.checkpoint()
            except Cancelled as cancelled:
                cancelled.started = False
                raise
            finally:
                # One that joins a start while the last one leaves it begins another.
                start.waiting.pop(me, None)
                if not start.waiting and not start.is_over:
                    start.token.cancel("no one waits for the server", "closed")
            if start.error is not None:
                raise copy(start.error)
            # Without an error, and unless it was cancelled by the last one to leave,
            # there is a connection now.

    def _usable(self) -> MCPConnection | None:
        if self._is_closed:
            raise ConfigurationError(
                f"{self.name}: the server was closed; make a new MCPServer"
            )
        connection = self._connection
        is_usable = connection is not None and connection.is_usable
        return connection if is_usable else None

    def _begin(self, start: _Start) -> None:
        """Have a thread work on *start*, unless one does.

        A signal handler may raise at any moment, and then whether the thread runs is
        unknown. So everyone who waits makes sure; the first thread does the work.
        """
        if not start.worker:
            thread = threading.Thread(
                target=self._work,
                args=(start,),
                name=f"syncagent-mcp-start-{self.name}",
                daemon=True,
            )
            start_thread(thread)

    def _forgive_own_end(self) -> None:
        """Do not count a server that was killed here: it has done nothing wrong."""
        connection = self._connection
        if connection is self._forgiven or not getattr(connection, "was_killed", False):
            return
        self._forgiven = connection
        with suppress(IndexError):
            self._starts.pop()

    def _check_restarts(self) -> None:
        rule, starts = self._restart, self._starts
        if len(starts) <= rule.times or clock.now() - starts[0] > rule.per:
            return
        raise MCPServerLost(
            f"{self.name}: the server has ended {len(starts)} times within "
            f"{rule.per:g} s, and is not started again for now; `syncagent mcp doctor` "
            "shows its error output. Change restart= if that is normal for it",
            server=self.name,
        )

    def _work(self, start: _Start) -> None:
        """Connect, on the thread of the start."""
        me = object()
        if start.worker.claim(me) is not me:
            return
        connection = self._connect(start)
        if connection is not None:
            self._on_connected()  # before anyone can use it: lists are read again
            self._connection = connection  # publish first, then look
        if connection is not None and self._is_closed:
            connection.close(grace=0.0)
        self._finish(start)

    def _connect(self, start: _Start) -> MCPConnection | None:
        """Return a new connection; ``None`` if there will be none."""
        connection = self._connection
        if self._is_closed or (connection is not None and connection.is_usable):
            return None  # another start has just ended
        try:
            self._forgive_own_end()
            self._check_restarts()
            now = clock.now()
            recent = sum(now - at <= self._restart.per for at in self._starts)
            self._starts.append(now)
            if recent > 1:  # the first restart need not wait
                start.token.sleep(_BACKOFF * 2 ** (recent - 2))
            return self._open(self, start.token)
        except MCPError as error:
            start.error = error
        except Cancelled:  # the server has not ended by itself: it does not count
            with suppress(IndexError):
                self._starts.pop()
        except Exception as error:
            _log.exception("%s: the start failed", self.name)
            start.error = MCPServerLost(
                f"{self.name}: cannot connect: {error}", server=self.name
            )
        return None

    def _finish(self, start: _Start) -> None:
        self._starting = Once()
        start.is_over = True
        start.watch.wake()

    def close(self, grace: float) -> None:
        """End the server, within about *grace* seconds. Safe to repeat.

        Cancellation: not needed; it is bounded.
        """
        self._is_closed = True  # publish first, then look
        start = self._starting.value
        if start is not None:
            start.token.cancel("the server was closed", "closed")
            if start.worker.claim(start) is start:  # no thread works on it
                self._finish(start)
            start.watch.wait(start.has_ended, CancelToken(timeout=grace + 2.0))
        connection = self._connection
        if connection is not None:
            connection.close(grace=grace)

    def drop(self, grace: float) -> None:
        """End the connection, so that the next request makes a new one."""
        connection = self._connection
        if connection is not None:
            connection.close(grace=grace)

    # -- requests ------------------------------------------------------------------

    def request(self, method: str, params: dict[str, Any], caller: Caller) -> Any:
        """Make a request, and answer what the server asks in between.

        Cancellation: ends at once, and notifies the server.

        :raises Cancelled: the caller's token was cancelled.
        :raises MCPError: there is no result.
        """
        connection = self.connection(caller.token)
        try:
            result = self._request_once(connection, method, params, caller)
        except MCPServerLost as error:
            if error.started or self._is_closed:
                raise
            # The server ended before it saw the request.
            connection = self.connection(caller.token)
            result = self._request_once(connection, method, params, caller)
        return result

    def _request_once(
        self,
        connection: MCPConnection,
        method: str,
        params: dict[str, Any],
        caller: Caller,
    ) -> Any:
        first, pause, has_begun = params, _PAUSE, False
        try:
            for _ in range(_MAX_ROUNDS):
                try:
                    result = connection.request(method, params, caller)
                except MCPRequestFailed as error:
                    has_begun = True
                    if error.code != _PAGES_FIRST or not self._opened(error, caller):
                        raise
                    continue
                has_begun = True
                asked = self._asked(connection, method, result)
                if asked is None:
                    return result
                if asked:
                    answers = {key: self._answer(asked[key], caller) for key in asked}
                    params = {**first, "inputResponses": answers}
                else:
                    caller.token.sleep(pause)  # nothing runs at the server
                    pause = min(2 * pause, _LONGEST_PAUSE)
                    params = first
                if "requestState" in result:
                    params = {**params, "requestState": result["requestState"]}
        except (Cancelled, MCPServerLost) as error:
            # The server has seen an earlier round, even if it has not seen this one.
            error.started = error.started or has_begun
            raise
        raise self._protocol_error(f"{method} asked {_MAX_ROUNDS} times, the limit")

    def _asked(
        self, connection: MCPConnection, method: str, result: Any
    ) -> dict[str, Any] | None:
        """Return the questions in a result, ``None`` if it is final."""
        if not isinstance(result, dict):
            raise self._protocol_error(f"the result of {method} is not an object")
        kind = result.get("resultType", "complete")
        if connection.session.era == "legacy" or kind == "complete":
            return None
        if kind != "input_required" or method not in _ASKING:
            raise self._protocol_error(
                f"the result of {method} has the unknown type {kind!r:.40}"
            )
        asked = result.get("inputRequests")
        return asked if isinstance(asked, dict) else {}

    def _answer(self, asked: Any, caller: Caller) -> Any:
        """Answer one question of a modern server, on the caller's thread."""
        asked = asked if isinstance(asked, dict) else {}
        method, params = asked.get("method"), asked.get("params")
        if not isinstance(method, str):
            raise self._protocol_error("a question has no method")
        question = ServerQuestion(method, params if isinstance(params, dict) else {})
        answer = caller.answer or self.answer
        try:
            return answer(question, caller.token.child())
        except QuestionRefused as refused:
            raise self._protocol_error(
                f"the server asked for {method}, which is refused here: "
                f"{refused.message}"
            ) from None

    def _opened(self, error: MCPRequestFailed, caller: Caller) -> bool:
        """Ask the user to open pages; true if that was done and the call can go on."""
        data = error.data if isinstance(error.data, dict) else {}
        pages = data.get("elicitations")
        pages = pages if isinstance(pages, list) else []
        return bool(pages) and all(
            self._opened_one(page, caller) for page in pages[:_MAX_ROUNDS]
        )

    def _opened_one(self, page: Any, caller: Caller) -> bool:
        if not isinstance(page, dict) or page.get("mode", "url") != "url":
            return False
        question = ServerQuestion("elicitation/create", {**page, "mode": "url"})
        answer = caller.answer or self.answer
        try:
            answered = answer(question, caller.token.child())
        except QuestionRefused:
            return False
        return isinstance(answered, dict) and answered.get("action") == "accept"

    def _protocol_error(self, what: str) -> MCPProtocolError:
        return MCPProtocolError(f"{self.name}: {what}", server=self.name)


class _Start:
    """One start of a server, and the threads that wait for it."""

    def __init__(self) -> None:
        #: The thread that works on it.
        self.worker: Once[object] = Once()
        self.token = CancelToken()
        self.watch = Watch()
        #: One entry for each thread that waits.
        self.waiting: dict[object, None] = {}
        self.error: MCPError | None = None
        self.is_over = False

    def has_ended(self) -> bool:
        """Return whether it has succeeded or failed."""
        return self.is_over


_alive: weakref.WeakSet[MCPClient] = weakref.WeakSet()


@in_child
def _reset_in_child() -> None:
    for client in list(_alive):
        client._reset()
