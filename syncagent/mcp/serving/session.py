"""The messages of one client on pipes, in both eras.

Requests say their era themselves: a handshake is only needed by requests that have no
envelope. A modern request is never answered with a question in between.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from ...cancel import CancelToken, Mailbox
from ...exceptions import ToolError
from ..handshake import INITIALIZE
from ..messages import (
    CANCELLED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Message,
    RequestId,
    RPCError,
    decode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    is_id,
    rpc_error_of,
)
from .pipes import MAX_MESSAGE
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

if TYPE_CHECKING:
    from .service import MCPService

__all__ = ["PipeSession", "SendMessage"]

_log = logging.getLogger("syncagent.mcp")

#: Characters of the reason of a cancel.
_LONGEST: Final = 1000


class SendMessage(Protocol):
    """Leaves a message for the client; any thread may call it, and it never blocks."""

    def __call__(self, data: bytes, *, may_drop: bool = False) -> None: ...


class PipeSession:
    """Takes the messages of one client, on the thread that reads them. Never blocks.

    :param calls: the calls of this client.
    :param send: leaves a message for the client.
    """

    def __init__(
        self, service: MCPService, calls: RunningCalls, send: SendMessage
    ) -> None:
        self._service = service
        self._calls = calls
        self._send = send
        #: By the ids of their requests, until they are answered or cancelled.
        self._by_id: dict[RequestId, RunningCall] = {}
        self._client = _PipeClient(send)
        #: The capabilities of a legacy client, once it has introduced itself.
        self._legacy: Mapping[str, Any] | None = None

    def receive(self, line: bytes | None) -> None:
        """Take a line from the client; ``None`` for one that was too long."""
        try:
            messages = [] if line is None else decode(line)
        except ValueError as error:
            self._send(encode_error(None, RPCError(PARSE_ERROR, str(error)[:200])))
            return
        if line is None:
            what = f"a message has more than {MAX_MESSAGE} bytes"
            self._send(encode_error(None, RPCError(INVALID_REQUEST, what)))
        for message in messages:
            try:
                self._take(message)
            except RequestRefused as refused:
                self._send(encode_error(message.id, refused.error))
            except Exception:  # a defect of ours must not end the other calls
                _log.exception("a message of a client failed")
                if message.is_request:
                    failed = RPCError(INTERNAL_ERROR, "the request failed")
                    self._send(encode_error(message.id, failed))

    def _take(self, message: Message) -> None:
        if message.is_request:
            request = self._request_of(message)
            if request.method == "tools/call":
                self._start(request)
                return
            result = self._service.answer(request)
            if request.method == INITIALIZE:
                capabilities = request.params.get("capabilities")
                self._legacy = capabilities if isinstance(capabilities, dict) else {}
            self._send(encode_result(request.id, result))
        elif message.is_notification:
            if message.method == CANCELLED:
                self._cancel(message.arguments)
        elif message.is_response:
            self._client.answered(message)
        elif is_id(message.id):
            raise RequestRefused(INVALID_REQUEST, "a request needs a method")

    def _request_of(self, message: Message) -> ClientRequest:
        params = message.arguments
        version = requested_version(params)
        is_handshake = message.method in (INITIALIZE, "ping")
        if version is not None or (self._legacy is None and not is_handshake):
            request = client_request(message.id, message.method, params)
            check_version(version, has_legacy=True)
            return request
        return ClientRequest(
            id=message.id,
            method=message.method,
            params=params,
            era="legacy",
            capabilities=self._legacy or {},
        )

    def _start(self, request: ClientRequest) -> None:
        self._service.find_tool(request)
        if request.id in self._by_id:
            raise RequestRefused(INVALID_REQUEST, "a request with this id runs")
        is_legacy = request.era == "legacy"
        client = self._client if is_legacy else _ModernPipeClient(self._send)

        def when_done(call: RunningCall, data: bytes) -> None:
            self._send(data)  # first: a client may use the id again once it has this
            self._forget(call)

        call = self._calls.start(request, client, when_done)
        self._by_id[request.id] = call
        if not call.is_open:  # it was faster
            self._forget(call)

    def _forget(self, call: RunningCall) -> None:
        if self._by_id.get(call.request.id) is call:
            self._by_id.pop(call.request.id, None)

    def _cancel(self, params: Mapping[str, Any]) -> None:
        request_id, reason = params.get("requestId"), params.get("reason")
        if request_id is None or not is_id(request_id):
            return
        call = self._by_id.pop(request_id, None)
        if call is not None:
            text = reason if isinstance(reason, str) else "cancelled by the client"
            call.cancel(text[:_LONGEST])


class _PipeClient(ServedClient):
    """A legacy client on pipes, which answers questions in between.

    :param send: leaves bytes for the loop.
    """

    can_wait_for_answers = True

    def __init__(self, send: SendMessage) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._questions: dict[RequestId, Mailbox[Message]] = {}

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self._send(encode_notification(method, params), may_drop=True)

    def ask(self, method: str, params: dict[str, Any], token: CancelToken) -> Any:
        question_id = f"syncagent-{next(self._numbers)}"
        mailbox: Mailbox[Message] = Mailbox()
        self._questions[question_id] = mailbox
        try:
            self._send(encode_request(question_id, method, params))
            response = mailbox.get(token)
        finally:
            self._questions.pop(question_id, None)
        if response is None:
            self._send(encode_notification(CANCELLED, {"requestId": question_id}))
            token.checkpoint()
            raise ToolError("the client did not answer in time")
        if response.error is not None:
            error = rpc_error_of(response.error)
            raise ToolError(f"the client refused to ask its user: {error.message:.200}")
        return response.result

    def answered(self, message: Message) -> None:
        """Take the response to a question; late and unknown ones are dropped."""
        mailbox = self._questions.get(message.id) if is_id(message.id) else None
        if mailbox is not None:
            mailbox.put(message)


class _ModernPipeClient(_PipeClient):
    """A modern client on pipes: it is never sent a request."""

    can_wait_for_answers = False
