"""``manage.py syncagent_cancel``: cancel runs of a server."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from ....web.operator import OperatorClient
from ..server_command import ServerCommand

__all__ = ["Command"]


class Command(ServerCommand):
    """Cancel runs of a server."""

    help = "Cancel runs of a server, by the ids that syncagent_runs lists."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the ids of runs, or ``--all``."""
        super().add_arguments(parser)
        parser.add_argument("id", nargs="*", help="id of a run")
        parser.add_argument("--all", action="store_true", help="cancel all live runs")

    def handle(self, *args: Any, **options: Any) -> None:
        """Check the arguments first."""
        if bool(options["id"]) == options["all"]:
            raise CommandError("Give one or more ids, or --all.")
        super().handle(*args, **options)

    def operate(self, client: OperatorClient, options: dict[str, Any]) -> None:
        """Cancel each run, and print a line about it."""
        ids = options["id"]
        if options["all"]:
            ids = [run["id"] for run in client.list() if run["is_live"]]
        for id in ids:
            was_live = client.cancel(id)
            status = "cancelled" if was_live else "had already ended"
            self.stdout.write(f"{id}  {status}")
