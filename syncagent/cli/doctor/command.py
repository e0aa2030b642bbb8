"""The command ``syncagent doctor``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from ...cancel import CancelToken
from ..choices import VARIABLE, seconds
from ..colours import Paint
from ..exit_codes import EXIT_FAILED
from ..findings import Finding, show_finding
from .environment import check_models, check_packages, check_terminal
from .live_checks import check_cancel, check_model, check_processes

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY: Final = "check packages, keys, processes and a model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--model",
        metavar="PROVIDER:NAME",
        help="ask this model, which may cost money; by default only the local or the "
        f"scripted one is asked, whatever {VARIABLE} says",
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=60.0,
        help="how long the model may take; 60 by default",
    )
    parser.add_argument("--json", action="store_true", help="write one JSON object")


def run(options: argparse.Namespace, token: CancelToken) -> int:
    """Run all checks; never print a key.

    Cancellation: ends at once.

    :return: 0 if there is no problem, 1 if there is one.
    """
    sections: dict[str, Callable[[], Iterable[Finding]]] = {
        "installed": check_packages,
        "models": check_models,
        "terminal": check_terminal,
        "processes": lambda: check_processes(token),
        "stopping": lambda: check_cancel(token),
        "answers": lambda: check_model(options.model, options.timeout, token),
    }
    paint = Paint()
    report: dict[str, list[Finding]] = {}
    for title, check in sections.items():
        if not options.json:
            print(paint(title, "bold"), flush=True)
        report[title] = []
        for finding in check():
            token.checkpoint()
            report[title].append(finding)
            if options.json:
                continue
            show_finding(finding, paint)
    findings = [finding for section in report.values() for finding in section]
    problems = [finding.name for finding in findings if finding.status == "problem"]
    if options.json:
        data = msgspec.json.encode({"ok": not problems, **report})
        print(msgspec.json.format(data).decode())
    elif problems:
        print(f"\n{paint('Problems', 'red')}: {', '.join(problems)}.")
    else:
        print(f"\n{paint('No problems.', 'green')}")
    return EXIT_FAILED if problems else 0
