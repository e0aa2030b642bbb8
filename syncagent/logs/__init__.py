"""Log files that processes can share, and that never make a run wait.

The package logs under the name ``syncagent`` and adds no handler by itself;
:func:`configure` does, when the program calls it.
"""

from .._redaction import hide, redact, unhide
from .configuration import LogSetup, configure
from .records import RedactionFilter, RunIdFilter

__all__ = [
    "LogSetup",
    "RedactionFilter",
    "RunIdFilter",
    "configure",
    "hide",
    "redact",
    "unhide",
]
