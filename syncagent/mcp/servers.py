"""Several MCP servers that start together and end together.

Guarantees:

- Each server starts and closes on a thread of its own; the slowest one decides.
- ``connect()`` leaves nothing half started: it returns with every server ready (or
  skipped, if so wanted), or raises with all of them closed.
- A cancel ends all starts at once. ``close()`` is bounded, whatever the servers do.
"""

from __future__ import annotations

import fnmatch
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload

from .._closeable import Closeable
from .._context import work_in_context
from ..cancel import CancelToken, Watch, clock
from ..cancel.once import start_thread
from ..exceptions import (
    ConfigurationError,
    MCPAuthRequired,
    MCPError,
    MCPServerLost,
    MCPTimedOut,
)
from .config import MCPServerConfig, read_config
from .names import provider_names
from .variables import ConfigInput

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._arguments import MCPServersArguments
    from ..tools.tool import AnyTool
    from .server import MCPServer
    from .settings import ApprovalPolicy

__all__ = ["MCPServers", "ToolsOfServers", "make_server"]

_log = logging.getLogger("syncagent.mcp")
_T = TypeVar("_T", bound="MCPServers")

OnError = Literal["raise", "skip"]

#: Settings of one kind of server; load() takes those of both.
_OF_HTTP: Final = ("auth", "allow_insecure")
_OF_STDIO: Final = ("inherit_env", "on_cancel")
#: Seconds after a cancel in which the starts end by themselves.
_AFTERMATH: Final = 5.0
#: Seconds for all servers to close; each has a shorter limit of its own.
_CLOSE: Final = 15.0


def make_server(
    config: MCPServerConfig,
    ask: Callable[[ConfigInput], str] | None = None,
    **settings: Unpack[MCPServersArguments],
) -> MCPServer:
    """Return the server of an entry of a file, with values in place of variables.

    It is not started. A server that is reached by HTTP and has no ``Authorization``
    header logs in by OAuth if it has to, with the tokens of ``syncagent mcp login``.

    :param settings: of :class:`~syncagent.mcp.MCPServer`.
    :raises ConfigurationError: a variable has no value.
    """
    from .server import MCPServer
    from .settings import MCPTimeouts

    given = config.expanded(ask)
    chosen: dict[str, Any] = {"name": given.name, **settings}
    if given.timeout is not None and "timeouts" not in chosen:
        idle = min(MCPTimeouts().idle or given.timeout, given.timeout)
        chosen["timeouts"] = MCPTimeouts(idle=idle, total=given.timeout)
    for key in _OF_HTTP if given.command else _OF_STDIO:
        chosen.pop(key, None)
    if given.command:
        return MCPServer.stdio(
            list(given.command), env=given.env, cwd=given.cwd, **chosen
        )
    has_key = any(name.lower() == "authorization" for name in given.headers)
    if "auth" not in chosen and not has_key:
        from .oauth import FileTokens, OAuth

        chosen["auth"] = OAuth(tokens=FileTokens.default())
    return MCPServer.http(given.url, headers=given.headers, kind=given.kind, **chosen)


