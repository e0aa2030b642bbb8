"""Files and functions stay small enough to be read."""

import ast
import statistics
from collections import Counter

from source import MODULES, listed, nodes, nodes_of, parse, text_of

#: The largest share of private functions that are used in one place only. Each hides a
#: piece of the story behind a name; a few are worth it.
MAX_USED_ONCE = 0.12


#: The most lines of a file, and of those that are larger: the tree of errors; and the
#: class that people use has all its methods, what they promise, and the overloads that
#: say to type checkers what they return, in one place.
MAX_LINES = 500
LARGER = {"syncagent.agent": 770, "syncagent.exceptions": 530}


def functions():
    """Yield place and node of every function of the package."""
    for module, node in nodes(ast.FunctionDef):
        yield f"{module}:{node.lineno} {node.name}", node


def test_files_are_short():
    """No file of the package passes 500 lines, except for the agent."""
    sizes = {name: text_of(path).count("\n") for name, path in MODULES.items()}
    found = [
        f"{name}: {size} lines"
        for name, size in sizes.items()
        if size > LARGER.get(name, MAX_LINES)
    ]
    assert not found, listed(found)


def test_functions_are_short():
    """None is above 60 lines, nine of ten are below 35, half are below 10."""
    sizes = {place: node.end_lineno - node.lineno + 1 for place, node in functions()}
    found = [f"{place}: {size} lines" for place, size in sizes.items() if size > 60]
    assert not found, listed(found)
    assert statistics.quantiles(sizes.values(), n=10)[-1] <= 35
    assert statistics.median(sizes.values()) <= 10


def test_few_private_functions_are_used_once():
    """At most 12 % of the functions are private ones with a single caller."""
    found = []
    for name in MODULES:
        uses = Counter(
            getattr(node, "id", None) or getattr(node, "attr", None)
            for node in nodes_of(name)
            if isinstance(node, (ast.Name, ast.Attribute))
        )
        found += [
            f"{name}:{node.lineno} {node.name}"
            for node in nodes_of(name)
            if isinstance(node, ast.FunctionDef)
            and node.name.startswith("_")
            and not node.name.startswith("__")
            and uses[node.name] == 1
        ]
    share = len(found) / len(list(functions()))
    assert share <= MAX_USED_ONCE, f"{share:.1%}{listed(found)}"


def test_every_module_says_what_it_is_for():
    """Each begins with a sentence."""
    found = []
    for name, path in MODULES.items():
        doc = ast.get_docstring(parse(path)) or ""
        if not doc.partition("\n")[0].endswith((".", ":")):
            found.append(name)
    assert not found, listed(found)
