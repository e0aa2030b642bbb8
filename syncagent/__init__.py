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
    Cancelled,
    ConfigurationError,
    SyncAgentError,
    WrongThread,
)

if TYPE_CHECKING:
    from . import logs as logs

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
    "logs",
]


def __getattr__(name: str) -> Any:
    """Load what most programs never use when it is first used."""
    if name == "logs":
        return import_module(".logs", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
