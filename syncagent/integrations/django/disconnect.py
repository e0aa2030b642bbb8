"""Blocking views that end with their client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from ...cancel import Cancellable, CancelToken
from ...exceptions import ConfigurationError
from ..web.disconnect import CLIENT_LEFT
from ..web.disconnect import cancel_on_disconnect as cancel_with_environ

__all__ = ["DisconnectMiddleware", "cancel_on_disconnect", "lost_token"]

_LOST: Final = "_syncagent_lost"


def cancel_on_disconnect(
    request: HttpRequest, *targets: Cancellable, timeout: float | None = None
) -> AbstractContextManager[CancelToken]:
    """Cancel when the client of a request disconnects, with origin ``disconnect``.

    For views that block until the run has ended::

        with cancel_on_disconnect(request) as token:
            result = agent.run(prompt, cancel=token)

    Under ASGI it needs :class:`DisconnectMiddleware`.

    :param targets: further objects to cancel, such as an agent.
    :param timeout: seconds after which the token is cancelled in any case.
    :return: the token that is cancelled.
    :raises ConfigurationError: the middleware is missing, under ASGI.
    """
    if not isinstance(request, ASGIRequest):
        return cancel_with_environ(request.META, *targets, timeout=timeout)
    lost = lost_token(request)
    if lost is None:
        raise ConfigurationError(
            "under ASGI cancel_on_disconnect() needs a middleware; add "
            "'syncagent.integrations.django.disconnect.DisconnectMiddleware' as the "
            "first of MIDDLEWARE"
        )
    return _cancel_with_token(lost, targets, timeout)


def lost_token(request: HttpRequest) -> CancelToken | None:
    """Return the token that :class:`DisconnectMiddleware` cancels, under ASGI."""
    lost: CancelToken | None = getattr(request, _LOST, None)
    return lost


@contextmanager
def _cancel_with_token(
    lost: CancelToken, targets: tuple[Cancellable, ...], timeout: float | None
) -> Iterator[CancelToken]:
    token = CancelToken(timeout)

    def cancel_targets() -> None:
        for target in (token, *targets):
            target.cancel(CLIENT_LEFT, "disconnect")

    with lost.on_cancel(cancel_targets):
        try:
            yield token
        except Exception:
            raise
        except BaseException:  # the task of an async view was cancelled
            cancel_targets()
            raise


class DisconnectMiddleware:
    """Tells views under ASGI that their client has disconnected.

    Django cancels the task of the request, but a view on a thread does not notice that.
    Under WSGI this middleware does nothing.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(
        self, request: HttpRequest
    ) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self._is_async:
            return self._call_async(request)
        response: HttpResponseBase = self._get_response(request)
        return response

    async def _call_async(self, request: HttpRequest) -> HttpResponseBase:
        lost = CancelToken()
        setattr(request, _LOST, lost)
        try:
            response: HttpResponseBase = await self._get_response(request)
        except BaseException:  # the cancellation of the task included
            lost.cancel(CLIENT_LEFT, "disconnect")
            raise
        return response