class MCPServers(Mapping[str, "MCPServer"], Closeable):
    """Servers by name, as a ``with`` block that starts and closes all of them.

    ::

        with MCPServers.load("mcp.json") as servers:
            agent = Agent(model, tools=[servers.tools(), mine])

    :param servers: the servers, by the names that prefix their tools.
    :param on_error: ``raise`` if one does not start; or ``skip`` it with a warning,
        also later, at a turn for which it cannot list its tools.
    :param filters: patterns of the tools to use and not to use, by server.
    """

    def __init__(
        self,
        servers: Mapping[str, MCPServer],
        *,
        on_error: OnError = "raise",
        filters: Mapping[str, tuple[Sequence[str] | None, Sequence[str]]] = {},
    ) -> None:
        if on_error not in ("raise", "skip"):
            raise ConfigurationError(
                f"on_error must be 'raise' or 'skip'; got {on_error!r:.60}"
            )
        self._servers = dict(servers)
        self._on_error = on_error
        self._filters = dict(filters)
        #: The servers that were skipped, and why.
        self.failed: dict[str, Exception] = {}

    @classmethod
    def load(
        cls: type[_T],
        path: str | os.PathLike[str],
        *,
        only: Iterable[str] | None = None,
        ask: Callable[[ConfigInput], str] | None = None,
        on_error: OnError = "raise",
        **settings: Unpack[MCPServersArguments],
    ) -> _T:
        """Return the servers of a file such as ``mcp.json``; none is started yet.

        The formats of Claude, Copilot and Cursor (``mcpServers``) and of VS Code
        (``servers``) are read. ``${NAME}``, ``${NAME:-default}``, ``${env:NAME}``,
        ``${workspaceFolder}`` and ``${userHome}`` get their values; a variable that is
        not set is an error, never an empty text.

        **Such a file is code.** To start its servers runs its commands with your
        rights, and its headers can send any variable of your environment to any
        address. Load only a file that you have read, or wrote; a file that came with
        a repository is not one of them. ``syncagent chat --mcp`` shows each command
        and asks; this function does not. A server sees only a few variables of the
        environment, such as ``PATH`` and ``HOME``, and those that ``env`` names.

        :param only: the names of the servers to use; by default all that are not
            disabled.
        :param ask: returns the value of an ``${input:ID}``; without it, one is an
            error.
        :param on_error: as for the class.
        :param settings: of each :class:`~syncagent.mcp.MCPServer`, such as
            ``requires_approval``.
        :raises ConfigurationError: the file is missing or wrong, or a variable has no
            value; with the file, the server and the path of the mistake.
        """
        configs = read_config(path).chosen(only)
        return cls.of(configs, ask=ask, on_error=on_error, **settings)

    @classmethod
    def of(
        cls: type[_T],
        configs: Iterable[MCPServerConfig],
        *,
        ask: Callable[[ConfigInput], str] | None = None,
        on_error: OnError = "raise",
        **settings: Unpack[MCPServersArguments],
    ) -> _T:
        """Return the servers of entries of one or more files.

        :raises ConfigurationError: two have the same name, or a variable has no value.
        """
        known: dict[str, MCPServerConfig] = {}
        answers: dict[str, str] = {}

        def ask_once(wanted: ConfigInput) -> str:
            assert ask is not None
            if wanted.id not in answers:
                answers[wanted.id] = ask(wanted)
            return answers[wanted.id]

        for config in configs:
            other = known.setdefault(config.name, config)
            if other is not config:
                raise ConfigurationError(
                    f"two servers are called {config.name!r}: in {other.file} and in "
                    f"{config.file}; rename one, or choose servers by name"
                )
        servers = {
            name: make_server(config, ask and ask_once, **settings)
            for name, config in known.items()
        }
        filters = {name: (each.only, each.without) for name, each in known.items()}
        return cls(servers, on_error=on_error, filters=filters)

    # -- the mapping -------------------------------------------------------------------

    def __getitem__(self, name: str) -> MCPServer:
        return self._servers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._servers)

    def __len__(self) -> int:
        return len(self._servers)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<MCPServers {', '.join(self._servers) or 'none'}>"

    # -- life --------------------------------------------------------------------------

    def __enter__(self: _T) -> _T:
        self.connect()
        return self

    def connect(self, *, token: CancelToken | None = None) -> None:
        """Start all servers at once, and wait until each is ready.

        Cancellation: ends at once; all servers are closed.

        :raises MCPError: one or more did not start; all of them are named, and the
            others are closed. With ``on_error="skip"`` they are in :attr:`failed`.
        :raises Cancelled: *token* was cancelled.
        """
        inner = (token or CancelToken()).child()
        try:
            outcomes = _on_threads(
                "start",
                {
                    name: partial(server.connect, token=inner)
                    for name, server in self._servers.items()
                },
                inner,
            )
            inner.checkpoint()
            failures = {name: e for name, e in outcomes.items() if e is not None}
            if failures and self._on_error == "raise":
                raise _combined(failures, len(self._servers))
            for name, error in failures.items():
                if not isinstance(error, Exception):
                    raise error
                _log.warning("MCP server %s is skipped: %s", name, error)
                self.failed[name] = error
                self._servers.pop(name).close()
        except BaseException:
            inner.cancel("the servers are closed", "closed")
            self.close()
            raise

    def close(self) -> None:
        """Close all servers at once, within a bound. Safe to repeat, from any thread.

        Cancellation: none; each server is given a few seconds at most.
        """
        closing = {name: server.close for name, server in self._servers.items()}
        outcomes = _on_threads("close", closing, CancelToken(), _CLOSE)
        for name in closing:
            error = outcomes.get(name, TimeoutError("it takes too long"))
            if error is not None:
                _log.warning("MCP server %s: close failed: %s", name, error)

    # -- tools -------------------------------------------------------------------------

    def tools(
        self,
        *,
        only: Sequence[str] | None = None,
        without: Sequence[str] = (),
        prefix: str | Callable[[str], str] = "auto",
        requires_approval: ApprovalPolicy | None = None,
    ) -> ToolsOfServers:
        """Return the tools of all servers, as a list and as a source for agents.

        :param only: patterns of the tools to use, by the servers' own names for them;
            a choice that a file makes narrows them further.
        :param without: patterns of the tools not to use.
        :param prefix: by default the name of the server and an underscore: equal names
            of tools are the normal case. A function makes one from the name; an empty
            text means no prefix.
        :param requires_approval: in place of that of each server.
        """
        prefixes = provider_names(self._servers) if prefix == "auto" else {}
        parts = []
        for name, server in self._servers.items():
            narrowed, excluded = self._filters.get(name, (None, ()))
            start = prefix(name) if callable(prefix) else prefix
            chosen: Any = server.tools(
                only=_in_both(only, narrowed),
                without=[*without, *excluded],
                prefix=f"{prefixes[name][:31]}_" if prefixes else start,
                requires_approval=requires_approval,
            )
            parts.append(chosen)
        return ToolsOfServers(parts, is_strict=self._on_error == "raise")

    def as_tool_source(self) -> ToolsOfServers:
        """Return the tools of all servers: ``Agent(tools=[servers])`` asks for them."""
        return self.tools()


