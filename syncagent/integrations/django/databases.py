"""The database connections of syncagent's threads, and stores in Django's databases.

Django opens a connection per thread, and closes those of its own threads at the end of
each request. Runs and tools work on other threads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from django.db import connections
from django.utils.connection import ConnectionDoesNotExist

from ...exceptions import ConfigurationError

__all__ = ["close_connections", "store_url"]

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
