"""The command ``syncagent cancel``: cancel a run of a store."""

from __future__ import annotations

import argparse
import sys
from typing import Final, get_args

from ..cancel import CancelMode, CancelToken
from .arguments import duration
from .exit_codes import EXIT_NOT_YET, EXIT_TOO_LATE
from .plain_text import on_one_line
from .store_access import add_run, find_id, opened_store, operator_name

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY: Final = "cancel a run of a store, whichever process works on it"

_EPILOG: Final = """\
exit codes: 0 cancelled; 2 wrong usage; 3 the run had ended; 4 it is cancelled, and its
end was not recorded within --wait; 5 the store is unavailable, and doing it again is
safe; 6 no such run.
"""
#: Seconds to wait for the end of a run that is cancelled now.
_WAIT: Final = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = _EPILOG
    add_run(parser)
    parser.add_argument(
        "--reason",
        metavar="TEXT",
        default="cancelled by an operator",
        help="why, for the result and the logs",
    )
    parser.add_argument(
        "--mode",
        choices=get_args(CancelMode),
        default="now",
        help="cancel it now (the default), or when the tools or the turn have ended",
    )
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=duration,
        help=f"how long to wait for its end; by default {_WAIT:g} with --mode now, "
        "else 0",
    )


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Cancel the run, and wait for its end.

    Cancellation: ends the wait at once; the cancel of the run stays.

    :return: 0 if it is cancelled; else see the exit codes.
    :raises NoSuchRun: there is no such run.
    :raises StoreUnavailable: the store is unavailable.
    """
    mode: CancelMode = options.mode
    seconds = options.wait
    if seconds is None:
        seconds = _WAIT if mode == "now" else 0.0
    with opened_store(options, token) as store:
        id = find_id(store, options.id)
        reason = on_one_line(options.reason)
        receipt = store.cancel(id, reason, "remote", mode=mode, by=operator_name())
        if not receipt:
            print("The run had already ended.")
            return EXIT_TOO_LATE
        if not receipt.first:
            before = on_one_line(receipt.reason or "")
            print(f"It was cancelled before: {before}", flush=True)
        has_ended = receipt.wait(seconds)
        how = "has ended" if has_ended else "ends as soon as its worker notices"
        print(f"Cancelled; the run {how}.", flush=True)
        if receipt.begun:
            print(f"Tool calls that had begun: {on_one_line(', '.join(receipt.begun))}")
        if has_ended or seconds == 0:
            return 0
        token.checkpoint()
    print(
        f"syncagent: the end of the run was not recorded within {seconds:g} s; its "
        "worker may be busy or cut off; the run counts as cancelled in any case",
        file=sys.stderr,
    )
    return EXIT_NOT_YET
