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
    from . import logs as logs
    from .agent import Agent
    from .cancel_policy import CancelPolicy
    from .chat_functions import ChatStream, LlmChat, llm_chat
    from .driver import Driver, Finished
    from .functions import LlmFunction, llm_function
    from .handle import Handle
    from .interrupts import (
        AfterToolResult,
        Approval,
        ApprovalRequest,
        AuthRequest,
        AwaitingInput,
    )
    from .limits import Limits
    from .messages import File, Image
    from .outcomes import ToolOutcome
    from .result import Cancellation, RunFinished, RunResult
    from .retry import Retries
    from .rules import Rule
    from .run_stream import RunStream
    from .runtime import Runtime
    from .sse import ServerSentEvent
    from .terminal import Terminal, tui
    from .timeouts import Timeouts
    from .tools.abandoned import abandoned
    from .tools.context import ToolContext
    from .tools.tool import Tool, tool
    from .transport import CancellableSession, Transport
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
    "CancelPolicy": ".cancel_policy",
    "CancellableSession": ".transport",
    "Cancellation": ".result",
    "ChatStream": ".chat_functions",
    "Driver": ".driver",
    "File": ".messages",
    "Finished": ".driver",
    "Handle": ".handle",
    "Image": ".messages",
    "Limits": ".limits",
    "LlmChat": ".chat_functions",
    "LlmFunction": ".functions",
    "Retries": ".retry",
    "Rule": ".rules",
    "RunFinished": ".result",
    "RunResult": ".result",
    "RunStream": ".run_stream",
    "Runtime": ".runtime",
    "ServerSentEvent": ".sse",
    "Terminal": ".terminal",
    "Timeouts": ".timeouts",
    "Tool": ".tools.tool",
    "ToolContext": ".tools.context",
    "ToolOutcome": ".outcomes",
    "Transport": ".transport",
    "Usage": ".usage",
    "abandoned": ".tools.abandoned",
    "llm_chat": ".chat_functions",
    "llm_function": ".functions",
    "tool": ".tools.tool",
    "tui": ".terminal",
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
