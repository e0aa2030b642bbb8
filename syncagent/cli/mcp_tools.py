"""Tools of MCP servers for the agents of ``chat`` and ``run``: ``--mcp``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..cancel import CancelToken
from .arguments import add_trust
from .notes import Notes, warnings_as_notes

__all__ = ["add_mcp_choices", "opened_mcp_tools"]


def add_mcp_choices(parser: argparse.ArgumentParser) -> None:
    """Add ``--mcp``, ``--mcp-server`` and ``--trust-mcp`` to a command."""
    parser.add_argument(
        "--mcp",
        metavar="FILE",
        action="append",
        default=[],
        help="start the MCP servers of a file such as mcp.json, after asking; each "
        "call of their tools needs an approval. Can be repeated",
    )
    parser.add_argument(
        "--mcp-server",
        metavar="NAME",
        action="append",
        help="only this server of the files; can be repeated",
    )
    add_trust(parser)


@contextmanager
def opened_mcp_tools(
    options: argparse.Namespace, token: CancelToken, notes: Notes
) -> Iterator[list[Any]]:
    """Start the MCP servers of the command line for a block; yield their tools.

    Each call needs an approval, those of tools that call themselves read-only too.

    Cancellation: ends at once.

    :raises ConfigurationError: a file is wrong, or a server may not be started.
    :raises MCPError: a server does not start.
    """
    if not options.mcp:
        if options.mcp_server or options.trust_mcp:
            options.parser.error("--mcp-server and --trust-mcp need --mcp FILE")
        yield []
        return
    # Imported late: most chats and runs start without it.
    from .mcp.opening import ServerAccess, enabled, find_named
    from .mcp.trust import exact_text

    with warnings_as_notes(notes):
        names = options.mcp_server
        access = ServerAccess(notes, token, is_trusted=options.trust_mcp)
        configs = access.allowed(enabled(find_named(options.mcp, names), names))
        if configs:
            listed = ", ".join(exact_text(config.name) for config in configs)
            notes.tell(f"starting MCP servers: {listed}")
        with access.opened(configs) as servers:
            yield [servers.tools(requires_approval="always")]
