"""Requests over HTTP, without a framework: checks, and calls whose events wait here.

Only the modern era: every request stands alone, and there is no session. A client that
closes the connection has cancelled its call.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from ...cancel import CancelToken, Watch, clock
from ...exceptions import Origin
from ..messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    RequestId,
    RPCError,
    decode,
    encode_error,
    encode_notification,
)
from .published import ParameterHeader
from .requests import (
    PARSE_ERROR,
    ClientRequest,
    RequestRefused,
    ServedClient,
    check_version,
    client_request,
    requested_version,
)
from .running import RunningCall, RunningCalls

__all__ = [
    "HEADER_MISMATCH",
    "StreamedCall",
    "check_headers",
    "id_of",
    "read_request",
]

#: The error for a header that says something else than the body.
HEADER_MISMATCH: Final = -32020

#: The parameter that the header ``Mcp-Name`` repeats.
_NAMES: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_BASE64: Final = ("=?base64?", "?=")
#: Notifications that wait for a slow connection; later ones are dropped.
_MAX_WAITING: Final = 256


# -- requests --------------------------------------------------------------------------


def id_of(body: bytes) -> RequestId | None:
    """Return the id of the request in a body, for errors about it."""
    try:
        messages = decode(body)
    except ValueError:
        return None
    is_one = len(messages) == 1 and messages[0].is_request and not _is_array(body)
    return messages[0].id if is_one else None


def _is_array(body: bytes) -> bool:
    return body.lstrip()[:1] == b"["


def read_request(headers: Mapping[str, str], body: bytes) -> ClientRequest | None:
    """Return the request of a POST; ``None`` for a notification.

    :param headers: by their names in lower case.
    :raises RequestRefused: it cannot be answered.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestRefused(
            INVALID_REQUEST, "the body must be of type application/json", status=415
        )
    accepted = headers.get("accept", "")
    for wanted in ("application/json", "text/event-stream"):
        if wanted not in accepted and "*/*" not in accepted:
            raise RequestRefused(
                INVALID_REQUEST, f"Accept must have {wanted}", status=406
            )
    try:
        messages = decode(body)
    except ValueError as error:
        raise RequestRefused(PARSE_ERROR, str(error)[:200]) from None
    message = messages[0] if len(messages) == 1 else None
    if message is None or _is_array(body):
        raise RequestRefused(INVALID_REQUEST, "a body must have one message")
    if message.is_notification:
        return None
    if not message.is_request:
        raise RequestRefused(INVALID_REQUEST, "a body must have a request")
    request = client_request(message.id, message.method, message.arguments)
    _check_standard_headers(request, headers)
    check_version(requested_version(request.params), has_legacy=False)
    return request


def _check_standard_headers(request: ClientRequest, headers: Mapping[str, str]) -> None:
    expected = {
        "MCP-Protocol-Version": requested_version(request.params),
        "Mcp-Method": request.method,
    }
    name = request.params.get(_NAMES.get(request.method, ""))
    if isinstance(name, str):
        expected["Mcp-Name"] = name
    for header, value in expected.items():
        _check_header(header, headers.get(header.lower()), value)


def check_headers(
    parameters: tuple[ParameterHeader, ...],
    request: ClientRequest,
    headers: Mapping[str, str],
) -> None:
    """Check the headers that repeat arguments of a call.

    :raises RequestRefused: a header is missing, or says something else.
    """
    for parameter in parameters:
        value: Any = request.params.get("arguments")
        for name in parameter.path:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, bool):
            value = "true" if value else "false"
        expected = None if value is None else str(value)
        _check_header(parameter.header, headers.get(parameter.header), expected)


def _check_header(header: str, found: str | None, expected: str | None) -> None:
    value, (begin, end) = found, _BASE64
    if value is not None:
        value = value.strip(" \t")
        if value.startswith(begin) and value.endswith(end):
            try:
                encoded = value[len(begin) : -len(end)].encode()
                value = base64.b64decode(encoded, validate=True).decode()
            except ValueError:  # not base64, or not UTF-8
                value = None
    if value != expected or (value is None) != (found is None):
        raise RequestRefused(
            HEADER_MISMATCH,
            f"the header {header} must be {expected!r:.80}, as in the body; it is "
            f"{found!r:.80}",
        )


# -- calls -----------------------------------------------------------------------------


class StreamedCall(ServedClient):
    """A call over HTTP: its events wait here for the connection.

    :raises RequestRefused: too many calls run, or it cannot be a call.
    """

    def __init__(self, calls: RunningCalls, request: ClientRequest) -> None:
        self.request: Final = request
        #: Notified of every event.
        self.watch: Final = Watch()
        self._waiting: deque[bytes] = deque()
        self._response: bytes | None = None
        self._has_events = False
        self._running: RunningCall = calls.start(request, self, self._done, self.watch)

    @property
    def status(self) -> int:
        """The HTTP status for its response."""
        return self._running.status

    def notify(self, method: str, params: dict[str, Any]) -> None:
        if len(self._waiting) < _MAX_WAITING:
            self._waiting.append(encode_notification(method, params))
            self._has_events = True
            self.watch.wake()

    def _done(self, call: RunningCall, data: bytes) -> None:
        self._response = data
        self.watch.wake()

    def cancel(self, reason: str, origin: Origin) -> None:
        """End the call. Never blocks."""
        self._running.cancel(reason, origin)

    @property
    def is_over(self) -> bool:
        """True if there is a response, or will be none."""
        return self._response is not None or self._running.is_cancelled

    def response(self) -> bytes:
        """Return the response of a call that is over."""
        if self._response is not None:
            return self._response
        error = RPCError(INTERNAL_ERROR, "the call was cancelled")
        return encode_error(self.request.id, error)

    def take(self) -> list[bytes]:
        """Return the notifications that wait."""
        count = len(self._waiting)
        return [self._waiting.popleft() for _ in range(count)]

    def wait(self, seconds: float) -> bool:
        """Wait for an event; false if there is none.

        Cancellation: it waits at most *seconds*.
        """
        until = clock.now() + seconds
        return self.watch.wait(
            lambda: bool(self._waiting) or self.is_over, CancelToken(), until
        )

    def ends_soon(self, seconds: float) -> bool:
        """True if it ends in time, and has sent nothing but its response.

        Cancellation: it waits at most *seconds*.
        """
        self.wait(seconds)
        return self.is_over and not self._has_events
