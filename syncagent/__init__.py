"""A synchronous, thread-based agent SDK whose runs stop at once."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .__version__ import __version__
from .cancel import (
    CancelMode,
    CancelReason,
    CancelToken,
    Origin,
    Receipt,
    Registration,
    cancel_on_signals,
)
from .exceptions import (
    AgentBusy,
    AuthenticationFailed,
    Cancelled,
    ConfigurationError,
    ConnectionFailed,
    ConnectTimeout,
    ContextTooLong,
    FirstEventTimeout,
    HeadersTimeout,
    InterruptOver,
    InterruptPending,
    LimitReached,
    OutputInvalid,
    ProtocolError,
    ProviderError,
    ProviderUnavailable,
    RateLimited,
    RecordingInvalid,
    RedirectRefused,
    RequestRejected,
    RequestTimeout,
    ResponseTooLarge,
    RunCancelled,
    RunStopped,
    SendTimeout,
    StallTimeout,
    StateInvalid,
    StreamBroken,
    SyncAgentError,
    ToolError,
    TotalTimeout,
    TransportError,
    WrongThread,
)

if TYPE_CHECKING:
    from .agent import Agent
    from .background.handle import Handle
    from .background.runtime import Runtime
    from .cli.tui import Terminal, tui
    from .conversation.run_stream import RunStream
    from .driver import Driver, Finished
    from .events import RunFinished
    from .functions.llm_chat import ChatStream, LlmChat, llm_chat
    from .functions.llm_function import LlmFunction, llm_function
    from .interrupts import (
        AfterToolResult,
        Approval,
        ApprovalRequest,
        AuthRequest,
        AwaitingInput,
        Rule,
    )
    from .messages import File, Image, ToolOutcome
    from .policies import CancelPolicy, Limits
    from .result import Cancellation, RunResult
    from .sse import ServerSentEvent
    from .tools.abandoned import abandoned
    from .tools.context import ToolContext
    from .tools.tool import Tool, tool
    from .transport import CancellableSession, Transport
    from .transport.retries import Retries
    from .transport.timeouts import Timeouts
    from .usage import Usage

__all__ = [
    "AfterToolResult",
    "Agent",
    "AgentBusy",
    "Approval",
    "ApprovalRequest",
    "AuthRequest",
    "AuthenticationFailed",
    "AwaitingInput",
    "CancelMode",
    "CancelPolicy",
    "CancelReason",
    "CancelToken",
    "CancellableSession",
    "Cancellation",
    "Cancelled",
    "ChatStream",
    "ConfigurationError",
    "ConnectTimeout",
    "ConnectionFailed",
    "ContextTooLong",
    "Driver",
    "File",
    "Finished",
    "FirstEventTimeout",
    "Handle",
    "HeadersTimeout",
    "Image",
    "InterruptOver",
    "InterruptPending",
    "LimitReached",
    "Limits",
    "LlmChat",
    "LlmFunction",
    "Origin",
    "OutputInvalid",
    "ProtocolError",
    "ProviderError",
    "ProviderUnavailable",
    "RateLimited",
    "Receipt",
    "RecordingInvalid",
    "RedirectRefused",
    "Registration",
    "RequestRejected",
    "RequestTimeout",
    "ResponseTooLarge",
    "Retries",
    "Rule",
    "RunCancelled",
    "RunFinished",
    "RunResult",
    "RunStopped",
    "RunStream",
    "Runtime",
    "SendTimeout",
    "ServerSentEvent",
    "StallTimeout",
    "StateInvalid",
    "StreamBroken",
    "SyncAgentError",
    "Terminal",
    "Timeouts",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolOutcome",
    "TotalTimeout",
    "Transport",
    "TransportError",
    "Usage",
    "WrongThread",
    "__version__",
    "abandoned",
    "cancel_on_signals",
    "llm_chat",
    "llm_function",
    "logs",
    "tool",
    "tui",
]

#: What is loaded when it is first used, and from where: much of it brings requests.
_LATER = {
    "AfterToolResult": ".interrupts",
    "Agent": ".agent",
    "Approval": ".interrupts",
    "ApprovalRequest": ".interrupts",
    "AuthRequest": ".interrupts",
    "AwaitingInput": ".interrupts",
    "CancelPolicy": ".policies",
    "CancellableSession": ".transport",
    "Cancellation": ".result",
    "ChatStream": ".functions.llm_chat",
    "Driver": ".driver",
    "File": ".messages",
    "Finished": ".driver",
    "Handle": ".background.handle",
    "Image": ".messages",
    "Limits": ".policies",
    "LlmChat": ".functions.llm_chat",
    "LlmFunction": ".functions.llm_function",
    "Retries": ".transport",
    "Rule": ".interrupts",
    "RunFinished": ".events",
    "RunResult": ".result",
    "RunStream": ".conversation.run_stream",
    "Runtime": ".background.runtime",
    "ServerSentEvent": ".sse",
    "Terminal": ".cli.tui",
    "Timeouts": ".transport",
    "Tool": ".tools.tool",
    "ToolContext": ".tools.context",
    "ToolOutcome": ".messages",
    "Transport": ".transport",
    "Usage": ".usage",
    "abandoned": ".tools.abandoned",
    "llm_chat": ".functions.llm_chat",
    "llm_function": ".functions.llm_function",
    "tool": ".tools.tool",
    "tui": ".cli.tui",
}


def __getattr__(name: str) -> Any:
    """Load what not every program uses when it is first used."""
    if name == "logs":
        return import_module(".logs", __name__)
    if name in _LATER:
        value = getattr(import_module(_LATER[name], __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
