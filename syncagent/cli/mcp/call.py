"""The command ``syncagent mcp call``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from ...cancel import CancelToken
from ...exceptions import ConfigurationError
from ...mcp.config import did_you_mean
from ...mcp.connection import ProgressReport
from ...mcp.content import CallResult
from ...messages import File, Image, Json, Text
from ..exit_codes import EXIT_FAILED
from ..notes import Notes, warnings_as_notes
from ..plain_text import on_one_line
from ..streams import OutputStream
from ..tables import print_json
from .opening import (
    ServerAccess,
    enabled,
    find_configs,
    make_notes,
)

__all__ = ["SUMMARY", "add_arguments", "parse_arguments", "run"]

SUMMARY: Final = "call a tool of an MCP server; Ctrl+C tells the server to stop"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the action."""
    parser.add_argument(
        "words",
        metavar="SERVER TOOL ARGUMENT",
        nargs="+",
        help="the server (not with --url or --command), the tool by the server's own "
        "name, and its arguments: one JSON object, or any number of NAME=VALUE, where "
        "a value is JSON if the tool wants no text",
    )


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Call the tool, and print its result.

    Cancellation: ends at once, and notifies the server.

    :return: 0; 1 if the tool answered with an error.
    :raises MCPError: there is no result.
    """
    words = list(options.words)
    name = None if options.url or options.command else words.pop(0)
    if not words:
        options.parser.error("which tool? syncagent mcp list shows them")
    token = token.child(timeout=options.timeout)
    notes = make_notes(token)

    def show_progress(report: ProgressReport) -> None:
        total = "" if report.total is None else f"/{report.total:g}"
        text = f"{report.progress:g}{total} {report.message or ''}"
        notes.tell(on_one_line(text, 200))

    access = ServerAccess(notes, token, is_trusted=options.trust_mcp)
    with warnings_as_notes(notes):
        names = None if name is None else [name]
        configs = access.allowed(enabled(find_configs(options, names), names))
        if not configs:
            raise ConfigurationError("the server is not started")
        elicit = access.answer if notes.is_terminal else None
        with access.opened(configs, elicit=elicit) as servers:
            (server,) = servers.values()
            tools = {str(each.get("name")): each for each in server.definitions(token)}
            if words[0] not in tools:
                known = on_one_line(", ".join(tools), 500) or "none"
                raise ConfigurationError(
                    f"{server.name} has no tool {words[0]!r}; there are: {known}"
                    f"{did_you_mean(words[0], tools)}"
                )
            result = server.call(
                words[0],
                parse_arguments(words[1:], tools[words[0]]),
                token=token,
                on_progress=show_progress,
            )
    if options.json:
        print_json([result])
    else:
        _print_result(result, token, notes)
    return EXIT_FAILED if result.is_error else 0


def parse_arguments(
    words: Sequence[str], definition: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call: one JSON object, or ``NAME=VALUE`` each.

    :raises ConfigurationError: they are neither.
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            found = json.loads(words[0])
        except ValueError as error:
            raise ConfigurationError(f"the arguments are not JSON: {error}") from None
        return dict(found)
    schema = definition.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    properties = properties if isinstance(properties, dict) else {}
    arguments = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise ConfigurationError(
                f"arguments are one JSON object, or NAME=VALUE; got {word!r:.80}"
            )
        arguments[name] = _value(text, properties.get(name))
    return arguments


def _value(text: str, schema: Any) -> Any:
    """Return *text* as it is where the tool wants text, else as JSON if it is JSON."""
    schema = schema if isinstance(schema, dict) else {}
    choices = schema.get("enum")
    is_choice = isinstance(choices, list) and text in choices
    if schema.get("type") == "string" or is_choice:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _print_result(result: CallResult, token: CancelToken, notes: Notes) -> None:
    """Print what a person reads; an error goes to standard error."""
    if result.is_error:
        notes.warn(f"the tool failed: {result.text or 'without a word'}")
        return
    output = OutputStream(sys.stdout, token)
    for block in result.content:
        match block:
            case Text(text=text):
                output.write(text)
            case Json(value=value):
                data = msgspec.json.encode(value, enc_hook=repr)
                output.write(msgspec.json.format(data).decode())
            case Image() | File():
                size = len(block.data or b"")
                output.write(f"[{on_one_line(block.media_type)}, {size} bytes]")
        output.end_line()
