"""The package as text: its files, their syntax trees, their words and their imports."""

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "syncagent"
DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for page in DOCS.rglob("*.rst")
    if page.relative_to(DOCS).parts[0] not in {"_build", "changes.d"}
)


def name_of(path):
    """Return the dotted name of a module of the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def text_of(path):
    return path.read_text(encoding="utf-8")


@cache
def parse(path):
    """Return the syntax tree of a file; every house test shares it."""
    return ast.parse(text_of(path), str(path))


@cache
def nodes_of(name):
    """Return all nodes of the syntax tree of module *name*."""
    return tuple(ast.walk(parse(MODULES[name])))


def nodes(*kinds):
    """Yield every node of these kinds in the package, with the name of its module."""
    for name in MODULES:
        yield from ((name, node) for node in nodes_of(name) if isinstance(node, kinds))


@cache
def comments_of(name):
    """Return the comments of module *name* as (line, text)."""
    tokens = tokenize.generate_tokens(io.StringIO(text_of(MODULES[name])).readline)
    return [(t.start[0], t.string) for t in tokens if t.type == tokenize.COMMENT]


def strings_of(name):
    """Yield the string literals of module *name*, docstrings included, with lines."""
    for node in nodes_of(name):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def listed(offenders):
    """Return an assertion message with one offender on each line."""
    return "\n" + "\n".join(map(str, offenders))


def package_imports(name):
    """Return the set of modules of the package that module *name* imports.

    Imports under ``if TYPE_CHECKING`` never run. Imports inside functions run later and
    make no cycle, but count as dependencies.
    """
    found = set()
    for node in _nodes_that_run(parse(MODULES[name])):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= _imported_from(name, node)
    return found & MODULES.keys() - {name}


def _nodes_that_run(node):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from _nodes_that_run(child)


def _imported_from(name, node):
    base = node.module or ""
    if node.level:
        is_package = MODULES[name].name == "__init__.py"
        parts = name.split(".")
        kept = parts[: len(parts) - node.level + is_package]
        base = ".".join([*kept, base] if base else kept)
    members = {f"{base}.{alias.name}" for alias in node.names}
    return {member if member in MODULES else base for member in members}


def type_checking_imports(name):
    """Return name -> module of the imports that only a type checker sees."""
    found = {}
    for node in parse(MODULES[name]).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for statement in node.body:
                for alias in statement.names:
                    found[alias.asname or alias.name] = statement.module or alias.name
    return found


def paragraphs_of(page):
    """Yield the lines of a page that are neither headings nor their underlines."""
    is_underline = re.compile(r"([=~-])\1{2,}$").match
    lines = text_of(page).splitlines()
    for number, line in enumerate(lines, start=1):
        below = lines[number] if number < len(lines) else ""
        if not is_underline(line) and not is_underline(below):
            yield number, line
