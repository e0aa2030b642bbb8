"""The package as text: its files and what they import."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "syncagent"


def files(folder=PACKAGE):
    """Return every Python file below *folder*."""
    return sorted(folder.rglob("*.py"))


@cache
def parse(path):
    """Return the tree of a file, which is parsed once."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def name_of(path):
    """Return the dotted name of a module of the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in files()}


def imports_of(name):
    """Yield the modules of the package that module *name* imports when it runs.

    What stands under ``if TYPE_CHECKING`` does not run; what stands in a function runs
    later and makes no cycle, but counts as a dependency.
    """
    for node in _walk_what_runs(parse(MODULES[name])):
        if isinstance(node, ast.Import):
            yield from (_module(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from _from(name, node)


def _walk_what_runs(node):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _walk_what_runs(child)


def _from(name, node):
    base = node.module or ""
    if node.level:
        is_package = MODULES[name].name == "__init__.py"
        parts = name.split(".")
        kept = parts[: len(parts) - node.level + is_package]
        base = ".".join([*kept, base] if base else kept)
    for alias in node.names:
        yield _module(f"{base}.{alias.name}") or _module(base)


def _module(name):
    return name if name in MODULES else None


def package_imports(name):
    """Return the set of modules of the package that *name* imports."""
    return {module for module in imports_of(name) if module} - {name}
