"""What the commands tell the shell."""

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
#: As timeout(1) says it.
EXIT_DEADLINE: Final = 124
#: What a shell shows for a program that Ctrl+C, or SIGTERM, has ended.
EXIT_CANCELLED: Final = 128 + signal.SIGINT
EXIT_TERMINATED: Final = 128 + signal.SIGTERM


def exit_code_of(reason: str, origin: str) -> int:
    """Return the exit code of what was cancelled by *origin*, who said *reason*."""
    if origin == "deadline":
        return EXIT_DEADLINE
    return EXIT_TERMINATED if reason == "SIGTERM" else EXIT_CANCELLED
