"""Notifications of a server: changed lists, log messages, changed resources."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from .._closeable import Closeable
from ..cancel import threads
from .lists import ServerLists

__all__ = ["ChangeRegistration", "ServerNotifications"]

_log = logging.getLogger("syncagent.mcp")

#: The levels of servers, which are those of syslog.
_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}
#: Characters of a log message.
_MESSAGE: Final = 2000


class ChangeRegistration(Closeable):
    """A callback for changes; it is called until this is closed."""

    def __init__(
        self, callbacks: dict[ChangeRegistration, None], call: Callable[[str], object]
    ) -> None:
        self._callbacks = callbacks
        self.call = call
        callbacks[self] = None

    def close(self) -> None:
        """Call it no more. Safe to repeat."""
        self._callbacks.pop(self, None)


class ServerNotifications:
    """Takes the notifications of one server, on its reading thread.

    :param name: the name of the server.
    """

    def __init__(self, name: str, lists: ServerLists) -> None:
        self._name = name
        self._lists = lists
        self._callbacks: dict[ChangeRegistration, None] = {}
        #: Changes that the callback thread has not told yet. Servers repeat themselves.
        self._untold: dict[str, None] = {}

    def on_change(self, callback: Callable[[str], object]) -> ChangeRegistration:
        """Call *callback* with the kind of list, or the URI, that has changed."""
        return ChangeRegistration(self._callbacks, callback)

    def notified(self, method: str, params: dict[str, Any]) -> None:
        """Take note of a notification. Never blocks."""
        if method == "notifications/message":
            data, level = params.get("data"), _LEVELS.get(str(params.get("level")))
            text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
            shown = (one if one.isprintable() else " " for one in text[:_MESSAGE])
            _log.log(level or logging.INFO, "%s: %s", self._name, "".join(shown))
        elif method == "notifications/resources/updated":
            uri = params.get("uri")
            if isinstance(uri, str):
                self._tell(uri)
        else:
            for kind in self._lists.changed(method):
                self._tell(kind)

    def connected(self) -> None:
        """Take note of a new connection: all lists may have changed."""
        self._lists.forget()

    def _tell(self, what: str) -> None:
        if self._callbacks and what not in self._untold:
            self._untold[what] = None
            threads.current.callbacks.submit(_Telling(self, what))
            threads.current.start_threads()

    def tell_now(self, what: str) -> None:
        """Call the callbacks, on the callback thread of the SDK."""
        self._untold.pop(what, None)
        for registration in list(self._callbacks):
            try:
                registration.call(what)
            except Exception:
                _log.exception("%s: a callback for changes raised", self._name)


class _Telling:
    """A change to tell; runs on the callback thread."""

    def __init__(self, notifications: ServerNotifications, what: str) -> None:
        self._notifications = notifications
        self._what = what

    def run(self) -> None:
        self._notifications.tell_now(self._what)

    def describe(self) -> str:
        return "a callback for changes of an MCP server"
