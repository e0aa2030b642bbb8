"""``manage.py syncagent``: the commands for the store of the site."""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...conf import get_runs, read_settings

__all__ = ["Command"]


class Command(BaseCommand):
    """List, cancel, answer and follow runs in the store of the site."""

    help = (
        "List, cancel, answer and follow runs in the store of the site, and look "
        "after it: runs, cancel, answer, follow, inbox, audit, conversations, store. "
        "Each has a --help of its own."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Take all arguments: they are those of ``syncagent``."""
        parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="COMMAND")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the command for the store of the site."""
        # Not "syncagent": Django imports this file as a module of that name.
        from .....cli.main import main

        if getattr(read_settings(), "store", None) is None:
            raise CommandError(
                "The site has no store of runs: set SYNCAGENT['STORE'] to its URL. "
                "Without one, syncagent_runs and syncagent_cancel ask the server."
            )
        store: Any = getattr(get_runs(), "store")  # noqa: B009
        with redirect_stdout(getattr(self.stdout, "_out", sys.stdout)):
            code = main(options["arguments"], store=store, prog="manage.py syncagent")
        if code:
            sys.exit(code)
