"""``manage.py migrate`` brings the tables of the store up to date, too.

It calls the store's own migrations, which do nothing if the tables are up to date: by
``syncagent store migrate``, or by another host. It does so after each ``migrate`` and
not in a migration: one that was applied before the site had a store would never make
the tables.
"""

from __future__ import annotations

import sys
from typing import Any

from django.db import router

from ...exceptions import ConfigurationError
from ...stores.urls import open_backend
from .conf import store_database
from .databases import store_url

__all__ = ["migrate_store"]


def migrate_store(
    *, app_config: Any, using: str, verbosity: int = 1, **options: Any
) -> None:
    """Bring the tables up to date, if they are in this database of the site.

    :raises ConfigurationError: they are of a newer version, or cannot be made.
    """
    try:
        alias = store_database()
    except ConfigurationError:  # manage.py check says so; other apps must migrate
        return
    if alias != using or not router.allow_migrate(using, app_config.label):
        return
    backend = open_backend(store_url(alias))
    before, now = backend.migrate()
    if verbosity >= 1 and before != now:
        stdout: Any = options.get("stdout", sys.stdout)
        stdout.write(f"  Tables of syncagent's store: version {before} -> {now}\n")
