"""``manage.py syncagent_cancel``: end runs of a server."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...remote import ServerRuns, add_arguments

__all__ = ["Command"]


class Command(BaseCommand):
    """End runs of a server."""

    help = "End runs of a server, by the ids that syncagent_runs shows."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Take which, and where the server is."""
        parser.add_argument("id", nargs="*", help="of a run")
        parser.add_argument("--all", action="store_true", help="all that are live")
        add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Print what became of each."""
        if bool(options["id"]) == options["all"]:
            raise CommandError("Say which: one or more ids, or --all.")
        server = ServerRuns(options["url"])
        ids = options["id"]
        if options["all"]:
            ids = [run["id"] for run in server.list() if run["is_live"]]
        for id in ids:
            was_live = server.cancel(id)
            self.stdout.write(f"{id}  {'cancelled' if was_live else 'had ended'}")
