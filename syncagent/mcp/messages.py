"""JSON-RPC messages: values to bytes, and bytes of any server to values.

Reading is tolerant: unknown fields, odd ids, arrays of messages and bytes that are not
UTF-8 are not a reason to lose a connection. Writing is strict.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = [
    "CANCELLED",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "MAX_MESSAGE_BYTES",
    "METHOD_NOT_FOUND",
    "Message",
    "RPCError",
    "RequestId",
    "decode",
    "encode_error",
    "encode_notification",
    "encode_request",
    "encode_result",
    "is_id",
    "rpc_error_of",
]

#: An id of a request. The two sides number theirs independently.
RequestId = int | str

#: The largest message, in bytes.
MAX_MESSAGE_BYTES: Final = 32 * 1024 * 1024

INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

#: The notification that takes a request back.
CANCELLED: Final = "notifications/cancelled"


class RPCError(msgspec.Struct, frozen=True):
    """The error object of a response."""

    code: int = INTERNAL_ERROR
    message: str = ""
    data: Any = None


class Message(msgspec.Struct, frozen=True):
    """A message from the other side, of any kind and quality.

    The method decides first: ids of the two sides may be equal.
    """

    id: Any = None
    method: Any = None
    params: Any = None
    result: Any = msgspec.UNSET
    error: Any = None

    @property
    def is_request(self) -> bool:
        """True if the other side waits for a response."""
        return isinstance(self.method, str) and is_id(self.id)

    @property
    def is_notification(self) -> bool:
        """True if it has a method and no usable id."""
        return isinstance(self.method, str) and not is_id(self.id)

    @property
    def is_response(self) -> bool:
        """True if it answers a request, with a result or an error."""
        has_outcome = self.result is not msgspec.UNSET or self.error is not None
        return self.method is None and has_outcome

    @property
    def arguments(self) -> dict[str, Any]:
        """The parameters, empty if there are none."""
        return self.params if isinstance(self.params, dict) else {}


_decoder: Final = msgspec.json.Decoder(Message | list[Message])
_encoder: Final = msgspec.json.Encoder()


def is_id(value: object) -> bool:
    """True if *value* can be the id of a request."""
    return isinstance(value, (int, str)) and not isinstance(value, bool)


def decode(data: bytes | str) -> list[Message]:
    """Return the messages in *data*: usually one, several in a batch.

    :raises ValueError: it is not a message.
    """
    try:
        found = _decoder.decode(data)
    except RecursionError:
        raise ValueError("the message is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if isinstance(data, str) or not _has_bad_text(data):
            raise ValueError(str(error)) from None
        return decode(data.decode("utf-8", "replace"))
    return found if isinstance(found, list) else [found]


def _has_bad_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    return False


def rpc_error_of(value: Any) -> RPCError:
    """Return the error of a response, whatever the server has put there."""
    if not isinstance(value, dict):
        return RPCError(message=str(value))
    code, message = value.get("code"), value.get("message")
    is_number = isinstance(code, int) and not isinstance(code, bool)
    return RPCError(
        code if is_number and code is not None else INTERNAL_ERROR,
        message if isinstance(message, str) else "",
        value.get("data"),
    )


def encode_request(request_id: RequestId, method: str, params: Any) -> bytes:
    """Encode a request; there is no newline in it."""
    return _encoder.encode(
        {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    )


def encode_notification(method: str, params: Any = None) -> bytes:
    """Encode a notification."""
    message = {"jsonrpc": "2.0", "method": method}
    return _encoder.encode(message if params is None else {**message, "params": params})


def encode_result(request_id: RequestId, result: Any) -> bytes:
    """Encode the result of a request of the other side."""
    return _encoder.encode({"jsonrpc": "2.0", "id": request_id, "result": result})


def encode_error(request_id: RequestId | None, error: RPCError) -> bytes:
    """Encode an error as the response to a request of the other side."""
    body: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return _encoder.encode({"jsonrpc": "2.0", "id": request_id, "error": body})
