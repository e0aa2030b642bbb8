"""The documentation is complete, and its code is run."""

import ast
import importlib
import importlib.util
import re
from typing import get_args

from source import DOCS, MODULES, PAGES, ROOT, listed, nodes, text_of

from syncagent import exceptions
from syncagent.events import Lagged, MessageFinished, StreamEvent

#: The number of Python blocks that are not run, and why.
NOT_RUN = {
    "logging.rst": 2,  # files in /var/log, and a handler of the reader's own
    "several-processes.rst": 1,  # a handler of SIGTERM
    "testing.rst": 1,  # a fixture of pytest
    "web.rst": 2,  # a part of a handler, and a line of a server's settings
}
#: The modules that a program may import from; all others are private.
PUBLIC_MODULES = {
    "syncagent",
    "syncagent.cancel",
    "syncagent.compaction",
    "syncagent.driver",
    "syncagent.events",
    "syncagent.exceptions",
    "syncagent.hooks",
    "syncagent.integrations.celery",
    "syncagent.integrations.django",
    "syncagent.integrations.dramatiq",
    "syncagent.integrations.flask",
    "syncagent.integrations.gunicorn",
    "syncagent.integrations.huey",
    "syncagent.integrations.procrastinate",
    "syncagent.integrations.rq",
    "syncagent.integrations.web",
    "syncagent.interrupts",
    "syncagent.logs",
    "syncagent.mcp",
    "syncagent.mcp.oauth",
    "syncagent.messages",
    "syncagent.models",
    "syncagent.options",
    "syncagent.result",
    "syncagent.stores",
    "syncagent.testing",
    "syncagent.timeline",
    "syncagent.tools",
    "syncagent.transcript",
    "syncagent.transport",
    "syncagent.usage",
}
#: Names that public modules export for other parts of the package, not for users.
NOT_SHOWN = {
    "syncagent.cancel": {"CancelsRun", "Mailbox", "Watch", "cancel_on_event"},
    "syncagent.integrations.dramatiq": {"complaints"},
    "syncagent.integrations.huey": {"complaints"},
    "syncagent.integrations.procrastinate": {"complaints"},
    "syncagent.integrations.rq": {"complaints"},
    "syncagent.transcript": {
        *("AssistantTurn", "NO_RESULT", "Piece", "SILENCE", "Turn", "UserTurn"),
        *("repaired", "turns"),
    },
}


def test_python_in_the_docs_is_run():
    """It is a doctest, a testcode or a part of a file, but for the pages in NOT_RUN."""
    block = re.compile(r"^ *\.\. (?:code-block|code|sourcecode):: *py", re.MULTILINE)
    shown = {
        str(page.relative_to(DOCS)): len(block.findall(text_of(page)))
        for page in PAGES
        # The pages of other systems show their code; ours beside it is a doctest.
        if page.parent.name != "coming_from"
    }
    assert {name: count for name, count in shown.items() if count} == NOT_RUN


def test_included_code_is_tested():
    """Code from files comes from examples or recipes, which tests run, or the loop."""
    found = []
    for page in PAGES:
        for path in re.findall(r"literalinclude:: (\S+)", text_of(page)):
            is_tested = re.fullmatch(
                r"((\.\./)+(examples/(\w+/)?\w+|syncagent/loop|tests/engines/recipes/(\w+/)?\w+)"
                r"|recipes/\w+)\.py",
                path,
            )
            if not is_tested or not (page.parent / path).exists():
                found.append(f"{page.name}: {path}")
    assert not found, listed(found)


def documented():
    """Return the objects in docs/api/: single names, and whole modules."""
    text = "\n".join(map(text_of, sorted((DOCS / "api").glob("*.rst"))))
    modules = set(re.findall(r"automodule:: (\S+)", text))
    names = set(re.findall(r"auto(?:class|function|data|exception):: (\S+)", text))
    for module in modules:
        names |= {
            f"{module}.{name}" for name in importlib.import_module(module).__all__
        }
    return {_object(name) for name in names if _is_installed(name.rpartition(".")[0])}


def _is_installed(module):
    """False for the module of an engine whose package is missing."""
    package = module.rpartition(".")[2]
    return package not in {"dramatiq", "rq"} or importlib.util.find_spec(package)


def _object(name):
    """Return the identity of the object that *name* refers to."""
    module, _, attribute = name.rpartition(".")
    return id(getattr(importlib.import_module(module), attribute))


def test_public_names_are_in_the_reference():
    """Every name that a public module exports has its place on a page of docs/api/."""
    shown = documented()
    missing = []
    for name in filter(_is_installed, PUBLIC_MODULES):
        module = importlib.import_module(name)
        missing += [
            f"{name}.{public}"
            for public in getattr(module, "__all__", ())
            if public not in {"__version__", "logs"} | NOT_SHOWN.get(name, set())
            and id(getattr(module, public)) not in shown
        ]
    assert not missing, listed(missing)


def test_public_modules_are_in_the_reference():
    """docs/api.rst lists the modules that programs may import from."""
    rows = re.findall(r"^``(syncagent[\w.]*)``  ", text_of(DOCS / "api.rst"), re.M)
    assert rows == sorted(PUBLIC_MODULES)


def test_every_event_is_in_the_table():
    """docs/streaming.rst lists every event that a stream may yield."""
    page = text_of(DOCS / "streaming.rst")
    listed_events = set(re.findall(r"^    \* - ``(\w+)``$", page, re.M))
    events = (*get_args(StreamEvent), Lagged, MessageFinished)
    assert listed_events == {event.__name__ for event in events}


def test_every_command_is_in_the_table():
    """docs/commands.rst lists every command."""
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
    drawn = set(re.findall(r"(\w+)\(\w*\)(?:  |\n)", exceptions.__doc__))
    assert drawn == set(exceptions.__all__) - {"Origin"}


def texts_of_the_package():
    """Return all strings of the package, with a mark where a value is filled in."""
    texts = []
    for _, node in nodes(ast.JoinedStr, ast.Constant):
        if isinstance(node, ast.JoinedStr):
            values = (getattr(part, "value", None) for part in node.values)
            texts.append("".join(v if isinstance(v, str) else "…" for v in values))
        elif isinstance(node.value, str):
            texts.append(node.value)
    return "\n".join(texts)


def test_quoted_errors_are_real():
    """docs/troubleshooting.rst quotes messages as the package words them."""
    page = text_of(DOCS / "troubleshooting.rst")
    quoted = re.findall(r"^``(\w+): (.+)``$", page, re.MULTILINE)
    assert len(quoted) > 20
    texts = texts_of_the_package()
    found = [
        f"{error}: {message}"
        for error, message in quoted
        if not hasattr(exceptions, error)
        or any(part.strip(" :;,.") not in texts for part in message.split("…"))
    ]
    assert not found, listed(found)


def test_paths_named_in_the_docs_exist():
    """A page that names a file of the project is right about it."""
    found = [
        f"{page.name}: {path}"
        for page in [*PAGES, ROOT / "CONTRIBUTING.rst"]
        for path in re.findall(r"``((?:tests|syncagent)/[\w./]+)``", text_of(page))
        if "NAME" not in path and not (ROOT / path).exists()
    ]
    assert not found, listed(found)
