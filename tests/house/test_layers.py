"""Imports point downward between rooms, and never in a circle."""

import ast
import re
import sys

from source import MODULES, ROOT, package_imports, parse, text_of

#: The house, from the cellar up: a room uses the floors below it. The drawing in
#: CONTRIBUTING.rst is this list.
FLOORS = [
    {
        *("exceptions", "usage", "_context", "_closeable", "_forks", "__version__"),
        *("_deps", "_arguments", "_short"),
    },
    {"_checks"},
    {"cancel", "messages", "options", "policies", "schemas", "sse", "_redaction"},
    {"compaction", "hooks", "interrupts", "logs", "transcript", "transport"},
    {"result"},
    {"events"},
    {"providers", "tools"},
    {"models"},
    {"run"},
    {"loop", "recording"},
    {"asking", "timeline"},
    {"conversation"},
    {"driver", "background"},
    {"agent"},
    {"mcp", "stores"},
    {"display", "functions", "testing"},
    {"cli"},
    {"integrations"},
    {"__main__"},
]


def room(module):
    """Return the room that *module* is in: "cancel" for syncagent.cancel.token."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def floor(module):
    return next((n for n, rooms in enumerate(FLOORS) if room(module) in rooms), None)


def inside():
    return [module for module in MODULES if room(module)]


def test_every_module_has_a_room():
    """A new file is put somewhere on purpose."""
    assert [module for module in inside() if floor(module) is None] == []


def test_imports_point_downward():
    """No room knows what is built on it, and rooms of one floor do not know each other.

    Only the upper edges, from the agent's users on, may use the package's face.
    """
    upward = []
    for module in inside():
        for other in package_imports(module):
            if room(other) is None:
                is_fine = floor(module) > floor("syncagent.agent")
            else:
                is_same = room(other) == room(module)
                is_fine = is_same or floor(other) < floor(module)
            if not is_fine:
                upward.append(f"{module} -> {other}")
    assert upward == []


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
    """It uses exceptions, the hook for forks and the standard library."""
    for module in (m for m in MODULES if room(m) == "cancel"):
        used = {room(other) for other in package_imports(module)}
        assert used <= {"cancel", "exceptions", "_forks"}, module
        for node in ast.walk(parse(MODULES[module])):
            if isinstance(node, ast.Import):
                names = {alias.name.split(".")[0] for alias in node.names}
                assert names <= sys.stdlib_module_names


def test_the_drawing_is_the_house():
    """CONTRIBUTING.rst draws the same rooms on the same floors."""
    drawn, number = [set() for _ in FLOORS], None
    lines = re.findall(
        r"^    (\d\d| \d|  )  (\w+)/? {2,}\S",
        text_of(ROOT / "CONTRIBUTING.rst"),
        re.MULTILINE,
    )
    for label, name in lines:
        number = int(label) if label.strip() else number
        drawn[number].add(name)
    assert drawn == FLOORS
