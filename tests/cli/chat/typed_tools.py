"""Tools for conversations in a terminal."""

import os
import time

from syncagent import ToolContext, tool


@tool
def wait(ctx: ToolContext) -> str:
    """Wait until the run is stopped."""
    ctx.sleep(3600)
    return "waited"


@tool
def nap(ctx: ToolContext, seconds: float) -> str:
    """Wait for a while."""
    ctx.sleep(seconds)
    return "rested"


@tool(isolation="thread")
def chatter(ctx: ToolContext) -> str:
    """Say how far it is, and print something."""
    print("printed by a tool")
    ctx.progress("half way")
    ctx.sleep(3600)
    return "done"


@tool(requires_approval=lambda arguments, ctx: "for good")
def delete(path: str) -> str:
    """Delete a file, or rather not."""
    return f"deleted {path}"


@tool
def inquire(ctx: ToolContext) -> str:
    """Ask the user something."""
    return f"on {ctx.ask('Which branch?')}"


@tool(requires_auth="github")
def push(ctx: ToolContext) -> str:
    """Push, with credentials of the user."""
    return f"pushed with {len(ctx.credentials)} letters"


@tool
def stubborn() -> str:
    """Listen to nobody for a while."""
    time.sleep(1)  # noqa: TID251 - it is to be deaf
    return "at last"


@tool
def deaf(path: str) -> str:
    """Listen to nothing until a file is there."""
    print("deaf now", flush=True)
    while not os.path.exists(path):
        time.sleep(0.02)  # noqa: TID251 - it is to be deaf
    return "at last"


@tool(on_cancel="kill")
def endless() -> str:
    """Count for ever, in a process of its own."""
    while True:
        pass


ALL = [endless, wait, nap, chatter, delete, inquire, push, stubborn, deaf]
