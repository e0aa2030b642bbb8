"""The pages for those who come from elsewhere are true about what is here."""

import inspect
import re
from importlib import import_module
from itertools import chain

import msgspec
import pytest
from source import ROOT

import syncagent
from syncagent.tools.settings import ToolSettings

PAGES = sorted((ROOT / "docs" / "coming_from").glob("*.rst"))
SYSTEMS = {"agentkit", "opendev", "picrust", "simplellmfunc", "strands"}

_ROLE = re.compile(r":(?:attr|class|exc|func|meth):`~?([\w.]+)`")
_LITERAL = re.compile(r"``(.+?)``")
#: A setting, as the pages write it: ``mode="after_tools"``, ``grace=``.
_SETTING = re.compile(r"(\w+)=")
_CELL = re.compile(r"    (?:\* |  )- ?(.*)|        (.*)")


def _find(name):
    """Return what a role stands for; Sphinx looks from the same module."""
    found, parts = syncagent, name.split(".")
    for number, part in enumerate(parts):
        if hasattr(found, part):
            found = getattr(found, part)
        elif inspect.ismodule(found):
            found = import_module(f"syncagent.{'.'.join(parts[: number + 1])}")
        else:  # what only the objects have
            given = rf"self\.{part}\b|^    {part}: "
            assert re.search(given, inspect.getsource(found), re.M), name
            found = None
    return found


def _settings(found):
    """Return the names of what can be said to a class or a function."""
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
    for line in page.read_text().splitlines():
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names(page):
    """Whatever a page names of ours is there."""
    names = _ROLE.findall(page.read_text())
    assert len(names) > 10
    for name in names:
        _find(name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tables(page):
    """Every row has theirs, ours and what differs, and ours is never left out."""
    rows = _rows(page)
    assert len(rows) > 10
    for row in rows:
        assert len(row) == 3, row
        assert row[0], row
        assert row[1], row


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_settings(page):
    """Every setting that a row gives to something of ours is one that it takes."""
    seen = 0
    for _, ours, _ in _rows(page):
        found = [_find(name) for name in _ROLE.findall(ours)]
        takes = set(chain.from_iterable(map(_settings, found)))
        for literal in _LITERAL.findall(ours):
            match = _SETTING.match(literal)
            if match is not None:
                assert match[1] in takes, (literal, ours)
                seen += 1
    assert seen > 1
