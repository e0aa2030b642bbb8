"""The pages about other systems name our classes, methods and settings correctly."""

import inspect
import re
from importlib import import_module
from itertools import chain

import msgspec
from source import DOCS, listed, text_of

import syncagent
from syncagent.tools.settings import ToolSettings

PAGES = sorted((DOCS / "coming_from").glob("*.rst"))
SYSTEMS = {"agentkit", "opendev", "picrust", "simplellmfunc", "strands"}

_ROLE = re.compile(r":(?:attr|class|exc|func|meth):`~?([\w.]+)`")
_LITERAL = re.compile(r"``(.+?)``")
#: A setting, as the pages write it: ``mode="after_tools"``, ``grace=``.
_SETTING = re.compile(r"(\w+)=")
_CELL = re.compile(r"    (?:\* |  )- ?(.*)|        (.*)")


def _find(name):
    """Return the object that a role names; Sphinx starts from the same module."""
    found, parts = syncagent, name.split(".")
    for number, part in enumerate(parts):
        if hasattr(found, part):
            found = getattr(found, part)
        elif inspect.ismodule(found):
            found = import_module(f"syncagent.{'.'.join(parts[: number + 1])}")
        else:  # an attribute that only instances have
            assigned = rf"self\.{part}\b|^    {part}: "
            if not re.search(assigned, inspect.getsource(found), re.M):
                raise AttributeError(name)
            found = None
    return found


def _exists(name):
    try:
        _find(name)
    except (AttributeError, ImportError):
        return False
    return True


def _settings(found):
    """Return the names of the arguments that a class or a function takes."""
    if found is syncagent.tool:
        found = ToolSettings
    if inspect.isclass(found) and issubclass(found, msgspec.Struct):
        return set(found.__struct_fields__)
    is_error = inspect.isclass(found) and issubclass(found, BaseException)
    if is_error or not callable(found):
        return set()
    return set(inspect.signature(found).parameters)


def _rows(page):
    """Return the rows of all tables of a page, each a list of its cells."""
    rows, in_table = [], False
    for line in text_of(page).splitlines():
        in_table = line.startswith(".. list-table") or (
            in_table and (not line or line.startswith("    "))
        )
        match = _CELL.match(line) if in_table else None
        if match is None:
            continue
        if line.startswith("    * -"):
            rows.append([])
        if match[2] is None:
            rows[-1].append(match[1])
        else:
            rows[-1][-1] += f" {match[2]}"
    return rows


def test_a_page_for_each():
    """There is a page for each of the five systems, and one that leads to them."""
    assert {page.stem for page in PAGES} == {"index", *SYSTEMS}
    index = next(page for page in PAGES if page.stem == "index").read_text()
    assert set(re.findall(r"^    (\w+)$", index, re.M)) == SYSTEMS


def test_names():
    """Every name of ours on a page exists."""
    found = []
    for page in PAGES:
        names = _ROLE.findall(text_of(page))
        assert len(names) > 10, page
        found += [f"{page.name}: {name}" for name in names if not _exists(name)]
    assert not found, listed(found)


def test_tables():
    """Every row has theirs, ours and the difference, and ours is never empty."""
    found = []
    for page in PAGES:
        rows = _rows(page)
        assert len(rows) > 10, page
        found += [row for row in rows if len(row) != 3 or not row[0] or not row[1]]
    assert not found, listed(found)


def test_settings():
    """Every setting that a row gives to something of ours is one that it takes."""
    found = []
    for page in PAGES:
        seen = 0
        for _, ours, _ in _rows(page):
            members = [_find(name) for name in _ROLE.findall(ours)]
            known = set(chain.from_iterable(map(_settings, members)))
            settings = filter(None, map(_SETTING.match, _LITERAL.findall(ours)))
            for match in settings:
                seen += 1
                if match[1] not in known:
                    found.append(f"{page.name}: {match[0]} in {ours}")
        assert seen > 1, page
    assert not found, listed(found)
