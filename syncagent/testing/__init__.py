"""What tests of syncagent use, for the tests of its users too."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .clock import FakeClock
from .gate import Gate
from .leaks import no_leaks

if TYPE_CHECKING:
    from .fake_server import FakeServer
    from .script import (
        Broken,
        Comment,
        Delay,
        Drop,
        Reply,
        Send,
        Split,
        Stall,
        Status,
        call,
        say,
    )
    from .scripted_model import ScriptedModel

__all__ = [
    "Broken",
    "Comment",
    "Delay",
    "Drop",
    "FakeClock",
    "FakeServer",
    "Gate",
    "Reply",
    "ScriptedModel",
    "Send",
    "Split",
    "Stall",
    "Status",
    "call",
    "no_leaks",
    "say",
]

#: What is loaded when it is first used: it brings models and transport along.
_LATER = {"FakeServer": ".fake_server", "ScriptedModel": ".scripted_model"}


def __getattr__(name: str) -> Any:
    """Load what not every test uses when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_LATER.get(name, ".script"), __name__)
    return getattr(module, name)
