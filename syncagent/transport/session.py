"""A session of :mod:`requests` whose calls end with a token."""

from __future__ import annotations

import sys
from typing import Any

import requests
from requests.adapters import BaseAdapter

from ..cancel import CancelToken
from ..exceptions import Cancelled
from .adapter import CancellableAdapter, cancellable, shared_adapter
from .exchange import Exchange
from .failures import free_frames
from .user_code import UserCodeError


class CancellableSession(requests.Session):
    """A :class:`requests.Session` that works until its token is cancelled.

    A call in progress then ends at once, and no other starts: each raises
    :exc:`~syncagent.exceptions.Cancelled`. A streamed body raises it while it is read.
    Connections come from the shared pool of the process.

    :param token: ends the calls.
    """

    __attrs__ = [*requests.Session.__attrs__, "token"]  # noqa: RUF012 - as in requests

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
        """Send *request*, unless the token is cancelled.

        Cancellation: ends at once.
        """
        self.token.checkpoint()
        response = super().send(request, **kwargs)
        try:
            self.token.checkpoint()  # a hook may have cancelled it
        except BaseException:
            response.close()
            raise
        return response


class _Cancelling(BaseAdapter):
    """An adapter for one token, on top of one that others use, too."""

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
        except UserCodeError as carrier:
            exchange.close()
            raise carrier.error from None
        except BaseException as error:
            exchange.close()
            # By the token, not by the type: a cancel may surface as any exception.
            if isinstance(error, (Exception, Cancelled)) and self._token.cancelled:
                free_frames(error, before)
                self._token.checkpoint()
            raise
        response.connection = self  # type: ignore[assignment]  # it may send again
        return response

    def close(self) -> None:
        """Close idle connections, unless the pool is that of the process."""
        if self._adapter is not shared_adapter():
            self._adapter.close()
