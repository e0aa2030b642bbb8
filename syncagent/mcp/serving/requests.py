"""Requests of a client: their era, their envelope, and the errors that refuse them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ...cancel import CancelToken
from ..connection import Era
from ..handshake import LEGACY_VERSIONS, MODERN_VERSION, UNSUPPORTED_VERSION
from ..messages import INVALID_PARAMS, RequestId, RPCError, is_id

__all__ = [
    "ClientRequest",
    "PARSE_ERROR",
    "RequestRefused",
    "ServedClient",
    "TOO_MANY_CALLS",
    "check_version",
    "client_request",
    "requested_version",
]

#: The error for bytes that are no message.
PARSE_ERROR: Final = -32700
#: The error for a call beyond the limit.
TOO_MANY_CALLS: Final = -32000

_PREFIX: Final = "io.modelcontextprotocol/"
_VERSION: Final = f"{_PREFIX}protocolVersion"
_CAPABILITIES: Final = f"{_PREFIX}clientCapabilities"


class RequestRefused(Exception):
    """A request is answered with an error.

    :param code: the JSON-RPC code.
    :param status: the HTTP status.
    """

    def __init__(
        self, code: int, message: str, data: Any = None, *, status: int = 400
    ) -> None:
        super().__init__(code, message, data)
        self.error = RPCError(code, message, data)
        self.status = status


class ClientRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a client, checked so far that it can be answered."""

    id: RequestId
    method: str
    params: dict[str, Any]
    era: Era
    #: The capabilities that the client has declared.
    capabilities: Mapping[str, Any] = {}

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a call.

        :raises RequestRefused: they are not an object.
        """
        arguments = self.params.get("arguments")
        if not isinstance(arguments, (dict, type(None))):
            raise RequestRefused(INVALID_PARAMS, "arguments must be an object")
        return arguments or {}

    @property
    def progress_token(self) -> RequestId | None:
        """The token for progress reports, if the client wants them."""
        meta = self.params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        return token if is_id(token) else None

    @property
    def can_elicit(self) -> bool:
        """True if the client shows forms to its user."""
        declared = self.capabilities.get("elicitation")
        # An empty object stands for forms; a client may have URLs alone.
        return isinstance(declared, dict) and (not declared or "form" in declared)


class ServedClient:
    """The client behind a call, as its transport reaches it."""

    #: True if a call can wait here for an answer of the client's user.
    can_wait_for_answers = False

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification soon, or drop it if the client is slow. Never blocks."""
        raise NotImplementedError

    def ask(self, method: str, params: dict[str, Any], token: CancelToken) -> Any:
        """Send a request to the client, and return its result.

        Cancellation: ends at once, and notifies the client.

        :raises ToolError: the client answers with an error.
        """
        raise NotImplementedError


def requested_version(params: Mapping[str, Any]) -> str | None:
    """Return the version in the envelope of a request; legacy requests have none."""
    meta = params.get("_meta")
    version = meta.get(_VERSION) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None


def client_request(
    request_id: RequestId, method: str, params: Mapping[str, Any]
) -> ClientRequest:
    """Return a modern request.

    The version is not checked yet: over HTTP its header comes first.

    :raises RequestRefused: it has no envelope.
    """
    meta = params.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    capabilities = meta.get(_CAPABILITIES)
    if not isinstance(meta.get(_VERSION), str) or not isinstance(capabilities, dict):
        raise RequestRefused(
            INVALID_PARAMS,
            f"_meta must have {_VERSION} and {_CAPABILITIES} in every request",
        )
    return ClientRequest(
        id=request_id,
        method=method,
        params=dict(params),
        era="modern",
        capabilities=capabilities,
    )


def check_version(version: str | None, *, has_legacy: bool) -> None:
    """Refuse a version that is not spoken here.

    :param has_legacy: true if the transport has the handshake, too.
    :raises RequestRefused: it is another one.
    """
    if version == MODERN_VERSION:
        return
    supported = [MODERN_VERSION, *(LEGACY_VERSIONS if has_legacy else ())]
    raise RequestRefused(
        UNSUPPORTED_VERSION,
        f"this server speaks {', '.join(supported)}",
        {"supported": supported, "requested": version},
    )
