"""The command ``syncagent runs``: list the runs of a store."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..cancel import CancelToken
from ..messages import Text
from .plain_text import on_one_line
from .store_access import add_list_options, opened_store
from .tables import age_text, print_json, print_table, short_ids

if TYPE_CHECKING:
    from ..stores import StoredRun

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY: Final = "list the runs of a store, newest first"

#: The widest that columns may be on a terminal; the first goes first.
_WIDEST: Final = {"WORKER": 24, "AGENT": 16, "OWNER": 20}
#: The longest beginning of a prompt in a pipe.
_PIPED_PROMPT: Final = 200
_STYLES: Final = {
    "running": "green",
    "waiting": "yellow",
    "cancelling": "yellow",
    "queued": "cyan",
    "failed": "red",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_list_options(parser, "only runs of this owner")
    parser.add_argument(
        "--live", action="store_true", help="only runs that have not ended"
    )


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Print a line for each run.

    Cancellation: ends at once.

    :return: 0.
    :raises StoreUnavailable: the store is unavailable.
    """
    with opened_store(options, token) as store:
        live = True if options.live else None
        runs = store.list(owner=options.owner, live=live, limit=options.limit)
    if options.json:
        print_json(runs)
    elif runs:
        _print_table(runs)
    else:
        kind = "live runs" if options.live else "runs"
        print(f"There are no {kind}.", file=sys.stderr)
    return 0


def _print_table(runs: Sequence[StoredRun]) -> None:
    ids = short_ids(each.id for each in runs)
    table = {
        "ID": [ids[each.id] for each in runs],
        "STATE": [
            "cancelling" if each.is_live and each.cancel is not None else each.state
            for each in runs
        ],
        "AGENT": [each.agent for each in runs],
        "OWNER": [each.owner for each in runs],
        "AGE": [age_text(time.time() - each.created_at) for each in runs],
        "WORKER": [each.worker for each in runs],
        "PROMPT": [
            on_one_line(
                " ".join(b.text for b in each.prompt.content if isinstance(b, Text)),
                _PIPED_PROMPT,
            )
            for each in runs
        ],
    }
    print_table(table, _WIDEST, _STYLES, "STATE")
