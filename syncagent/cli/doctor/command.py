"""Look whether everything is there that is needed, and say what to do if not."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from ...cancel import CancelToken
from ..choices import VARIABLE, seconds
from ..colours import Paint
from ..exit_codes import EXIT_FAILED
from ..plain_text import harmless
from .findings import Finding, find_installed, find_models, find_terminal
from .trials import try_cancelling, try_model, try_processes

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY: Final = "look whether everything works: packages, keys, processes, a model"

_MARKS: Final = {"ok": ("ok", "green"), "off": ("--", "dim"), "problem": ("!!", "red")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Have *parser* take what :func:`run` needs."""
    parser.add_argument(
        "--model",
        metavar="PROVIDER:NAME",
        help="ask this model, which may cost something; by default only the local or "
        f"the scripted one is asked, whatever {VARIABLE} says",
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
    """Look at everything; never print a key.

    Cancellation: ends at once.

    :return: 0 if there is no problem, 1 if there is one.
    """
    sections: dict[str, Callable[[], Iterable[Finding]]] = {
        "installed": find_installed,
        "models": find_models,
        "terminal": find_terminal,
        "processes": lambda: try_processes(token),
        "stopping": lambda: try_cancelling(token),
        "answers": lambda: try_model(options.model, options.timeout, token),
    }
    paint = Paint()
    found: dict[str, list[Finding]] = {}
    for title, look in sections.items():
        if not options.json:
            print(paint(title, "bold"), flush=True)
        found[title] = []
        for finding in look():
            token.checkpoint()
            found[title].append(finding)
            if not options.json:
                _show(finding, paint)
    return _conclude(found, options.json, paint)


def _show(finding: Finding, paint: Paint) -> None:
    mark, style = _MARKS[finding.status]
    line = f"{finding.name:<22} {finding.value}"
    print(f"  {paint(mark, style)}  {harmless(line)}", flush=True)
    if finding.advice:
        print(f"      {'':<22} {paint(harmless(finding.advice), 'yellow')}", flush=True)


def _conclude(found: dict[str, list[Finding]], is_json: bool, paint: Paint) -> int:
    problems = [
        finding.name
        for findings in found.values()
        for finding in findings
        if finding.status == "problem"
    ]
    if is_json:
        report = {"ok": not problems, **found}
        print(msgspec.json.format(msgspec.json.encode(report)).decode())
    elif problems:
        print(f"\n{paint('Not all is well', 'red')}: {', '.join(problems)}.")
    else:
        print(f"\n{paint('All is well.', 'green')}")
    return EXIT_FAILED if problems else 0
