"""The command ``syncagent mcp`` and its actions."""

from __future__ import annotations

import argparse
from typing import Final

from ...cancel import CancelToken
from ...exceptions import ConfigurationError
from .. import mcp_serve
from ..choices import seconds
from ..mcp_login import (
    LOGIN_SUMMARY,
    LOGOUT_SUMMARY,
    add_login_arguments,
    add_logout_arguments,
    run_login,
    run_logout,
)
from . import call, doctor, listing
from .opening import (
    ServerAccess,
    add_config,
    add_server_choices,
    find_named,
    make_notes,
)

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY: Final = "list, call and check MCP servers, log in to them, or be one"

_EPILOG: Final = """\
exit codes: 0 done; 1 failed: the tool answered with an error, or a check found a
problem; 2 wrong usage; 7 a server cannot be started or reached; 124 timeout; 130
cancelled (Ctrl+C), and the server was asked to stop.
"""
_PROGRAM: Final = "a server that this command starts, after --"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    for name, module in (("list", listing), ("call", call), ("doctor", doctor)):
        summary = module.SUMMARY
        action = actions.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        action.set_defaults(action=module.run, parser=action)
        module.add_arguments(action)
        add_server_choices(action)
        action.add_argument(
            "--timeout",
            metavar="SECONDS",
            type=seconds,
            help="stop after SECONDS, the start of the servers included",
        )
        action.add_argument("--json", action="store_true", help="write lines of JSON")
        if module is not call:
            action.add_argument("program", metavar="COMMAND", nargs="*", help=_PROGRAM)

    serving = actions.add_parser(
        "serve", help=mcp_serve.SUMMARY, description=mcp_serve.SUMMARY
    )
    mcp_serve.add_arguments(serving)
    serving.set_defaults(action=mcp_serve.run, parser=serving)
    for name, summary, add, login in (
        ("login", LOGIN_SUMMARY, add_login_arguments, run_login),
        ("logout", LOGOUT_SUMMARY, add_logout_arguments, run_logout),
    ):
        action = actions.add_parser(name, help=summary, description=summary)
        add(action)
        add_config(action)
        action.set_defaults(action=login, parser=action, knows_urls=True)


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Do the action.

    Cancellation: ends at once; a server is told to stop the call it works on.

    :return: the exit code.
    :raises MCPError: a server cannot be used.
    """

    def find_url(name: str) -> str:
        access = ServerAccess(make_notes(token), token, is_trusted=options.trust_mcp)
        for config in access.allowed(find_named(options.config, [name])):
            return config.expanded(access.ask).url
        raise ConfigurationError(f"{name}: the server may not be used")

    more = {"find_url": find_url} if hasattr(options, "knows_urls") else {}
    code: int = options.action(options, token, **more)
    return code
