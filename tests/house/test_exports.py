"""The public names."""

import importlib
import inspect

from source import MODULES

import syncagent


def modules_with_all():
    for name in MODULES:
        if name != "syncagent.__main__":
            module = importlib.import_module(name)
            if hasattr(module, "__all__"):
                yield module


def test_all_is_sorted_and_true():
    """Every name in __all__ exists, once, in order."""
    unsorted, missing = [], []
    for module in modules_with_all():
        if list(module.__all__) != sorted(set(module.__all__)):
            unsorted.append(module.__name__)
        for public in module.__all__:
            if not hasattr(module, public):
                missing.append(f"{module.__name__}.{public}")
    assert (unsorted, missing) == ([], [])


def test_all_is_complete():
    """A module exports every name that it defines or gathers and does not hide."""
    missing = []
    for module in modules_with_all():
        name = module.__name__
        is_package = MODULES[name].name == "__init__.py"
        for public, value in vars(module).items():
            if public.startswith("_") or inspect.ismodule(value):
                continue
            home = getattr(value, "__module__", None)
            ours = home == name or (is_package and str(home).startswith("syncagent"))
            if ours and public not in module.__all__:
                missing.append(f"{name}.{public}")
    assert missing == []


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
