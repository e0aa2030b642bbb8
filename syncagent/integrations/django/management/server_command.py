"""The base of the commands that ask a server for its runs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...web.operator import OperatorClient, OperatorError
from ..conf import read_settings

__all__ = ["ServerCommand"]


class ServerCommand(BaseCommand):
    """A command that asks a server for its runs, over HTTP."""

    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Add ``--url``."""
        parser.add_argument(
            "--url",
            default=None,
            help="address at which the site includes the endpoints, such as "
            "http://127.0.0.1:8000/agent/ (default: SYNCAGENT['URL'])",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Connect, and show errors of the server as errors of the command."""
        settings = read_settings()
        url = (options["url"] or settings.url).rstrip("/")
        if not url:
            raise CommandError(
                "The server's address is missing: use --url "
                "http://127.0.0.1:8000/agent/ or set SYNCAGENT['URL']."
            )
        try:
            client = OperatorClient(f"{url}/operator/runs", settings.operator_token)
            self.operate(client, options)
        except OperatorError as error:
            raise CommandError(str(error)) from error

    @abstractmethod
    def operate(self, client: OperatorClient, options: dict[str, Any]) -> None:
        """Do the work of the command."""
