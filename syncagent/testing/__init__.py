"""Fakes and checks that syncagent's own tests use, for your tests too."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .clock import FakeClock
from .gate import Gate
from .leaks import no_leaks

if TYPE_CHECKING:
    from .accepted import complaints
    from .fake_server import FakeServer
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
    "Comment",
    "Delay",
    "Drop",
    "FakeClock",
    "FakeServer",
    "Gate",
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
    "FakeServer": ".fake_server",
    "Point": ".sweep",
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
