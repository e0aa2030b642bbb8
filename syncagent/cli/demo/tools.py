"""Tools to try things out with: each is stopped, or asks, in a way of its own."""

from __future__ import annotations

from typing import Any

from ...tools.context import ToolContext
from ...tools.tool import Tool, tool

__all__ = ["demo_tools"]


def demo_tools() -> list[Tool[..., Any]]:
    """Return the tools that the demo model knows how to call."""
    return [work, count_for_ever, delete_files, order, book_table]


# On a thread, so that its progress is heard of while it runs.
@tool(isolation="thread")
def work(ctx: ToolContext, seconds: int = 20) -> str:
    """Work for a while, say how far it is, and stop when the run does.

    :param seconds: how long.
    """
    steps = max(1, min(seconds, 3600))
    for step in range(steps):
        ctx.progress(f"{100 * step // steps} %")
        ctx.sleep(1)
    return f"worked for {steps} seconds"


@tool(on_cancel="kill")
def count_for_ever() -> int:
    """Count, look at nothing, and listen to nobody; in a process of its own."""
    number = 0
    while True:
        number += 1


@tool(requires_approval=True)
def delete_files(folder: str) -> str:
    """Pretend to delete a folder, if somebody says so.

    :param folder: which.
    """
    return f"{folder} would be gone now; this tool only pretends"


def _costs(arguments: dict[str, Any], ctx: ToolContext) -> str:
    return "it would cost money"


@tool(requires_approval=_costs)
def order(what: str, number: int = 1) -> str:
    """Pretend to order something, if somebody says so.

    :param what: of what.
    :param number: how many.
    """
    return f"{number} x {what} would be on the way now; this tool only pretends"


@tool
def book_table(ctx: ToolContext) -> str:
    """Pretend to book a table, and ask for how many."""
    people = ctx.ask("A table for how many?")
    return f"a table for {people}; this tool only pretends"
