"""The store that a command line names, opened for an operator."""

from __future__ import annotations

import argparse
import getpass
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ..cancel import CancelToken
from ..exceptions import NoSuchRun, StoreUnavailable
from .arguments import count
from .plain_text import on_one_line

if TYPE_CHECKING:  # imported late: other commands start without it
    from ..stores import RunStore

__all__ = [
    "SHORTEST",
    "STORE_VARIABLE",
    "add_list_options",
    "add_run",
    "add_store",
    "find_id",
    "opened_store",
    "operator_name",
]

#: The environment variable that names the store if the command line does not.
STORE_VARIABLE: Final = "SYNCAGENT_STORE"
#: How many characters of an id are enough, if no other id begins with them.
SHORTEST: Final = 8
#: The commands report what they see themselves.
_SILENT: Final = logging.NullHandler()


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add ``--store`` to a command."""
    parser.add_argument(
        "--store",
        metavar="URL",
        # A value of the application, which the command above has, must stay.
        default=argparse.SUPPRESS,
        help="such as sqlite:///runs.db or postgresql:///app; by default the store of "
        f"the application, or {STORE_VARIABLE}",
    )


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the id of a run, and ``--store``, to a command."""
    parser.add_argument(
        "id",
        metavar="ID",
        help=f"the id of the run, or its first {SHORTEST} or more characters",
    )
    add_store(parser)


def add_list_options(parser: argparse.ArgumentParser, owner_help: str) -> None:
    """Add ``--store``, ``--owner``, ``--limit`` and ``--json`` to a command."""
    add_store(parser)
    parser.add_argument("--owner", metavar="NAME", help=owner_help)
    parser.add_argument(
        "--limit", metavar="N", type=count, default=50, help="at most N; by default 50"
    )
    parser.add_argument("--json", action="store_true", help="write lines of JSON")


@contextmanager
def opened_store(
    options: argparse.Namespace, token: CancelToken, *, is_new: bool = False
) -> Iterator[RunStore]:
    """Open the store that the command line, the application or the variable names.

    It is opened for looking: this process gets no lease and begins no runs.

    Cancellation: ends every wait at once.

    :param is_new: it may not exist yet.
    :raises StoreUnavailable: it is unavailable, or its file does not exist.
    :raises Cancelled: *token* ended a wait.
    """
    from ..stores import RunStore
    from ..stores.sqlite import SQLite

    place: RunStore | str = getattr(options, "store", "")
    place = place or os.environ.get(STORE_VARIABLE, "")
    if not place:
        options.parser.error(
            f"no store; use --store sqlite:///runs.db, or set {STORE_VARIABLE}"
        )
    logging.getLogger("syncagent").addHandler(_SILENT)
    if isinstance(place, RunStore):
        store = place.observer(token)
    else:
        store = RunStore(place, cancel=token)
    backend = store.backend
    if isinstance(backend, SQLite) and not is_new and not os.path.exists(backend.path):
        raise StoreUnavailable(
            f"there is no store {backend.path}; name another one with --store, or make "
            "it with: syncagent store migrate"
        )
    try:
        with store:
            yield store
    except StoreUnavailable:
        token.checkpoint()
        raise


def find_id(store: RunStore, given: str) -> str:
    """Return the id of the one run whose id is, or begins with, *given*.

    :raises NoSuchRun: no run matches, or several do.
    """
    if store.call(lambda backend: backend.read(given)) is not None:
        return given
    shown = repr(on_one_line(given, SHORTEST + 4))
    if len(given) < SHORTEST:
        raise NoSuchRun(
            f"the store has no run {shown}; the beginning of an id needs {SHORTEST} "
            "characters or more, and syncagent runs lists them"
        )
    found = store.call(lambda backend: backend.find_ids(given, 2))
    if len(found) > 1:
        raise NoSuchRun(f"several runs begin with {shown}; use more of the id")
    if not found:
        raise NoSuchRun(
            f"the store has no run {shown}, or has forgotten it; syncagent runs lists "
            "them"
        )
    return found[0]


def operator_name() -> str:
    """Return the user and the host of this process, which the store records."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container without such a user
        user = str(os.getuid()) if hasattr(os, "getuid") else "unknown"
    return f"{user}@{socket.gethostname()}"
