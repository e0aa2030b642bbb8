"""A session of :mod:`requests` whose every call ends with a token."""

from __future__ import annotations

import sys
from typing import Any

import requests
from requests.adapters import BaseAdapter

from ..cancel import CancelToken
from ..exceptions import Cancelled
from .adapter import CancellableAdapter, cancellable, shared_adapter
from .exchange import Exchange
from .failures import free


class CancellableSession(requests.Session):
    """Do what :class:`requests.Session` does, until the token is cancelled.

    A call that is under way then ends at once, and no other begins: each raises
    :exc:`~syncagent.exceptions.Cancelled`. A streamed body raises it while it is read.
    Connections are those of the process, shared with everybody else.

    :param token: what ends the calls.
    """

    __attrs__ = [*requests.Session.__attrs__, "token"]  # noqa: RUF012 - as there

    def __init__(self, token: CancelToken) -> None:
        if not isinstance(token, CancelToken):
            raise TypeError(f"token must be a CancelToken, got {token!r}")
        self.token = token
        super().__init__()
        for prefix in list(self.adapters):
            self.mount(prefix, shared_adapter())

    def mount(self, prefix: str, adapter: BaseAdapter) -> None:
        """Send requests to *prefix* with *adapter*.

        :raises ConfigurationError: a cancel could not end them.
        """
        super().mount(prefix, _Cancelling(cancellable(adapter, prefix), self.token))

    def send(
        self, request: requests.PreparedRequest, **kwargs: Any
    ) -> requests.Response:
        """Send *request*, if the token is not cancelled.

        Cancellation: ends at once.
        """
        self.token.checkpoint()
        response = super().send(request, **kwargs)
        try:
            self.token.checkpoint()  # perhaps a hook has cancelled it
        except BaseException:
            response.close()
            raise
        return response


class _Cancelling(BaseAdapter):
    """An adapter for one token; what it sends with belongs to others, too."""

    def __init__(self, adapter: CancellableAdapter, token: CancelToken) -> None:
        super().__init__()
        self._adapter = adapter
        self._token = token

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Any = None,
    ) -> requests.Response:
        exchange, before = Exchange(self._token), sys.exc_info()[1]
        try:
            with exchange.bound():
                response = self._adapter.send(
                    request, stream, timeout, verify, cert, proxies
                )
        except BaseException as error:
            exchange.close()
            if isinstance(error, (Exception, Cancelled)) and self._token.cancelled:
                free(error, before)
                self._token.checkpoint()
            raise
        response.connection = self  # type: ignore[assignment]  # it may send again
        return response

    def close(self) -> None:
        """Close idle connections, unless they are shared with everybody else."""
        if self._adapter is not shared_adapter():
            self._adapter.close()
