"""Keyword arguments that several public functions share, for type checkers only.

``**settings: Unpack[AgentArguments]`` gives a function that passes its arguments on the
names and types of those it passes them to. At run time this module is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from os import PathLike
    from typing import Any, Generic, Literal, TypedDict

    from requests.auth import AuthBase

    from ._deps import Deps
    from .asking.answering import Approve, Ask, Authenticate
    from .background.batch_progress import Progress
    from .compaction.steps import Compaction, Compactor
    from .conversation.queue import OnBusy
    from .conversation.request import Cancel
    from .events import StreamEvent
    from .integrations.web.mcp import AuthorizeClient
    from .interrupts import Rule
    from .mcp.connection import Era
    from .mcp.http.settings import HTTPAuth
    from .mcp.questions import Elicit, Sampling
    from .mcp.serving.call_round import Authenticate as AuthenticateClient
    from .mcp.settings import ApprovalPolicy, MCPTimeouts, Restart
    from .messages import Message
    from .models.credentials import Key
    from .models.known import Price
    from .models.limiter import Limiter
    from .models.model import Model
    from .options import Effort, OutputFormat
    from .policies import CancelPolicy, Limits
    from .recording import Record
    from .run.budget import Budget
    from .run.given import RunOptions
    from .run.run import RunKeeper
    from .tools.settings import Isolation, NeedsApproval, OnCancel, ToolDefaults
    from .transport import Retries, Timeouts, Transport
    from .transport.timeouts import Timeout

    class ResumeArguments(TypedDict, Generic[Deps], total=False):
        """Of :meth:`syncagent.Agent.resume`."""

        timeout: float | None
        cancel: Cancel | None
        record: Record | None
        deps: Deps | None
        options: RunOptions | None
        tools: Iterable[Any]
        metadata: Mapping[str, Any] | None
        limiter: Limiter | None
        budget: Budget | None

    class DriveArguments(ResumeArguments[Deps], Generic[Deps], total=False):
        """Of :meth:`syncagent.Agent.drive`."""

        on_event: Callable[[StreamEvent], object] | None

    class StreamArguments(ResumeArguments[Deps], Generic[Deps], total=False):
        """Of :meth:`syncagent.Agent.stream`."""

        on_busy: OnBusy | None
        run_id: str | None

    class RunArguments(StreamArguments[Deps], Generic[Deps], total=False):
        """Of :meth:`syncagent.Agent.run`."""

        backgroundable: bool

    class StartArguments(StreamArguments[Deps], Generic[Deps], total=False):
        """Of :meth:`syncagent.Agent.start`."""

        keep_alive: bool
        buffer: int

    class BatchArguments(TypedDict, Generic[Deps], total=False):
        """Of :func:`syncagent.run_many`."""

        width: int
        cancel: Cancel | None
        record: str | PathLike[str] | Callable[[int], Record | None] | None
        progress: Progress
        timeout: float | None
        on_busy: OnBusy | None
        deps: Deps | None
        options: RunOptions | None
        tools: Iterable[Any]
        metadata: Mapping[str, Any] | None
        limiter: Limiter | None
        budget: Budget | None

    class SubAgentArguments(TypedDict, total=False):
        """Of :meth:`syncagent.ToolContext.agent`."""

        timeout: float | None
        record: Record | None
        deps: Any
        options: RunOptions | None
        tools: Iterable[Any]
        metadata: Mapping[str, Any] | None
        limiter: Limiter | None
        budget: Budget | None
        run_id: str

    class InsideArguments(SubAgentArguments, total=False):
        """Of :meth:`syncagent.Agent.run_inside`."""

        cancel: Cancel | None
        output: Any
        outer_deps: Any
        keeper: RunKeeper | None
        needs_price: bool
        budgets: tuple[Budget, ...]
        shows_agents: bool

    class AgentArguments(TypedDict, Generic[Deps], total=False):
        """Of :class:`syncagent.Agent`, beside the model and the tools."""

        system: str | None
        name: str | None
        messages: Iterable[Message]
        limits: Limits
        cancel_policy: CancelPolicy
        hooks: Sequence[object]
        parallel_tools: int
        tool_defaults: ToolDefaults
        approve: Approve | None
        authenticate: Authenticate | None
        ask: Ask | None
        answer_timeout: float | None
        requires_approval: NeedsApproval
        rules: Iterable[Rule]
        on_busy: OnBusy
        deps: Deps | None
        sub_agent_events: bool
        limiter: Limiter | None
        budget: Budget | None
        compaction: Compaction | Compactor | Sequence[Compactor] | None

    class ChatArguments(AgentArguments, total=False):
        """Of ``using()`` of an LLM chat."""

        model: Model | str
        tools: Iterable[Any]

    class FunctionArguments(ChatArguments, total=False):
        """Of ``using()`` of an LLM function."""

        repairs: int

    class ToolArguments(TypedDict, total=False):
        """Of :meth:`syncagent.Agent.as_tool`."""

        parameters: Mapping[str, Any] | None
        on_cancel: OnCancel | None
        grace: float
        timeout: float | None
        isolation: Isolation | None
        requires_approval: NeedsApproval
        requires_auth: str | None
        parallel: bool
        idempotent: bool
        result_limit: int
        max_result_bytes: int
        max_abandoned: int

    class NamedToolArguments(ToolArguments, total=False):
        """Of :func:`syncagent.tool`."""

        name: str | None
        description: str | None

    class OptionArguments(TypedDict, total=False):
        """Of :class:`syncagent.options.Options`."""

        system: str
        temperature: float | None
        top_p: float | None
        max_tokens: int | None
        stop: str | Sequence[str]
        seed: int | None
        effort: Effort | None
        thinking_tokens: int | None
        tool_choice: str | None
        parallel_tool_calls: bool | None
        output: OutputFormat | None
        server_tools: Sequence[Any]
        cache: bool | str | None
        cache_key: str
        prefill: str
        metadata: dict[str, str]
        extra: dict[str, Any]

    class LocalArguments(OptionArguments, total=False):
        """Of :class:`syncagent.models.local.Local`."""

        api_key: Key | None
        auth: AuthBase | None
        headers: Mapping[str, Key] | None
        timeout: Timeout | Timeouts
        retries: int | Retries
        stream: bool
        transport: Transport | None
        price: Price | None
        context_window: int | None
        limiter: Limiter | None

    class MCPServerArguments(TypedDict, total=False):
        """Of :class:`syncagent.mcp.MCPServer`, beside its name and its timeouts."""

        restart: Restart
        roots: Iterable[str | PathLike[str]]
        elicit: Elicit | Literal["ask"] | None
        sampling: Sampling | None
        requires_approval: ApprovalPolicy
        trust_annotations: bool
        result_limit: int
        parallel: bool

    class MCPServersArguments(MCPServerArguments, total=False):
        """Of each server of a file: what no file says, for both kinds of servers."""

        era: Era | Literal["auto"]
        timeouts: MCPTimeouts
        inherit_env: bool
        on_cancel: Literal["notify", "kill"]
        auth: HTTPAuth
        allow_insecure: bool

    class MCPServiceArguments(TypedDict, total=False):
        """Of :class:`syncagent.mcp.serving.MCPService`, beside the tools."""

        name: str
        version: str
        instructions: str | None
        tool_defaults: ToolDefaults | None
        authenticate: AuthenticateClient | None
        max_calls: int
        max_questions: int
        secret: str | bytes | None

    class StateArguments(TypedDict, total=False):
        """Of ``CallRound.keep()``: what a client keeps between two rounds of a call."""

        answers: list[tuple[str, Any]]
        question: tuple[str, dict[str, Any] | None] | None
        is_approved: bool
        rounds: int
        parked: str

    class DefinitionArguments(TypedDict, total=False):
        """Of :meth:`syncagent.testing.mcp.FakeMCPServer.tool`: fields of MCP."""

        name: str
        title: str
        description: str
        inputSchema: Mapping[str, Any]
        outputSchema: Mapping[str, Any]
        annotations: Mapping[str, Any]
        icons: Sequence[Mapping[str, Any]]
        execution: Mapping[str, Any]
        _meta: Mapping[str, Any]

    class MCPAppArguments(TypedDict, total=False):
        """Of :class:`syncagent.integrations.web.mcp.MCPApp`, beside the service."""

        token: str | None
        authorize: AuthorizeClient | None
        trusted_hosts: Iterable[str]
        trusted_origins: Iterable[str]
        max_body: int

    class SubmitArguments(TypedDict, total=False):
        """Of :meth:`syncagent.stores.StoredConversation.submit`."""

        agent: str
        labels: Mapping[str, Any] | None
        timeout: float | None
        id: str | None
        run_id: str | None
        max_live: int | None
        unfollowed_seconds: float | None
        version: int | None
