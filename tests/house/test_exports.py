"""The public names."""

import importlib
import importlib.util
import inspect

from source import MODULES, listed, type_checking_imports

import syncagent

#: Modules that can be imported only by a program, or by a site of Django.
NOT_IMPORTED = {
    "syncagent.__main__",
    *(
        f"syncagent.integrations.django.{name}"
        for name in ("admin", "models", "question_admin", "store_admin")
    ),
}
#: Modules for a package that may not be installed.
OPTIONAL = {f"syncagent.integrations.{name}": name for name in ("dramatiq", "rq")}


def modules_with_all():
    """Yield name and module of every module that declares its public names."""
    for name in MODULES:
        package = OPTIONAL.get(name, "syncagent")
        if name not in NOT_IMPORTED and importlib.util.find_spec(package) is not None:
            module = importlib.import_module(name)
            if hasattr(module, "__all__"):
                yield name, module


def test_all_is_sorted_and_true():
    """Every name in __all__ exists, once, in order."""
    found = []
    for name, module in modules_with_all():
        if list(module.__all__) != sorted(set(module.__all__)):
            found.append(f"{name}: not sorted: {module.__all__}")
        missing = [public for public in module.__all__ if not hasattr(module, public)]
        found += [f"{name}: has no {public}" for public in missing]
    assert not found, listed(found)


def test_all_is_complete():
    """A module exports the public names it defines, a package those it gathers."""
    found = []
    for name, module in modules_with_all():
        is_package = MODULES[name].name == "__init__.py"
        for public, value in vars(module).items():
            if public.startswith("_") or inspect.ismodule(value):
                continue
            home = getattr(value, "__module__", None)
            ours = home == name or (is_package and str(home).startswith("syncagent"))
            if ours and public not in module.__all__:
                found.append(f"{name}: {public}")
    assert not found, listed(found)


def test_public_objects_are_documented():
    """Every public class, function and method has a docstring."""
    found = []
    for name in syncagent.__all__:
        value = getattr(syncagent, name)
        members = vars(value) if inspect.isclass(value) else {}
        methods = {
            f"{name}.{attribute}": member
            for attribute, member in members.items()
            if not attribute.startswith("_") and inspect.isroutine(member)
        }
        if inspect.isclass(value) or inspect.isroutine(value):
            methods[name] = value
        found += [path for path, item in methods.items() if not inspect.getdoc(item)]
    assert not found, listed(found)


def test_one_table_has_the_public_names():
    """``dir()`` lists them before they are imported; type checkers see the same."""
    assert dir(syncagent) == syncagent.__all__
    seen = {
        name: "logs" if name == "logs" else module
        for name, module in type_checking_imports("syncagent").items()
    }
    assert seen == syncagent._MODULE_OF


def test_public_names_have_one_home():
    """Each comes from the module that the table names, and there are about 50."""
    assert len(syncagent.__all__) <= 53
    for name, module in syncagent._MODULE_OF.items():
        assert name in (
            "logs",
            *importlib.import_module(f"syncagent.{module}").__all__,
        )
