"""The first words on a connection, in both eras of the protocol."""

from __future__ import annotations

from typing import Any, Final

from ..__version__ import __version__
from ..exceptions import MCPProtocolError
from .connection import ConnectionOwner, MCPSession, ServerInfo
from .messages import RPCError

__all__ = [
    "DISCOVER",
    "INITIALIZE",
    "INITIALIZED",
    "LEGACY_VERSIONS",
    "MODERN_VERSION",
    "UNSUPPORTED_VERSION",
    "common_version",
    "discover_params",
    "discovered_session",
    "initialize_params",
    "initialized_session",
    "with_envelope",
]

#: The revision without handshake and sessions.
MODERN_VERSION: Final = "2026-07-28"
#: The older revisions, the newest first. The first one is offered.
LEGACY_VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

DISCOVER: Final = "server/discover"
INITIALIZE: Final = "initialize"
INITIALIZED: Final = "notifications/initialized"

#: The error of a server that does not speak the version of a request.
UNSUPPORTED_VERSION: Final = -32022

_CLIENT_INFO: Final = {"name": "syncagent", "version": __version__}
_PREFIX: Final = "io.modelcontextprotocol/"


def with_envelope(
    params: dict[str, Any], owner: ConnectionOwner, version: str = MODERN_VERSION
) -> dict[str, Any]:
    """Return *params* with the envelope that every modern request carries."""
    capabilities = dict(owner.client_capabilities)
    if "roots" in capabilities:  # a modern client announces no change of them
        capabilities["roots"] = {}
    envelope = {
        f"{_PREFIX}protocolVersion": version,
        f"{_PREFIX}clientCapabilities": capabilities,
        f"{_PREFIX}clientInfo": _CLIENT_INFO,
    }
    return {**params, "_meta": {**params.get("_meta", {}), **envelope}}


def discover_params(
    owner: ConnectionOwner, version: str = MODERN_VERSION
) -> dict[str, Any]:
    """Return the parameters of ``server/discover``."""
    return with_envelope({}, owner, version)


def discovered_session(result: Any) -> MCPSession | None:
    """Return the session that ``server/discover`` tells of, if it is usable."""
    if not isinstance(result, dict):
        return None
    versions = result.get("supportedVersions")
    if not isinstance(versions, list) or MODERN_VERSION not in versions:
        return None
    meta = result.get("_meta")
    info = meta.get(f"{_PREFIX}serverInfo") if isinstance(meta, dict) else None
    return _session("modern", MODERN_VERSION, result, info)


def common_version(error: RPCError) -> bool:
    """True if the server refused a version but speaks a modern one that we speak."""
    if error.code != UNSUPPORTED_VERSION or not isinstance(error.data, dict):
        return False
    supported = error.data.get("supported")
    return isinstance(supported, list) and MODERN_VERSION in supported


def initialize_params(owner: ConnectionOwner) -> dict[str, Any]:
    """Return the parameters of ``initialize``."""
    return {
        "protocolVersion": LEGACY_VERSIONS[0],
        "capabilities": owner.client_capabilities,
        "clientInfo": _CLIENT_INFO,
    }


def initialized_session(result: Any, owner: ConnectionOwner) -> MCPSession:
    """Return the session that a handshake has made.

    :raises MCPProtocolError: the result makes no sense, or no common version exists.
    """
    version = result.get("protocolVersion") if isinstance(result, dict) else None
    if version not in LEGACY_VERSIONS:
        known = ", ".join((MODERN_VERSION, *LEGACY_VERSIONS))
        raise MCPProtocolError(
            f"{owner.name}: the server answered the handshake with version "
            f"{version!r:.40}; this client speaks {known}. Update one of the two",
            server=owner.name,
        )
    return _session("legacy", version, result, result.get("serverInfo"))


def _session(era: Any, version: str, result: dict[str, Any], info: Any) -> MCPSession:
    capabilities, text = result.get("capabilities"), result.get("instructions")
    info = info if isinstance(info, dict) else {}
    names = {
        name: value
        for name in ServerInfo.__struct_fields__
        if isinstance(value := info.get(name), str)
    }
    return MCPSession(
        era,
        version,
        capabilities if isinstance(capabilities, dict) else {},
        ServerInfo(**names),
        text if isinstance(text, str) else "",
    )
