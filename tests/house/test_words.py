"""One word for one thing, and plain English in code, messages and documentation."""

import ast
import re
from collections import defaultdict

from source import (
    MODULES,
    PAGES,
    ROOT,
    comments_of,
    listed,
    nodes,
    paragraphs_of,
    parse,
    strings_of,
    text_of,
)

#: Files for odds and ends have no concern of their own.
BANNED_FILES = {"common", "core", "helpers", "misc", "utils"}
#: Ends of class names that say nothing about the thing.
BANNED_ENDINGS = ("Helper", "Impl", "Manager")
#: Django finds a management command by its class name.
SHARED_NAMES = {"Command"}
#: Phrases that are not English, or that hide who does something.
CALQUES = re.compile(
    r"(?i:\bleav(?:e|es|ing) (?:\w+ ){0,3}away\b|\bleft away\b|\bto be had\b"
    r"|\bfrom \d+ on\b|\bupon which\b|\bhis\b|\bwhoever\b|\bsomebody\b"
    r"|\bgone on with\b)"
    r"|(?<!there )\bis none\b"
)
WHAT = re.compile(r"What (?!.*\?)")
#: Prose outside the package that follows the same rules.
PROSE = [*PAGES, *(ROOT / f"{name}.rst" for name in ("README", "CONTRIBUTING"))]


def documented_nodes():
    """Yield place and docstring of every module, class and function."""
    for module, path in MODULES.items():
        yield module, ast.get_docstring(parse(path))
    for module, node in nodes(ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef):
        yield f"{module}:{node.lineno}", ast.get_docstring(node)


def test_public_class_names_are_unique():
    """A name stands for one class in the whole package."""
    homes = defaultdict(set)
    for module, node in nodes(ast.ClassDef):
        if not node.name.startswith("_"):
            homes[node.name].add(module)
    found = [
        f"{name}: {sorted(modules)}"
        for name, modules in homes.items()
        if len(modules) > 1 and name not in SHARED_NAMES
    ]
    assert not found, listed(found)


def test_names_say_something():
    """No drawer for odds and ends, no class that merely manages; two l's."""
    found = [name for name in MODULES if name.rpartition(".")[2] in BANNED_FILES]
    found += [
        f"{module}: {node.name}"
        for module, node in nodes(ast.ClassDef)
        if node.name.endswith(BANNED_ENDINGS)
    ]
    found += [
        name for name, path in MODULES.items() if "canceled" in text_of(path).lower()
    ]
    assert not found, listed(found)


def test_docstrings_name_the_thing():
    """No docstring and no ``#:`` comment begins with "What"."""
    found = [
        f"{place}: {doc.partition(chr(10))[0]}"
        for place, doc in documented_nodes()
        if doc and doc.startswith("What ")
    ]
    found += [
        f"{module}:{line}: {comment}"
        for module in MODULES
        for line, comment in comments_of(module)
        if comment.startswith("#: What ")
    ]
    assert not found, listed(found)


def test_the_package_speaks_english():
    """Docstrings, comments and messages have none of the phrases in CALQUES."""
    found = []
    for module in MODULES:
        for line, text in (*comments_of(module), *strings_of(module)):
            found += [f"{module}:{line}: {m[0]}" for m in CALQUES.finditer(text)]
    assert not found, listed(found)


def test_the_documentation_speaks_english():
    """No page has one of the phrases in CALQUES, or a sentence that begins "What"."""
    found = []
    for page in PROSE:
        place = page.relative_to(ROOT)
        for number, line in paragraphs_of(page):
            found += [f"{place}:{number}: {m[0]}" for m in CALQUES.finditer(line)]
            if WHAT.match(line):
                found.append(f"{place}:{number}: {line}")
    assert not found, listed(found)


def test_the_rules_can_fail():
    """CALQUES finds each banned phrase, and leaves plain English alone."""
    banned = [
        "Leave the key away",
        "no key is to be had",
        "half of a state is none",
        "an integer, from 0 on",
        "upon which browsers stop",
        "on his own thread",
        "Whoever waits",
        "somebody's run",
        "it was gone on with",
    ]
    assert [text for text in banned if not CALQUES.search(text)] == []
    plain = ["if it is None", "when there is none", "this thread", "from 10 onwards"]
    assert [text for text in plain if CALQUES.search(text)] == []
