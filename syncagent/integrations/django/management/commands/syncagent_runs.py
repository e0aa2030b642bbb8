"""``manage.py syncagent_runs``: list the runs of a server."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandParser

from ....web.operator import OperatorClient, describe_run
from ..server_command import ServerCommand

__all__ = ["Command"]


class Command(ServerCommand):
    """List the runs of a server."""

    help = "List the runs of a server, of all owners, newest first."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options of the output."""
        super().add_arguments(parser)
        parser.add_argument("--json", action="store_true", help="print JSON lines")
        parser.add_argument("--all", action="store_true", help="include finished runs")

    def operate(self, client: OperatorClient, options: dict[str, Any]) -> None:
        """Print a line for each run."""
        runs = [run for run in client.list() if run["is_live"] or options["all"]]
        for run in runs:
            line = json.dumps(run) if options["json"] else describe_run(run)
            self.stdout.write(line)
        if not runs and not options["json"]:
            kind = "runs" if options["all"] else "live runs"
            self.stdout.write(f"There are no {kind}.")
