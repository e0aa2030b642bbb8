"""What became of each tool call."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["Outcome", "ToolOutcome"]

#: ``interrupted``: it was running and was stopped, its effects are unknown;
#: ``abandoned``: it is still running.
Outcome = Literal["done", "failed", "denied", "not_started", "interrupted", "abandoned"]


class ToolOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one call."""

    call_id: str
    #: The tool's.
    name: str
    outcome: Outcome
    #: How long it ran.
    seconds: float = 0.0
    #: What went wrong, if something did.
    error: str = ""
    #: Did it take longer than its timeout?
    timed_out: bool = False
