"""Tools at the top level of a module: worker processes import them."""

from dataclasses import dataclass

from syncagent import ToolContext, tool


@dataclass
class Tenant:
    """What a program knows and no model may see."""

    name: str
    key: str


@tool
def here(ctx: ToolContext[Tenant]) -> str:
    """Name the tenant, on the thread of the run."""
    return ctx.deps.name


@tool(isolation="thread")
def aside(ctx: ToolContext[Tenant]) -> str:
    """Name the tenant, on another thread."""
    return ctx.deps.name


@tool(on_cancel="abandon")
def left(ctx: ToolContext[Tenant]) -> str:
    """Name the tenant, where it can be left behind."""
    return ctx.deps.name


@tool(on_cancel="kill")
def killed(ctx: ToolContext[Tenant]) -> str:
    """Name the tenant and the ticket, in a worker process."""
    return ctx.deps.name + ctx.metadata.get("ticket", "")


@tool(on_cancel="kill")
def careless(ctx: ToolContext) -> str:
    """Look at nothing, in a worker process."""
    return ctx.tool_name
