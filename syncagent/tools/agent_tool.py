"""An agent as a tool of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..exceptions import ConfigurationError, ToolError
from ..result import RunResult
from .context import ToolContext
from .tool import AnyTool, Tool

if TYPE_CHECKING:
    from ..agent import Agent

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
        # What is remembered of answers is remembered for all calls.
        result: RunResult = ctx.agent(agent._fork(is_part=True), prompt)
        if result.interrupts:
            tools = {getattr(asked, "tool", "") for asked in result.interrupts}
            needs = ", ".join(sorted(tools))
            raise ToolError(
                f"{called} has to ask somebody before it can call {needs}, and nobody "
                "can be asked here; give one of the two agents the handlers for that"
            )
        if result.stop_reason != "end_turn":
            raise ToolError(
                f"{called} did not come to its end ({result.stop_reason}); it has "
                f"said: {result.text or 'nothing'}"
            )
        return result.text

    return Tool(ask_agent, name=called, description=description or agent.system)
