"""The command ``syncagent mcp serve``: tools and agents for MCP clients, on pipes."""

from __future__ import annotations

import argparse
from typing import Any, Final

from ..cancel import CancelToken
from ..exceptions import ConfigurationError
from ..mcp.serving import MCPService
from .choices import TOOL_DEFAULTS, import_place

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY: Final = (
    "offer functions, tools and agents to an MCP client on stdin and stdout"
)

_EPILOG: Final = """\
An MCP client starts this command itself; its configuration has, for example:
  {"mcpServers": {"shop": {"command": "syncagent",
                           "args": ["mcp", "serve", "shop.tools:search"]}}}
It ends when the client closes its standard input, on SIGTERM and on Ctrl+C. Whatever
the tools print goes to standard error.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "places",
        metavar="MODULE:NAME",
        nargs="+",
        help="functions, tools, agents, lists of them, or one MCPService",
    )
    parser.add_argument(
        "--name", default="syncagent", help="the name that the server gives itself"
    )
    parser.add_argument(
        "--instructions", metavar="TEXT", help="a text for the client's model"
    )


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Serve the client until it leaves; return the exit code.

    Cancellation: calls are cancelled, and then it returns, within a few seconds.

    :raises ConfigurationError: a place holds nothing that can be served.
    """
    _make_service(options).serve_stdio(token=token)
    return 0


def _make_service(options: argparse.Namespace) -> MCPService:
    found: list[Any] = []
    for place in options.places:
        value = import_place(place, "mcp serve")
        found += value if isinstance(value, (list, tuple)) else [value]
    services = [each for each in found if isinstance(each, MCPService)]
    if services and len(found) > 1:
        raise ConfigurationError("an MCPService is served alone; leave out the rest")
    if services:
        return services[0]
    return MCPService(
        found,
        name=options.name,
        instructions=options.instructions,
        tool_defaults=TOOL_DEFAULTS,
    )
