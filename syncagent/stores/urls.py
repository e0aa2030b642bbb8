"""Find the back end for a URL."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from ..exceptions import ConfigurationError
from .backend import Backend

__all__ = ["open_backend"]


def open_backend(url: str) -> Backend:
    """Return the back end for *url*, without a connection.

    :param url: ``sqlite:///runs.db`` (relative), ``sqlite:////var/lib/runs.db``
        (absolute), or ``postgresql://...`` as libpq takes it.
    :raises ConfigurationError: it is neither, or a package is missing.
    """
    if not isinstance(url, str):
        raise ConfigurationError(
            f"the URL of a store must be a string; got {url!r:.80}"
        )
    scheme = urlsplit(url).scheme
    if scheme == "sqlite":
        path = unquote(url.removeprefix("sqlite://").removeprefix("/"))
        if not url.startswith("sqlite:///") or not path or path == ":memory:":
            raise ConfigurationError(
                "a SQLite store needs a file that processes can share: "
                "sqlite:///runs.db, or sqlite:////absolute/path/runs.db"
            )
        from .sqlite import SQLite  # late: not every Python has sqlite3

        return SQLite(path)
    if scheme in ("postgresql", "postgres"):
        from .postgres import PostgreSQL

        return PostgreSQL(url)
    # Only the scheme: the rest may hold a password.
    raise ConfigurationError(
        f"no store for {scheme or 'a URL without a scheme'}: use sqlite:///... or "
        "postgresql://..."
    )
