"""The commands ``syncagent mcp login`` and ``syncagent mcp logout``."""

from __future__ import annotations

import argparse
import os
import sys
import webbrowser
from collections.abc import Callable
from typing import Final

from ..cancel import CancelToken
from ..exceptions import ConfigurationError
from ..mcp.oauth import FileTokens, OAuth
from .arguments import duration
from .plain_text import on_one_line

__all__ = [
    "LOGIN_SUMMARY",
    "LOGOUT_SUMMARY",
    "add_login_arguments",
    "add_logout_arguments",
    "run_login",
    "run_logout",
]

LOGIN_SUMMARY: Final = "log in to an MCP server with a browser, and keep the tokens"
LOGOUT_SUMMARY: Final = "forget the tokens for an MCP server, and revoke them"

#: How long a person has by default, in seconds.
_PATIENCE: Final = 300.0
_SECRET: Final = "SYNCAGENT_MCP_CLIENT_SECRET"
_EPILOG: Final = f"""\
Without --client-id the program registers itself, where the authorization server allows
that. The secret of a client that has one is read from {_SECRET}.
"""

#: Returns the URL of a server that a configuration file names.
FindURL = Callable[[str], str]


def _add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="SERVER|URL",
        help="the URL of the server, or its name in the configuration file",
    )
    parser.add_argument(
        "--tokens",
        metavar="FOLDER",
        help="where tokens are kept; by default ~/.config/syncagent/mcp-tokens",
    )


def add_login_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``login``."""
    parser.epilog = _EPILOG
    _add_target(parser)
    parser.add_argument("--scope", help="scopes to ask for, in one argument")
    parser.add_argument("--client-id", help="the id of a client registered by hand")
    parser.add_argument(
        "--port",
        type=int,
        default=0,
        help="the port on this machine that the browser comes back to",
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=duration,
        default=_PATIENCE,
        help=f"how long to wait for the person; by default {_PATIENCE:g}",
    )
    parser.add_argument(
        "--no-browser",
        action="store_true",
        help="only print the address of the login",
    )


def add_logout_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``logout``."""
    _add_target(parser)


def run_login(
    options: argparse.Namespace, token: CancelToken, *, find_url: FindURL
) -> int:
    """Log in, and keep the tokens.

    Cancellation: ends at once.

    :return: 0.
    :raises MCPError: the login failed.
    """
    url = _url(options, find_url)

    def show(page: str) -> None:
        print(f"To log in, open this page in a browser:\n\n  {page}\n", file=sys.stderr)
        sys.stderr.flush()
        if not options.no_browser:
            webbrowser.open(page)

    auth = OAuth(
        open_browser=show,
        client_id=options.client_id,
        client_secret=os.environ.get(_SECRET) if options.client_id else None,
        scope=options.scope,
        redirect_port=options.port,
        login_timeout=options.timeout,
        tokens=_tokens(options),
    )
    auth.login(url, token)
    print(f"Logged in to {on_one_line(url)}.")
    return 0


def run_logout(
    options: argparse.Namespace, token: CancelToken, *, find_url: FindURL
) -> int:
    """Forget the tokens for a server.

    Cancellation: ends at once; the tokens are forgotten in any case.

    :return: 0.
    """
    url = _url(options, find_url)
    auth = OAuth(open_browser=False, tokens=_tokens(options))
    had_tokens = auth.logout(url, token)
    what = "Logged out of" if had_tokens else "There are no tokens for"
    print(f"{what} {on_one_line(url)}.")
    return 0


def _url(options: argparse.Namespace, find_url: FindURL) -> str:
    target: str = options.target
    url = target if "://" in target else find_url(target)
    if not url.startswith(("https://", "http://")):
        raise ConfigurationError(
            f"{target!r} is not an MCP server over HTTP; only those have logins"
        )
    return url


def _tokens(options: argparse.Namespace) -> FileTokens:
    return FileTokens(options.tokens) if options.tokens else FileTokens.default()
