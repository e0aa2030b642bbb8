"""A synchronous, thread-based agent SDK whose runs stop at once."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .__version__ import __version__
from .cancel import (
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
    ProtocolError,
    ProviderError,
    ProviderUnavailable,
    RateLimited,
    RedirectRefused,
    RequestRejected,
    RequestTimeout,
    ResponseTooLarge,
    SendTimeout,
    StallTimeout,
    StreamBroken,
    SyncAgentError,
    TotalTimeout,
    TransportError,
    WrongThread,
)

if TYPE_CHECKING:
    from . import logs as logs
    from .retry import Retries
    from .sse import ServerSentEvent
    from .timeouts import Timeouts
    from .transport import CancellableSession, Transport

__all__ = [
    "AgentBusy",
    "AuthenticationFailed",
    "CancelReason",
    "CancelToken",
    "CancellableSession",
    "Cancelled",
    "ConfigurationError",
    "ConnectTimeout",
    "ConnectionFailed",
    "ContextTooLong",
    "FirstEventTimeout",
    "HeadersTimeout",
    "Origin",
    "ProtocolError",
    "ProviderError",
    "ProviderUnavailable",
    "RateLimited",
    "Receipt",
    "RedirectRefused",
    "Registration",
    "RequestRejected",
    "RequestTimeout",
    "ResponseTooLarge",
    "Retries",
    "SendTimeout",
    "ServerSentEvent",
    "StallTimeout",
    "StreamBroken",
    "SyncAgentError",
    "Timeouts",
    "TotalTimeout",
    "Transport",
    "TransportError",
    "WrongThread",
    "__version__",
    "cancel_on_signals",
    "logs",
]

#: What is loaded when it is first used, and from where: it brings requests along.
_LATER = {
    "CancellableSession": ".transport",
    "Retries": ".retry",
    "ServerSentEvent": ".sse",
    "Timeouts": ".timeouts",
    "Transport": ".transport",
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
