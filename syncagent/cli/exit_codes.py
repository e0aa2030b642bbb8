"""The exit codes of the commands."""

from __future__ import annotations

import signal
from typing import Final

from ..exceptions import (
    ConfigurationError,
    MCPServerLost,
    MCPTimedOut,
    NoSuchRun,
    StoreUnavailable,
)

__all__ = [
    "EXIT_CANCELLED",
    "EXIT_DEADLINE",
    "EXIT_FAILED",
    "EXIT_NOT_YET",
    "EXIT_NO_SERVER",
    "EXIT_NO_SUCH_RUN",
    "EXIT_STORE_AWAY",
    "EXIT_TERMINATED",
    "EXIT_TOO_LATE",
    "EXIT_USAGE",
    "UsageError",
    "exit_code_of",
    "exit_code_of_error",
]

EXIT_FAILED: Final = 1
#: An option that does not exist, or names a thing that does not.
EXIT_USAGE: Final = 2
#: The run had ended, or the question was answered.
EXIT_TOO_LATE: Final = 3
#: A cancel was recorded, and the end of the run was not, within the time to wait.
EXIT_NOT_YET: Final = 4
#: The store of runs cannot be reached.
EXIT_STORE_AWAY: Final = 5
#: There is no such run or question in the store, or there are several.
EXIT_NO_SUCH_RUN: Final = 6
#: An MCP server cannot be started or reached, or has ended.
EXIT_NO_SERVER: Final = 7
#: The code of timeout(1).
EXIT_DEADLINE: Final = 124
#: The codes that a shell shows for a program ended by SIGINT or SIGTERM.
EXIT_CANCELLED: Final = 128 + signal.SIGINT
EXIT_TERMINATED: Final = 128 + signal.SIGTERM


class UsageError(ConfigurationError):
    """An option of a command is wrong."""


def exit_code_of(reason: str, origin: str) -> int:
    """Return the exit code for a cancel with this reason and origin."""
    if origin == "deadline":
        return EXIT_DEADLINE
    if origin == "hook":
        return EXIT_FAILED
    return EXIT_TERMINATED if reason == "SIGTERM" else EXIT_CANCELLED


def exit_code_of_error(error: Exception) -> int:
    """Return the exit code for an error that ended a command."""
    codes = {
        UsageError: EXIT_USAGE,
        StoreUnavailable: EXIT_STORE_AWAY,
        NoSuchRun: EXIT_NO_SUCH_RUN,
        MCPServerLost: EXIT_NO_SERVER,
        MCPTimedOut: EXIT_DEADLINE,
    }
    found = (code for kind, code in codes.items() if isinstance(error, kind))
    return next(found, EXIT_FAILED)
