"""An agent as a tool of another agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ..exceptions import ConfigurationError, ToolError
from .context import ToolContext
from .settings import ToolDefaults
from .tool import AnyTool, Tool

if TYPE_CHECKING:
    from ..agent import Agent
    from ..result import RunResult

__all__ = ["AgentTool", "agent_as_tool"]


class AgentTool(Tool[..., Any]):
    """A tool that runs an agent, which ends with the run by itself."""

    #: The agent, of which each call runs a fork.
    agent: Agent

    def with_defaults(self, defaults: ToolDefaults) -> AnyTool:
        # An agent cannot run in a worker process.
        if defaults.on_cancel == "kill":
            defaults = msgspec.structs.replace(defaults, on_cancel=None)
        if defaults.isolation == "process":
            defaults = msgspec.structs.replace(defaults, isolation=None)
        return super().with_defaults(defaults)


def agent_as_tool(
    agent: Agent, name: str | None, description: str | None, settings: dict[str, Any]
) -> AnyTool:
    """Return a tool that runs a fork of *agent* for each call.

    :param settings: those of :func:`syncagent.tool`.
    :raises ConfigurationError: the agent has no name, or a setting is invalid.
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

    description = description or agent.system
    tool = AgentTool(ask_agent, name=tool_name, description=description, **settings)
    tool.agent = agent
    return tool
