"""MCP servers over HTTP, in four dialects.

From the inside out:

=======================  =============================================================
:mod:`~.settings`        the address of a server, and how to talk to it
:mod:`~.headers`         the headers of modern requests
:mod:`~.wire`            one HTTP request: credentials, and the meaning of failures
:mod:`~.calls`           one request of MCP: its POST, and the response
:mod:`~.outbox`          messages that no caller waits for
:mod:`~.standing`        a stream that stays open
:mod:`~.base`            the part that all connections share
:mod:`~.modern`          2026-07-28: every request stands alone
:mod:`~.legacy`          2025-03-26 to 2025-11-25: handshakes and sessions
:mod:`~.two_endpoints`   2024-11-05: HTTP+SSE
:mod:`~.connecting`      which of them a server speaks
=======================  =============================================================
"""

from .connecting import connect_http
from .headers import HEADER_MISMATCH, header_parameters
from .settings import HTTPKind, HTTPSettings

__all__ = [
    "HEADER_MISMATCH",
    "HTTPKind",
    "HTTPSettings",
    "connect_http",
    "header_parameters",
]
