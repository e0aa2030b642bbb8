"""The command ``syncagent mcp doctor``: per server, what works and what does not."""

from __future__ import annotations

import argparse
import shlex
import shutil
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from ...cancel import CancelToken
from ...exceptions import (
    ConfigurationError,
    MCPAuthRequired,
    MCPError,
    MCPProtocolError,
    MCPTimedOut,
)
from ...mcp.config import MCPServerConfig
from ...mcp.servers import make_server
from ..colours import Paint
from ..exit_codes import EXIT_FAILED
from ..findings import Finding, show_finding
from ..formatting import address_text, seconds_text
from ..notes import warnings_as_notes
from ..plain_text import on_one_line
from .opening import ServerAccess, find_configs, make_notes
from .trust import exact_text

if TYPE_CHECKING:
    from ...mcp.server import MCPServer

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY: Final = "start each MCP server, and say what is wrong and what to do"

#: Lines of a server's error output that are shown.
_STDERR_LINES: Final = 8
_TOOLS_SHOWN: Final = 8
#: Seconds after which a start is worth a word.
_SLOW: Final = 20.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the action."""
    parser.add_argument(
        "--server",
        metavar="NAME",
        action="append",
        help="only this server; can be repeated",
    )


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Check the servers one by one, and print what was found.

    Cancellation: ends at once.

    :return: 0 if there is no problem, 1 if there is one.
    """
    token = token.child(timeout=options.timeout)
    notes = make_notes(token)
    access = ServerAccess(notes, token, is_trusted=options.trust_mcp)
    paint = Paint()
    report: dict[str, list[Finding]] = {}
    with warnings_as_notes(None):  # they are findings here
        configs = find_configs(options, options.server)
    with warnings_as_notes(notes):
        for config in configs:
            if not options.json:
                print(paint(exact_text(config.name), "bold"), flush=True)
            report[config.name] = found = []
            for finding in _check(config, access, token):
                found.append(finding)
                if not options.json:
                    show_finding(finding, paint)
    problems = [
        name
        for name, findings in report.items()
        if any(finding.status == "problem" for finding in findings)
    ]
    if options.json:
        data = msgspec.json.encode({"ok": not problems, "servers": report})
        print(msgspec.json.format(data).decode())
    elif problems:
        shown = ", ".join(map(exact_text, problems))
        print(f"\n{paint('Problems', 'red')}: {shown}.")
    else:
        print(f"\n{paint('No problems.', 'green')}")
    return EXIT_FAILED if problems else 0


def _check(
    config: MCPServerConfig, access: ServerAccess, token: CancelToken
) -> Iterator[Finding]:
    """Yield findings about one server; it is closed at the end."""
    place = Finding(name="address", value=address_text(config.url))
    if config.command:
        place = _check_program(config)
    if config.is_disabled:
        yield Finding(name=place.name, value=place.value, status="off")
    else:
        yield place
    for warning in config.warnings:
        yield Finding(
            name="file",
            value=on_one_line(warning),
            status="off",
            advice="other programs may use it; here it has no effect",
        )
    if config.is_disabled:
        value = "disabled in its file, not started"
        yield Finding(name="start", value=value, status="off")
        return
    if place.status == "problem":
        return
    if not access.is_allowed(config):
        yield Finding(
            name="start",
            value="not allowed, not started",
            status="problem",
            advice="run it again and say yes, or disable it in the file",
        )
        return
    try:
        server = make_server(config, access.ask)
    except ConfigurationError as error:
        yield Finding(name="file", value=on_one_line(str(error)), status="problem")
        return
    try:
        yield from _check_server(server, config, token)
    finally:
        server.close()


def _check_program(config: MCPServerConfig) -> Finding:
    line = exact_text(shlex.join(config.command))
    program = config.command[0]
    if "$" in program or shutil.which(program, path=config.env.get("PATH")):
        return Finding(name="command", value=line)
    if "/" in program and config.cwd is not None:  # from a folder of its own
        return Finding(name="command", value=line)
    advice = f"there is no program {exact_text(program)}; install it, or write its path"
    if " " in program:
        advice = "put the program into command, and its arguments into args"
    return Finding(name="command", value=line, status="problem", advice=advice)


def _check_server(
    server: MCPServer, config: MCPServerConfig, token: CancelToken
) -> Iterator[Finding]:
    began = time.monotonic()
    try:
        server.connect(token=token)
        took = time.monotonic() - began
        yield Finding(
            name="start",
            value=seconds_text(took),
            advice="slow; install the package, so that it is not downloaded each time"
            if took > _SLOW and config.command
            else "",
        )
        software = on_one_line(f"{server.info.name} {server.info.version}", 100)
        protocol = f"{server.version} ({server.era}), {software}"
        yield Finding(name="protocol", value=protocol)
        yield _check_tools(server, token)
    except MCPError as error:
        yield Finding(
            name="start",
            value=on_one_line(str(error)),
            status="problem",
            advice=_advice(error, config),
        )
    # Error output alone is no sign of failure.
    lines = [line for line in server.stderr_tail.splitlines() if line.strip()]
    for number, line in enumerate(lines[-_STDERR_LINES:]):
        name = "" if number else "stderr"
        yield Finding(name=name, value=on_one_line(line, 300), status="off")


def _check_tools(server: MCPServer, token: CancelToken) -> Finding:
    tools = server.definitions(token)
    usable = len(server.tools().current_tools(token))
    names = [str(tool.get("name")) for tool in tools]
    shown = ", ".join(names[:_TOOLS_SHOWN]) + ", ..." * (len(names) > _TOOLS_SHOWN)
    advice = ""
    if usable < len(tools):
        advice = f"{len(tools) - usable} cannot be used; the warnings say why"
    return Finding(
        name="tools",
        value=on_one_line(f"{len(tools)}: {shown}" if tools else "none"),
        status="problem" if advice else "ok",
        advice=advice,
    )


def _advice(error: MCPError, config: MCPServerConfig) -> str:
    if isinstance(error, MCPAuthRequired):
        target = config.name if config.place else config.url
        return f"log in: syncagent mcp login {shlex.quote(exact_text(target))}"
    if isinstance(error, MCPProtocolError):
        return "update the server, or this package; or it is not an MCP server"
    if isinstance(error, MCPTimedOut):
        return "it runs and does not answer; does it wait for a login or a download?"
    if config.command:
        line = exact_text(shlex.join(config.command))
        return f"start it by hand and read its errors: {line}"
    return "check the address, the network and the proxy"
