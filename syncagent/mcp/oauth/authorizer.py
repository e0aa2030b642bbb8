"""The protocol between a connection and the credentials of its requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from ...cancel import CancelToken

__all__ = ["Authorizer"]


@runtime_checkable
class Authorizer(Protocol):
    """Credentials that are found, renewed and widened while a server is in use.

    An ``auth=`` of :mod:`requests` has neither of the methods: it is given to the
    transport as it is, and its 401 is final.
    """

    def headers(self, url: str, token: CancelToken) -> dict[str, str]:
        """Return the headers for a request; none if there is no access token yet.

        Cancellation: ends at once; it may wait for a token that is renewed.

        :param url: the configured URL of the server, for every request of it.
        :raises MCPError: a token has expired and cannot be renewed now.
        """

    def handle(
        self,
        url: str,
        status: int,
        headers: Mapping[str, str],
        token: CancelToken,
        *,
        used: Mapping[str, str],
        attempt: int = 0,
    ) -> bool:
        """Do what a status of 401 or 403 asks for; return whether to try again.

        Cancellation: ends at once, also while a person is logging in.

        :param headers: those of the response.
        :param used: the result of :meth:`headers` for the refused request. If another
            thread has renewed the token since, there is nothing to do.
        :param attempt: how often this call was refused before.
        :raises MCPAuthRequired: no one here can log in.
        :raises MCPError: the authorization server cannot be used.
        """
