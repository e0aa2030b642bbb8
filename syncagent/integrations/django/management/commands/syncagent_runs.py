"""``manage.py syncagent_runs``: what a server is doing."""

from __future__ import annotations

import json
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from ...remote import ServerRuns, add_arguments

__all__ = ["Command"]


class Command(BaseCommand):
    """List the runs of a server."""

    help = "List the runs of a server, everybody's, the newest first."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Take where the server is, and how to show it."""
        add_arguments(parser)
        parser.add_argument("--json", action="store_true", help="as JSON lines")
        parser.add_argument("--all", action="store_true", help="also those that ended")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print a line for each."""
        found = ServerRuns(options["url"]).list()
        shown = [run for run in found if run["is_live"] or options["all"]]
        for run in shown:
            line = json.dumps(run) if options["json"] else _line(run)
            self.stdout.write(line)
        if not shown and not options["json"]:
            self.stdout.write("There are no runs." if options["all"] else "None live.")


def _line(run: dict[str, Any]) -> str:
    seconds = (run["ended_at"] or time.time()) - run["started_at"]
    how = run["state"] if run["is_live"] else run["stop_reason"] or "failed"
    how = " ".join(filter(None, (how, run["tool"])))
    asked = " ".join(run["prompt"].split())[:50]
    # Nothing in it may tell a terminal what to do.
    plain = "".join(each if each.isprintable() else "?" for each in asked)
    return f"{run['id']}  {how:<24} {seconds:6.0f} s  {plain}"
