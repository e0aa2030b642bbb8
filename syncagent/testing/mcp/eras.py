"""The rules of the two eras: which one a request belongs to, and what it needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NoReturn

from .catalogue import FakeCatalogue, FakeMethodFailed
from .exchange import MCPExchange
from .journal import Journal
from .rules import (
    LEGACY_VERSIONS,
    META,
    MODERN_VERSION,
    find_modern_mistake,
    is_modern,
)

__all__ = ["Era", "Eras"]

Era = Literal["legacy", "modern", "both"]


class Eras:
    """Finds the era of each request, and applies its rules.

    A session on stdio is pinned to the era of its first request, but for the probe
    ``server/discover``.
    """

    def __init__(self, server: Any, journal: Journal, catalogue: FakeCatalogue) -> None:
        self._server = server
        self._journal = journal
        self._catalogue = catalogue

    def settle(self, exchange: MCPExchange) -> None:
        """Find the era of a request, and apply its rules.

        :raises FakeMethodFailed: the request breaks them.
        """
        session, received = exchange.session, exchange.received
        claims_modern = is_modern(received)
        exchange.era = "modern" if claims_modern else "legacy"
        if claims_modern and self._server.era == "legacy":
            exchange.era = "legacy"
            if exchange.method != "server/discover":
                exchange.complain("a modern request to a legacy server")
            raise _no_modern(exchange)
        if not claims_modern and self._server.era == "modern":
            exchange.era = "modern"
            if exchange.method == "initialize":
                self._refuse_version(exchange.params.get("protocolVersion"))
        is_probe = exchange.method == "server/discover" and self._server.era == "both"
        if session.era is None and not is_probe:
            session.era = exchange.era
        if session.era not in (None, exchange.era):
            exchange.era = "legacy" if exchange.era == "modern" else "modern"
            if is_probe:
                raise FakeMethodFailed(-32601, "Method not found: server/discover")
            exchange.complain(f"the session is {session.era}")
            raise FakeMethodFailed(-32600, f"the session is {session.era}")
        if exchange.era == "modern":
            self.check_modern(exchange)
        else:
            self.check_legacy(exchange)

    def check_modern(self, exchange: MCPExchange) -> None:
        """Check the envelope, the headers and the version."""
        mistake = find_modern_mistake(exchange.received, self._catalogue.tools)
        if mistake is not None:
            self._journal.complain(mistake[1])
            raise FakeMethodFailed(*mistake)
        meta = exchange.params["_meta"]
        exchange.session.capabilities = meta[f"{META}clientCapabilities"]
        if meta[f"{META}protocolVersion"] != MODERN_VERSION:
            self._refuse_version(meta[f"{META}protocolVersion"])

    def _refuse_version(self, requested: Any) -> NoReturn:
        data = {"supported": [MODERN_VERSION], "requested": requested}
        raise FakeMethodFailed(-32022, "Unsupported protocol version", data)

    def check_legacy(self, exchange: MCPExchange) -> None:
        """Check that the handshake is over."""
        session, method = exchange.session, exchange.method
        if method == "initialize":
            return self.check_initialize(exchange)
        if session.is_stateless or method == "ping":
            return None
        if not session.version:
            exchange.complain("came before initialize")
            raise FakeMethodFailed(-32600, "Received request before initialization")
        if not session.is_initialized:
            exchange.complain("came before notifications/initialized")
        return None

    def check_initialize(self, exchange: MCPExchange) -> None:
        """Check the handshake, and agree on a version."""
        session, params = exchange.session, exchange.params
        if session.version and not session.is_stateless:
            exchange.complain("the session is initialized already")
        for name in ("protocolVersion", "capabilities", "clientInfo"):
            if name not in params:
                exchange.complain(f"has no {name}")
        if f"{META}protocolVersion" in exchange.meta:
            exchange.complain("has the _meta of a modern request")
        session.capabilities = params.get("capabilities") or {}
        requested = str(params.get("protocolVersion"))
        versions: Sequence[str] = self._server.versions
        session.version = requested if requested in versions else versions[0]
        if requested not in LEGACY_VERSIONS:
            exchange.complain(f"no legacy version: {requested!r}")


def _no_modern(exchange: MCPExchange) -> FakeMethodFailed:
    """Return the answer of legacy servers to a modern request, as measured."""
    if exchange.session.transport == "stdio":
        return FakeMethodFailed(-32601, f"Method not found: {exchange.method}")
    text = "Bad Request: Server not initialized"
    return FakeMethodFailed(-32000, text, status=400)
