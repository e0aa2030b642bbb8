"""An agent as a tool of another agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..exceptions import ConfigurationError, ToolError
from .context import ToolContext
from .tool import AnyTool, Tool

if TYPE_CHECKING:
    from ..agent import Agent
    from ..result import RunResult

__all__ = ["agent_as_tool"]


def agent_as_tool(agent: Agent, name: str | None, description: str | None) -> AnyTool:
    """Return a tool that runs a fork of *agent* for each call.

    :raises ConfigurationError: the agent has no name.
    """
    tool_name = name or agent.name
    if tool_name is None:
        raise ConfigurationError(
            "an agent used as a tool needs a name: Agent(..., name='researcher')"
        )

    def ask_agent(prompt: str, ctx: ToolContext) -> str:
        """Ask another agent, which has its own tools and its own task.

        :param prompt: everything it needs to know; it sees nothing else.
        """
        # A part shares the rules of its agent: remembered answers hold for all calls.
        result: RunResult = ctx.agent(agent._fork(is_part=True), prompt)
        if result.interrupts:
            tools = {getattr(asked, "tool", "") for asked in result.interrupts}
            raise ToolError(
                f"{tool_name} needs an answer before it can call "
                f"{', '.join(sorted(tools))}, and no one can be asked here; give one "
                "of the two agents a handler for it"
            )
        if result.stop_reason != "end_turn":
            raise ToolError(
                f"{tool_name} stopped early ({result.stop_reason}); its text so far: "
                f"{result.text or 'none'}"
            )
        return result.text

    return Tool(ask_agent, name=tool_name, description=description or agent.system)
