"""What tests of syncagent use, for the tests of its users too."""

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
    "ScriptedResponse",
    "ScriptedModel",
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

#: What is loaded when it is first used: it brings models and transport along.
_LATER = {
    "FakeServer": ".fake_server",
    "Point": ".sweep",
    "ScriptedModel": ".scripted_model",
    "Sweep": ".sweep",
    "cancel_everywhere": ".sweep",
    "complaints": ".accepted",
}


def __getattr__(name: str) -> Any:
    """Load what not every test uses when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_LATER.get(name, ".script"), __name__)
    return getattr(module, name)
