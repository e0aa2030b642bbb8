"""Tools that stay where they are; little is imported, as worker processes do it too."""

from __future__ import annotations

import threading

from syncagent.tools.context import ToolContext


def sit(ctx: ToolContext) -> None:
    """Stay for ever, and say when that has begun."""
    ctx.progress("here")
    threading.Event().wait()


def echo(value: int) -> int:
    """Return what is given."""
    return value