class ToolsOfServers(Sequence["AnyTool"]):
    """The tools of several servers: now, as a sequence; at each turn, as a source.

    :param is_strict: a server that cannot list its tools ends the run; otherwise it
        has none in that turn, with a warning.
    """

    name: Final = "MCP servers"

    def __init__(self, parts: Sequence[Any], *, is_strict: bool = True) -> None:
        self._parts = parts
        self._is_strict = is_strict

    def current_tools(self, token: CancelToken) -> Sequence[AnyTool]:
        """Return the tools of all servers as they are now.

        Cancellation: ends at once.

        :raises MCPError: a server cannot list its tools.
        """
        found: list[AnyTool] = []
        for part in self._parts:
            try:
                found += part.current_tools(token)
            except MCPError as error:
                if self._is_strict:
                    raise
                _log.warning("tools of an MCP server are missing: %s", error)
        return found

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts)

    @overload
    def __getitem__(self, index: int) -> AnyTool: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[AnyTool]: ...

    def __getitem__(self, index: int | slice) -> AnyTool | Sequence[AnyTool]:
        return list(self)[index]

    def __iter__(self) -> Iterator[AnyTool]:
        for part in self._parts:
            yield from part

    def __repr__(self) -> str:
        return f"<tools of {len(self._parts)} MCP servers>"


def _in_both(
    only: Sequence[str] | None, narrowed: Sequence[str] | None
) -> Sequence[str] | None:
    """Return patterns that choose no tool outside of *only* or of *narrowed*."""
    if only is None or narrowed is None or isinstance(only, str):
        return narrowed if only is None else only
    found = []
    for one in only:
        for other in narrowed:
            if fnmatch.fnmatchcase(one, other):
                found.append(one)
            elif fnmatch.fnmatchcase(other, one):
                found.append(other)
    return list(dict.fromkeys(found))


# -- threads -------------------------------------------------------------------------


def _on_threads(
    what: str,
    work: Mapping[str, Callable[[], object]],
    token: CancelToken,
    timeout: float | None = None,
) -> dict[str, BaseException | None]:
    """Do all the work at once, each on its own thread; return how each has ended.

    Cancellation: *work* ends by itself; it is waited for, a few seconds at most.
    """
    outcomes: dict[str, BaseException | None] = {}
    watch = Watch()

    def do(name: str) -> None:
        outcome = None
        try:
            work[name]()
        except BaseException as error:
            outcome = error
        outcomes[name] = outcome  # publish first, then wake
        watch.wake()

    for name in work:
        thread = threading.Thread(
            target=work_in_context,
            args=(partial(do, name),),
            name=f"syncagent-mcp-{what}-{name}",
            daemon=True,
        )
        start_thread(thread)
    until = None if timeout is None else clock.now() + timeout
    if not watch.wait(lambda: len(outcomes) == len(work), token, until):
        limit = clock.now() + _AFTERMATH
        watch.wait(lambda: len(outcomes) == len(work), CancelToken(), limit)
    return {name: outcomes[name] for name in work if name in outcomes}


def _combined(failures: Mapping[str, BaseException], count: int) -> BaseException:
    """Return one error for all servers that did not start."""
    (first, *others) = failures.values()
    if not others and isinstance(first, (MCPServerLost, MCPTimedOut, MCPAuthRequired)):
        return first
    said = "; ".join(
        str(error) if name in str(error) else f"{name}: {error}"
        for name, error in failures.items()
    )
    error = MCPServerLost(
        f"{len(failures)} of {count} MCP servers did not start: {said}",
        server=", ".join(failures),
    )
    error.__cause__ = first
    return error
