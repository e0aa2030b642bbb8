"""A synchronous, thread-based agent SDK whose runs stop at once."""

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
    Cancelled,
    ConfigurationError,
    SyncAgentError,
    WrongThread,
)

__all__ = [
    "AgentBusy",
    "CancelReason",
    "CancelToken",
    "Cancelled",
    "ConfigurationError",
    "Origin",
    "Receipt",
    "Registration",
    "SyncAgentError",
    "WrongThread",
    "__version__",
    "cancel_on_signals",
]
