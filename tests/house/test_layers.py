"""Imports point downward, and never in a circle."""

import ast
import sys

import pytest
from source import MODULES, package_imports, parse

#: DESIGN, section 3: a module may use lower layers, and its own without a circle.
LAYERS = [
    {
        "_around",
        "exceptions",
        "_clock",
        "_closing",
        "_redaction",
        "_run_id",
        "__version__",
    },
    {
        *{"cancel", "messages", "events", "interrupts", "limits", "options", "usage"},
        *{"cancel_policy", "hooks", "outcomes", "rules"},
    },
    {
        *{"transport", "_sockets", "_resolver", "sse", "timeouts", "retry"},
        *{"output", "repair", "shapes", "transcript", "tools", "stores"},
    },
    {"providers", "models"},
    {"lending", "loop", "meter", "rounds", "run", "settle"},
    {
        *{"agent", "handle", "driver", "runtime", "functions", "result", "logs"},
        *{"agent_settings", "pause", "queueing", "run_stream", "sub_agents"},
        *{"answers", "background", "desk", "pump", "run_state", "saved", "stage"},
        *{"agent_view", "done_callbacks", "event_lines", "serving", "subscriptions"},
        *{"recording", "chat_functions", "function_agents", "function_calls"},
    },
    {"integrations", "cli", "terminal", "testing", "timeline", "__main__"},
]


def unit(module):
    """Return the part of the package that *module* is in: "cancel" for cancel.token."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def layer(module):
    return next(n for n, units in enumerate(LAYERS) if unit(module) in units)


@pytest.mark.parametrize("module", [m for m in MODULES if unit(m)])
def test_every_module_has_a_layer(module):
    """A new file is put somewhere on purpose."""
    assert any(unit(module) in units for units in LAYERS), module


@pytest.mark.parametrize("module", [m for m in MODULES if unit(m)])
def test_imports_point_downward(module):
    """No module knows what is built on it."""
    for other in package_imports(module):
        if unit(other) is None:  # the package itself: only edges may use its face
            assert layer(module) == len(LAYERS) - 1, f"{module} imports syncagent"
        else:
            assert layer(other) <= layer(module), f"{module} imports {other}"


def test_no_circle():
    """Modules can be read, tested and imported one after the other."""
    graph = {m: package_imports(m) for m in MODULES if m != "syncagent"}
    for targets in graph.values():
        targets.discard("syncagent")
    while graph:
        free = [m for m, targets in graph.items() if not targets & graph.keys()]
        assert free, f"a circle among {sorted(graph)}"
        for module in free:
            del graph[module]


def test_cancel_could_be_a_library_of_its_own():
    """It uses exceptions, the clock and the standard library, nothing else."""
    for module in (m for m in MODULES if unit(m) == "cancel"):
        used = {unit(other) for other in package_imports(module)}
        assert used <= {"cancel", "exceptions", "_clock"}, module
        for node in ast.walk(parse(MODULES[module])):
            if isinstance(node, ast.Import):
                names = {alias.name.split(".")[0] for alias in node.names}
                assert names <= sys.stdlib_module_names
