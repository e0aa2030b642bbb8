"""Lists of a server: tools, resources, templates, prompts; read by pages and kept.

A list is read again after the server says that it has changed, after a new connection,
and when the time that a modern server grants is over.
"""

from __future__ import annotations

import logging
import math
import threading
import weakref
from typing import Any, Final, Literal, Protocol

import msgspec

from .._forks import in_child
from ..cancel import CancelToken, clock
from ..exceptions import MCPProtocolError
from .connection import Caller, MCPConnection, MCPSession

__all__ = ["ListKind", "ListRequests", "ServerLists"]

_log = logging.getLogger("syncagent.mcp")

ListKind = Literal["tools", "resources", "templates", "prompts"]

#: The method, the field of the result, and the capability of each list.
_LISTS: Final[dict[ListKind, tuple[str, str, str]]] = {
    "tools": ("tools/list", "tools", "tools"),
    "resources": ("resources/list", "resources", "resources"),
    "templates": ("resources/templates/list", "resourceTemplates", "resources"),
    "prompts": ("prompts/list", "prompts", "prompts"),
}
#: The lists that a notification makes stale.
_CHANGED: Final[dict[str, tuple[ListKind, ...]]] = {
    "notifications/tools/list_changed": ("tools",),
    "notifications/resources/list_changed": ("resources", "templates"),
    "notifications/prompts/list_changed": ("prompts",),
}
_MAX_PAGES: Final = 1000
_MAX_ENTRIES: Final = 10_000


class ListRequests(Protocol):
    """Makes the requests for lists."""

    @property
    def name(self) -> str:
        """The name of the server."""

    def connection(self, token: CancelToken) -> MCPConnection:
        """Return a usable connection."""

    def request(self, method: str, params: dict[str, Any], caller: Caller) -> Any:
        """Make a request, and return its result."""


class _Kept(msgspec.Struct):
    entries: list[dict[str, Any]]
    #: The monotonic time until which it counts.
    until: float


class ServerLists:
    """The lists of one server, shared by all threads."""

    def __init__(self) -> None:
        self._kept: dict[ListKind, _Kept] = {}
        #: How often each list was made stale; a read that began before does not count.
        self._changes: dict[ListKind, int] = dict.fromkeys(_LISTS, 0)
        # Re-entrant, and new in a forked child: another thread may hold it just now.
        self._lock = threading.RLock()
        _alive.add(self)

    def get(self, kind: ListKind, requests: ListRequests, caller: Caller) -> list[Any]:
        """Return the entries of a list, from memory if they still count.

        The same list is returned while nothing has changed. A server without the
        capability has none.

        Cancellation: ends at once.
        """
        method, field, capability = _LISTS[kind]
        session = requests.connection(caller.token).session  # a new one forgets lists
        kept = self._kept.get(kind)
        if kept is not None and clock.now() < kept.until:
            return kept.entries
        if capability not in session.capabilities:
            return []
        changes = self._changes[kind]
        entries, ttl = self._read(method, field, requests, session, caller)
        if kept is not None and entries == kept.entries:
            entries = kept.entries
        until = clock.now() + (math.inf if ttl is None else ttl)
        with self._lock:
            if changes == self._changes[kind]:
                self._kept[kind] = _Kept(entries, until)
        return entries

    def _read(
        self,
        method: str,
        field: str,
        requests: ListRequests,
        session: MCPSession,
        caller: Caller,
    ) -> tuple[list[dict[str, Any]], float | None]:
        """Read all pages; return the entries and for how many seconds they count."""
        entries: list[dict[str, Any]] = []
        ttls: list[float] = []
        cursors: set[str] = set()
        params: dict[str, Any] = {}
        last: Any = None
        for _ in range(_MAX_PAGES):
            result = requests.request(method, params, caller)
            page = result.get(field)
            if not isinstance(page, list):
                raise MCPProtocolError(
                    f"{requests.name}: the result of {method} has no {field}",
                    server=requests.name,
                )
            if page == last and page:  # the server does not know its own cursor
                break
            last = page
            entries += [entry for entry in page if isinstance(entry, dict)]
            if session.era == "modern":
                ttls.append(_seconds(result, session, field))
            cursor = result.get("nextCursor")
            if not isinstance(cursor, str) or cursor in cursors:
                break
            if len(entries) > _MAX_ENTRIES:
                _log.warning(
                    "%s: more than %d entries; the rest is left out",
                    *(method, _MAX_ENTRIES),
                )
                break
            cursors.add(cursor)
            params = {"cursor": cursor}
        return entries[:_MAX_ENTRIES], min(ttls, default=None)

    def changed(self, method: str) -> tuple[ListKind, ...]:
        """Make stale the lists that a notification is about, and return them."""
        kinds = _CHANGED.get(method, ())
        self.forget(kinds)
        return kinds

    def forget(self, kinds: tuple[ListKind, ...] = tuple(_LISTS)) -> None:
        """Make lists stale."""
        with self._lock:
            for kind in kinds:
                self._changes[kind] += 1
                self._kept.pop(kind, None)

    def begin_in_child(self) -> None:
        """Start over in a forked child."""
        self._lock = threading.RLock()
        self.forget()


_alive: weakref.WeakSet[ServerLists] = weakref.WeakSet()


@in_child
def _begin_in_child() -> None:
    for lists in list(_alive):
        lists.begin_in_child()


def _seconds(result: dict[str, Any], session: MCPSession, field: str) -> float:
    """Return for how long a page counts.

    A server that announces changes is believed to do so: its lists count until then.
    """
    name = "resources" if field == "resourceTemplates" else field
    capability = session.capabilities.get(name)
    if isinstance(capability, dict) and capability.get("listChanged") is True:
        return math.inf
    ttl = result.get("ttlMs")
    is_number = isinstance(ttl, (int, float)) and not isinstance(ttl, bool)
    return max(0.0, ttl / 1000) if is_number and ttl is not None else 0.0
