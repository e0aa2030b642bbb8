"""A server on its standard streams, with tools that print, read and do not stop."""

import os
import subprocess
import sys
import threading

from syncagent import Agent, ToolContext, tool
from syncagent.mcp.serving import MCPService
from syncagent.testing import ScriptedModel


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def chatter() -> str:
    """Print in every way there is, and read standard input."""
    print("printed by Python")
    os.write(1, b"written to descriptor 1\n")
    subprocess.run(["echo", "printed by a program"], check=True)
    return repr(sys.stdin.read()) + subprocess.check_output("cat", text=True)


@tool
def wait(ctx: ToolContext) -> None:
    """Start a program, tell its number, and wait for it."""
    ctx.progress("waiting")
    ctx.run_process(["sleep", "3600"])


@tool
def greet(ctx: ToolContext) -> str:
    """Ask for a name."""
    return f"Hello {ctx.ask('Who?')}"


@tool(on_cancel="abandon", grace=0.1)
def deaf(ctx: ToolContext) -> None:
    """Wait without a look at the token."""
    ctx.progress("waiting")
    threading.Event().wait(60)


agent = Agent(ScriptedModel(lambda messages: "I am an agent."), name="helper")
service = MCPService([add, chatter, wait, greet, deaf, agent], name="pipe-server")

if __name__ == "__main__":
    service.serve_stdio()
