"""An MCP server: its tools for agents, its resources and prompts for programs."""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Literal

from .._checks import check_number
from .._closeable import Closeable
from ..cancel import CancelToken
from ..exceptions import ConfigurationError, MCPRequestFailed
from ..messages import Message
from ..tools.context import ToolContext
from ..tools.results import RESULT_LIMIT
from .client import MCPClient, Open, ServerState
from .connection import (
    Caller,
    ConnectionOwner,
    Era,
    MCPConnection,
    MCPSession,
    ProgressReport,
    ServerInfo,
)
from .content import (
    CallResult,
    ResourceContent,
    call_result,
    prompt_messages,
    resource_contents,
)
from .lists import ListKind, ServerLists
from .names import check_prefix
from .notifications import ChangeRegistration, ServerNotifications
from .questions import Elicit, Sampling, ServerQuestions
from .settings import ApprovalPolicy, MCPTimeouts, Restart, checked_era, checked_policy
from .tools import MCPTools, answers_with

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._arguments import MCPServerArguments
    from .http.settings import HTTPAuth

__all__ = ["MCPServer"]

#: Seconds that a server has to end by itself.
_GRACE: Final = 3.0
#: The error of a server that finds other headers than it wants: its list has changed.
_HEADERS_DIFFER: Final = -32020
_NO_TIMEOUTS: Final = MCPTimeouts()
_NO_RESTART: Final = Restart()


