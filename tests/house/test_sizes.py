"""Files and functions stay small enough to be read."""

import ast
import statistics

from source import MODULES, PACKAGE, files, parse


def test_files_are_short():
    """No file of the package passes 500 lines."""
    sizes = {str(path): path.read_text("utf-8").count("\n") for path in files()}
    assert {path: size for path, size in sizes.items() if size > 500} == {}


def functions():
    for path in files():
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.name}:{node.name}", node.end_lineno - node.lineno + 1


def test_functions_are_short():
    """None is above 60 lines, nine of ten are below 35, half are below 10."""
    sizes = dict(functions())
    assert max(sizes.values()) <= 60, max(sizes, key=sizes.get)
    assert statistics.quantiles(sizes.values(), n=10)[-1] <= 35
    assert statistics.median(sizes.values()) <= 10


def test_every_module_says_what_it_is_for():
    """Each begins with a sentence."""
    for name, path in MODULES.items():
        doc = ast.get_docstring(parse(path))
        assert doc, name
        assert doc.splitlines()[0].endswith((".", ":")), name


def test_names_say_something():
    """No drawer for odds and ends, no class that merely manages; two l's."""
    for path in files():
        assert path.stem not in {"utils", "helpers", "common", "core", "misc"}
        text = path.read_text(encoding="utf-8")
        assert "canceled" not in text.lower(), path
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef):
                assert not node.name.endswith(("Manager", "Helper", "Impl")), node.name
    assert PACKAGE.is_dir()
