"""FakeMCPServer: an MCP server for tests, in both eras and over all transports."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from ..._closeable import Closeable
from ...cancel import CancelToken
from ...exceptions import ConfigurationError
from . import relay
from .catalogue import FakeCatalogue
from .eras import Era
from .front import FakeFront
from .journal import LIMIT, Journal, ReceivedMessage, SeenExchange
from .loopback import Loopback
from .pipes import FakeProcess
from .protocol import FakeProtocol, OnCancel
from .rules import LEGACY_VERSIONS, META
from .scripts import Script, Scripts
from .sessions import FakeSession
from .stdio import StdioFront

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..._arguments import DefinitionArguments

__all__ = [
    "FakeMCPServer",
]

_F = TypeVar("_F", bound=Callable[..., Any])

#: Seconds between two looks at what a test waits for; it may not be the server's.
_LOOK: Final = 0.02
#: The field of a subscription that asks for a notification.
_WANTED: Final = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}


class FakeMCPServer(Closeable):
    """An MCP server on loopback that does what a test wants, and judges its client.

    ::

        with FakeMCPServer() as server:
            @server.tool
            def add(a: int, b: int) -> int: ...

            client = MCPServer.http(server.url)       # or .stdio(server.command)
            ...
            assert server.complaints == []

    It knows nothing of syncagent's client: it is a second reading of the protocol.

    :param era: the eras that it speaks: ``legacy`` (2024-11-05 to 2025-11-25),
        ``modern`` (2026-07-28), or ``both``.
    :param sessions: whether legacy HTTP has session ids.
    :param versions: the legacy revisions that it knows, the preferred one first.
    :param form: the form of answers over HTTP: ``json``, ``sse``, or ``auto``, which is
        SSE if something comes before the answer.
    :param event_ids: whether legacy SSE events have ids, so that streams can resume.
    :param page_size: the number of entries of a list on one page.
    :param require_token: the bearer token without which HTTP requests get status 401.
    :param on_cancel: the answer to a request that was cancelled: none, an ``error``
        with code 0, or the ``result`` all the same.
    :param withdraws: whether it cancels its own questions with the call around them.
    """

    def __init__(
        self,
        *,
        era: Era = "both",
        sessions: bool = True,
        versions: Sequence[str] = LEGACY_VERSIONS,
        form: Literal["auto", "json", "sse"] = "auto",
        event_ids: bool = False,
        page_size: int | None = None,
        require_token: str | None = None,
        on_cancel: OnCancel = "silent",
        withdraws: bool = False,
    ) -> None:
        if era not in ("legacy", "modern", "both"):
            raise ConfigurationError(
                f"era must be 'legacy', 'modern' or 'both'; got {era!r}"
            )
        self.era: Era = era
        self.sessions = sessions
        self.versions = tuple(versions)
        self.form = form
        self.event_ids = event_ids
        self.require_token = require_token
        #: The header ``WWW-Authenticate`` of status 401.
        self.challenge = "Bearer"
        self.on_cancel: OnCancel = on_cancel
        self.withdraws = withdraws
        #: The status for a GET, a DELETE, and a session that is lost.
        self.get_status = 200
        self.delete_status = 200
        self.lost_status = 404
        #: Whether the stream of a GET ends at once.
        self.closes_get = False
        #: The address that HTTP+SSE names for POSTs, in place of ``/messages``.
        self.endpoint: str | None = None
        #: Cancelled when the server closes.
        self.life = CancelToken()
        self.journal = Journal()
        self.catalogue = FakeCatalogue(page_size)
        self._scripts = Scripts()
        self._loopback = Loopback(self.journal)
        self._protocol = FakeProtocol(
            self, self.journal, self.catalogue, self._scripts, self._loopback.spawn
        )
        self._front = FakeFront(self, self.journal, self._protocol, self._scripts)
        self._stdio = StdioFront(self, self.journal, self._protocol)

    # -- where it is ------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The address of streamable HTTP."""
        return f"http://127.0.0.1:{self._loopback.port('http')}/mcp"

    @property
    def sse_url(self) -> str:
        """The address of HTTP+SSE."""
        return f"http://127.0.0.1:{self._loopback.port('http')}/sse"

    @property
    def command(self) -> list[str]:
        """The command for stdio: a process that relays its pipes to this object."""
        port = str(self._loopback.port("stdio"))
        return [sys.executable, "-I", "-S", str(Path(relay.__file__)), port]

    @property
    def wrapped_command(self) -> list[str]:
        """The same inside of a shell, as ``npx`` does it: a child and a grandchild."""
        return ["/bin/sh", "-c", '"$@"; exit $?', "sh", *self.command]

    # -- what it has ------------------------------------------------------------------

    def tool(
        self,
        function: _F | None = None,
        /,
        **definition: Unpack[DefinitionArguments],
    ) -> Any:
        """Make a tool of a function: ``@server.tool``, or with fields to replace.

        Its schema comes from the hints. A parameter named ``ctx``, or of the type
        :class:`MCPExchange`, gets the exchange. A dict with ``content`` is a whole
        result; an exception becomes ``isError``.
        """

        def add(function: _F) -> _F:
            self.catalogue.add_function(function, definition)
            return function

        return add if function is None else add(function)

    def add_tool(
        self, definition: Any, function: Script | None = None, *, key: str | None = None
    ) -> None:
        """Add a tool as it goes over the wire, right or wrong.

        :param key: its name in here, if the definition has none or a repeated one.
        """
        name = key or definition["name"]
        self.catalogue.tools[name] = definition
        if function is not None:
            self.catalogue.functions[name] = function

    def remove_tool(self, name: str) -> None:
        """Remove a tool; tell clients with :meth:`change`."""
        self.catalogue.tools.pop(name, None)
        self.catalogue.functions.pop(name, None)

    def resource(
        self,
        uri: str,
        text: str | None = None,
        *,
        blob: str | None = None,
        name: str = "",
        mime: str = "text/plain",
    ) -> None:
        """Add a resource with a text, or with a blob in base64."""
        body = {"text": text or ""} if blob is None else {"blob": blob}
        content = {"uri": uri, "mimeType": mime, **body}
        self.catalogue.contents[uri] = [content]
        self.catalogue.resources[uri] = {
            "uri": uri,
            "name": name or uri,
            "mimeType": mime,
        }

    def template(self, uri_template: str, name: str = "template") -> None:
        """Add a resource template."""
        self.catalogue.templates.append({"uriTemplate": uri_template, "name": name})

    def prompt(self, function: _F) -> _F:
        """Make a prompt of a function of strings that returns the user's words."""
        name = function.__name__
        code = function.__code__
        names = code.co_varnames[: code.co_argcount]
        arguments = [{"name": each, "required": True} for each in names]
        definition = {
            "name": name,
            "description": function.__doc__ or "",
            "arguments": arguments,
        }
        self.catalogue.prompts[name] = definition
        self.catalogue.prompt_functions[name] = function
        return function

    # -- scripts ----------------------------------------------------------------------

    def on(
        self,
        method: str,
        script: Script | dict[str, Any] | None = None,
        *,
        name: str | None = None,
        times: int | None = 1,
    ) -> Any:
        """Play a script in place of the usual answer.

        The script takes the :class:`MCPExchange`. It answers by its methods, or returns
        the result; if it does neither, the usual answer follows. Without a script this
        is a decorator.

        :param method: of requests or notifications; or ``GET``, ``POST``, ``DELETE``
            for HTTP requests before they are read as MCP.
        :param script: a function, or a result.
        :param name: only for this tool, prompt or uri.
        :param times: the number of times; ``None`` for always. Scripts for the same
            method are used up one after the other.
        """

        def add(script: Any) -> Any:
            self._scripts.add(method, script, name, times)
            return script

        return add if script is None else add(script)

    def on_start(self, script: Callable[[FakeProcess], Any], *, times: int = 1) -> None:
        """Play a script when the next process starts, before it reads anything.

        :param times: for this many processes.
        """
        self._stdio.start_scripts += [script] * times

    # -- what it says by itself -------------------------------------------------------

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification to all clients, each in the way of its era."""
        more = {} if params is None else {"params": dict(params)}
        for session in self.live_sessions():
            session.push({"jsonrpc": "2.0", "method": method, **more})
        for exchange in list(self._protocol.listeners):
            wanted = exchange.params.get("notifications") or {}
            uris = wanted.get("resourceSubscriptions") or ()
            uri = (params or {}).get("uri")
            if wanted.get(_WANTED.get(method, "")) or uri in uris:
                meta = {f"{META}subscriptionId": exchange.id}
                exchange.notify(method, {**(params or {}), "_meta": meta})

    def change(self, kind: str = "tools", times: int = 1) -> None:
        """Say that the list of tools, resources or prompts has changed."""
        for _ in range(times):
            self.notify(f"notifications/{kind}/list_changed")

    def ask(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        session: FakeSession | None = None,
        timeout: float = LIMIT,
    ) -> Any:
        """Ask the client outside of any call (legacy era), and return its answer.

        :raises ClientRefused: the client answered with an error.
        :raises TimeoutError: it did not answer within *timeout* seconds.
        """
        session = session or self.live_sessions()[0]
        question = session.ask(method, dict(params or {}))
        return session.wait_for_answer(question, None, timeout)

    def ping(self, timeout: float = LIMIT) -> Any:
        """Ping the client (legacy era)."""
        return self.ask("ping", timeout=timeout)

    def live_sessions(self) -> list[FakeSession]:
        """Return the legacy sessions that are not over."""
        with self.journal.changed:
            sessions = [*self._front.sessions.values(), *self._stdio.sessions]
        return [each for each in sessions if each.era == "legacy" and each.version]

    def listeners(self) -> int:
        """Return the number of open ``subscriptions/listen`` requests."""
        return len(self._protocol.listeners)

    def end_listeners(self) -> None:
        """End all ``subscriptions/listen`` requests in good order, with a result."""
        for exchange in list(self._protocol.listeners):
            exchange.answer()

    # -- what it has seen -------------------------------------------------------------

    @property
    def processes(self) -> list[FakeProcess]:
        """All processes that clients have started, in order."""
        return self._stdio.processes

    @property
    def received(self) -> list[ReceivedMessage]:
        """All messages of clients, in order."""
        return self.journal.received

    @property
    def http_requests(self) -> list[SeenExchange]:
        """All HTTP requests, of any verb and path, in order."""
        return self.journal.http_requests

    @property
    def complaints(self) -> list[str]:
        """The mistakes of clients, and the failures of scripts, in order."""
        return self.journal.complaints

    @property
    def cancelled_calls(self) -> list[ReceivedMessage]:
        """The requests whose cancel arrived before their answer was sent.

        By notification, or on modern HTTP by a closed connection; without a session on
        legacy HTTP by either.
        """
        return self.journal.cancelled_calls

    def requests(self, method: str | None = None) -> list[ReceivedMessage]:
        """Return the requests, all or those of a method."""
        return [
            each
            for each in list(self.received)
            if each.is_request and method in (None, each.method)
        ]

    def notifications(self, method: str | None = None) -> list[ReceivedMessage]:
        """Return the notifications, all or those of a method."""
        return [
            each
            for each in list(self.received)
            if each.method and not each.is_request and method in (None, each.method)
        ]

    def cancels(self) -> list[Any]:
        """Return the ids in the cancel notifications, in order."""
        cancelled = self.notifications("notifications/cancelled")
        return [each.params.get("requestId") for each in cancelled]

    def wait_for(self, predicate: Callable[[], Any], timeout: float = LIMIT) -> Any:
        """Block until *predicate* is true, and return its value.

        It is called again after everything that the server sees, and every 20 ms.

        :raises TimeoutError: it was not within *timeout* seconds.
        """
        found = self.journal.wait(predicate, timeout, look=_LOOK)
        if not found:
            seen = [each.method or "response" for each in list(self.received)]
            raise TimeoutError(f"it did not happen in {timeout} s; seen: {seen[-20:]}")
        return found

    # -- life -------------------------------------------------------------------------

    def forget_session(self, session: FakeSession) -> None:
        """Lose a session over HTTP: its id gets ``lost_status``."""
        self._front.forget(session)

    def forget_sessions(self) -> None:
        """Lose all sessions over HTTP, as a server that was restarted."""
        for session in list(self._front.sessions.values()):
            self._front.forget(session)

    def drop_connections(self) -> None:
        """Close all HTTP connections now."""
        self._loopback.drop()

    def restart(self) -> None:
        """Lose all sessions and all HTTP connections."""
        self.forget_sessions()
        self.drop_connections()

    def go_down(self) -> None:
        """Refuse HTTP connections, and lose those that are open."""
        self._loopback.refuse("http")
        self.restart()

    def come_back(self) -> None:
        """Listen again at the same address."""
        self._loopback.listen("http", self._front.serve)

    def __enter__(self) -> FakeMCPServer:
        if self._loopback.has_begun:
            raise RuntimeError("a FakeMCPServer can be entered once; make another one")
        self._loopback.listen("http", self._front.serve)
        self._loopback.listen("stdio", self._stdio.serve)
        return self

    def close(self) -> None:
        """End the server, its processes and all connections."""
        self.journal.close()
        self.life.cancel("the fake server was closed")
        self._loopback.close()
