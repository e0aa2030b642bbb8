"""``flask syncagent``: list, cancel, answer and follow runs.

With a store they are the commands of ``syncagent``, for the store of the application.
Without one they ask the server, over HTTP, and there are only ``runs`` and ``cancel``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import urlsplit

import click
from flask import current_app
from flask.cli import AppGroup

from ..web.operator import OperatorClient, OperatorError, describe_run
from .routes import list_runs
from .settings import find_state

if TYPE_CHECKING:
    from ...stores import RunStore

__all__ = ["commands"]

commands: Final = AppGroup(
    "syncagent", help="List, cancel, answer and follow the runs of the application."
)
_url = click.option(
    "--url",
    help="Ask the server at this address; by default SYNCAGENT_URL, unless the "
    "application has a store.",
)
#: The other options and arguments are those of ``syncagent``.
_FORWARDING: Final[dict[str, Any]] = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
}


@commands.command("runs", context_settings=_FORWARDING)
@click.option("--all", "shows_all", is_flag=True, help="Include finished runs.")
@_url
@click.pass_context
def _runs(context: click.Context, shows_all: bool, url: str | None) -> None:
    """List live runs, newest first.

    With a store, all options of "syncagent runs" can be used.
    """
    if _has_store(context, url):
        _operate(["runs", *([] if shows_all else ["--live"]), *context.args])
    try:
        runs = _make_client(url).list()
    except OperatorError as error:
        raise click.ClickException(str(error)) from None
    shown = [run for run in runs if shows_all or run["is_live"]]
    for run in shown:
        click.echo(describe_run(run))
    if not shown:
        click.echo("There are no runs." if shows_all else "There are no live runs.")


@commands.command("cancel", context_settings=_FORWARDING)
@click.argument("id")
@click.option("--reason", default="flask syncagent cancel", show_default=True)
@_url
@click.pass_context
def _cancel(context: click.Context, id: str, reason: str, url: str | None) -> None:
    """Cancel the run with this ID, as listed by "runs".

    With a store, all options of "syncagent cancel" can be used.
    """
    if not id.strip():
        raise click.UsageError("the ID is empty; flask syncagent runs lists them")
    if _has_store(context, url):
        _operate(["cancel", f"--reason={reason}", *context.args, "--", id])
    try:
        was_live = _make_client(url).cancel(id, reason)
    except OperatorError as error:
        raise click.ClickException(str(error)) from None
    click.echo("Cancelled." if was_live else "The run had already ended.")


@commands.command("answer", context_settings=_FORWARDING, add_help_option=False)
@click.pass_context
def _answer(context: click.Context) -> None:
    """Answer questions of a run in the store."""
    _operate(["answer", *context.args])


@commands.command("follow", context_settings=_FORWARDING, add_help_option=False)
@click.pass_context
def _follow(context: click.Context) -> None:
    """Show the events of a run in the store."""
    _operate(["follow", *context.args])


@commands.command("inbox", context_settings=_FORWARDING, add_help_option=False)
@click.pass_context
def _inbox(context: click.Context) -> None:
    """List the questions in the store that wait for answers."""
    _operate(["inbox", *context.args])


@commands.command("audit", context_settings=_FORWARDING, add_help_option=False)
@click.pass_context
def _audit(context: click.Context) -> None:
    """List the questions in the store that were answered, and by whom."""
    _operate(["audit", *context.args])


@commands.command("conversations", context_settings=_FORWARDING, add_help_option=False)
@click.pass_context
def _conversations(context: click.Context) -> None:
    """List, show, fork or delete conversations in the store."""
    _operate(["conversations", *context.args])


@commands.command("store", context_settings=_FORWARDING, add_help_option=False)
@click.pass_context
def _store(context: click.Context) -> None:
    """Migrate, prune or check the store."""
    _operate(["store", *context.args])


def _find_store() -> RunStore | None:
    """Return the store of the current application."""
    return getattr(find_state().runs, "store", None)


def _has_store(context: click.Context, url: str | None) -> bool:
    """True if a command is for the store; then it takes more options."""
    is_for_store = url is None and _find_store() is not None
    if context.args and not is_for_store:
        raise click.UsageError(f"unexpected argument {context.args[0]!r}")
    return is_for_store


def _operate(arguments: list[str]) -> NoReturn:
    """Run a command of ``syncagent`` for the store of the application, and exit."""
    from ...cli.main import main

    store = _find_store()
    if store is None:
        raise click.ClickException(
            "This application has no store of runs: give SyncAgent() store=, or set "
            "SYNCAGENT_STORE in app.config."
        )
    code = main(arguments, store=store, prog="flask syncagent")
    click.get_current_context().exit(code)


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
