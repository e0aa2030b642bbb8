"""``flask syncagent runs`` and ``flask syncagent cancel``.

A command is a process of its own, and cannot see what another one runs. So these ask
the server, over HTTP, with the token of an operator that both find in ``app.config``.
"""

from __future__ import annotations

import time
from typing import Any, Final
from urllib.parse import urlsplit

import click
from flask import current_app, url_for
from flask.cli import AppGroup

from .routes import list_runs
from .settings import find_state

__all__ = ["commands"]

#: Seconds to connect, and to wait for an answer.
_PATIENCE: Final = (5.0, 15.0)
_LOOPBACK: Final = frozenset(("127.0.0.1", "::1", "localhost"))

commands: Final = AppGroup("syncagent", help="List and end the runs of the server.")
_url = click.option("--url", help="Where the server is, if not at SYNCAGENT_URL.")


@commands.command("runs")
@click.option("--all", "shows_all", is_flag=True, help="Finished ones, too.")
@_url
def _runs(shows_all: bool, url: str | None) -> None:
    """List live runs, the newest first."""
    status, body = _ask("GET", url)
    if status != 200:
        raise click.ClickException(_words(status, body))
    now = time.time()
    runs = [run for run in body["runs"] if shows_all or run["is_live"]]
    for run in runs:
        seconds = (run["ended_at"] or now) - run["started_at"]
        asked = " ".join(run["prompt"].split())[:50]
        ended = run.get("stop_reason") if run["state"] == "done" else None
        state = " ".join(filter(None, (ended or run["state"], run["tool"])))
        click.echo(f"{run['id']}  {state:<22} {seconds:6.0f} s  {_plain(asked)}")
    if not runs:
        click.echo("There are no runs." if shows_all else "There are no live runs.")


@commands.command("cancel")
@click.argument("id")
@click.option("--reason", default="flask syncagent cancel", show_default=True)
@_url
def _cancel(id: str, reason: str, url: str | None) -> None:
    """End the run that has this ID, as shown by runs."""
    if not id.strip():
        raise click.UsageError("which run? flask syncagent runs shows their ids")
    status, body = _ask("POST", url, id, {"reason": reason})
    if status == 202:
        click.echo("It is cancelled.")
    elif status == 409:
        click.echo("It had ended before.")
    else:
        raise click.ClickException(_words(status, body))


def _ask(
    method: str, url: str | None, id: str = "", body: dict[str, Any] | None = None
) -> tuple[int, Any]:
    """Ask the server; return its status, and what it says.

    Cancellation: a Ctrl+C ends it; it waits at most 15 seconds for the server.
    """
    import requests

    settings = find_state().settings
    if settings.operator_token is None:
        raise click.ClickException(
            "There is no SYNCAGENT_OPERATOR_TOKEN in app.config. Set the same one here "
            "and for the server: it lets this command see and end all runs."
        )
    address = _address((url or settings.url).rstrip("/"))
    path = f"{address}/{id}/cancel" if id else address
    with requests.Session() as session:
        session.trust_env = False  # no proxy is to see the token, no .netrc replace it
        session.headers["Authorization"] = f"Bearer {settings.operator_token}"
        try:
            response = session.request(
                method, path, json=body, timeout=_PATIENCE, allow_redirects=False
            )
        except requests.RequestException as error:
            raise click.ClickException(
                f"{address} cannot be reached ({type(error).__name__}). Is the server "
                "there? SYNCAGENT_URL or --url says where."
            ) from None
        try:
            return response.status_code, response.json()
        except ValueError:
            return response.status_code, {}


def _address(url: str) -> str:
    """Return where the runs are, of a server at *url*."""
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise click.ClickException(
            f"{url} is neither https nor on this machine: the token would be readable "
            "on its way."
        )
    app = current_app
    for endpoint, view in app.view_functions.items():
        if view is list_runs:
            with app.test_request_context(base_url=url):
                return url_for(endpoint, _external=True)
    raise click.ClickException("The blueprint is not registered in this application.")


def _words(status: int, body: Any) -> str:
    error = body.get("error", {}) if isinstance(body, dict) else {}
    return str(error.get("message") or f"The server answers with {status}.")


def _plain(text: str) -> str:
    """Return *text* without what a terminal would obey."""
    return "".join(each if each.isprintable() else "?" for each in text)
