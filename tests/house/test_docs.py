"""The documentation is complete, and its code is run."""

import ast
import importlib
import re

import pytest
from source import MODULES, ROOT, parse

import syncagent

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.rst"))
#: How much code is shown and not run, and why.
NOT_RUN = {
    "logging.rst": 2,  # files in /var/log, and a handler of the reader's own
    "testing.rst": 1,  # a fixture of pytest
    "web.rst": 2,  # a part of a handler, and a line of a server's settings
}
#: Names that are public for other parts of the package, and not for its users.
NOT_SHOWN = {
    "syncagent.cancel.Mailbox",
    "syncagent.cancel.follow",
    "syncagent.cancel.Watch",
}


def text_of(path):
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_in_the_docs_is_run(page):
    """It is a doctest, a testcode, or a part of an example, but for what is listed."""
    if page.parent.name == "coming_from":
        pytest.skip("what other systems would be told; ours beside it is a doctest")
    block = r"^ *\.\. (?:code-block|code|sourcecode):: *py"
    shown = re.findall(block, text_of(page), re.MULTILINE)
    assert len(shown) == NOT_RUN.get(page.name, 0)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_is_included_is_an_example(page):
    """Code from files comes from those that tests run."""
    for path in re.findall(r"literalinclude:: (\S+)", text_of(page)):
        assert re.fullmatch(r"(\.\./)+examples/(\w+/)?\w+\.py", path), path
        assert (page.parent / path).exists(), path


def documented():
    """Return what docs/api.rst shows: names, and modules of which it shows all."""
    text = text_of(DOCS / "api.rst")
    modules = set(re.findall(r"automodule:: (\S+)", text))
    names = set(re.findall(r"auto(?:class|function|data|exception):: (\S+)", text))
    for module in modules:
        names |= {
            f"{module}.{name}" for name in importlib.import_module(module).__all__
        }
    return {_object(name) for name in names}


def _object(name):
    """Return what *name* stands for, in a form that can be compared."""
    module, _, attribute = name.rpartition(".")
    return id(getattr(importlib.import_module(module), attribute))


@pytest.mark.parametrize(
    "name",
    [
        "syncagent",
        "syncagent.cancel",
        "syncagent.events",
        "syncagent.exceptions",
        "syncagent.hooks",
        "syncagent.interrupts",
        "syncagent.logs",
        "syncagent.messages",
        "syncagent.models",
        "syncagent.result",
        "syncagent.testing",
        "syncagent.transport",
    ],
)
def test_public_names_are_in_the_reference(name):
    """Whatever a user may import from there has its place in docs/api.rst."""
    there = documented()
    module = importlib.import_module(name)
    missing = [
        public
        for public in module.__all__
        if public not in ("__version__", "logs")
        and f"{name}.{public}" not in NOT_SHOWN
        and id(getattr(module, public)) not in there
    ]
    assert missing == []


def test_every_event_is_in_the_table():
    """docs/streaming.rst has all that a stream may yield."""
    listed = set(
        re.findall(r"^    \* - ``(\w+)``$", text_of(DOCS / "streaming.rst"), re.M)
    )
    events = {*importlib.import_module("syncagent.events").__all__, "RunFinished"}
    others = {"Event", "RunEvent", "StreamEvent", "State", "RunState"}
    assert listed == events - others - {"decode_event", "encode_event"}


def test_every_command_is_in_the_table():
    """docs/commands.rst has all that the command line takes."""
    page = text_of(DOCS / "commands.rst")
    listed = re.findall(r"^``syncagent (\w+)[^`]*``  ", page, re.MULTILINE)
    commands = importlib.import_module("syncagent.cli.main").COMMANDS
    assert sorted(commands) == sorted(listed)


def test_every_phase_is_in_the_table():
    """docs/stopping.rst says what a cancel does wherever a run can be."""
    package = "\n".join(text_of(path) for path in MODULES.values())
    phases = set(re.findall(r'(?:\benter\(|\.phase = )"([a-z ]+)"', package))
    phases |= {"approval", "auth", "input", "agent", "retry"}
    assert len(phases) > 15
    page = text_of(DOCS / "stopping.rst")
    rows = re.findall(r"^    \* - (``[a-z ]+``(?:, ``[a-z ]+``)*)$", page, re.MULTILINE)
    assert phases <= set(re.findall(r"``([a-z ]+)``", "".join(rows)))


def test_every_error_of_the_tree_is_real():
    """The tree in the docstring of exceptions.py has all classes, and no others."""
    drawn = set(re.findall(r"(\w+)\(\w*\)(?:  |\n)", syncagent.exceptions.__doc__))
    assert drawn == set(syncagent.exceptions.__all__) - {"Origin"}


def said_by_the_package():
    """Return all texts of the package, each on a line, with a mark for what differs."""
    said = []
    for path in MODULES.values():
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.JoinedStr):
                values = (getattr(part, "value", None) for part in node.values)
                said.append("".join(v if isinstance(v, str) else "…" for v in values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                said.append(node.value)
    return "\n".join(said)


def test_quoted_errors_are_real():
    """docs/troubleshooting.rst quotes messages as the package says them."""
    page = text_of(DOCS / "troubleshooting.rst")
    quoted = re.findall(r"^``(\w+): (.+)``$", page, re.MULTILINE)
    assert len(quoted) > 20
    said = said_by_the_package()
    for error, message in quoted:
        assert hasattr(syncagent.exceptions, error), error
        for part in message.split("…"):
            assert part.strip(" :;,.") in said, f"{message}: {part}"


def test_tests_named_in_the_docs_are_there():
    """A page that says which test shows something is right about it."""
    for page in PAGES:
        for path in re.findall(r"``(tests/[\w./]+)``", text_of(page)):
            assert (ROOT / path).exists(), f"{page.name}: {path}"
