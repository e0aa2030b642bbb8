"""Tools for conversations in a terminal."""

import hashlib
import os
import time

import requests

from syncagent import ToolContext, tool
from syncagent.exceptions import Declined


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


@tool
def book(ctx: ToolContext) -> str:
    """Book a table, with a form."""
    form = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Name"},
            "seats": {"type": "integer", "minimum": 1, "maximum": 9, "default": 2},
            "room": {"enum": ["r", "g"], "enumNames": ["Red", "Green"]},
        },
        "required": ["name"],
    }
    try:
        return f"booked {ctx.ask('Which table?', form=form)}"
    except Declined:
        return "not booked"


@tool(requires_auth="github")
def push(ctx: ToolContext) -> str:
    """Push, with credentials of the user."""
    return f"pushed with {len(ctx.credentials)} letters"


@tool(on_cancel="wait")
def stubborn() -> str:
    """Listen to nobody for a while."""
    time.sleep(1)  # noqa: TID251 - it is to be deaf
    return "at last"


@tool(on_cancel="wait")
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


def sleeper() -> None:
    """Sleep as a function does that knows nothing of runs."""
    print("sleeper has begun", flush=True)
    time.sleep(3600)  # noqa: TID251 - it is to be deaf


def fetcher(url: str) -> str:
    """Wait for a server that says nothing."""
    print("fetcher has begun", flush=True)
    return requests.get(url, timeout=3600).text


def spinner() -> None:
    """Never let go of the processor."""
    print("spinner has begun", flush=True)
    while True:
        pass


def cruncher() -> str:
    """Be in one call of C for minutes."""
    print("cruncher has begun", flush=True)
    return hashlib.pbkdf2_hmac("sha256", b"x", b"y", 1_000_000_000).hex()


PLAIN = [sleeper, fetcher, spinner, cruncher]
ALL = [endless, wait, nap, chatter, delete, inquire, book, push, stubborn, deaf, *PLAIN]
