"""The public names."""

import importlib
import inspect

import pytest
from source import MODULES

import syncagent

WITH_ALL = [
    name
    for name in MODULES
    if name != "syncagent.__main__"
    and hasattr(importlib.import_module(name), "__all__")
]


@pytest.mark.parametrize("name", WITH_ALL)
def test_all_is_sorted_and_true(name):
    """Every name in __all__ exists, once, in order."""
    module = importlib.import_module(name)
    assert list(module.__all__) == sorted(set(module.__all__))
    assert all(hasattr(module, public) for public in module.__all__)


@pytest.mark.parametrize("name", WITH_ALL)
def test_all_is_complete(name):
    """What a module defines or gathers and does not hide, it exports."""
    module = importlib.import_module(name)
    is_package = MODULES[name].name == "__init__.py"
    for public, value in vars(module).items():
        if public.startswith("_") or inspect.ismodule(value):
            continue
        home = getattr(value, "__module__", None)
        ours = home == name or (is_package and str(home).startswith("syncagent"))
        assert not ours or public in module.__all__, public


def test_public_objects_are_documented():
    """Whatever a user can import says what it is."""
    for name in syncagent.__all__:
        value = getattr(syncagent, name)
        if inspect.isclass(value) or inspect.isroutine(value):
            assert inspect.getdoc(value), name
            for attribute, member in (
                vars(value).items() if inspect.isclass(value) else ()
            ):
                if not attribute.startswith("_") and inspect.isroutine(member):
                    assert inspect.getdoc(member), f"{name}.{attribute}"
