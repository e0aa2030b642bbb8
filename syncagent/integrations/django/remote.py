"""The other end of :mod:`~syncagent.integrations.django.operators`: a server's runs."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote, urlsplit

import requests
from django.core.management.base import CommandError, CommandParser

from ..web.settings import SHORTEST_TOKEN
from .conf import read_settings

__all__ = ["ServerRuns", "add_arguments"]

#: Seconds for the connection, and for the answer.
_TIMEOUT: Final = (5.0, 30.0)
_HERE: Final = {"localhost", "127.0.0.1", "::1"}


def add_arguments(parser: CommandParser) -> None:
    """Let a command be told where the server is."""
    parser.add_argument(
        "--url",
        default=None,
        help="where the site includes the endpoints, such as "
        "http://127.0.0.1:8000/agent/ (or SYNCAGENT['URL'])",
    )


class ServerRuns:
    """The runs of a server, over HTTP.

    :param url: where the endpoints are.
    :raises CommandError: it is not known where, or there is no token.
    """

    def __init__(self, url: str | None) -> None:
        found = read_settings()
        self._url = (url or found.url).rstrip("/")
        self._token = found.operator_token or ""
        if len(self._token) < SHORTEST_TOKEN:
            raise CommandError(
                "Runs live in the server, which this command asks over HTTP: set "
                f"SYNCAGENT['OPERATOR_TOKEN'] to a secret of at least {SHORTEST_TOKEN} "
                "characters, for the server and for this command."
            )
        if not self._url:
            raise CommandError(
                "It is not known where the server is: say --url "
                "http://127.0.0.1:8000/agent/ or set SYNCAGENT['URL']."
            )
        parts = urlsplit(self._url)
        is_safe = parts.scheme == "https" or parts.hostname in _HERE
        if parts.scheme not in ("http", "https") or not is_safe:
            raise CommandError(
                "The token goes to other machines only over https; got "
                f"{parts.scheme}://{parts.hostname}."
            )

    def list(self) -> Any:
        """Return the views of all runs, the newest first.

        Cancellation: none; it waits for the server, at most 35 seconds.
        """
        return self._ask("GET", "operator/runs", (200,))["runs"]

    def cancel(self, id: str) -> bool:
        """End a run; tell whether it was live.

        Cancellation: none; it waits for the server, at most 35 seconds.

        :raises CommandError: there is no such run.
        """
        path = f"operator/runs/{quote(id, safe='')}/cancel"
        return bool(self._ask("POST", path, (202, 409))["is_cancelled"])

    def _ask(self, method: str, path: str, expected: tuple[int, ...]) -> Any:
        headers = {"Authorization": f"Bearer {self._token}"}
        try:
            with requests.Session() as session:
                session.trust_env = False  # no .netrc, and no proxy gets the token
                response = session.request(
                    method,
                    f"{self._url}/{path}",
                    headers=headers,
                    timeout=_TIMEOUT,
                    allow_redirects=False,
                )
        except requests.RequestException as error:
            raise CommandError(
                f"The server at {self._url} cannot be reached: {type(error).__name__}."
            ) from error
        if response.status_code not in expected:
            raise CommandError(_trouble(response, self._url))
        return response.json()


def _trouble(response: requests.Response, url: str) -> str:
    words = ""
    if "json" in response.headers.get("Content-Type", ""):
        words = response.json().get("error", {}).get("message", "")
    if "no such run" in words:
        return f"{words} Runs live in one process: a server with several has others."
    if response.status_code == 404:
        return (
            f"There is nothing at {url}, or it does not accept the token: both the "
            "server and this command have to have the same SYNCAGENT['OPERATOR_TOKEN']."
        )
    return f"The server at {url} answers {response.status_code}: {words or '?'}"
