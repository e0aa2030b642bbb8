"""A session of :mod:`requests` whose every call ends with a token."""

from __future__ import annotations

import sys
from typing import Any

import requests
from requests.adapters import BaseAdapter

from .._sockets import FOREVER
from ..cancel import CancelToken
from ..exceptions import Cancelled, ConfigurationError
from .adapter import CancellableAdapter, shared_adapter
from .exchange import Exchange
from .failures import free


class CancellableSession(requests.Session):
    """Do what :class:`requests.Session` does, until the token is cancelled.

    A call that is under way then ends at once, and no other begins: each raises
    :exc:`~syncagent.exceptions.Cancelled`. A streamed body raises it while it is read.
    Connections are those of the process, shared with everybody else.

    :param token: what ends the calls.
    """

    def __init__(self, token: CancelToken) -> None:
        self.token = token
        super().__init__()
        for prefix in list(self.adapters):
            self.mount(prefix, shared_adapter())

    def mount(self, prefix: str, adapter: BaseAdapter) -> None:
        """Send requests to *prefix* with *adapter*.

        :raises ConfigurationError: a cancel could not end them.
        """
        if type(adapter) is requests.adapters.HTTPAdapter:
            adapter = shared_adapter()  # just like it, and a cancel ends it
        if not isinstance(adapter, CancellableAdapter):
            raise ConfigurationError(
                f"requests sent with {adapter!r} could not be cancelled; derive it "
                "from syncagent.transport.CancellableAdapter"
            )
        super().mount(prefix, _Cancelling(adapter, self.token))

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> Any:
        """Send *request*, if the token is not cancelled.

        Cancellation: ends at once.
        """
        self.token.checkpoint()
        response = super().send(request, **kwargs)
        self.token.checkpoint()  # an end of the body may have been the cancel's doing
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
        if timeout is None:
            timeout = FOREVER
        elif isinstance(timeout, tuple):
            timeout = tuple(FOREVER if each is None else each for each in timeout)
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
        """Nothing to do: the connections are shared."""
