"""Tools, resources and prompts that are the same in both major versions of ``mcp``."""

import asyncio
import os
import subprocess
import threading
from typing import Any

from pydantic import BaseModel

#: A picture of one pixel.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


class Weather(BaseModel):
    """A structured result."""

    city: str
    degrees: float


class Person(BaseModel):
    """The form of an elicitation, with a default for what is left out."""

    name: str
    age: int = 30


def add_tools(server: Any, context: type, image: type, journal: Any) -> None:
    """Register everything that needs no question to the client."""

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    async def count(ctx: context, steps: int, seconds: float, name: str = "") -> str:
        """Take some steps, and report each as progress."""
        journal.write("began count", name)
        try:
            for step in range(1, steps + 1):
                await ctx.report_progress(step, steps, f"step {step}")
                await asyncio.sleep(seconds / steps)
        except asyncio.CancelledError:
            journal.write("cancelled count", name)
            raise
        journal.write("finished count", name)
        return f"counted to {steps}"

    @server.tool()
    def block(seconds: float) -> str:
        """Wait without awaiting: mcp 1.x answers nobody in the meantime."""
        journal.write("began block")
        threading.Event().wait(seconds)
        journal.write("finished block")
        return "blocked"

    @server.tool()
    def big(size: int) -> str:
        """Return a long text."""
        return "x" * size

    @server.tool()
    def picture() -> image:
        """Return a picture."""
        return image(data=PNG, format="png")

    @server.tool()
    def weather(city: str) -> Weather:
        """Return an object."""
        return Weather(city=city, degrees=21.5)

    @server.tool()
    def fail() -> str:
        """Raise."""
        raise ValueError("out of order")

    @server.tool()
    def variable(name: str) -> str:
        """Return a variable of the server's environment."""
        return os.environ.get(name, "")

    @server.tool()
    def process() -> int:
        """Return the id of the server's process."""
        return os.getpid()

    @server.tool()
    def child() -> int:
        """Start a child that holds none of the pipes, and return its process id."""
        nothing = subprocess.DEVNULL
        command = ["sleep", "600"]
        return subprocess.Popen(
            command, stdin=nothing, stdout=nothing, stderr=nothing
        ).pid

    @server.tool()
    def die() -> str:
        """End the server's process in the middle of the call."""
        journal.write("dying")
        os._exit(3)


def add_texts(server: Any) -> None:
    """Register resources and prompts."""

    @server.resource("note://hello")
    def hello() -> str:
        """A note."""
        return "hello from a note"

    @server.resource("note://of/{name}")
    def note_of(name: str) -> str:
        """The note of a person."""
        return f"the note of {name}"

    @server.prompt()
    def greet(name: str) -> str:
        """Greet a person."""
        return f"Please greet {name}."
