"""Tools of a server, as an agent takes them.

Names, descriptions and schemas are a stranger's text. A hash of the definition goes
with each tool, so that an approval counts only for the definition that was approved.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, overload

import msgspec

from ..cancel import CancelToken, clock
from ..cancel.handler_errors import raised_by_signal_handler
from ..exceptions import ConfigurationError, MCPError, ToolError
from ..tools.context import ToolContext
from ..tools.tool import AnyTool, Tool
from .connection import Caller, ProgressReport, ServerQuestion
from .content import CallResult, shown
from .names import is_chosen, provider_names
from .settings import ApprovalPolicy

__all__ = ["MCPTools", "ToolServer", "answers_with"]

_log = logging.getLogger("syncagent.mcp")

#: Seconds between two progress reports that reach the run.
_PROGRESS: Final = 0.05
#: Tools of one server; the rest is left out.
_MAX_TOOLS: Final = 500
#: Bytes of one definition; a larger one is left out.
_MAX_DEFINITION: Final = 256 * 1024
#: Keywords at the top of a schema that providers refuse.
_REFUSED: Final = ("anyOf", "oneOf", "allOf", "not", "enum", "$ref")
#: The argument that holds all others of a tool with such a schema.
_WRAPPED: Final = "arguments"


class ToolServer(Protocol):
    """A server, as its tools see it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def result_limit(self) -> int:
        """Characters of a result that the model gets."""

    @property
    def parallel(self) -> bool:
        """True if it can work on several calls at once."""

    @property
    def trusts_annotations(self) -> bool:
        """True if the hints of the server are believed."""

    def definitions(self, token: CancelToken) -> list[dict[str, Any]]:
        """Return the definitions of its tools; the same list while none changed."""

    def call_tool(
        self, name: str, arguments: Mapping[str, Any], caller: Caller
    ) -> CallResult:
        """Call a tool."""

    def caller(
        self,
        token: CancelToken,
        on_progress: Callable[[ProgressReport], object],
        context: ToolContext,
    ) -> Caller:
        """Return the caller for a tool call of an agent."""


