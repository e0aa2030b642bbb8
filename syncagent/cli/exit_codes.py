"""The exit codes of the commands."""

from __future__ import annotations

import signal
from typing import Final

__all__ = [
    "EXIT_CANCELLED",
    "EXIT_DEADLINE",
    "EXIT_FAILED",
    "EXIT_TERMINATED",
    "exit_code_of",
]

EXIT_FAILED: Final = 1
#: The code of timeout(1).
EXIT_DEADLINE: Final = 124
#: The codes that a shell shows for a program ended by SIGINT or SIGTERM.
EXIT_CANCELLED: Final = 128 + signal.SIGINT
EXIT_TERMINATED: Final = 128 + signal.SIGTERM


def exit_code_of(reason: str, origin: str) -> int:
    """Return the exit code for a cancel with this reason and origin."""
    if origin == "deadline":
        return EXIT_DEADLINE
    return EXIT_TERMINATED if reason == "SIGTERM" else EXIT_CANCELLED
