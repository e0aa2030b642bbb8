"""An agent as a tool of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .exceptions import ConfigurationError, ToolError
from .result import RunResult
from .tools.context import ToolContext
from .tools.tool import AnyTool, Tool

if TYPE_CHECKING:
    from .agent import Agent

__all__ = ["agent_as_tool"]


def agent_as_tool(agent: Agent, name: str | None, description: str | None) -> AnyTool:
    """Return a tool that runs a fork of *agent* each time it is called.

    :raises ConfigurationError: it has no name.
    """
    called = name or agent.name
    if called is None:
        raise ConfigurationError(
            "an agent that is a tool needs a name: Agent(..., name='researcher')"
        )

    def ask_agent(prompt: str, ctx: ToolContext) -> str:
        """Ask another agent, which has tools and a task of its own.

        :param prompt: everything that it needs to know, as it knows nothing else.
        """
        result: RunResult = ctx.agent(agent.fork(), prompt)
        if result.stop_reason != "end_turn":
            raise ToolError(
                f"{called} did not come to its end ({result.stop_reason}); it has "
                f"said: {result.text or 'nothing'}"
            )
        return result.text

    return Tool(ask_agent, name=called, description=description or agent.system)
