"""Findings of a check, as lines for people."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from .colours import Paint
from .plain_text import harmless

__all__ = ["Finding", "show_finding"]

_MARKS: Final = {"ok": ("ok", "green"), "off": ("--", "dim"), "problem": ("!!", "red")}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check."""

    name: str
    value: str
    #: ``off`` means absent and not needed.
    status: Literal["ok", "off", "problem"] = "ok"
    #: How to fix it.
    advice: str = ""


def show_finding(finding: Finding, paint: Paint) -> None:
    """Print a finding, and how to fix it."""
    mark, style = _MARKS[finding.status]
    line = f"{finding.name:<22} {finding.value}"
    print(f"  {paint(mark, style)}  {harmless(line)}", flush=True)
    if finding.advice:
        advice = paint(harmless(finding.advice), "yellow")
        print(f"      {'':<22} {advice}", flush=True)
