"""The command ``syncagent mcp list``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any, Final

from ...cancel import CancelToken
from ..exit_codes import EXIT_NO_SERVER
from ..notes import warnings_as_notes
from ..plain_text import on_one_line
from ..tables import print_json, print_table
from .opening import (
    ServerAccess,
    enabled,
    find_configs,
    make_notes,
)

__all__ = ["SUMMARY", "add_arguments", "definition_text", "run"]

SUMMARY: Final = "start MCP servers, and list them and their tools"

_WIDEST: Final = {"SOFTWARE": 30, "SERVER": 24}
_WIDEST_TOOL: Final = {"SERVER": 20, "TOOL": 40}
_STYLES: Final = {"modern": "green", "legacy": "cyan", "failed": "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the action."""
    parser.add_argument(
        "--server",
        metavar="NAME",
        action="append",
        help="only this server; can be repeated",
    )


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Print the servers and their tools.

    Cancellation: ends at once.

    :return: 0; 7 if a server did not start.
    """
    token = token.child(timeout=options.timeout)
    notes = make_notes(token)
    access = ServerAccess(notes, token, is_trusted=options.trust_mcp)
    with warnings_as_notes(notes):
        configs = enabled(find_configs(options, options.server), options.server)
        if not configs:
            print("There are no servers.", file=sys.stderr)
            return 0
        with access.opened(access.allowed(configs), on_error="skip") as servers:
            rows = [
                {
                    "name": name,
                    "era": server.era,
                    "version": server.version,
                    "info": server.info,
                    "capabilities": server.capabilities,
                    "instructions": server.instructions,
                    "tools": server.definitions(token),
                }
                for name, server in servers.items()
            ]
            failed = {name: str(error) for name, error in servers.failed.items()}
    if options.json:
        print_json([*rows, *({"name": k, "error": v} for k, v in failed.items())])
    else:
        _print_tables(rows, failed)
    return EXIT_NO_SERVER if failed else 0


def _print_tables(rows: list[dict[str, Any]], failed: Mapping[str, str]) -> None:
    infos = [row["info"] for row in rows]
    none = [""] * len(failed)
    table = {
        "SERVER": [*(row["name"] for row in rows), *failed],
        "ERA": [*(str(row["era"]) for row in rows), *("failed" for _ in failed)],
        "VERSION": [*(str(row["version"]) for row in rows), *none],
        "SOFTWARE": [*(f"{info.name} {info.version}" for info in infos), *none],
        "TOOLS": [*(str(len(row["tools"])) for row in rows), *none],
    }
    if rows or failed:
        print_table(table, _WIDEST, _STYLES, "ERA")
    tools = [(row["name"], tool) for row in rows for tool in row["tools"]]
    if not tools:
        return
    print()
    table = {
        "SERVER": [name for name, _ in tools],
        "TOOL": [str(tool.get("name", "")) for _, tool in tools],
        "DESCRIPTION": [definition_text(tool) for _, tool in tools],
    }
    print_table(table, _WIDEST_TOOL, {}, "")


def definition_text(definition: Mapping[str, Any]) -> str:
    """Return the first line of a tool's description; it is a stranger's text."""
    text = definition.get("description") or definition.get("title") or ""
    lines = str(text).strip().splitlines()
    return on_one_line(lines[0], 200) if lines else ""
