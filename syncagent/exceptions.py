"""Every error of the package, as one tree.

::

    SyncAgentError(Exception)
    ├─ ConfigurationError(ValueError)    a setting or an argument cannot work
    │  └─ WrongThread(RuntimeError)      only the main thread can do this
    └─ AgentBusy(RuntimeError)           the agent has a live run already

    Cancelled(BaseException)             not an error: the signal that unwinds a run

Each class carries its data as attributes and survives pickling.
"""

from __future__ import annotations

from typing import Literal

__all__ = [
    "AgentBusy",
    "Cancelled",
    "ConfigurationError",
    "Origin",
    "SyncAgentError",
    "WrongThread",
]


#: Who cancelled.
Origin = Literal[
    "user",
    "deadline",
    "limit",
    "parent",
    "closed",
    "signal",
    "disconnect",
    "shutdown",
    "remote",
]


class SyncAgentError(Exception):
    """Anything that this package raises on purpose."""


class ConfigurationError(SyncAgentError, ValueError):
    """A setting or an argument cannot work as given."""


class WrongThread(ConfigurationError, RuntimeError):
    """The call is possible on the main thread only (:mod:`signal` says so)."""


class AgentBusy(SyncAgentError, RuntimeError):
    """The agent has a live run already."""


class Cancelled(BaseException):
    """Unwind a run that was cancelled; raised by the package, never out of it.

    It is a :class:`BaseException`, so that ``except Exception`` in a tool does not
    swallow the end of its run.

    :param reason: what the canceller said, possibly nothing.
    :param origin: who cancelled.
    """

    def __init__(self, reason: str = "", origin: Origin = "user") -> None:
        super().__init__(reason, origin)
        self.reason = reason
        self.origin = origin

    def __str__(self) -> str:
        said = f": {self.reason}" if len(self.reason) else ""
        return f"cancelled (origin {self.origin}){said}"
