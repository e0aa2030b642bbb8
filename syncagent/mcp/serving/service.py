"""The service: tools and agents that MCP clients may call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..._checks import check_number
from ...cancel import CancelToken
from ...exceptions import ConfigurationError, ToolError
from ...tools.settings import ToolDefaults
from ..handshake import DISCOVER, INITIALIZE, LEGACY_VERSIONS, MODERN_VERSION
from ..messages import INVALID_PARAMS, METHOD_NOT_FOUND
from .agent_calls import run_agent
from .call_round import Authenticate, CallKeeping, CallRound
from .call_state import ParkedRuns, StateSeal
from .published import PublishedTool, error_result, publish
from .questions import InputRequired
from .requests import ClientRequest, RequestRefused, ServedClient
from .tool_calls import run_tool

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..._arguments import MCPServiceArguments

__all__ = ["MCPService", "serve_stdio"]

_SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
#: Milliseconds for which a client may keep the list of tools: it never changes.
_TTL: Final = 3_600_000
#: Paused runs of agents that wait for answers of modern clients.
_MAX_PARKED: Final = 100


class MCPService:
    """Tools and agents for MCP clients: ``MCPService([search, agent]).serve_stdio()``.

    A function is called without any model. An agent becomes a tool with a ``prompt``;
    each call runs a fork of it. A client's cancel ends the call, and with it the run.
    Questions of tools, and approvals that they need, are asked by the client's user, if
    the client can.

    :param tools: functions, tools and agents, or one of them.
    :param name: the name that the server gives itself.
    :param version: the version of the server, for clients.
    :param instructions: a text for the client's model about all the tools.
    :param tool_defaults: how tools are stopped that say nothing themselves.
    :param authenticate: returns the credentials that a tool asks for with
        ``requires_auth``, given an :class:`~syncagent.interrupts.AuthRequest`. Clients
        are never asked for secrets.
    :param max_calls: how many calls may run at once; the next one is an error.
    :param max_questions: how many questions one call may ask.
    :param secret: signs the state that clients keep between two rounds of a call. All
        processes of a server need the same one; by default it is random.
    :raises ConfigurationError: one cannot be a tool, or a setting is invalid.
    """

    def __init__(
        self,
        tools: Any,
        *,
        name: str = "syncagent",
        version: str = "1",
        instructions: str | None = None,
        tool_defaults: ToolDefaults | None = None,
        authenticate: Authenticate | None = None,
        max_calls: int = 64,
        max_questions: int = 20,
        secret: str | bytes | None = None,
    ) -> None:
        texts: dict[str, Any] = {"name": name, "version": version}
        for setting, text in texts.items():
            if not isinstance(text, str) or not text:
                raise ConfigurationError(
                    f"{setting} must be a non-empty string; got {text!r:.80}"
                )
        check_number("max_calls", max_calls, is_integer=True, is_positive=True)
        check_number("max_questions", max_questions, is_integer=True)
        self.name: Final = name
        self.version: Final = version
        self.instructions: Final = instructions
        self.max_calls: Final = max_calls
        self._tools: Final = publish(tools, tool_defaults)
        self._keeping: Final = CallKeeping(
            *(StateSeal(secret), ParkedRuns(_MAX_PARKED)),
            *(max_questions, authenticate),
        )

    def serve_stdio(
        self, *, token: CancelToken | None = None, grace: float = 2.0
    ) -> None:
        """Serve the client on standard input and output until it leaves.

        Prints of tools, and of the programs they start, go to standard error. On the
        main thread, and without a token, SIGTERM and Ctrl+C end it, too.

        Cancellation: calls are cancelled, and then it returns, within about *grace*
        seconds.

        :param token: ends it.
        :param grace: seconds that calls have to end in.
        """
        from .stdio import serve_standard_streams

        serve_standard_streams(self, token, grace)

    # -- answers that need no thread -----------------------------------------------

    def answer(self, request: ClientRequest) -> dict[str, Any]:
        """Return the result of any request but a call. Never blocks.

        :raises RequestRefused: there is no such method, or its parameters are invalid.
        """
        method, is_modern = request.method, request.era == "modern"
        hints = {"ttlMs": _TTL, "cacheScope": "public"} if is_modern else {}
        if method == "tools/list":
            if request.params.get("cursor") is not None:
                raise RequestRefused(INVALID_PARAMS, "there is no such page of tools")
            tools = [each.definition for each in self._tools.values()]
            return self.complete(request, {"tools": tools, **hints})
        if is_modern and method == DISCOVER:
            described = {"supportedVersions": [MODERN_VERSION], **self._described}
            return self.complete(request, {**described, **hints})
        if not is_modern and method == INITIALIZE:
            wanted = request.params.get("protocolVersion")
            version = wanted if wanted in LEGACY_VERSIONS else LEGACY_VERSIONS[0]
            described = {"protocolVersion": version, "serverInfo": self._info}
            return {**described, **self._described}
        if not is_modern and method == "ping":
            return {}
        raise RequestRefused(METHOD_NOT_FOUND, f"no method {method:.80}", status=404)

    def complete(
        self, request: ClientRequest, result: dict[str, Any]
    ) -> dict[str, Any]:
        """Return *result* with what the era of the request adds to results."""
        if request.era == "legacy":
            return result
        meta = {_SERVER_INFO: self._info}
        return {"resultType": "complete", **result, "_meta": meta}

    @property
    def _info(self) -> dict[str, str]:
        return {"name": self.name, "version": self.version}

    @property
    def _described(self) -> dict[str, Any]:
        described: dict[str, Any] = {"capabilities": {"tools": {}}}
        if self.instructions:
            described["instructions"] = self.instructions
        return described

    # -- calls ---------------------------------------------------------------------

    def find_tool(self, request: ClientRequest) -> PublishedTool:
        """Return the tool that a call names.

        :raises RequestRefused: there is none.
        """
        name = request.params.get("name")
        found = self._tools.get(name) if isinstance(name, str) else None
        if found is None:
            raise RequestRefused(INVALID_PARAMS, f"there is no tool {name!r:.80}")
        return found

    def call(
        self,
        request: ClientRequest,
        client: ServedClient,
        token: CancelToken,
        forced: CancelToken,
    ) -> dict[str, Any]:
        """Make the call that a request asks for, on this thread.

        Cancellation: ends as the policy of the tool says.

        :param forced: cancelled when the server no longer waits for tools.
        :raises Cancelled: the token was cancelled.
        :raises RequestRefused: it cannot be a call.
        """
        tool, keeping = self.find_tool(request), self._keeping
        round = CallRound(keeping, tool, request, client, token, forced)
        try:
            if tool.agent is not None:
                result = run_agent(round, tool.agent)
            else:
                result = run_tool(round)
        except InputRequired as required:
            asked = {each.key: each.input_request for each in required.asked}
            round.keep(rounds=round.state.rounds + 1)
            result = {
                "resultType": "input_required",
                "inputRequests": asked,
                "requestState": keeping.seal.close(round.state),
            }
        except ToolError as error:
            result = error_result(str(error))
        finally:
            round.progress.close()
        return self.complete(request, result)

    def close(self) -> None:
        """Forget paused runs that wait for answers."""
        self._keeping.parked.clear()

    def __repr__(self) -> str:
        return f"<MCPService {self.name}: {', '.join(self._tools)}>"


def serve_stdio(*tools: Any, **settings: Unpack[MCPServiceArguments]) -> None:
    """Serve functions, tools and agents on standard input and output.

    The short form of ``MCPService([...]).serve_stdio()``.

    Cancellation: as for :meth:`MCPService.serve_stdio`, on the main thread.

    :param settings: as for :class:`MCPService`.
    """
    MCPService(list(tools), **settings).serve_stdio()
