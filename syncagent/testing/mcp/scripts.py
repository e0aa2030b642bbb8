"""Scripts of a fake MCP server: functions that play requests in its place."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec

from .exchange import MCPExchange

__all__ = [
    "Script",
    "Scripts",
]

#: A function of an exchange. It answers itself, returns the result, or returns ``None``
#: to let the server answer as usual. A dict is a result.
Script = Callable[[MCPExchange], Any]


class _Entry(msgspec.Struct):
    """A script, and the requests that it is for."""

    method: str
    name: str | None
    script: Script
    times: int | None


class Scripts:
    """The scripts, in the order in which they are used up."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._lock = threading.Lock()

    def add(
        self,
        method: str,
        script: Script | dict[str, Any],
        name: str | None,
        times: int | None,
    ) -> None:
        play: Script = script if callable(script) else lambda _: script
        with self._lock:
            self._entries.append(_Entry(method, name, play, times))

    def find(self, exchange: MCPExchange) -> Script | None:
        """Take the first script for a request."""
        with self._lock:
            for entry in self._entries:
                is_named = entry.name is None or entry.name == exchange.name
                if entry.method == exchange.method and is_named and entry.times != 0:
                    entry.times = None if entry.times is None else entry.times - 1
                    return entry.script
            return None
