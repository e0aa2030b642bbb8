"""A session of :mod:`requests` whose calls end with a token."""

from __future__ import annotations

import sys
from copy import copy
from typing import Any

import requests
from requests.adapters import BaseAdapter
from requests.auth import HTTPBasicAuth
from requests.utils import get_auth_from_url

from ..cancel import CancelToken
from ..exceptions import Cancelled
from .adapter import CancellableAdapter, cancellable, shared_adapter
from .exchange import Exchange
from .failures import find_handler_error, free_frames


class CancellableSession(requests.Session):
    """A :class:`requests.Session` that works until its token is cancelled.

    A call in progress then ends at once, and no other starts: each raises
    :exc:`~syncagent.exceptions.Cancelled`. A streamed body raises it while it is read.
    Connections come from the shared pool of the process.

    Credentials are the caller's: ``auth=`` of a call or of the session, or those in the
    URL. A ``.netrc`` file is never read, because tools call addresses that a model has
    chosen. Proxies and CA bundles of the environment count as in :mod:`requests`.

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

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        """Prepare *request*, with credentials of the caller only."""

        def from_url(prepared: requests.PreparedRequest) -> requests.PreparedRequest:
            name, password = get_auth_from_url(prepared.url or "")
            basic = HTTPBasicAuth(name, password)
            return basic(prepared) if name or password else prepared

        if not request.auth and not self.auth:
            # With any auth object requests does not look for a .netrc file.
            request = copy(request)
            request.auth = from_url
        return super().prepare_request(request)

    def rebuild_auth(
        self, prepared_request: requests.PreparedRequest, response: requests.Response
    ) -> None:
        """Remove credentials from a redirected request if its host is another one."""
        # Without the rest of the original, which looks for a .netrc file.
        before, after = str(response.request.url), str(prepared_request.url)
        if self.should_strip_auth(before, after):
            prepared_request.headers.pop("Authorization", None)

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
        except BaseException as error:
            exchange.close()
            raised = find_handler_error(error, before)
            if raised is not None:
                free_frames(error, before)
                raise raised from None
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
