"""Blocking requests, with a whole response, a stream of events, or either."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final

import msgspec
import requests

from .._checks import check_number
from ..cancel import CancelToken
from ..exceptions import ConfigurationError
from ..sse import MAX_EVENT_BYTES, MAX_EVENT_LINES, EventDecoder
from .adapter import CancellableAdapter
from .calls import Explain, RetriedRequest
from .gate import AttemptGate
from .opened import OpenedResponse
from .redactor import Redactor
from .resolver import Resolver
from .response import WholeResponse
from .retries import Retries
from .settings import Auth, TransportSettings, new_session
from .streams import EventStream, IsEnd
from .timeouts import Timeout, Timeouts

#: The largest response by default, in bytes.
MAX_RESPONSE_BYTES: Final = 256 * 1024 * 1024

_JSON: Final = {"Content-Type": "application/json"}
_WHOLE_HEADERS: Final = {**_JSON, "Accept": "application/json"}
_STREAM_HEADERS: Final = {
    **_JSON,
    "Accept": "text/event-stream",
    # A proxy that compresses holds events back until it has filled a block.
    "Accept-Encoding": "identity",
}
_EITHER_HEADERS: Final = {
    "Accept": "application/json, text/event-stream",
    "Accept-Encoding": "identity",
}

_METHODS: Final = frozenset({"DELETE", "GET", "PATCH", "POST", "PUT"})
_ONCE: Final = Retries(limit=0)


class Transport:
    """Make requests that a cancel ends at once, in any phase.

    One transport serves any number of threads, and all transports share the connections
    of the process.

    :param timeout: seconds for every wait, a pair for connecting and for the others as
        in :mod:`requests`, or :class:`~syncagent.transport.Timeouts`.
    :param retries: how many more attempts, or :class:`~syncagent.transport.Retries`.
    :param proxies: as in :mod:`requests`; the environment's are used besides.
    :param verify: the path of a CA bundle, or ``False`` with *allow_insecure*.
    :param cert: the path of a client certificate, or a pair with that of its key.
    :param trust_env: false to ignore proxies and CA bundles of the environment.
    :param session: all these settings in one, with headers, credentials and hooks.
        Its cookies are sent, none are kept.
    :param allow_insecure: true to let keys and prompts leave this machine unencrypted,
        or go to an unverified server.
    :param resolver: used in place of :func:`socket.getaddrinfo`.
    :param max_response_bytes: the largest response allowed, after decompression.
    :param max_event_bytes: the largest event allowed.
    :param max_event_lines: the most lines of an event allowed.
    :raises ConfigurationError: a setting cannot work.
    """

    def __init__(
        self,
        *,
        timeout: Timeout | Timeouts = Timeouts(),  # noqa: B008 - it is frozen
        retries: int | Retries = Retries(),  # noqa: B008
        proxies: Mapping[str, str] | None = None,
        verify: bool | str = True,
        cert: str | tuple[str, str] | None = None,
        trust_env: bool = True,
        session: requests.Session | None = None,
        allow_insecure: bool = False,
        resolver: Resolver | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        max_event_bytes: int = MAX_EVENT_BYTES,
        max_event_lines: int = MAX_EVENT_LINES,
    ) -> None:
        for name, size in (
            ("max_response_bytes", max_response_bytes),
            ("max_event_bytes", max_event_bytes),
            ("max_event_lines", max_event_lines),
        ):
            check_number(name, size, minimum=1, is_integer=True)
        _check_session(session, proxies, cert)
        self.timeouts = Timeouts.of(timeout)
        self._retries = Retries.of(retries)
        self._resolver = resolver
        self._max_bytes = max_response_bytes
        self._make_decoder = partial(
            EventDecoder,
            max_event_bytes=max_event_bytes,
            max_event_lines=max_event_lines,
        )
        is_plain = not proxies and verify is True and cert is None and trust_env
        if session is None and is_plain and resolver is None:
            self._settings = _plain_settings(allow_insecure)
            return
        if session is not None and (not is_plain or resolver is not None):
            raise ConfigurationError(
                "proxies, verify, cert and trust_env are settings of the session; set "
                "them there. A resolver works only without a session"
            )
        self._settings = TransportSettings(
            session
            or new_session(
                proxies=proxies, verify=verify, cert=cert, trust_env=trust_env
            ),
            is_private=session is None,
            # A pool of its own: another transport must not reuse a connection to an
            # address that only this resolver has chosen.
            adapter=None if resolver is None else CancellableAdapter(),
            allow_insecure=allow_insecure,
        )

    def stream(
        self,
        url: str,
        *,
        token: CancelToken | None = None,
        json: Any = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        auth: Auth = None,
        is_end: IsEnd | None = None,
        timeouts: Timeouts | None = None,
        on_phase: Callable[[str], object] | None = None,
        redactor: Redactor | None = None,
        explain: Explain | None = None,
        gate: AttemptGate | None = None,
    ) -> EventStream:
        """Post, and return the events of the response as they arrive.

        The request is sent when the first event is requested, and errors are raised
        from there on.

        Cancellation: ends at once, in any phase.

        :param url: the address.
        :param token: cancels the request.
        :param json: the body as an object,
        :param data: or as bytes.
        :param headers: sent beside those of the transport.
        :param auth: the credentials, as :mod:`requests` takes them.
        :param is_end: tells whether an event completes the response. Without it a
            response is complete where HTTP says that it ends, and never if the
            connection just closes.
        :param timeouts: used in place of the transport's own.
        :param on_phase: called with the name of each phase as it begins.
        :param redactor: learns the credentials of the request, for callers that quote
            the response in errors of their own.
        :param explain: returns the meaning of an error response, by its body: the same
            error, or one of another class. It decides whether the request is sent
            again.
        :param gate: passed by every attempt, such as that of a rate limiter.
        :raises Cancelled: *token* was cancelled.
        :raises StreamBroken: the response ended before it was complete.
        :raises TransportError: there was no response, or it took too long.
        :raises ProviderError: the response is an error.
        """
        call = self._call(
            url,
            token,
            _body(json, data),
            {**_STREAM_HEADERS, **(headers or {})},
            auth,
            timeouts,
            on_phase,
            redactor,
            explain,
            gate=gate,
        )
        return EventStream(call, is_end, self._make_decoder)

    def post(
        self,
        url: str,
        *,
        token: CancelToken | None = None,
        json: Any = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        auth: Auth = None,
        timeouts: Timeouts | None = None,
        on_phase: Callable[[str], object] | None = None,
        redactor: Redactor | None = None,
        explain: Explain | None = None,
        gate: AttemptGate | None = None,
    ) -> WholeResponse:
        """Post, and return the whole response.

        Cancellation: ends at once, in any phase.

        Parameters and errors are those of :meth:`stream`;
        :exc:`~syncagent.exceptions.StreamBroken` means that only a part arrived.
        """
        call = self._call(
            url,
            token,
            _body(json, data),
            {**_WHOLE_HEADERS, **(headers or {})},
            auth,
            timeouts,
            on_phase,
            redactor,
            explain,
            gate=gate,
        )
        for attempt in call.attempts():
            with attempt:
                response = attempt.send().read_whole()
                attempt.is_complete = True
        return response

    def open(
        self,
        method: str,
        url: str,
        *,
        token: CancelToken | None = None,
        json: Any = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        auth: Auth = None,
        timeouts: Timeouts | None = None,
        max_bytes: int | None = None,
        on_phase: Callable[[str], object] | None = None,
        redactor: Redactor | None = None,
    ) -> OpenedResponse:
        """Send a request once, and return its response as soon as that has begun.

        For protocols that have a meaning for each status, and whose responses may be
        either JSON or a stream of events. Nothing is sent again: neither after a
        failure, nor with other credentials after a status of 401. Redirects are
        refused.

        Cancellation: ends at once, in any phase, also while the response is read.

        :param method: ``GET``, ``POST``, ``PUT``, ``PATCH`` or ``DELETE``.
        :param headers: sent beside those of the transport, and in place of ``Accept``
            for JSON and events, ``Accept-Encoding: identity`` and, with a body,
            ``Content-Type: application/json``.
        :param max_bytes: the largest body for :meth:`OpenedResponse.read`, in place of
            the transport's own limit.

        The other parameters are those of :meth:`stream`.

        :raises Cancelled: *token* was cancelled.
        :raises RedirectRefused: the response points elsewhere.
        :raises TransportError: there was no response, or it took too long.
        :raises AuthenticationFailed: *auth* has no credentials; nothing was sent.
        """
        if method not in _METHODS:
            known = ", ".join(sorted(_METHODS))
            raise ConfigurationError(f"method must be one of {known}; got {method!r}")
        if max_bytes is not None:
            check_number("max_bytes", max_bytes, minimum=1, is_integer=True)
        content = _body(json, data)
        call = self._call(
            url,
            token,
            content,
            {**_EITHER_HEADERS, **(_JSON if content else {}), **(headers or {})},
            auth,
            timeouts,
            on_phase,
            redactor,
            method=method,
            sends_once=True,
            max_bytes=max_bytes,
        )
        return OpenedResponse(call, self._make_decoder)

    def _call(
        self,
        url: str,
        token: CancelToken | None,
        data: bytes,
        headers: Mapping[str, str],
        auth: Auth,
        timeouts: Timeouts | None,
        on_phase: Callable[[str], object] | None,
        redactor: Redactor | None,
        explain: Explain | None = None,
        *,
        method: str = "POST",
        sends_once: bool = False,
        max_bytes: int | None = None,
        gate: AttemptGate | None = None,
    ) -> RetriedRequest:
        if not isinstance(url, str):
            raise TypeError(f"url must be a str, got {url!r}")
        if token is not None and not isinstance(token, CancelToken):
            raise TypeError(f"token must be a CancelToken, got {token!r}")
        if not (auth is None or callable(auth) or isinstance(auth, tuple)):
            raise TypeError(
                "auth takes a pair of name and password, or a callable that adds the "
                "credentials to the request, as in requests"
            )
        return RetriedRequest(
            url,
            partial(self._settings.prepare, method, url, data, headers, auth),
            self._settings.adapter_for(url),
            CancelToken() if token is None else token,
            timeouts=timeouts or self.timeouts,
            retries=_ONCE if sends_once else self._retries,
            resolver=self._resolver,
            max_bytes=max_bytes or self._max_bytes,
            on_phase=on_phase,
            redactor=redactor,
            explain=explain,
            renews=not sends_once,
            gate=gate,
        )


def _body(json: Any, data: bytes | None) -> bytes:
    if data is None:
        return b"" if json is None else msgspec.json.encode(json)
    if json is not None:
        raise TypeError("pass json or data, not both")
    if not isinstance(data, bytes):  # a file could not be sent again by a retry
        raise TypeError(f"data must be bytes, got {type(data).__name__}")
    return data


def _check_session(session: Any, proxies: Any, cert: Any) -> None:
    """Refuse arguments of a wrong type now, where the message can name them."""
    if not (session is None or isinstance(session, requests.Session)):
        raise TypeError(f"session must be a requests.Session, got {session!r}")
    if not (proxies is None or isinstance(proxies, Mapping)):
        raise TypeError(f"proxies must map schemes to addresses, got {proxies!r}")
    is_pair = isinstance(cert, tuple) and len(cert) == 2
    if not (cert is None or isinstance(cert, str) or is_pair):
        raise TypeError(f"cert must be a path, or a pair of paths, got {cert!r}")


@cache
def _plain_settings(allow_insecure: bool) -> TransportSettings:
    """Return the shared settings of all transports with default settings."""
    return TransportSettings(
        new_session(), is_private=True, allow_insecure=allow_insecure
    )
