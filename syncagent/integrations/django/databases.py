"""The database connections of syncagent's threads, and stores in Django's databases.

Django opens a connection per thread, and closes those of its own threads at the end of
each request. Runs and tools work on other threads.
"""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from django.db import connections
from django.db.utils import ConnectionHandler
from django.utils.connection import ConnectionDoesNotExist

from ...exceptions import ConfigurationError
from ...stores.urls import open_backend

__all__ = ["close_connections", "close_reader", "open_reader", "store_url"]

#: The connection that reads a store outside of ``DATABASES``. It is not among those:
#: test runners and commands that go through all databases do not find it.
_READER: Final = "syncagent_store"

#: The names of libpq for the settings of a database.
_NAMES: Final = {
    "HOST": "host",
    "PORT": "port",
    "USER": "user",
    "PASSWORD": "password",
    "NAME": "dbname",
}
#: Options of Django and psycopg that are not parameters of libpq.
_NOT_OF_LIBPQ: Final = frozenset(
    (
        *("assume_role", "autocommit", "context", "cursor_factory", "isolation_level"),
        *("pool", "prepare_threshold", "row_factory", "server_side_binding"),
    )
)


def close_connections() -> None:
    """Close the connections of this thread.

    The app calls this after each tool call on one of syncagent's threads, and when such
    a thread ends. So a run that waits for a model or an approval holds no connection.
    Threads that Django has started keep theirs.
    """
    connections.close_all()
    close_reader()


def open_reader(url: str) -> str:
    """Have a connection of this thread that reads a store; return its name.

    It cannot write to a file of SQLite, and closes at the end of the request.

    :param url: of the store.
    """
    try:
        if connections[_READER].settings_dict["STORE"] == url:
            return _READER
        close_reader()
    except ConnectionDoesNotExist:
        pass
    settings = {"STORE": url, **_reader_settings(url)}
    handler = ConnectionHandler({"default": {}, _READER: settings})
    connections[_READER] = handler.create_connection(_READER)
    return _READER


def close_reader(**options: Any) -> None:
    """Close the connection of this thread that reads a store, if there is one."""
    try:
        connections[_READER].close()
    except ConnectionDoesNotExist:
        return
    del connections[_READER]


def _reader_settings(url: str) -> dict[str, Any]:
    """Return the settings of Django for the database of a store."""
    if url.startswith("sqlite:"):
        path: str = getattr(open_backend(url), "path")  # noqa: B009
        name = f"file:{quote(path)}?mode=ro"
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": name}
    from psycopg.conninfo import conninfo_to_dict

    options = conninfo_to_dict(url, connect_timeout=5)
    settings = {name: options.pop(_NAMES[name], "") for name in _NAMES}
    if not settings["NAME"] and "service" not in options:
        # Django needs a name where libpq has this default.
        user = settings["USER"] or os.environ.get("PGUSER") or getpass.getuser()
        settings["NAME"] = os.environ.get("PGDATABASE") or user
    engine = "django.db.backends.postgresql"
    return {"ENGINE": engine, "OPTIONS": options, **settings}


def store_url(alias: str) -> str:
    """Return the URL of a store in a database of the site.

    The store has connections of its own. In PostgreSQL it is in the same database, in
    tables of its own. Beside a file of SQLite it has a file of its own: ``db.sqlite3``
    has ``db-runs.sqlite3``, so that neither waits for the other.

    :param alias: the name of the database in ``DATABASES``.
    :raises ConfigurationError: there is no such database, or no store for its kind.
    """
    setting = f"SYNCAGENT['STORE'] is 'django:{alias}'"
    try:
        connection: Any = connections[alias]
    except ConnectionDoesNotExist:
        raise ConfigurationError(f"{setting}, and DATABASES has no {alias!r}") from None
    settings = connection.settings_dict
    if connection.vendor == "postgresql":
        return _postgresql_url(settings)
    if connection.vendor != "sqlite":
        raise ConfigurationError(
            f"{setting}, which is a database of {connection.display_name}; a store "
            "needs PostgreSQL or SQLite: set STORE to the URL of one"
        )
    name = str(settings["NAME"])
    if ":memory:" in name or name.startswith("file:"):
        raise ConfigurationError(
            f"{setting}, which is not a plain file; a store needs one that processes "
            "can share, such as sqlite:///runs.db"
        )
    path = Path(name).absolute()
    path = path.with_name(f"{path.stem}-runs{path.suffix}")
    return f"sqlite:///{quote(str(path))}"


def _postgresql_url(settings: dict[str, Any]) -> str:
    values = {_NAMES[name]: settings.get(name) for name in _NAMES}
    for name, value in (settings.get("OPTIONS") or {}).items():
        if name not in _NOT_OF_LIBPQ:
            values[name] = value
    # All as parameters: a host may be the folder of a socket.
    parameters = (
        f"{name}={quote(str(value), safe='')}"
        for name, value in values.items()
        if value not in (None, "")
    )
    return "postgresql:///?" + "&".join(parameters)
