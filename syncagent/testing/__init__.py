"""Fakes and checks that syncagent's own tests use, for your tests too."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .clock import FakeClock
from .gate import Gate
from .leaks import no_leaks

if TYPE_CHECKING:
    from .accepted import complaints
    from .fake_server import FakeServer
    from .mcp import NO_ID, ClientRefused, FakeMCPServer, MCPExchange
    from .script import (
        Broken,
        Comment,
        Delay,
        Drop,
        ScriptedResponse,
        Send,
        Split,
        Stall,
        Status,
        call,
        say,
    )
    from .scripted_model import ScriptedModel
    from .sweep import Point, Sweep, cancel_everywhere

__all__ = [
    "Broken",
    "ClientRefused",
    "Comment",
    "Delay",
    "Drop",
    "FakeClock",
    "FakeMCPServer",
    "FakeServer",
    "Gate",
    "MCPExchange",
    "NO_ID",
    "Point",
    "ScriptedModel",
    "ScriptedResponse",
    "Send",
    "Split",
    "Stall",
    "Status",
    "Sweep",
    "call",
    "cancel_everywhere",
    "complaints",
    "no_leaks",
    "say",
]

#: Modules that are loaded on first use: they import models and transport.
_LATER = {
    "FakeMCPServer": ".mcp",
    "FakeServer": ".fake_server",
    "MCPExchange": ".mcp",
    "NO_ID": ".mcp",
    "Point": ".sweep",
    "ClientRefused": ".mcp",
    "ScriptedModel": ".scripted_model",
    "Sweep": ".sweep",
    "cancel_everywhere": ".sweep",
    "complaints": ".accepted",
}


def __getattr__(name: str) -> Any:
    """Load a name on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_LATER.get(name, ".script"), __name__)
    return getattr(module, name)
