"""Mistakes that mypy --strict and pyright find, one in each line; never run."""

from __future__ import annotations

from syncagent import Agent, tool
from syncagent.mcp import MCPServer
from syncagent.mcp.serving import serve_stdio
from syncagent.models import OpenAIChat, find_model


class Person:
    name: str


def wrong(agent: Agent) -> None:
    agent.run("x", timout=3)  # type: ignore[call-overload]
    agent.start("x", timeout="3")  # type: ignore[call-overload]
    print(agent.run("x", output=Person).output.name)  # type: ignore[union-attr]
    find_model("local", temprature=1)  # type: ignore[call-arg]
    Agent("local", temperature=1)  # type: ignore[call-arg]
    Agent.load("", "local", limit=1)  # type: ignore[call-arg]
    OpenAIChat("x", top_k=1)  # type: ignore[call-arg]
    agent.as_tool(timeout="soon")  # type: ignore[arg-type]
    MCPServer.stdio(["x"], restarts=1)  # type: ignore[call-arg]
    serve_stdio(wrong, title="x")  # type: ignore[call-arg]
    tool(retries=2)  # type: ignore[call-overload]