class MCPTools(Sequence[AnyTool]):
    """The tools of a server that were chosen: a list of them, and a source for agents.

    ``Agent(tools=[server.tools()])`` asks for the tools at the begin of each turn, and
    so follows changes. ``Agent(tools=[*server.tools()])`` takes those of this moment.
    """

    def __init__(
        self,
        server: ToolServer,
        *,
        only: Sequence[str] | None,
        without: Sequence[str] | None,
        prefix: str,
        requires_approval: ApprovalPolicy,
    ) -> None:
        for name, patterns in (("only", only), ("without", without)):
            if isinstance(patterns, str):
                raise ConfigurationError(
                    f"{name} must be a list of names or patterns, as in "
                    f"{name}=['read_*']; got {patterns!r:.80}"
                )
        self._server = server
        self._only, self._without = only, without
        self._prefix = prefix
        self._requires_approval = requires_approval
        #: The definitions and the tools made of them: one tuple, for all threads.
        self._made: tuple[list[dict[str, Any]], tuple[AnyTool, ...]] = ([], ())
        #: The hashes of all definitions seen, by the server's name of the tool.
        self._seen: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The name of the server."""
        return self._server.name

    def current_tools(self, token: CancelToken) -> tuple[AnyTool, ...]:
        """Return the tools as the server lists them now.

        Cancellation: ends at once.

        :raises MCPError: the server cannot be reached.
        """
        definitions = self._server.definitions(token)
        before, tools = self._made
        if definitions is before:
            return tools
        known = {tool.definition: tool for tool in tools}
        tools = tuple(self._tools(definitions, known))
        self._made = (definitions, tools)
        return tools

    def _tools(
        self, definitions: list[dict[str, Any]], known: dict[str, AnyTool]
    ) -> Iterator[AnyTool]:
        """Make tools of the definitions that were chosen and are usable."""
        chosen: dict[str, dict[str, Any]] = {}
        for definition in definitions:
            name = definition.get("name")
            if not isinstance(name, str) or not name:
                self._complain("a tool without a name")
            elif is_chosen(name, self._only, self._without):
                chosen.setdefault(name, definition)
        if len(chosen) > _MAX_TOOLS:
            self._complain(f"all tools but the first {_MAX_TOOLS} of {len(chosen)}")
            chosen = dict(list(chosen.items())[:_MAX_TOOLS])
        names = provider_names(chosen, self._prefix)
        for original, definition in chosen.items():
            encoded = msgspec.json.encode(definition, order="deterministic")
            # The server's name, too: an approval is for one server.
            where = f"{self.name}\0{names[original]}\0".encode("utf-8", "replace")
            digest = hashlib.sha256(where + encoded).hexdigest()
            if self._seen.setdefault(original, digest) != digest:
                self._seen[original] = digest
                _log.warning(
                    "%s: the definition of its tool %.100r has changed; approvals that "
                    "were remembered no longer count",
                    *(self.name, original),
                )
            if len(encoded) > _MAX_DEFINITION:
                self._complain(f"{original!r:.100}: its definition is too large")
                continue
            tool = known.get(digest) or self._tool(names[original], definition, digest)
            if tool is not None:
                yield tool

    def _tool(
        self, name: str, definition: dict[str, Any], digest: str
    ) -> AnyTool | None:
        original, schema = definition["name"], definition.get("inputSchema")
        description = definition.get("description") or definition.get("title") or ""
        if not isinstance(schema, dict):
            self._complain(f"{original!r:.100}: it has no inputSchema")
            return None
        execution = definition.get("execution")
        if isinstance(execution, dict) and execution.get("taskSupport") == "required":
            self._complain(f"{original!r:.100}: it works as a task of MCP only")
            return None
        is_wrapped = _is_wrapped(schema)
        call = _Call(self._server, definition, is_wrapped=is_wrapped)
        try:
            tool: AnyTool = Tool(
                call,
                name=name,
                description=str(description),
                parameters=_wrapped(schema) if is_wrapped else schema,
                on_cancel="wait",
                isolation=None,
                timeout=None,
                requires_approval=self._approval(definition),
                parallel=self._server.parallel,
                idempotent=self._hint(definition, "idempotentHint"),
                result_limit=self._server.result_limit,
            )
        except Exception as error:  # a schema can be wrong in many ways
            if raised_by_signal_handler(error):
                raise
            self._complain(f"{original!r:.100}: {error}")
            return None
        tool.definition = digest
        return tool

    def _approval(
        self, definition: dict[str, Any]
    ) -> bool | Callable[[dict[str, Any], ToolContext], bool | str]:
        policy = self._requires_approval
        if policy == "never":
            return False
        if policy == "unless_read_only" and self._hint(definition, "readOnlyHint"):
            return False
        return _ApprovalReason(
            f"{shown(definition['name'], 128)} of the MCP server {self.name}",
            policy if callable(policy) else None,
            is_wrapped=_is_wrapped(definition["inputSchema"]),
        )

    def _hint(self, definition: dict[str, Any], name: str) -> bool:
        """Return a hint of the server, if its hints are believed."""
        notes = definition.get("annotations")
        is_true = isinstance(notes, dict) and notes.get(name) is True
        return is_true and self._server.trusts_annotations

    def _complain(self, what: str) -> None:
        _log.warning("%s: left out %s", self.name, what)

    # -- a list --------------------------------------------------------------------

    def _now(self) -> tuple[AnyTool, ...]:
        return self.current_tools(CancelToken())

    @overload
    def __getitem__(self, index: int) -> AnyTool: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[AnyTool]: ...

    def __getitem__(self, index: int | slice) -> AnyTool | Sequence[AnyTool]:
        return self._now()[index]

    def __len__(self) -> int:
        return len(self._now())

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(self._now())

    def __repr__(self) -> str:
        return f"<MCPTools of {self.name}>"


class _ApprovalReason:
    """Says in a question which tool of which server is meant, by its own name."""

    def __init__(
        self,
        what: str,
        policy: Callable[..., bool | str] | None,
        *,
        is_wrapped: bool,
    ) -> None:
        self._what = what
        self._policy = policy
        self._is_wrapped = is_wrapped

    def __call__(self, arguments: dict[str, Any], context: ToolContext) -> bool | str:
        answer: bool | str = True
        if self._policy is not None:
            inner = arguments.get(_WRAPPED) if self._is_wrapped else arguments
            answer = self._policy(inner if isinstance(inner, dict) else {}, context)
        if isinstance(answer, str) and answer:
            return f"{self._what}: {answer}"
        return self._what if answer else False


class _Call:
    """The function of a tool: it calls the server, on the thread of the tool call."""

    def __init__(
        self, server: ToolServer, definition: dict[str, Any], *, is_wrapped: bool
    ) -> None:
        self._server = server
        self._definition = definition
        self._is_wrapped = is_wrapped
        self.__name__ = str(definition["name"])
        self.__doc__ = ""

    def __call__(self, ctx: ToolContext, /, **arguments: Any) -> Any:
        if self._is_wrapped:
            arguments = arguments[_WRAPPED]
            if not isinstance(arguments, dict):
                raise ToolError(f"{_WRAPPED} must be an object; got {arguments!r:.80}")
        name = self._definition["name"]
        caller = self._server.caller(ctx.token, _Throttle(ctx), ctx)
        try:
            result = self._server.call_tool(name, arguments, caller)
        except MCPError as error:
            raise ToolError(str(error)) from None
        if result.is_error:
            raise ToolError(result.text or f"{name} failed without a message")
        return list(result.content) or "(no content)"


class _Throttle:
    """Passes progress on to the run, at most some twenty times a second."""

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self._next_at = 0.0

    def __call__(self, report: ProgressReport) -> None:
        now = clock.now()
        if now >= self._next_at:
            self._next_at = now + _PROGRESS
            told = msgspec.structs.asdict(report)
            self._ctx.progress(
                {key: told[key] for key in told if told[key] is not None}
            )


def _is_wrapped(schema: dict[str, Any]) -> bool:
    """True if providers refuse *schema* at the top."""
    return any(keyword in schema for keyword in _REFUSED)


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that providers accept, with *schema* as its only property."""
    # References inside begin at the root: what they name must be there.
    names = ("$defs", "definitions")
    shared: dict[str, Any] = {name: schema[name] for name in names if name in schema}
    return {
        **shared,
        "type": "object",
        "properties": {_WRAPPED: schema},
        "required": [_WRAPPED],
        "additionalProperties": False,
    }


def answers_with(
    answer: Callable[[ServerQuestion, CancelToken, ToolContext | None], Any],
    context: ToolContext,
) -> Callable[[ServerQuestion, CancelToken], Any]:
    """Return a function that answers the questions of a server for a tool call."""
    return lambda question, token: answer(question, token, context)
