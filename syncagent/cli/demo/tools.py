"""Tools of the demo: each stops, or asks, in a way of its own."""

from __future__ import annotations

from typing import Any

from ...tools.context import ToolContext
from ...tools.tool import Tool, tool

__all__ = ["count_for_ever", "delete_files", "demo_tools"]


def demo_tools() -> list[Tool[..., Any]]:
    """Return the tools that the demo model can call."""
    return [work, count_for_ever, delete_files, order, book_table]


@tool(isolation="thread")  # so that its progress is shown while it runs
def work(ctx: ToolContext, seconds: int = 20) -> str:
    """Work for a while, report progress, and stop when the run does."""
    steps = max(1, min(seconds, 3600))
    for step in range(steps):
        ctx.progress(f"{100 * step // steps} %")
        ctx.sleep(1)
    return f"worked for {steps} seconds"


@tool(on_cancel="kill")
def count_for_ever() -> int:
    """Count, and look at nothing; in a process of its own."""
    number = 0
    while True:
        number += 1


@tool(requires_approval=True)
def delete_files(folder: str) -> str:
    """Pretend to delete a folder, after an approval."""
    return f"{folder} would be gone now; this tool only pretends"


@tool(requires_approval=lambda arguments, ctx: "it would cost money")
def order(what: str, number: int = 1) -> str:
    """Pretend to order something, after an approval."""
    return f"{number} x {what} would be on the way now; this tool only pretends"


@tool
def book_table(ctx: ToolContext) -> str:
    """Pretend to book a table, and ask for how many."""
    people = ctx.ask("A table for how many?")
    return f"a table for {people}; this tool only pretends"
