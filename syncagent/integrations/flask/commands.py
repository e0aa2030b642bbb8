"""``flask syncagent runs`` and ``flask syncagent cancel``."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

import click
from flask import current_app
from flask.cli import AppGroup

from ..web.operator import OperatorClient, OperatorError, describe_run
from .routes import list_runs
from .settings import find_state

__all__ = ["commands"]

commands: Final = AppGroup("syncagent", help="List and cancel the runs of the server.")
_url = click.option("--url", help="The server's address; by default SYNCAGENT_URL.")


@commands.command("runs")
@click.option("--all", "shows_all", is_flag=True, help="Include finished runs.")
@_url
def _runs(shows_all: bool, url: str | None) -> None:
    """List live runs, newest first."""
    try:
        runs = _make_client(url).list()
    except OperatorError as error:
        raise click.ClickException(str(error)) from None
    shown = [run for run in runs if shows_all or run["is_live"]]
    for run in shown:
        click.echo(describe_run(run))
    if not shown:
        click.echo("There are no runs." if shows_all else "There are no live runs.")


@commands.command("cancel")
@click.argument("id")
@click.option("--reason", default="flask syncagent cancel", show_default=True)
@_url
def _cancel(id: str, reason: str, url: str | None) -> None:
    """Cancel the run with this ID, as listed by "runs"."""
    if not id.strip():
        raise click.UsageError("the ID is empty; flask syncagent runs lists them")
    try:
        was_live = _make_client(url).cancel(id, reason)
    except OperatorError as error:
        raise click.ClickException(str(error)) from None
    click.echo("Cancelled." if was_live else "The run had already ended.")


def _make_client(url: str | None) -> OperatorClient:
    """Return a client of the server at *url*, or else at ``SYNCAGENT_URL``."""
    settings = find_state().settings
    base = urlsplit((url or settings.url).rstrip("/"))
    root = base.path or current_app.config["APPLICATION_ROOT"]
    for endpoint, view in current_app.view_functions.items():
        if view is list_runs:
            values: dict[str, Any] = {}
            current_app.inject_url_defaults(endpoint, values)
            # Only the path: SERVER_NAME and subdomains name other machines, and the
            # token goes to the given one.
            adapter = current_app.url_map.bind("localhost", root)
            path = urlsplit(adapter.build(endpoint, values)).path
            address = f"{base.scheme}://{base.netloc}{path}"
            return OperatorClient(address, settings.operator_token)
    raise OperatorError("The blueprint is not registered in this application.")
