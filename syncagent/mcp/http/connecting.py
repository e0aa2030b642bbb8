"""Finding out which dialect a server over HTTP speaks."""

from __future__ import annotations

import logging
from typing import Final

from ...cancel import CancelToken
from ...exceptions import (
    MCPError,
    MCPProtocolError,
    MCPRequestFailed,
    MCPServerLost,
    MCPTimedOut,
)
from ..connection import Caller, ConnectionOwner, MCPConnection
from ..handshake import LEGACY_VERSIONS, UNSUPPORTED_VERSION, common_version
from ..messages import RPCError
from .headers import HEADER_MISMATCH
from .legacy import LegacyConnection
from .modern import ModernConnection
from .settings import HTTPSettings
from .two_endpoints import TwoEndpointsConnection

__all__ = ["connect_http"]

_log = logging.getLogger("syncagent.mcp")

#: Seconds for the first look at a server that may not know the question.
_LOOK: Final = 10.0
#: The error of a modern server that misses a capability of the client.
_MISSING_CAPABILITY: Final = -32021
#: The statuses with which servers of the oldest kind answer a handshake.
_OLDEST: Final = frozenset({400, 404, 405})


def connect_http(
    settings: HTTPSettings, owner: ConnectionOwner, token: CancelToken
) -> MCPConnection:
    """Find out what a server speaks, and connect to it.

    Cancellation: ends at once.

    :raises MCPServerLost: it cannot be reached.
    :raises MCPTimedOut: it did not answer in time.
    :raises MCPAuthRequired: it wants a login, and there is no one to log in.
    :raises MCPProtocolError: it speaks no version that we speak.
    """
    token.checkpoint()
    if settings.kind == "sse":
        return _connected_oldest(settings, owner, token)
    if settings.era == "legacy":
        return _connected_legacy(settings, owner, token)
    if settings.era == "modern":
        return _connected_modern(settings, owner, token, settings.start_timeout)
    limit = min(_LOOK, settings.start_timeout / 2)
    try:
        return _connected_modern(settings, owner, token, limit)
    except MCPError as error:
        if not _may_be_legacy(error):
            raise
        _log.debug("%s does not speak the modern dialect: %s", owner.name, error)
    return _connected_legacy(settings, owner, token)


def _connected_modern(
    settings: HTTPSettings, owner: ConnectionOwner, token: CancelToken, limit: float
) -> ModernConnection:
    connection = ModernConnection(settings, owner)
    caller = Caller(token=token, total=limit)
    try:
        try:
            session = connection.discover(caller)
        except MCPRequestFailed as error:
            if not common_version(RPCError(error.code, "", error.data)):
                raise
            session = connection.discover(caller)  # the server should know its mind
        if session is None:
            raise MCPProtocolError(
                f"{owner.name} does not speak the modern dialect of MCP; use "
                "era='auto' or 'legacy'",
                server=owner.name,
            )
    except BaseException:
        connection.close(grace=0.0)
        raise
    return connection


def _may_be_legacy(error: MCPError) -> bool:
    """Tell whether a server that answered the first look like that may be legacy."""
    if isinstance(error, MCPServerLost):
        return error.started  # else nothing answers at all
    if not isinstance(error, MCPRequestFailed):
        return isinstance(error, (MCPProtocolError, MCPTimedOut))
    if error.code in (HEADER_MISMATCH, _MISSING_CAPABILITY):
        return False
    if error.code != UNSUPPORTED_VERSION or not isinstance(error.data, dict):
        return True
    supported = error.data.get("supported")
    if not isinstance(supported, list):
        return True
    return any(version in LEGACY_VERSIONS for version in supported)


def _connected_legacy(
    settings: HTTPSettings, owner: ConnectionOwner, token: CancelToken
) -> MCPConnection:
    connection = LegacyConnection(settings, owner)
    try:
        connection.connect(token)
    except MCPError as error:
        connection.close(grace=0.0)
        failure = error
    except BaseException:
        connection.close(grace=0.0)
        raise
    else:
        return connection
    is_modern = isinstance(failure, MCPRequestFailed) and common_version(
        RPCError(failure.code, "", failure.data)
    )
    if is_modern and settings.era == "auto":
        return _connected_modern(settings, owner, token, settings.start_timeout)
    if settings.kind == "auto" and connection.refused_status in _OLDEST:
        try:
            return _connected_oldest(settings, owner, token)
        except MCPError as error:
            _log.debug("%s does not speak HTTP+SSE either: %s", owner.name, error)
    raise failure


def _connected_oldest(
    settings: HTTPSettings, owner: ConnectionOwner, token: CancelToken
) -> TwoEndpointsConnection:
    connection = TwoEndpointsConnection(settings, owner)
    try:
        connection.connect(token)
    except BaseException:
        connection.close(grace=0.0)
        raise
    return connection
