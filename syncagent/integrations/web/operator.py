"""The operator: may list and cancel all runs of a server, with a secret token.

A command runs in its own process and cannot see the runs of a server. It asks the
server over HTTP, with a token that both read from their settings.
"""

from __future__ import annotations

import hmac
import time
from typing import Any, Final
from urllib.parse import quote

from ...exceptions import SyncAgentError

__all__ = [
    "MIN_TOKEN_LENGTH",
    "OperatorClient",
    "OperatorError",
    "describe_run",
    "is_operator",
]

#: Characters. A shorter token is never accepted.
MIN_TOKEN_LENGTH: Final = 16
#: Seconds to connect, and to wait for the response.
_TIMEOUT: Final = (5.0, 30.0)
_LOOPBACK: Final = frozenset(("127.0.0.1", "::1", "localhost"))
_LONGEST_PROMPT: Final = 50


def is_operator(authorization: str | None, token: str | None) -> bool:
    """True if an ``Authorization`` header carries the operator's token.

    :param token: the token of the settings. Without one there is no operator.
    """
    if token is None or len(token) < MIN_TOKEN_LENGTH:
        return False
    header = (authorization or "").encode(errors="replace")
    return hmac.compare_digest(header, f"Bearer {token}".encode())


class OperatorError(SyncAgentError):
    """A command could not ask the server, or the server refused."""


class OperatorClient:
    """The runs of a server, over HTTP.

    :param url: the address of the list of runs.
    :param token: the operator's token.
    :raises OperatorError: there is no usable token, or it would be sent unencrypted to
        another machine.
    """

    def __init__(self, url: str, token: str | None) -> None:
        if token is None or len(token) < MIN_TOKEN_LENGTH:
            raise OperatorError(
                "SYNCAGENT_OPERATOR_TOKEN is missing or too short. Set it to the same "
                f"secret of at least {MIN_TOKEN_LENGTH} characters for the server and "
                "for this command."
            )
        from urllib3.exceptions import LocationParseError
        from urllib3.util import Url, parse_url

        # The parser of the library that connects: another one may find another host.
        try:
            parts = parse_url(url)
        except LocationParseError:
            parts = Url()
        host = (parts.host or "").strip("[]")
        is_safe = host and (parts.scheme == "https" or host in _LOOPBACK)
        if parts.scheme not in ("http", "https") or not is_safe:
            raise OperatorError(
                "The token is sent to other machines only over https; got "
                f"{parts.scheme}://{host}."
            )
        self._url = url
        self._token = token

    def list(self) -> list[dict[str, Any]]:
        """Return all runs, newest first, each as a decoded ``RunSummary``.

        Cancellation: none; it waits for the server, at most 35 seconds.

        :raises OperatorError: the server cannot be reached, or refuses.
        """
        runs: list[dict[str, Any]] = self._request("GET", self._url, (200,))["runs"]
        return runs

    def cancel(self, id: str, reason: str = "") -> bool:
        """Cancel a run. Return false if it had already ended.

        Cancellation: none; it waits for the server, at most 35 seconds.

        :raises OperatorError: there is no such run, the server cannot be reached, or
            it refuses.
        """
        url = f"{self._url}/{quote(id, safe='')}/cancel"
        return bool(self._request("POST", url, (202, 409), reason)["is_cancelled"])

    def _request(
        self, method: str, url: str, expected: tuple[int, ...], reason: str = ""
    ) -> Any:
        import requests

        try:
            with requests.Session() as session:
                # Otherwise a proxy could see the token, and a .netrc replace it.
                session.trust_env = False
                response = session.request(
                    method,
                    url,
                    json={"reason": reason} if reason else None,
                    headers={"Authorization": f"Bearer {self._token}"},
                    timeout=_TIMEOUT,
                    allow_redirects=False,
                )
        except requests.RequestException as error:
            raise OperatorError(
                f"{self._url} cannot be reached ({type(error).__name__}). Is the "
                "server running? Set its address with --url or SYNCAGENT_URL."
            ) from error
        try:
            body = response.json()
        except ValueError:
            body = {}
        status = response.status_code
        if status in expected:
            return body
        details = body.get("error") if isinstance(body, dict) else None
        message = details.get("message", "") if isinstance(details, dict) else ""
        if "no such run" in message:
            raise OperatorError(
                f"{message} Without a store, a server with several processes has "
                "separate runs in each."
            )
        if status == 404:
            raise OperatorError(
                f"{self._url} does not exist or does not accept the token: the server "
                "and this command need the same SYNCAGENT_OPERATOR_TOKEN."
            )
        raise OperatorError(
            f"{self._url} responded with {status}: {message or 'no message'}"
        )


def describe_run(run: dict[str, Any]) -> str:
    """Return one line about a run, safe to print on a terminal."""
    seconds = (run["ended_at"] or time.time()) - run["started_at"]
    state = run["state"] if run["is_live"] else run.get("stop_reason") or "failed"
    state = " ".join(filter(None, (state, run["tool"])))
    prompt = " ".join(run["prompt"].split())[:_LONGEST_PROMPT]
    # Control characters could drive the terminal.
    prompt = "".join(each if each.isprintable() else "?" for each in prompt)
    return f"{run['id']}  {state:<24} {seconds:6.0f} s  {prompt}"
