"""Log files that many processes share and that no run ever waits for.

The package logs below the name ``syncagent`` and adds no handler by itself:
:func:`configure` does, when the program asks for it.
"""

from .._redaction import hide, redact, unhide
from ._redaction import RedactionFilter
from ._run_id_filter import RunIdFilter
from ._setup import LogSetup, configure

__all__ = [
    "LogSetup",
    "RedactionFilter",
    "RunIdFilter",
    "configure",
    "hide",
    "redact",
    "unhide",
]