class MCPServer(Closeable):
    """One MCP server; any number of agents and threads may use it at once.

    Make one with :meth:`stdio` or :meth:`http`. It connects when it is first used, or
    at the begin of a ``with`` block, which also closes it. What a server keeps for its
    client (a browser, a transaction) is shared by all who use this object.

    All methods may be called from any thread. Those that wait take a ``token=``: a
    cancel ends the wait at once, and notifies the server.

    :param name: its name in errors, logs and questions.
    :param timeouts: seconds for each kind of wait.
    :param restart: how often it is started again after its end.
    :param roots: folders that the server hears of if it asks. They limit nothing.
    :param elicit: answers its questions to the user: ``ask`` passes them on as
        ``ctx.ask()`` does, ``None`` declares that there is no one to ask.
    :param sampling: lets it use a model.
    :param requires_approval: when a call of its tools needs an approval.
    :param trust_annotations: believe its hints, such as that a tool is read-only.
    :param result_limit: characters of a result that the model gets.
    :param parallel: false if it cannot work on several calls at once.
    :raises ConfigurationError: a setting cannot work.
    """

    def __init__(
        self,
        open: Open,
        *,
        name: str,
        timeouts: MCPTimeouts = _NO_TIMEOUTS,
        restart: Restart = _NO_RESTART,
        roots: Iterable[str | PathLike[str]] = (),
        elicit: Elicit | Literal["ask"] | None = "ask",
        sampling: Sampling | None = None,
        requires_approval: ApprovalPolicy = "never",
        trust_annotations: bool = False,
        result_limit: int = RESULT_LIMIT,
        parallel: bool = True,
    ) -> None:
        self.name: Final = name
        self.timeouts: Final = timeouts
        check_number("result_limit", result_limit, is_integer=True, unit="characters")
        self.result_limit: Final = result_limit
        self.parallel: Final = parallel
        self.trusts_annotations: Final = trust_annotations
        self._requires_approval = checked_policy(
            requires_approval, trust_annotations=trust_annotations
        )
        # The client and its connection know these three and never this object: so it
        # can be freed, which closes the connection.
        self._questions = ServerQuestions(
            name, elicit=elicit, sampling=sampling, roots=roots
        )
        self._lists = ServerLists()
        self._notifications = ServerNotifications(name, self._lists)
        self._client = MCPClient(
            name,
            open,
            restart=restart,
            client_capabilities=self._questions.capabilities,
            on_notification=self._notifications.notified,
            on_connected=self._notifications.connected,
            answer=self._questions.answer,
        )

    @classmethod
    def stdio(
        cls,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        inherit_env: bool = False,
        cwd: str | PathLike[str] | None = None,
        name: str | None = None,
        era: Era | Literal["auto"] = "auto",
        on_cancel: Literal["notify", "kill"] = "notify",
        timeouts: MCPTimeouts = _NO_TIMEOUTS,
        **settings: Unpack[MCPServerArguments],
    ) -> MCPServer:
        """Return a server that is a program on this machine.

        It runs in a session of its own, without a shell, and ends with this process,
        however that ends.

        :param command: the program and its arguments.
        :param env: variables for it. By default it inherits only HOME, LOGNAME, PATH,
            SHELL, TERM and USER: your keys are none of its business.
        :param inherit_env: give it the whole environment.
        :param cwd: the folder in which it starts.
        :param name: by default the name of the program.
        :param era: the era of the protocol, if it is known.
        :param on_cancel: ``notify`` tells the server that a call was cancelled, as the
            protocol has it; ``kill`` kills it, for servers that do not listen.
        :param settings: those of the class.
        :raises ConfigurationError: a setting cannot work.
        """
        from .stdio.connection import connect_stdio
        from .stdio.process import StdioSettings

        if isinstance(command, str):
            raise ConfigurationError(
                "command must be a list, because no shell is involved, as in "
                f"{command.split()!r}"
            )
        if on_cancel not in ("notify", "kill"):
            raise ConfigurationError(
                f"on_cancel must be 'notify' or 'kill'; got {on_cancel!r:.80}"
            )
        given = StdioSettings(
            command=tuple(command),
            env=dict(env or {}),
            inherit_env=inherit_env,
            cwd=cwd,
            era=checked_era(era),
            start_timeout=timeouts.start,
            kills_on_cancel=on_cancel == "kill",
        )

        def open(owner: ConnectionOwner, token: CancelToken) -> MCPConnection:
            return connect_stdio(given, owner, token)

        name = name or given.command[0].rpartition("/")[2]
        return cls(open, name=name, timeouts=timeouts, **settings)

    @classmethod
    def http(
        cls,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        auth: HTTPAuth = None,
        kind: Literal["auto", "streamable", "sse"] = "auto",
        allow_insecure: bool = False,
        name: str | None = None,
        era: Era | Literal["auto"] = "auto",
        timeouts: MCPTimeouts = _NO_TIMEOUTS,
        **settings: Unpack[MCPServerArguments],
    ) -> MCPServer:
        """Return a server at a URL.

        :param headers: sent with every request.
        :param auth: the credentials, as :mod:`requests` takes them, or
            :class:`syncagent.mcp.OAuth`.
        :param kind: the transport, if it is known: ``sse`` is that of 2024.
        :param allow_insecure: true to let credentials leave this machine unencrypted.
        :param name: by default the host of the URL.
        :param era: the era of the protocol, if it is known.
        :param settings: those of the class.
        :raises ConfigurationError: a setting cannot work.
        """
        from .http.connecting import connect_http
        from .http.settings import HTTPSettings

        given = HTTPSettings(
            url=url,
            headers=dict(headers or {}),
            auth=auth,
            kind=kind,
            era=era,
            allow_insecure=allow_insecure,
            start_timeout=timeouts.start,
        )

        def open(owner: ConnectionOwner, token: CancelToken) -> MCPConnection:
            return connect_http(given, owner, token)

        return cls(open, name=name or given.host, timeouts=timeouts, **settings)

    # -- life ----------------------------------------------------------------------

    def connect(self, *, token: CancelToken | None = None) -> MCPSession:
        """Start or reach the server now, and return what it speaks.

        Cancellation: ends at once.

        :raises MCPError: that is not possible.
        """
        token = CancelToken() if token is None else token
        return self._client.connection(token).session

    def close(self) -> None:
        """End the server, or the connection to it. Safe to repeat, from any thread.

        Cancellation: not needed; it takes a few seconds at most.
        """
        self._client.close(_GRACE)

    def __enter__(self) -> MCPServer:
        try:
            self.connect()
        except BaseException:
            self.close()
            raise
        return self

    def __del__(self) -> None:
        client = getattr(self, "_client", None)
        if client is None or client.state in ("idle", "closed"):
            return
        # Not threading.Thread: its start takes a lock, which the thread that is
        # interrupted by this finalizer may hold.
        with suppress(RuntimeError):  # the interpreter is ending, and ends the server
            start_new_thread(client.close, (_GRACE,))

    @property
    def state(self) -> ServerState:
        """``idle``, ``starting``, ``ready``, ``lost`` or ``closed``."""
        return self._client.state

    @property
    def _session(self) -> MCPSession | None:
        connection = self._client.current
        return None if connection is None else connection.session

    @property
    def era(self) -> Era | None:
        """The era of the protocol; ``None`` before the first connection."""
        return None if self._session is None else self._session.era

    @property
    def version(self) -> str | None:
        """The revision of the protocol; ``None`` before the first connection."""
        return None if self._session is None else self._session.version

    @property
    def info(self) -> ServerInfo:
        """The name and version that the server gives itself."""
        return ServerInfo() if self._session is None else self._session.info

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The capabilities of the server."""
        return {} if self._session is None else self._session.capabilities

    @property
    def instructions(self) -> str:
        """The server's text for a model.

        It is a stranger's text, and is not put into any prompt.
        """
        return "" if self._session is None else self._session.instructions

    @property
    def stderr_tail(self) -> str:
        """The end of the error output of a program; empty for others."""
        return getattr(self._client.current, "error_tail", "")

    # -- tools ---------------------------------------------------------------------

    def tools(
        self,
        only: Sequence[str] | None = None,
        *,
        without: Sequence[str] | None = None,
        prefix: str = "",
        requires_approval: ApprovalPolicy | None = None,
    ) -> MCPTools:
        """Return tools for an agent: a list of them that follows the server's.

        ``Agent(tools=[server.tools()])`` follows changes at each turn;
        ``Agent(tools=[*server.tools()])`` takes the tools of this moment.

        :param only: names, or patterns such as ``read_*``; by default all tools.
        :param without: names or patterns to leave out.
        :param prefix: put before each name, where servers use the same ones.
        :param requires_approval: in place of the server's own.
        """
        policy = self._requires_approval
        if requires_approval is not None:
            policy = checked_policy(
                requires_approval, trust_annotations=self.trusts_annotations
            )
        return MCPTools(
            self,
            only=only,
            without=without,
            prefix=check_prefix(prefix),
            requires_approval=policy,
        )

    def as_tool_source(self) -> MCPTools:
        """Return all tools, as ``Agent(tools=[server])`` takes them."""
        return self.tools()

    def definitions(self, token: CancelToken) -> list[dict[str, Any]]:
        """Return the definitions of the tools, as the server has sent them.

        The same list is returned while nothing has changed.

        Cancellation: ends at once.
        """
        return self._list("tools", token)

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        token: CancelToken | None = None,
        on_progress: Callable[[ProgressReport], object] | None = None,
        timeout: float | None = None,
    ) -> CallResult:
        """Call a tool, and return its result.

        Cancellation: ends at once, and notifies the server.

        :param name: the server's own name of the tool.
        :param on_progress: called on this thread with each progress report.
        :param timeout: seconds for the whole call, in place of ``timeouts.total``; the
            start of a server that is not there yet has ``timeouts.start``.
        :raises MCPError: there is no result; an error of the tool itself is a result
            with ``is_error``.
        """
        check_number(
            "timeout", timeout, is_positive=True, allow_none=True, unit="seconds"
        )
        caller = Caller(
            CancelToken() if token is None else token,
            self.timeouts.idle,
            self.timeouts.total if timeout is None else timeout,
            on_progress,
            self._questions.answer,
        )
        return self.call_tool(name, arguments or {}, caller)

    def call_tool(
        self, name: str, arguments: Mapping[str, Any], caller: Caller
    ) -> CallResult:
        """Call a tool for *caller*."""
        params = {"name": name, "arguments": dict(arguments)}
        try:
            result = self._client.request("tools/call", params, caller)
        except MCPRequestFailed as error:
            if error.code != _HEADERS_DIFFER:
                raise
            # The server has refused the request: what it wants as headers has changed.
            self._lists.forget(("tools",))
            self.definitions(caller.token)
            result = self._client.request("tools/call", params, caller)
        return call_result(result, self.name)

    def caller(
        self,
        token: CancelToken,
        on_progress: Callable[[ProgressReport], object],
        context: ToolContext,
    ) -> Caller:
        """Return the caller for a tool call of an agent."""
        answer = answers_with(self._questions.answer, context)
        limits = self.timeouts
        return Caller(token, limits.idle, limits.total, on_progress, answer)

    # -- resources, prompts and the rest -------------------------------------------

    def resources(self, *, token: CancelToken | None = None) -> list[dict[str, Any]]:
        """Return the resources that the server lists, as it describes them."""
        return self._list("resources", token)

    def templates(self, *, token: CancelToken | None = None) -> list[dict[str, Any]]:
        """Return the templates of resources that the server lists."""
        return self._list("templates", token)

    def prompts(self, *, token: CancelToken | None = None) -> list[dict[str, Any]]:
        """Return the prompts that the server lists."""
        return self._list("prompts", token)

    def read(
        self, uri: str, *, token: CancelToken | None = None
    ) -> tuple[ResourceContent, ...]:
        """Return the content of a resource.

        Cancellation: ends at once.
        """
        return resource_contents(
            self._request("resources/read", {"uri": uri}, token), self.name
        )

    def prompt(
        self, name: str, /, *, token: CancelToken | None = None, **arguments: str
    ) -> list[Message]:
        """Return the messages of a prompt: ``Agent(messages=...)`` begins with them.

        Cancellation: ends at once.
        """
        params = {"name": name, "arguments": arguments}
        return prompt_messages(self._request("prompts/get", params, token))

    def complete(
        self,
        reference: Mapping[str, str],
        argument: str,
        value: str,
        *,
        context: Mapping[str, str] | None = None,
        token: CancelToken | None = None,
    ) -> list[str]:
        """Return how the server would complete an argument of a prompt or a template.

        Cancellation: ends at once.

        :param reference: ``{"type": "ref/prompt", "name": ...}``, or
            ``{"type": "ref/resource", "uri": ...}``.
        :param context: arguments that are known already.
        """
        params: dict[str, Any] = {
            "ref": dict(reference),
            "argument": {"name": argument, "value": value},
        }
        if context:
            params["context"] = {"arguments": dict(context)}
        completion = self._request("completion/complete", params, token)
        found = completion.get("completion")
        values = found.get("values") if isinstance(found, dict) else None
        return [one for one in values or [] if isinstance(one, str)]

    def on_change(self, callback: Callable[[str], object]) -> ChangeRegistration:
        """Call *callback* when a list of the server changes.

        It is called with ``tools``, ``resources``, ``templates`` or ``prompts``, or
        with the URI of a resource, on a thread of the SDK.
        """
        return self._notifications.on_change(callback)

    # -- requests ------------------------------------------------------------------

    def _list_caller(self, token: CancelToken | None) -> Caller:
        limit = self.timeouts.list
        token = CancelToken() if token is None else token
        return Caller(token, limit, limit, None, self._questions.answer)

    def _list(self, kind: ListKind, token: CancelToken | None) -> list[dict[str, Any]]:
        return self._lists.get(kind, self._client, self._list_caller(token))

    def _request(
        self, method: str, params: dict[str, Any], token: CancelToken | None
    ) -> dict[str, Any]:
        result: dict[str, Any] = self._client.request(
            method, params, self._list_caller(token)
        )
        return result

    def __repr__(self) -> str:
        return f"<MCPServer {self.name}: {self.state}>"
