"""Views that block until the answer is there, and end with their client."""

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
from ..web.disconnect import GONE
from ..web.disconnect import cancel_on_disconnect as _of_environ

__all__ = ["DisconnectMiddleware", "cancel_on_disconnect"]

_LOST: Final = "_syncagent_lost"


def cancel_on_disconnect(
    request: HttpRequest, *targets: Cancellable, timeout: float | None = None
) -> AbstractContextManager[CancelToken]:
    """Cancel when the client of a request has gone, with origin ``disconnect``.

    For views that block until the answer is there::

        with cancel_on_disconnect(request) as token:
            result = agent.run(prompt, cancel=token)

    Under ASGI it needs :class:`DisconnectMiddleware`.

    :param targets: what else to cancel, such as an agent.
    :param timeout: seconds after which the token is cancelled in any case.
    :return: a token that is cancelled then.
    :raises ConfigurationError: under ASGI the middleware is missing.
    """
    if not isinstance(request, ASGIRequest):
        return _of_environ(request.META, *targets, timeout=timeout)
    lost = getattr(request, _LOST, None)
    if lost is None:
        raise ConfigurationError(
            "under ASGI only a middleware can tell that a client has gone; put "
            "'syncagent.integrations.django.disconnect.DisconnectMiddleware' first "
            "into MIDDLEWARE"
        )
    return _of_token(lost, targets, timeout)


@contextmanager
def _of_token(
    lost: CancelToken, targets: tuple[Cancellable, ...], timeout: float | None
) -> Iterator[CancelToken]:
    token = CancelToken(timeout)

    def cancel_targets() -> None:
        for target in (token, *targets):
            target.cancel(GONE, "disconnect")

    with lost.on_cancel(cancel_targets):
        try:
            yield token
        except Exception:
            raise
        except BaseException:  # the end of the task of a view that is a coroutine
            cancel_targets()
            raise


class DisconnectMiddleware:
    """Lets views under ASGI know that their client has gone.

    Django then cancels the task of the request, of which a view on a thread hears
    nothing by itself. Under WSGI this does nothing.
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
            return self._answer(request)
        response: HttpResponseBase = self._get_response(request)
        return response

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        lost = CancelToken()
        setattr(request, _LOST, lost)
        try:
            response: HttpResponseBase = await self._get_response(request)
        except BaseException:  # the end of its task is one
            lost.cancel(GONE, "disconnect")
            raise
        return response
