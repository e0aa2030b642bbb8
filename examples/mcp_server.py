"""Offer a function and an agent to MCP clients; a client's cancel ends the run.

The client here is this file, too. Others start it with: python mcp_server.py serve
Run it: python examples/mcp_server.py
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key.
"""

import os
import sys

from syncagent import Agent, Cancelled, CancelToken, ToolContext, tool
from syncagent.mcp import MCPServer
from syncagent.mcp.serving import MCPService
from syncagent.testing import ScriptedModel, call, say


@tool
def add(a: float, b: float) -> float:
    """Add two numbers."""
    print("this goes to standard error")  # standard output belongs to the protocol
    return a + b


@tool(requires_approval=True)
def delete(path: str) -> str:
    """Delete a file, if the client's user allows it."""
    return f"{path} is gone"


@tool
def read_page(ctx: ToolContext) -> None:
    """Read a page, which takes for ever."""
    ctx.sleep(3600)


def make_service():
    script = ScriptedModel(lambda messages: say("", call("read_page")))
    agent = Agent(os.environ.get("SYNCAGENT_MODEL") or script, tools=[read_page])
    task = agent.as_tool("researcher", "Find something out; it takes a while.")
    return MCPService([add, delete, task], name="example", version="1.0")


def main():
    command = [sys.executable, __file__, "serve"]
    allow = {"allow": True}  # an application would show the form to its user
    # Its environment has the key of a model; by default it would see none.
    with MCPServer.stdio(command, elicit=lambda _: allow, inherit_env=True) as server:
        print("add:", server.call("add", {"a": 1, "b": 2}).content[0].text)
        print("delete:", server.call("delete", {"path": "x"}).content[0].text)
        token = CancelToken()
        try:
            server.call("researcher", {"prompt": "Why?"}, token=token,
                        on_progress=lambda report: token.cancel("enough"))  # fmt: skip
        except Cancelled as cancelled:
            print("researcher:", cancelled)
        print("add:", server.call("add", {"a": 2, "b": 2}).content[0].text)


if __name__ == "__main__":
    make_service().serve_stdio() if "serve" in sys.argv else main()
