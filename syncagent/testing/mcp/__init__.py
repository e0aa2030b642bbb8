"""A fake MCP server for tests: both eras, all transports, every kind of trouble.

From the inside out: ``journal`` (what came), ``rules`` (what is wrong with it),
``relay`` and ``pipes`` (stdio), ``streams`` (HTTP responses), ``exchange`` (one request
in the hands of a script), ``scripts``, ``sessions``, ``catalogue`` (usual answers),
``rounds`` (modern questions), ``protocol``, ``front`` (HTTP), ``server``.
"""

from .exchange import NO_ID, ClientRefused, MCPExchange
from .journal import ReceivedMessage, SeenExchange
from .pipes import FakeProcess
from .server import FakeMCPServer
from .sessions import FakeSession
from .streams import HTTPAnswer

__all__ = [
    "ClientRefused",
    "FakeMCPServer",
    "FakeProcess",
    "FakeSession",
    "HTTPAnswer",
    "MCPExchange",
    "NO_ID",
    "ReceivedMessage",
    "SeenExchange",
]
